"""docker-compose.yaml without an engine: valid by the specification, and coherent with the checkout.

``compose-spec.json`` is the schema of the Go module github.com/compose-spec/compose-go v2.16.2 (Apache-2.0), which docker
compose itself checks files with: schema/compose-spec.json, white space taken out.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yaml").read_text())
    return loaded


def test_file_is_valid_by_the_specification(compose: dict[str, Any]) -> None:
    schema = json.loads((Path(__file__).parent / "compose-spec.json").read_text())
    jsonschema.validate(compose, schema)
    broken = {**compose, "services": {**compose["services"], "s3": {"imagee": "x"}}}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, schema)


def test_dependencies_and_volumes_are_declared(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        for other, wanted in service.get("depends_on", {}).items():
            assert other in compose["services"], name
            if wanted["condition"] == "service_healthy":
                assert "healthcheck" in compose["services"][other], name
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (ROOT / source).is_dir() if source.startswith("./") else source in compose["volumes"], name


def test_ports_are_published_to_this_machine_only(compose: dict[str, Any]) -> None:
    ports = [port for service in compose["services"].values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_spark_connection_is_json_that_names_the_master(compose: dict[str, Any]) -> None:
    environment = compose["services"]["airflow-scheduler"]["environment"]
    connection = json.loads(environment["AIRFLOW_CONN_SPARK_DEFAULT"])
    assert connection["host"].removeprefix("spark://") in compose["services"]
    assert connection["extra"] == {"deploy-mode": "client"}


@pytest.mark.parametrize("file", ["Dockerfile", "hbase.Dockerfile"])
def test_image_copies_what_is_there_and_what_is_sent(file: str) -> None:
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for line in re.findall(r"^COPY (?!--from)(.+)$", (ROOT / "docker" / file).read_text(), re.MULTILINE):
        for source in line.split()[:-1]:
            assert (ROOT / source).exists(), source
            assert source.split("/")[0] in sent, source


def test_every_build_has_its_file(compose: dict[str, Any]) -> None:
    builds = [service["build"] for service in compose["services"].values() if "build" in service]
    assert len(builds) > 1
    for build in builds:
        assert (ROOT / build["context"] / build["dockerfile"]).is_file(), build


def test_every_image_has_a_version_or_says_why_not(compose: dict[str, Any]) -> None:
    images = {s["image"] for s in compose["services"].values()}
    assert images == {"lakeindex:local", "lakeindex-hbase:local", "postgres:16", "rustfs/rustfs:latest"}
