"""``lakeindex doctor``: what it finds wrong, what it says to do, how it ends."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from lakeindex.cli.doctor import (
    CheckVerdict,
    check_connection,
    check_java,
    check_memory,
    check_packages,
    check_place,
    check_pyspark_client,
    check_python,
    check_spark_starts,
    check_submit,
    probe,
)
from lakeindex.storage.memory import MemoryStorage
from lakeindex.storage.port import ObjectMeta
from tests.cli_support import lakeindex, validate
from tests.unit.cli.tables import batch, contents, new_table, row, table_with, upserted
from tests.unit.runners.test_java import fake_java


def test_a_healthy_place(tmp_path: Path):
    table = table_with(tmp_path)
    before = {p: p.stat().st_mtime_ns for p in table.rglob("*") if p.is_file()}
    answer = lakeindex("doctor", table, "--json")
    validate("doctor", answer.json)
    assert (answer.exit_code, answer.json["error"]) == (0, None)
    found = {check["name"]: check for check in answer.json["checks"]}
    assert found["python"]["verdict"] == found["lakeindex"]["verdict"] == found["table"]["verdict"] == "ok"
    assert {"extra spark", "extra airflow", "java", "memory", "storage"} <= set(found)
    assert not {"spark", "write", "conditional put", "clock"} & set(found)
    assert {p: p.stat().st_mtime_ns for p in table.rglob("*") if p.is_file()} == before


def test_a_probe_is_written_only_when_asked_for_and_goes(tmp_path: Path):
    table = table_with(tmp_path)
    before = contents(table)
    answer = lakeindex("doctor", table, "--write", "--json")
    validate("doctor", answer.json)
    found = {check["name"]: check["verdict"] for check in answer.json["checks"]}
    assert (found["write"], found["conditional put"], found["clock"]) == ("ok", "ok", "ok")
    assert contents(table) == before
    assert not [p for p in table.rglob("*") if p.is_file() and "doctor" in str(p.relative_to(table))]
    assert lakeindex("doctor", "--write", "--json").error["culprit"] == "--write"


def test_a_place_without_a_table_is_no_failure(tmp_path: Path):
    answer = lakeindex("doctor", tmp_path / "to_come", "--write", "--json")
    found = {check["name"]: check for check in answer.json["checks"]}
    assert answer.exit_code == 0
    assert found["table"]["verdict"] == "warn"
    assert "lakeindex create" in found["table"]["cure"]
    assert found["write"]["verdict"] == "ok"


def test_a_table_that_is_refused_ends_as_a_run_would(tmp_path: Path):
    table = new_table(tmp_path)
    properties = table / ".hoodie" / "hoodie.properties"
    text = properties.read_text().replace("hoodie.table.type=COPY_ON_WRITE", "hoodie.table.type=MERGE_ON_READ")
    properties.write_text(text)
    answer = lakeindex("doctor", table, "--json")
    validate("doctor", answer.json)
    assert answer.exit_code == answer.json["error"]["exit_code"] == 4
    assert answer.json["error"]["culprit"] == "table"
    shown = lakeindex("doctor", table)
    assert shown.exit_code == 4
    assert "MERGE_ON_READ" in shown.stdout
    assert "1 fail" in shown.stdout


def test_a_table_that_can_be_read_and_not_written_to_is_told(tmp_path: Path):
    table = new_table(tmp_path)
    assert upserted(lakeindex("upsert", table, batch(tmp_path / "b.parquet", [row(1)]), "--json"))
    history = table / ".hoodie" / ".schema"
    history.mkdir()
    (history / "20260101000000000.schemacommit").write_bytes(b"{}")
    refused = lakeindex("upsert", table, batch(tmp_path / "b.parquet", [row(1)]), "--json")
    answer = lakeindex("doctor", table, "--json")
    assert (answer.exit_code, answer.json["error"]["culprit"]) == (refused.exit_code, "table")


def test_a_place_that_cannot_be_reached():
    (check,) = check_place("ftp://host/t", write=True)
    assert (check.name, check.verdict, check.exit_code) == ("storage", CheckVerdict.FAIL, 2)
    assert "s3://" in (check.cure or "")


class CreatesTwice(MemoryStorage):
    """A store that ignores the condition of a put."""

    def create(self, path: str, data: bytes) -> None:
        self.write(path, data)


class Skewed(MemoryStorage):
    """A store whose clock is two minutes behind."""

    def head(self, path: str) -> ObjectMeta:
        found = super().head(path)
        return replace(found, modified_ms=int(time.time() * 1000) - 120_000)


class KeepsAll(MemoryStorage):
    """A store where nothing may be deleted."""

    def delete(self, path: str) -> None:
        return


@pytest.mark.parametrize(
    ("store", "name", "code"),
    [(CreatesTwice(), "conditional put", 1), (Skewed(), "clock", 5), (KeepsAll(), "delete", 1)],
    ids=["creates twice", "skewed", "keeps all"],
)
def test_a_store_that_does_not_keep_its_promises(store: MemoryStorage, name: str, code: int):
    failed = {c.name: c for c in probe(store, "folder/probe") if c.verdict is CheckVerdict.FAIL}
    assert failed[name].exit_code == code
    assert failed[name].cure
    assert bool(store.list()) is isinstance(store, KeepsAll)


def test_pythons():
    assert [check_python((3, minor, 0)).verdict for minor in (10, 11, 13, 14)] == ["fail", "ok", "ok", "fail"]


def packages(have: Mapping[str, str]) -> dict[str, CheckVerdict]:
    wanted = [
        "click>=8.1",
        'pyspark<5,>=3.5; extra == "spark"',
        'pandas<3,>=2.2; extra == "spark"',
        'h>=1; extra == "hbase"',
    ]
    return {check.name: check.verdict for check in check_packages(wanted, have.get)}


def test_packages():
    whole = {"click": "8.3", "pyspark": "4.1.0.dev1", "pandas": "2.2.3"}
    assert packages(whole) == {"lakeindex": "ok", "extra spark": "ok", "extra hbase": "ok"}
    assert packages({**whole, "pandas": "3.0"})["extra spark"] == "warn"
    assert packages({"click": "8.3", "pyspark": "4.0"})["extra spark"] == "warn"
    assert packages({"click": "8.0"})["lakeindex"] == packages({})["lakeindex"] == "fail"


def test_pyspark_client_over_pyspark():
    def verdict(have: Mapping[str, str]) -> str | None:
        check = check_pyspark_client(have.get)
        return None if check is None else check.verdict

    assert verdict({"pyspark": "4.0.0"}) is None
    assert verdict({"pyspark": "4.0.0", "pyspark-client": "4.1.0"}) == "fail"
    assert verdict({"pyspark": "4.0.0", "pyspark-client": "4.0.0"}) == "warn"
    assert verdict({"pyspark-client": "4.0.0"}) == "warn"


@pytest.mark.parametrize(
    ("java", "pyspark", "verdict"),
    [("17", "4.1.0", "ok"), ("17", "3.5.9", "ok"), ("25", "3.5.9", "fail"), ("25", "4.1.0", "ok"), ("25", None, "ok")],
)
def test_java_has_to_fit(tmp_path: Path, java: str, pyspark: str | None, verdict: str):
    home = fake_java(tmp_path / "java", java)
    check = check_java(pyspark, {"JAVA_HOME": str(home), "PATH": "/bin"})
    assert check.verdict == verdict
    assert str(home) in check.found


def test_no_java_matters_to_spark_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("lakeindex.runners.java.importlib.util.find_spec", lambda _: None)
    assert check_java("4.1.0", {"PATH": str(tmp_path)}).verdict == "fail"
    assert check_java(None, {"PATH": str(tmp_path)}).verdict == "ok"


def test_spark_submit(tmp_path: Path):
    assert check_submit(None) is None
    nowhere = check_submit("4.1.0", {"PATH": str(tmp_path)})
    (tmp_path / "spark-submit").write_text("#!/bin/sh\n")
    (tmp_path / "spark-submit").chmod(0o755)
    unset = check_submit("4.1.0", {"PATH": str(tmp_path)})
    whole = check_submit("4.1.0", {"PATH": str(tmp_path), "PYSPARK_PYTHON": "/p"})
    assert nowhere is not None
    assert unset is not None
    assert whole is not None
    assert (nowhere.verdict, unset.verdict, whole.verdict) == ("warn", "warn", "ok")
    assert "PYSPARK_PYTHON" in unset.found


@pytest.mark.parametrize(
    ("text", "verdict", "said"),
    [
        ('{"conn_type": "spark", "host": "local[2]"}', "ok", "--master local[2]"),
        ('{"conn_type": "spark", "host": "spark://h", "port": 7077}', "ok", "--master spark://h:7077"),
        ('{"conn_type": "spark", "host": "yarn"}', "warn", "--master yarn"),
        ('{"conn_type": "spark"}', "fail", "no host"),
        ('{"conn_type": "http", "host": "h"}', "fail", "'http'"),
        ("spark://local[2]", "fail", "no JSON"),
        ("[]", "fail", "no JSON object"),
    ],
)
def test_connection_of_the_environment(text: str, verdict: str, said: str):
    check = check_connection({"AIRFLOW_CONN_SPARK_DEFAULT": text}, {"apache-airflow": "3.3.2"}.get)
    assert check is not None
    assert check.verdict == verdict
    assert said in check.found


def test_connection_that_airflow_keeps():
    have = {"apache-airflow": "3.3.2"}.get
    known = check_connection({}, have, lambda: {"conn_type": "spark", "host": "spark://h", "port": "7077"})
    unknown = check_connection({}, have, lambda: None)
    assert known is not None
    assert unknown is not None
    assert (known.verdict, unknown.verdict) == ("ok", "warn")
    assert "YARN" in unknown.found
    assert check_connection({}, {}.get) is None


def test_little_memory():
    assert check_memory(2**29).verdict == "warn"
    assert check_memory(2**33).verdict == "ok"


@pytest.mark.spark
@pytest.mark.slow
def test_spark_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    assert check_spark_starts().verdict == "ok"
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    broken = check_spark_starts()
    assert (broken.verdict, broken.exit_code) == ("fail", 1)
    assert json.dumps(broken.found)
