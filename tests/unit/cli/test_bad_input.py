"""Bad input: each case ends with its exit code, names the culprit and the cure, and publishes nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli_support import Answer, lakeindex
from tests.scheduling import some_of
from tests.unit.cli.tables import batch, commits_of, contents, new_table, row, rows_of, table_with, upserted
from tests.unit.operations.tables import flip, footer_entries, live_files, relative, rewrite


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Holds rows 0..59."""
    return table_with(tmp_path)


def _refused(table: Path, code: int, culprit: str, *args: object) -> Answer:
    """A command that fails as it should: nothing of the table changes."""
    before = contents(table)
    answer = lakeindex(*args, "--json")
    assert answer.exit_code == code, answer.stdout
    assert culprit in str(answer.error["culprit"])
    assert answer.error["hint"], "every failure says what to do"
    assert contents(table) == before, "nothing is published"
    return answer


def _upsert_refused(table: Path, code: int, culprit: str, path: object, *options: object) -> Answer:
    return _refused(table, code, culprit, "upsert", table, path, *options)


# --- rows


BAD_ROWS = [
    ((None, "eu", 5, "x"), "'id' is null"),
    (("", "eu", 5, "x"), "'id' is empty"),
    (("k1", "eu", None, "x"), "ts"),
    (("k1", "../x", 5, "x"), "leave"),
]


@pytest.mark.parametrize(("bad", "reason"), BAD_ROWS)
def test_bad_rows_go_to_quarantine(table: Path, tmp_path: Path, bad: tuple[str, str, int, str], reason: str):
    path = batch(tmp_path / "bad.parquet", [row(100), bad, row(101)])
    answer = _upsert_refused(table, 3, "quarantine", path)
    assert answer.error["class"] == "QuarantineExceededError"
    assert "--max-quarantined" in answer.error["hint"]
    kept = pq.read_table(str(answer.error["culprit"]))
    assert kept.num_rows == 1
    assert reason in kept.column("_li_reason")[0].as_py()
    assert kept.column("val")[0].as_py() == "x"
    allowed = upserted(lakeindex("upsert", table, path, "--max-quarantined", 1, "--json"))
    assert (allowed["quarantined"], allowed["inserts"]) == (1, 2)
    assert len(rows_of(table)) == 62


def test_one_bad_row_more_than_allowed(table: Path, tmp_path: Path):
    path = batch(tmp_path / "bad.parquet", [(None, "eu", 5, "x"), (None, "eu", 6, "y"), row(100)])
    answer = _upsert_refused(table, 3, "quarantine", path, "--max-quarantined", 1)
    assert "2 bad rows, 1 allowed" in answer.error["message"]


# --- schema


def _without(column: str) -> Callable[[pa.Table], pa.Table]:
    return lambda rows: rows.drop_columns([column])


def _as_type(column: str, kind: pa.DataType) -> Callable[[pa.Table], pa.Table]:
    def change(rows: pa.Table) -> pa.Table:
        at = rows.schema.get_field_index(column)
        return rows.set_column(at, column, rows.column(at).cast(kind))

    return change


@pytest.mark.parametrize(
    ("change", "culprit"),
    [
        (_without("id"), "id"),
        (_without("region"), "region"),
        (_without("ts"), "ts"),
        (_without("val"), "val"),
        (lambda rows: rows.append_column("extra", rows.column("val")), "extra"),
        (_as_type("ts", pa.string()), "ts"),
        (_as_type("ts", pa.float64()), "ts"),
        (lambda rows: rows.append_column("ts", rows.column("ts")), "ts"),
        (lambda rows: rows.append_column("_hoodie_is_deleted", rows.column("val")), "_hoodie_is_deleted"),
    ],
)
def test_a_schema_that_does_not_fit(table: Path, tmp_path: Path, change: Callable[[pa.Table], pa.Table], culprit: str):
    path = batch(tmp_path / "b.parquet", [row(100)])
    pq.write_table(change(pq.read_table(path)), path)
    answer = _upsert_refused(table, 3, culprit, path)
    assert answer.error["class"] == "SchemaMismatchError"


def test_a_delete_without_its_key_column(table: Path, tmp_path: Path):
    path = tmp_path / "keys.parquet"
    pq.write_table(pa.table({"region": ["eu"]}), path)
    _refused(table, 3, "id", "delete", table, path)


# --- files


@pytest.mark.parametrize("keep", [0, 4, 100, -1, -200])
def test_a_truncated_input(table: Path, tmp_path: Path, keep: int):
    path = batch(tmp_path / "b.parquet", map(row, range(100, 120)))
    path.write_bytes(path.read_bytes()[:keep])
    _upsert_refused(table, 3, "b.parquet", path)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("b.parquet", b"this is no parquet"),
        ("b.csv", b"\xff\xfe\x00"),
        ("b.json", b'{"id": "k1", "region": "eu", "ts": 1, "val": "x"'),
        ("b.json", b'[{"id": "k1"}]'),
        ("b.csv.gz", b"not gzip"),
        ("b.xlsx", b"PK"),
    ],
)
def test_an_unreadable_input(table: Path, tmp_path: Path, name: str, data: bytes):
    path = tmp_path / name
    path.write_bytes(data)
    _upsert_refused(table, 3, name, path)


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("b.csv", b"id,region,ts,val\nk1,eu,1,x\nk2,eu,notanumber,x\n", "column 'ts' cannot be 'notanumber'"),
        ("b.csv", b"id,region,ts,val\nk1,eu,1,x\nk2,eu\n", "2 fields, not 4: 'k2,eu'"),
        ("b.json", b'{"id": "k1"}\n{"id": {"a": 1}}\n', "column 'id' cannot be {\"a\": 1}"),
    ],
)
def test_a_value_that_its_column_cannot_have(table: Path, tmp_path: Path, name: str, data: bytes, said: str):
    path = tmp_path / name
    path.write_bytes(data)
    told = str(_upsert_refused(table, 3, "quarantine", path).error["message"])
    assert "row 1 of" in told
    assert f"{name}: {said}" in told


def test_no_input(table: Path, tmp_path: Path):
    _upsert_refused(table, 3, "nothing.parquet", tmp_path / "nothing.parquet")
    (tmp_path / "empty").mkdir()
    _upsert_refused(table, 3, "empty", tmp_path / "empty")


# --- options


@pytest.mark.parametrize(
    ("option", "culprit", "hint"),
    [
        ("hoodie.index.typ=BLOOM", "hoodie.index.typ", "hoodie.index.type"),
        ("hoodie.parquet.max.file.size=lots", "hoodie.parquet.max.file.size", "bytes"),
        ("hoodie.bloom.index.prune.by.ranges=yes", "hoodie.bloom.index.prune.by.ranges", "true | false"),
        ("hoodie.parquet.compression.codec=lzma", "hoodie.parquet.compression.codec", "zstd"),
        ("hoodie.index.type=GLOBAL_BLOOM", "hoodie.index.type", "lakeindex index migrate TABLE --to GLOBAL_BLOOM"),
        ("hoodie.write.record.merge.mode=COMMIT_TIME_ORDERING", "hoodie.write.record.merge.mode", "bound"),
        ("hoodie.datasource.write.hive_style_partitioning=true", "hive_style", "bound"),
        ("novalue", "novalue", "KEY=VALUE"),
        ("aws_secret_access_key=x", "aws_secret_access_key", "valid options"),
    ],
)
def test_wrong_options(table: Path, tmp_path: Path, option: str, culprit: str, hint: str):
    path = batch(tmp_path / "b.parquet", [row(100)])
    answer = _upsert_refused(table, 2, culprit, path, "-o", option)
    assert hint in answer.error["hint"]


def test_options_that_contradict(table: Path, tmp_path: Path):
    path = batch(tmp_path / "b.parquet", [row(100)])
    _upsert_refused(
        table, 2, "lakeindex.chunk.rows", path, "-o", "lakeindex.chunk.rows=1", "-o", "lakeindex.chunk.rows=2"
    )
    _upsert_refused(table, 2, "--master", path, "--master", "local[2]")
    _upsert_refused(table, 2, "--batch-id", path, "--batch-id", " ")


ALL_IF_LEFT_OUT = [
    (("maintain", "--steps", ""), "--steps"),
    (("maintain", "--steps", " , "), "--steps"),
    (("repair", "--only", "", "--apply"), "--only"),
    (("cluster", "--sort", "columns", "--columns", ""), "--columns"),
    (("cluster", "--columns", ","), "--columns"),
]


@pytest.mark.parametrize(("command", "culprit"), ALL_IF_LEFT_OUT)
def test_names_of_nothing_do_not_mean_all(table: Path, command: tuple[str, ...], culprit: str):
    """As a script says it whose variable is empty."""
    _refused(table, 2, culprit, command[0], table, *command[1:])
    _refused(table, 2, "--partition", "repair", "properties", table, "--partition", " ,")


def test_properties_and_memory_that_are_said_in_two_ways(table: Path, tmp_path: Path):
    properties = table / ".hoodie" / "hoodie.properties"
    properties.unlink()
    lost = ("repair", "properties", table, "--key", "id", "--apply")
    _refused(table, 2, "hoodie.database.name", *lost, "--property", "hoodie.database.name")
    twice = ("--property", "hoodie.database.name=a", "--property", "hoodie.database.name=b")
    _refused(table, 2, "hoodie.database.name", *lost, *twice)
    load = ("import", batch(tmp_path / "b.parquet", [row(1)]), tmp_path / "new", "--key", "id")
    _refused(table, 2, "lakeindex.memory", *load, "-o", "lakeindex.memory=1g", "--memory", "2g")
    assert not (tmp_path / "new").exists()


# --- tables


@pytest.mark.parametrize("command", ["upsert", "delete", "inspect", "history", "check", "read", "rollback"])
def test_no_table(tmp_path: Path, command: str):
    more = {
        "upsert": [batch(tmp_path / "b.parquet", [row(1)])],
        "delete": [batch(tmp_path / "b.parquet", [row(1)])],
        "read": ["--out", tmp_path / "x.parquet"],
        "rollback": ["20260101000000000"],
    }.get(command, [])
    answer = lakeindex(command, tmp_path / "nothing", *more, "--json")
    assert answer.exit_code == 4
    assert answer.error["class"] == "TableNotFoundError"
    assert str(tmp_path / "nothing") in str(answer.error["culprit"])
    assert not (tmp_path / "nothing").exists()
    assert not (tmp_path / "x.parquet").exists()


def _set_property(table: Path, name: str, value: str) -> None:
    path = table / ".hoodie" / "hoodie.properties"
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith(f"{name}=")]
    path.write_text("\n".join([*lines, f"{name}={value}", ""]), encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hoodie.table.type", "MERGE_ON_READ"),
        ("hoodie.table.version", "5"),
        ("hoodie.table.base.file.format", "ORC"),
        ("hoodie.table.cdc.enabled", "true"),
        ("hoodie.datasource.write.drop.partition.columns", "true"),
        ("hoodie.table.metadata.partitions", "expr_index_a"),
    ],
)
def test_tables_that_are_not_written_to(table: Path, tmp_path: Path, name: str, value: str):
    _set_property(table, name, value)
    answer = _upsert_refused(table, 4, name, batch(tmp_path / "b.parquet", [row(100)]))
    assert answer.error["class"] in ("TableUnsupportedError", "MetadataTableError")


# --- damage


def test_damaged_properties(table: Path, tmp_path: Path):
    path = table / ".hoodie" / "hoodie.properties"
    path.write_text(path.read_text(encoding="utf-8").replace("table.name=t", "table.name=u"), encoding="utf-8")
    answer = _upsert_refused(table, 4, "hoodie.properties", batch(tmp_path / "b.parquet", [row(1, 5)]))
    assert answer.error["class"] == "TableCorruptError"


def test_a_damaged_binding(table: Path, tmp_path: Path):
    (table / ".hoodie" / ".lakeindex" / "table.json").write_bytes(b'{"format": 1, "index_type": "NEW"}')
    _upsert_refused(table, 4, "table.json", batch(tmp_path / "b.parquet", [row(1, 5)]))


@pytest.mark.usefixtures("time_leaps")
def test_a_damaged_commit(table: Path, tmp_path: Path):
    commit = table / ".hoodie" / commits_of(table)[-1]
    commit.write_bytes(commit.read_bytes()[:50])
    _upsert_refused(table, 4, commit.name, batch(tmp_path / "b.parquet", [row(1, 5)]))


@pytest.mark.parametrize("cached", ["true", "false"])
@pytest.mark.parametrize("keep", [0, 8, 300, -1])
def test_a_truncated_base_file(table: Path, tmp_path: Path, keep: int, cached: str):
    file = live_files(table)[1]
    file.write_bytes(file.read_bytes()[:keep])
    path = batch(tmp_path / "b.parquet", (row(n, 5) for n in range(60)))
    answer = _upsert_refused(table, 4, relative(table, file), path, "-o", f"lakeindex.footer.cache={cached}")
    assert answer.error["class"] == "TableCorruptError"


def test_a_damaged_page(table: Path, tmp_path: Path):
    file = live_files(table)[1]
    for at in range(4, 400, 3):
        flip(file, at)
    _upsert_refused(table, 4, relative(table, file), batch(tmp_path / "b.parquet", (row(n, 5) for n in range(60))))


def _no_filter(path: Path) -> None:
    rewrite(path, entries={"org.apache.hudi.bloomfilter": None, "lakeindex.keys": None})


def _damaged_filter(path: Path) -> None:
    text = footer_entries(path)["org.apache.hudi.bloomfilter"]
    rewrite(path, entries={"org.apache.hudi.bloomfilter": text[:40] + "A" * (len(text) - 44) + text[-4:]})


def _narrow_range(path: Path) -> None:
    low = footer_entries(path)["hoodie_min_record_key"]
    rewrite(path, entries={"hoodie_max_record_key": low})


def _no_range(path: Path) -> None:
    rewrite(path, entries={"hoodie_min_record_key": None, "hoodie_max_record_key": None, "lakeindex.keys": None})


@pytest.mark.parametrize("damage", [_no_filter, _damaged_filter, _narrow_range, _no_range])
def test_a_damaged_footer_never_doubles_a_key(table: Path, tmp_path: Path, damage: Callable[[Path], None]):
    for file in live_files(table):
        damage(file)
    path = batch(tmp_path / "b.parquet", (row(n, 5, "new") for n in range(70)))
    summary = upserted(lakeindex("upsert", table, path, "-o", "lakeindex.footer.cache=false", "--json"))
    assert (summary["updates"], summary["inserts"]) == (60, 10)
    assert len(rows_of(table)) == 70
    assert lakeindex("check", table).exit_code == 0


# --- other writers


def _pending(table: Path, time: str) -> None:
    (table / ".hoodie" / f"{time}.commit.requested").touch()
    (table / ".hoodie" / f"{time}.inflight").touch()


@pytest.mark.usefixtures("time_leaps")
def test_a_foreign_writer_at_work(table: Path, tmp_path: Path):
    newest = commits_of(table)[-1].split(".")[0]
    time = str(int(newest) + 1)
    _pending(table, time)
    path = batch(tmp_path / "b.parquet", [row(1, 5)])
    answer = _upsert_refused(table, 5, time, path)
    assert answer.error["class"] == "PendingInstantError"
    _refused(table, 5, time, "rollback", table, time)
    assert lakeindex("check", table).exit_code == 0
    assert upserted(lakeindex("upsert", table, path, "--force", "--json"))["updates"] == 1
    assert not (table / ".hoodie" / f"{time}.inflight").exists()


def test_a_used_batch_id_with_other_input(table: Path, tmp_path: Path):
    upserted(lakeindex("upsert", table, batch(tmp_path / "b.parquet", [row(1, 5)]), "--batch-id", "x", "--json"))
    other = batch(tmp_path / "c.parquet", [row(1, 6)])
    answer = _upsert_refused(table, 5, "x", other, "--batch-id", "x")
    assert answer.error["class"] == "BatchIdReusedError"
    assert upserted(lakeindex("upsert", table, other, "--batch-id", "x", "--force", "--json"))["updates"] == 1


def test_rolling_back_what_is_not_there(table: Path):
    _refused(table, 2, "20200101000000000", "rollback", table, "20200101000000000")
    _refused(table, 2, "yesterday", "rollback", table, "yesterday")


# --- points in time


@pytest.mark.parametrize("option", ["--as-of", "--since"])
def test_points_in_time_that_are_none(table: Path, tmp_path: Path, option: str):
    out = tmp_path / "x.parquet"
    for text in ("yesterday", "29990101000000000", "2999-01-01"):
        answer = _refused(table, 2, text, "read", table, option, text, "--out", out)
        assert not out.exists()
        assert answer.error["hint"]


# --- checkpoints


def _run_folder(table: Path) -> Path:
    found = [path for path in table.with_name("t.lakeindex").iterdir() if path.name.startswith("batch-again")]
    assert len(found) == 1
    return found[0]


@pytest.fixture
def interrupted(table: Path, tmp_path: Path) -> Path:
    """Batch ``again``, whose checkpoints are all there and whose commit is not."""
    path = batch(tmp_path / "again.parquet", (row(n, 5, "new") for n in range(30, 90)))
    done = upserted(lakeindex("upsert", table, path, "--batch-id", "again", "--json"))
    assert lakeindex("rollback", table, done["instant"]).exit_code == 0
    return path


def _ends_well(table: Path, path: Path) -> None:
    summary = upserted(lakeindex("upsert", table, path, "--batch-id", "again", "--json"))
    assert (summary["updates"], summary["inserts"]) == (30, 30)
    expected = {key: (region, ts, val) for key, region, ts, val in map(row, range(30))}
    expected |= {key: (region, ts, val) for key, region, ts, val in (row(n, 5, "new") for n in range(30, 90))}
    assert rows_of(table) == expected
    assert lakeindex("check", table).exit_code == 0


def test_whole_checkpoints_are_taken_over(table: Path, interrupted: Path):
    summary = upserted(lakeindex("upsert", table, interrupted, "--batch-id", "again", "--json"))
    stages = summary["stages"]
    assert isinstance(stages, list)
    assert stages[0]["reused"] is True


CHECKPOINTS = ["staged", "chunks", "files", "candidates", "locations", "stage_input.json", "verify_keys.json"]


@pytest.mark.parametrize("damage", some_of(["flip", "truncate", "remove"], {"flip"}.__contains__, pytest.mark.slow))
def test_damaged_checkpoints_are_made_again(
    table: Path, interrupted: Path, damage: str, tmp_path_factory: pytest.TempPathFactory
):
    before = shutil.copytree(table.parent, tmp_path_factory.mktemp("before") / "all")
    for which in CHECKPOINTS:
        found = [path for path in _run_folder(table).rglob("*") if path.is_file() and which in path.as_posix()]
        assert found, which
        for path in found:
            if damage == "flip":
                flip(path, path.stat().st_size // 2)
            elif damage == "truncate":
                path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
            else:
                path.unlink()
        _ends_well(table, interrupted)
        shutil.rmtree(table.parent)
        shutil.copytree(before, table.parent)


def test_checkpoints_of_another_run_are_never_used(table: Path, interrupted: Path, tmp_path: Path):
    own = _run_folder(table)
    other = batch(tmp_path / "other.parquet", (row(n, 7, "other") for n in range(10)))
    done = upserted(lakeindex("upsert", table, other, "--batch-id", "other", "--json"))
    assert lakeindex("rollback", table, done["instant"]).exit_code == 0
    foreign = next(path for path in own.parent.iterdir() if path.name.startswith("batch-other"))
    shutil.rmtree(own)
    shutil.copytree(foreign, own)
    _ends_well(table, interrupted)


def test_checkpoints_somewhere_else(table: Path, tmp_path: Path):
    folder = tmp_path / "elsewhere"
    upserted(lakeindex("upsert", table, batch(tmp_path / "b.parquet", [row(100)]), "--checkpoints", folder, "--json"))
    assert any(path.name == "summary.json" for path in folder.rglob("*"))


def test_a_batch_may_be_csv_or_json(tmp_path: Path):
    table = new_table(tmp_path)
    (tmp_path / "b.csv").write_text("id,region,ts,val\nk1,eu,1,x\n", encoding="utf-8")
    (tmp_path / "b.jsonl").write_text('{"val": "y", "id": "k2", "region": "us", "ts": 2}\n', encoding="utf-8")
    summary = upserted(lakeindex("upsert", table, tmp_path / "b.csv", tmp_path / "b.jsonl", "--json"))
    assert summary["inserts"] == 2
    assert rows_of(table) == {"k1": ("eu", 1, "x"), "k2": ("us", 2, "y")}
