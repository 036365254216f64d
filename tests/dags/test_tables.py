"""conf/tables: what a file may say, and what is said about one that is wrong."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakeindex.airflow.tables import CreateConf, TableConf, read_tables
from lakeindex.errors import UsageError


def load(folder: Path, text: str, **environ: str) -> TableConf:
    (folder / "trips.yaml").write_text(text)
    tables, wrong = read_tables(folder, Path("/project"), environ)
    if wrong:
        raise wrong[0]
    return tables["trips"]


def test_little_is_needed(tmp_path: Path) -> None:
    table = load(tmp_path, "uri: s3://lake/trips/\n")
    assert table == TableConf("trips", "trips", "s3://lake/trips", "s3://lake/trips.lakeindex")


def test_places_are_read_as_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    places = {
        "lake/./trips/": "/project/lake/trips",
        "../trips": "/trips",
        "~/trips": "/home/somebody/trips",
        "file:///lake/my%20trips": "/lake/my trips",
        "s3:/lake/trips": "s3://lake/trips",
    }
    found = {text: load(tmp_path, f"uri: {text}\ninput: '{text}/x.csv'\n") for text in places}
    assert {text: table.uri for text, table in found.items()} == places
    assert {text: table.checkpoints for text, table in found.items()} == {
        t: f"{p}.lakeindex" for t, p in places.items()
    }
    assert {text: table.inputs for text, table in found.items()} == {t: (f"{p}/x.csv",) for t, p in places.items()}
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    linked = load(tmp_path, f"uri: {tmp_path}/link\n")
    assert (linked.uri, linked.checkpoints) == (f"{tmp_path}/link", f"{tmp_path}/real.lakeindex"), "as by every door"
    with pytest.raises(UsageError, match=r"trips\.yaml.* uri cannot be 'dbfs:/trips'"):
        load(tmp_path, "uri: dbfs:/trips\n")


def test_everything_that_may_be_said(tmp_path: Path) -> None:
    table = load(
        tmp_path,
        """
title: Trips
uri: ${LAKE:-lake}/trips
checkpoints: /runs
create: {key: id, partition: [day, city], ordering: ts}
options: {hoodie.index.bloom.fpp: 1e-4, lakeindex.footer.cache: "${CACHE:-false}"}
max_quarantined: 3
spark: {driver_memory: 2g, conf: {spark.executor.cores: 4}}
schedule: "@daily"
start_date: 2026-01-31
end_date: 2026-02-28 12:00:00
catchup: true
input: ["in/{{ ds }}.parquet", "s3://${BUCKET}/x", "{{ dag_run.conf.path }}", "table:feed"]
""",
        LAKE="/mnt",
        BUCKET="b",
    )
    assert table.uri == "/mnt/trips"
    assert table.checkpoints == "/runs"
    assert table.create == CreateConf(("id",), ("day", "city"), ("ts",))
    assert table.options == {"hoodie.index.bloom.fpp": "1e-4", "lakeindex.footer.cache": "false"}
    assert table.max_quarantined == 3
    assert table.spark.driver_memory == "2g"
    assert table.spark.conf == {"spark.executor.cores": "4"}
    assert table.start_date == datetime(2026, 1, 31, tzinfo=UTC)
    assert table.end_date == datetime(2026, 2, 28, 12, tzinfo=UTC)
    assert table.catchup
    assert table.inputs == ("/project/in/{{ ds }}.parquet", "s3://b/x", "{{ dag_run.conf.path }}", "table:feed")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "trips.yaml:1: the file is not a mapping"),
        ("", "trips.yaml:1: the file is not a mapping"),
        ("title: x\nuri: [", "trips.yaml:2 is not YAML"),
        ("title: x", "trips.yaml:1: uri is missing"),
        ("uri: 3", "uri cannot be 3"),
        ("uri: x\nurl: y", "trips.yaml:2: url is unknown"),
        ("title: t\nuri: ${NOWHERE}/x", "trips.yaml:2: uri needs the environment variable NOWHERE"),
        (
            "uri: x\noptions: {lakeindex.memory: '${NOWHERE}'}",
            "trips.yaml:2: options needs the environment variable NOWHERE",
        ),
        ("uri: x\ncreate: {partition: a}", "create: key is missing"),
        ("uri: x\ncreate: [a]", "create is not a mapping"),
        ("uri: x\noptions: {hoodie.magic: 1}", "options are not valid: unknown option 'hoodie.magic'"),
        ("uri: x\noptions: {hoodie.index.type: MAGIC}", "options are not valid"),
        ("uri: x\noptions: [a]", "options cannot be"),
        ("uri: x\nexecution: fast", "execution cannot be 'fast'"),
        ("uri: x\nmax_quarantined: -1", "max_quarantined cannot be -1"),
        ("uri: x\nmax_quarantined: true", "max_quarantined cannot be True"),
        ("uri: x\ncatchup: 1", "catchup cannot be 1"),
        ("uri: x\nstart_date: tomorrow", "start_date cannot be 'tomorrow'"),
        ("uri: x\nschedule: '@daily'\ninput: a", "start_date is missing"),
        ("uri: x\nschedule: '@daily'\nstart_date: 2026-01-01", "input is missing"),
        ("uri: x\ninput: [1]", "input cannot be"),
        ("uri: x\nspark: {memory: 1g}", "trips.yaml:2: spark: memory is unknown"),
        ("uri: x\ncreate:\n  key: a\n  ordering: 3", "trips.yaml:4: create: ordering cannot be 3"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_key(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        load(tmp_path, text)
    assert f"{tmp_path}/trips.yaml" in raised.value.message
    assert said in raised.value.message
    assert raised.value.hint


def test_a_folder_without_tables_and_a_name_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no table in"):
        read_tables(tmp_path, tmp_path, {})
    (tmp_path / "a b.yaml").write_text("uri: x")
    (tmp_path / "ab.yaml").write_text("uri: x")
    tables, (wrong,) = read_tables(tmp_path, tmp_path, {})
    assert list(tables) == ["ab"]
    assert "cannot be called 'a b'" in wrong.message


def test_what_yaml_and_the_environment_make_of_a_value(tmp_path: Path) -> None:
    """True and false are as options have them; a variable that is empty counts as one that is not set."""
    text = "uri: ${LAKE:-s3://lake}/trips\noptions: {lakeindex.openlineage: true, hoodie.index.bloom.fpp: 0.01}\n"
    for environ in ({}, {"LAKE": ""}):
        assert load(tmp_path, text, **environ).uri == "s3://lake/trips"
    for environ, uri in (({}, "trips"), ({"SUB": ""}, "trips"), ({"SUB": "eu/"}, "eu/trips")):  # it may be empty
        assert load(tmp_path, "uri: s3://lake/${SUB:-}trips\n", **environ).uri == f"s3://lake/{uri}"
    table = load(tmp_path, text, LAKE="s3://other")
    assert table.uri == "s3://other/trips"
    assert table.options == {"lakeindex.openlineage": "true", "hoodie.index.bloom.fpp": "0.01"}
    with pytest.raises(UsageError, match="needs the environment variable LAKE"):
        load(tmp_path, "uri: ${LAKE}/trips\n", LAKE="")
    for wrong in ("true", "-1", "1.5", "'1'"):
        with pytest.raises(UsageError, match="max_quarantined cannot be"):
            load(tmp_path, f"uri: s3://lake/t\nmax_quarantined: {wrong}\n")
