"""The Spark connections that the docs and the compose file show: what spark-submit is told for them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
WANTED = {
    "docs/kubernetes.md": [
        ["--master", "yarn", "--deploy-mode", "cluster", "--queue", "etl"],
        ["--master", "k8s://https://kubernetes.default.svc:443", "--deploy-mode", "client"],
    ],
    "docs/production.md": [["--master", "spark://spark-master.example:7077", "--deploy-mode", "client"]],
    "docker-compose.yaml": [["--master", "spark://spark-master:7077", "--deploy-mode", "client"]],
}

pytestmark = pytest.mark.dag


def connections(file: str) -> list[str]:
    text = (ROOT / file).read_text()
    if file.endswith(".yaml"):
        return [yaml.safe_load(text)["services"]["airflow-scheduler"]["environment"]["AIRFLOW_CONN_SPARK_DEFAULT"]]
    return [block for block in re.findall(r"```json\n(.+?)```", text, re.DOTALL) if "conn_type" in block]


@pytest.mark.parametrize("file", WANTED)
def test_connection_becomes_the_master_that_it_names(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.providers.apache.spark.hooks import spark_submit

    found = connections(file)
    assert len(found) == len(WANTED[file])
    # the hook only looks whether the Kubernetes provider, which is not in the lock, is there (docs/kubernetes.md)
    monkeypatch.setattr(spark_submit, "kube_client", object(), raising=False)
    for text, wanted in zip(found, WANTED[file], strict=True):
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", text)
        command = spark_submit.SparkSubmitHook()._build_spark_submit_command("jobs/upsert.py")
        told = " ".join(command)
        for flag, value in zip(wanted[::2], wanted[1::2], strict=True):
            assert f"{flag} {value}" in told
        namespace = json.loads(text).get("extra", {}).get("namespace")
        assert namespace is None or f"spark.kubernetes.namespace={namespace}" in told
