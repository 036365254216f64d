"""What the local cluster consists of: the services of docker-compose.yaml as local processes,
with their health checks.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import boto3
import requests
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from scripts import env, postgres_parts, s3_server  # noqa: E402 - found through the line above, whoever imports this

HOST: Final = "127.0.0.1"
BUCKET: Final = "lake"
PORT_NAMES: Final = (
    "airflow", "spark", "spark-ui", "worker-ui", "s3", "postgres", "task-logs", "trigger-logs", "hbase",
)  # fmt: skip
AIRFLOW: Final = {
    "api-server": None,
    "scheduler": "scheduler",
    "dag-processor": "dag_processor",
    "triggerer": "triggerer",
}
"""Airflow's processes, and the component of its health report that each of them answers for."""
WORKER: Final = "spark-worker"
_ASK_SECONDS: Final = 5


@dataclass(frozen=True, slots=True)
class Layout:
    """One cluster: where it is, on which ports, and its secrets.

    Attributes:
        base_port: the first of its ports, which follow each other as in :data:`PORT_NAMES`.
        password: of the database, the S3 store and Airflow's tokens.
        fernet_key: of Airflow's connections.
        worker_memory: of the Spark worker, as Spark writes it.
    """

    folder: Path
    base_port: int
    password: str = field(repr=False)
    fernet_key: str = field(repr=False)
    worker_memory: str = "2g"

    def port(self, name: str) -> int:
        return self.base_port + PORT_NAMES.index(name)

    def url(self, name: str) -> str:
        return f"http://{HOST}:{self.port(name)}"

    def environment(self) -> dict[str, str]:
        """What every process of the cluster gets, and every command beside it."""
        given = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
        return {
            **given,
            **{name: value for name, value in env.environment().items() if not name.startswith("AIRFLOW__")},
            **self._airflow(),
            **self._store(),
            "SPARK_DAEMON_MEMORY": "256m",
            "LAKEINDEX_CLUSTER_FOLDER": str(self.folder),
            "LAKEINDEX_CLUSTER_AIRFLOW": self.url("airflow"),
            "LAKEINDEX_DEMO": f"s3://{BUCKET}",
            "LAKEINDEX_DRIVER_BYTES": "0",
        }

    @property
    def database(self) -> str:
        return postgres_parts.url(HOST, self.port("postgres"), self.password)

    def _airflow(self) -> dict[str, str]:
        master = {"conn_type": "spark", "host": f"spark://{HOST}", "port": self.port("spark")}
        return {
            **env.airflow(),
            "AIRFLOW_HOME": str(self.folder / "airflow"),
            "AIRFLOW__API__PORT": str(self.port("airflow")),
            "AIRFLOW__API_AUTH__JWT_SECRET": self.password * 2,
            "AIRFLOW__API_AUTH__JWT_ISSUER": "lakeindex",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url('airflow')}/execution/",
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__FERNET_KEY": self.fernet_key,
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": postgres_parts.airflow_url(self.database),
            "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(self.port("trigger-logs")),
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(self.port("task-logs")),
            "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",  # seconds; its 5 are too few on a machine that is busy
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({**master, "extra": {"deploy-mode": "client"}}),
        }

    def _store(self) -> dict[str, str]:
        return {
            "ROOT_ACCESS_KEY": BUCKET,
            "ROOT_SECRET_KEY": self.password,
            "AWS_ACCESS_KEY_ID": BUCKET,
            "AWS_SECRET_ACCESS_KEY": self.password,
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.url("s3"),
        }


@dataclass(frozen=True, slots=True)
class Service:
    """One process.

    Attributes:
        command: what to start, made only when it is started.
        stop: the signal that ends it in peace.
        start_as: arguments of the process: another user, another folder.
    """

    name: str
    command: Callable[[], list[str]]
    is_healthy: Callable[[], bool]
    stop: signal.Signals = signal.SIGTERM
    start_as: dict[str, Any] = field(default_factory=dict)
    more_env: dict[str, str] = field(default_factory=dict)


def services(layout: Layout) -> list[Service]:
    """Every service, in the order in which they are started."""
    return [_postgres(layout), _store(layout), _spark_master(layout), _spark_worker(layout), *_airflow(layout)]


def _postgres(layout: Layout) -> Service:
    home = layout.folder / "postgres"

    def command() -> list[str]:
        programs = postgres_parts.fetch()
        postgres_parts.make_database(programs, home, layout.password)
        return postgres_parts.server_command(programs, home, HOST, layout.port("postgres"))

    def is_healthy() -> bool:
        return postgres_parts.answers(layout.database, _ASK_SECONDS)

    # the fast shutdown: the smart one, SIGTERM, would wait for every client
    return Service("postgres", command, is_healthy, signal.SIGINT, {"cwd": "/", **postgres_parts.run_as()})


def _store(layout: Layout) -> Service:
    data = layout.folder / "s3"

    def command() -> list[str]:
        data.mkdir(exist_ok=True)
        return s3_server.server_command(layout.port("s3"), data)

    def is_healthy() -> bool:
        client = boto3.client(
            "s3", endpoint_url=layout.url("s3"), aws_access_key_id=BUCKET, aws_secret_access_key=layout.password,
            region_name="us-east-1", config=Config(retries={"total_max_attempts": 1}, connect_timeout=_ASK_SECONDS),
        )  # fmt: skip
        try:
            if BUCKET not in {bucket["Name"] for bucket in client.list_buckets()["Buckets"]}:
                client.create_bucket(Bucket=BUCKET)
        except (BotoCoreError, ClientError):
            return False
        return True

    return Service("s3", command, is_healthy)


def _spark_master(layout: Layout) -> Service:
    port, ui = str(layout.port("spark")), str(layout.port("spark-ui"))
    command = [*_spark_class("master.Master"), "--host", HOST, "--port", port, "--webui-port", ui]

    def is_healthy() -> bool:
        return _ask(layout.url("spark-ui") + "/json/") is not None

    return Service("spark-master", lambda: command, is_healthy, more_env=_class_archive())


def _spark_worker(layout: Layout) -> Service:
    work, ui = layout.folder / "spark", layout.port("worker-ui")
    command = [*_spark_class("worker.Worker"), "--host", HOST, "--cores", "2", "--memory", layout.worker_memory]
    command += ["--webui-port", str(ui), "--work-dir", str(work), f"spark://{HOST}:{layout.port('spark')}"]

    def is_healthy() -> bool:
        workers = (_ask(layout.url("spark-ui") + "/json/") or {}).get("workers", [])
        return any(w["state"] == "ALIVE" and w["webuiaddress"].endswith(f":{ui}") for w in workers)

    return Service(WORKER, lambda: command, is_healthy, more_env=_class_archive())


def _airflow(layout: Layout) -> list[Service]:
    def check(component: str | None) -> Callable[[], bool]:
        def is_healthy() -> bool:
            report = _ask(layout.url("airflow") + "/api/v2/monitor/health") or {}
            return (report.get(component or "metadatabase") or {}).get("status") == "healthy"

        return is_healthy

    def command(name: str) -> list[str]:
        return [str(Path(sys.executable).parent / "airflow"), name]

    return [Service(name, lambda name=name: command(name), check(part)) for name, part in AIRFLOW.items()]


def _class_archive() -> dict[str, str]:
    """The class archive of ``make archive`` for Spark's daemons, and for executors, which inherit their environment."""
    options = env.environment().get("SPARK_SUBMIT_OPTS")
    return {"JDK_JAVA_OPTIONS": options} if options else {}


def _spark_class(name: str) -> list[str]:
    return [str(Path(sys.executable).parent / "spark-class"), f"org.apache.spark.deploy.{name}"]


def _ask(url: str) -> dict[str, Any] | None:
    """The JSON at a URL; None where nobody answers, or not so."""
    try:
        answer = requests.get(url, timeout=_ASK_SECONDS)
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
    except (requests.RequestException, ValueError):
        return None
    return found
