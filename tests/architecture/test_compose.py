"""docker-compose.yaml without an engine: valid by the specification, and coherent with the checkout.

``compose-spec.json`` is the schema of the Go module github.com/compose-spec/compose-go v2.16.2 (Apache-2.0), which docker
compose itself checks files with: schema/compose-spec.json, white space taken out.
"""

from __future__ import annotations

import ast
import base64
import json
import re
import shutil
import subprocess
import tomllib
from importlib.metadata import packages_distributions
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


@pytest.mark.skipif(shutil.which("go") is None, reason="compose-go is built with Go; the schema is checked above")
@pytest.mark.slow
@pytest.mark.timeout(600)  # a first build fetches and compiles compose-go
def test_file_loads_as_docker_compose_loads_it(tmp_path: Path) -> None:
    def load(file: Path) -> subprocess.CompletedProcess[str]:
        folder = ROOT / "scripts/composecheck"
        return subprocess.run(["go", "run", ".", str(file)], cwd=folder, capture_output=True, text=True, check=False)

    done = load(ROOT / "docker-compose.yaml")
    assert done.returncode == 0, done.stderr
    assert "13 services" in done.stdout
    broken = tmp_path / "compose.yaml"
    broken.write_text(
        (ROOT / "docker-compose.yaml")
        .read_text()
        .replace("spark-master:\n        condition", "nobody:\n        condition")
    )
    done = load(broken)
    assert done.returncode == 1
    assert "nobody" in done.stderr


def test_every_service_that_stays_up_has_a_health_check(compose: dict[str, Any]) -> None:
    once = {"airflow-init", "s3-init", "demo"}
    assert {name for name, service in compose["services"].items() if "healthcheck" not in service} == once


def test_secrets_come_from_the_environment(compose: dict[str, Any]) -> None:
    made = subprocess.run(["sh", ROOT / "docker/secrets.sh"], capture_output=True, text=True, check=True).stdout
    names = {line.partition("=")[0] for line in made.splitlines()}
    text = (ROOT / "docker-compose.yaml").read_text()
    assert names == set(re.findall(r"\$\{(LAKEINDEX_[A-Z0-9_]+)", text)) - {"LAKEINDEX_FIRST_MONTH", "LAKEINDEX_SYNC"}
    for service in compose["services"].values():
        for name, value in service.get("environment", {}).items():
            if re.search("SECRET|PASSWORD|KEY", name) and "AIRFLOW_CONN" not in name:
                assert value.startswith("${LAKEINDEX_"), name
    again = subprocess.run(["sh", ROOT / "docker/secrets.sh"], capture_output=True, text=True, check=True).stdout
    assert made.splitlines()[0] != again.splitlines()[0]
    key = dict(line.split("=", 1) for line in made.splitlines())["LAKEINDEX_FERNET_KEY"]
    assert len(base64.urlsafe_b64decode(key)) == 32


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


@pytest.mark.parametrize("file", ["Dockerfile", "hbase.Dockerfile", "s3.Dockerfile"])
def test_image_copies_what_is_there_and_what_is_sent(file: str) -> None:
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for line in re.findall(r"^COPY (?!--from)(.+)$", (ROOT / "docker" / file).read_text(), re.MULTILINE):
        for source in line.split()[:-1]:
            assert (ROOT / source).exists(), source
            assert source.split("/")[0] in sent, source


def test_image_has_what_a_step_needs_before_that_step() -> None:
    text = (ROOT / "docker" / "Dockerfile").read_text()
    before = text[: text.index("-e .")]
    copied = {one for line in re.findall(r"^COPY (.+)$", before, re.MULTILINE) for one in line.split()[:-1]}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    wanted = [*wheel["force-include"], *wheel["packages"], project["project"]["readme"], "pyproject.toml"]
    wanted += project["project"]["license-files"]
    assert [one for one in wanted if one.split("/")[0] not in copied] == []
    lock = re.search(r"--require-hashes -r (\S+)", before)
    assert lock is not None
    assert any(Path(one).name == lock[1] for one in copied)


def locked_in(lock: str) -> set[str]:
    """Packages of a lock."""
    return set(re.findall(r"^([a-z0-9._-]+)==", (ROOT / lock).read_text().lower(), re.MULTILINE))


@pytest.mark.slow
def test_image_has_the_packages_that_its_programs_import() -> None:
    locked = locked_in("docker/requirements.lock")
    demo = locked_in("docker/demo.lock")
    assert not demo & locked
    at = packages_distributions()
    missing = set()
    for file in (*(ROOT / "demo").glob("*.py"), *(ROOT / "docker").glob("*.py"), *(ROOT / "jobs").glob("*.py")):
        there = locked | demo if file.parent.name == "demo" else locked
        for node in ast.walk(ast.parse(file.read_text())):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for top in {name.split(".")[0] for name in names} & at.keys() - {"lakeindex"}:
                if not {re.sub("[._]", "-", one.lower()) for one in at[top]} & there:
                    missing.add(f"{file.name}: {top}")
    assert missing == set()


def test_postgres_is_asked_where_only_the_lasting_server_answers(compose: dict[str, Any]) -> None:
    # the server of the first start, which sets the database up and goes, listens on its socket only
    command = compose["services"]["postgres"]["healthcheck"]["test"]
    assert command[command.index("-h") + 1] == "127.0.0.1"


def test_an_image_is_built_for_one_service(compose: dict[str, Any]) -> None:
    built = [service["image"] for service in compose["services"].values() if "build" in service]
    assert sorted(built) == sorted(set(built))
    used = {service["image"] for service in compose["services"].values()}
    assert {image for image in used if image.endswith(":local")} == set(built)


@pytest.mark.parametrize("missing", ["od", "base64", "tr", "head"])
def test_secrets_are_whole_or_an_error(missing: str, tmp_path: Path) -> None:
    for tool in {"sh", "cat", "python3", "od", "base64", "tr", "head", "wc", "dd", "openssl"} - {missing}:
        there = shutil.which(tool)
        if there:
            (tmp_path / tool).symlink_to(there)
    command = [shutil.which("sh") or "sh", ROOT / "docker/secrets.sh"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={"PATH": str(tmp_path)})
    made = dict(line.split("=", 1) for line in done.stdout.splitlines())
    if done.returncode == 0:
        assert len(made["LAKEINDEX_POSTGRES_PASSWORD"]) == 32
        assert len(base64.urlsafe_b64decode(made["LAKEINDEX_FERNET_KEY"])) == 32
    else:
        assert missing in done.stderr
        assert not made


def test_every_build_has_its_file(compose: dict[str, Any]) -> None:
    builds = [service["build"] for service in compose["services"].values() if "build" in service]
    assert len(builds) > 1
    for build in builds:
        assert (ROOT / build["context"] / build["dockerfile"]).is_file(), build


def test_every_image_has_a_version_or_says_why_not(compose: dict[str, Any]) -> None:
    images = {s["image"] for s in compose["services"].values()}
    ours = {f"lakeindex{of}:local" for of in ("", "-demo", "-hbase", "-metastore", "-s3")}
    assert images == {*ours, "postgres:16"}
    text = "".join(file.read_text() for file in (ROOT / "docker").glob("*Dockerfile"))
    stages = set(re.findall(r"^FROM \S+ AS (\S+)", text, re.MULTILINE))
    for source in re.findall(r"^FROM (\S+)", text, re.MULTILINE):
        assert ":" in source or source in stages, source
