"""``docker-compose.yaml`` on the engine that ``make compose-test`` found or made, from an empty state to an empty state."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = "lakeindex-compose-test"
IMAGES = ("lakeindex", "lakeindex-demo", "lakeindex-s3", "lakeindex-hbase", "lakeindex-metastore")
AIRFLOW, STORE = "http://127.0.0.1:8080", "http://127.0.0.1:9000"
FIRST_MONTH = "2013-11"


@dataclass
class Compose:
    """The compose file under a project name of its own, with secrets of its own, and how long its steps took."""

    secrets: dict[str, str]
    env_file: Path
    seconds: dict[str, float] = field(default_factory=dict)

    def __call__(self, *words: str, check: bool = True) -> str:
        """Run ``docker compose``; what it printed."""
        command = ["docker", "compose", "--project-name", PROJECT, "--env-file", str(self.env_file), *words]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if check:
            assert done.returncode == 0, f"{' '.join(words)}: {(done.stdout + done.stderr)[-6000:]}"
        return done.stdout + done.stderr

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Note how long a step takes."""
        started = time.monotonic()
        yield
        self.seconds[what] = round(time.monotonic() - started, 1)

    def inside(self, *words: str) -> str:
        """Run a command in a container of the image, beside the services that are up."""
        return self("run", "--rm", "--no-deps", "s3-init", *words)

    def containers(self, service: str) -> list[str]:
        """Ids of a service's running containers."""
        return self("ps", "--quiet", service).split()


@pytest.fixture(scope="session")
def compose(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compose]:
    """Everything up and healthy; taken down with its volumes."""
    if shutil.which("docker") is None:
        pytest.fail("no docker command: run this with `make compose-test`")
    made = subprocess.run(["sh", "docker/secrets.sh"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    env_file = tmp_path_factory.mktemp("compose") / "env"
    env_file.write_text(made)
    found = Compose(dict(line.split("=", 1) for line in made.splitlines()), env_file)
    found("--profile", "*", "down", "--volumes", "--timeout", "20")  # of a run that was killed
    try:
        for service in ("airflow-init", "s3", "demo"):
            with found.timed(f"build {service}"):
                found("--profile", "demo", "build", service)
        with found.timed("up, all healthy"):
            found("up", "--detach", "--wait", "--wait-timeout", "600")
        yield found
    except BaseException:
        print(found("ps", "--all", check=False), found("logs", "--tail", "60", check=False))  # noqa: T201 - what went wrong
        raise
    finally:
        with found.timed("down"):
            found("--profile", "*", "down", "--volumes", "--timeout", "30")
        _tell(found)


def _tell(compose: Compose) -> None:
    """The figures, for docs/cluster.md."""
    sizes = {}
    for image in IMAGES:
        told = subprocess.run(
            ["docker", "image", "inspect", "--format", "{{.Size}}", f"{image}:local"],
            capture_output=True,
            text=True,
            check=False,
        )
        if told.returncode == 0:
            sizes[image] = f"{int(told.stdout) / 1e9:.2f} GB"
    print("\n" + json.dumps({"seconds": compose.seconds, "images": sizes}, indent=1))  # noqa: T201 - the figures


@pytest.fixture(scope="session")
def store(compose: Compose) -> Iterator[None]:
    """This process reads and writes the cluster's store."""
    told = {
        "AWS_ACCESS_KEY_ID": compose.secrets["LAKEINDEX_S3_KEY"],
        "AWS_SECRET_ACCESS_KEY": compose.secrets["LAKEINDEX_S3_SECRET"],
        "AWS_ENDPOINT_URL": STORE,
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }
    before = dict(os.environ)
    os.environ.update(told)
    yield
    os.environ.clear()
    os.environ.update(before)
