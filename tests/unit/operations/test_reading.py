from __future__ import annotations

import json
import stat
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from lakeindex.errors import OptionError, StorageError, TableCorruptError, TableNotFoundError, UsageError
from lakeindex.operations.rows.request import ScanRequest
from lakeindex.operations.rows.scan import write_rows
from lakeindex.write.types.avro_schema import META_COLUMNS
from tests.builders import Row, batch_of, make_table
from tests.unit.operations.tables import flip, live_files, read_rows, relative
from tests.vectors_support import commit_instants, expected_rows, table_names, unpack_table

HUDI_TABLES = [name for name in table_names() if name.startswith("h")]


@pytest.fixture
def simple(tmp_path: Path) -> Path:
    return unpack_table("py_simple", tmp_path)


def _plain(rows: pa.Table) -> list[str]:
    """Rows as Spark's toJSON has them, as far as both print values alike."""
    names = [*META_COLUMNS, "id", "k2", "region", "ts", "b", "i", "f", "d", "st", "arr", "val"]
    return sorted(_line({name: row[name] for name in names if name in row}) for row in rows.to_pylist())


def _line(row: dict[str, object]) -> str:
    struct = row.get("st")
    if isinstance(struct, dict):
        row = {**row, "st": {name: value for name, value in struct.items() if value is not None}}
    return json.dumps({name: value for name, value in row.items() if value is not None}, sort_keys=True)


@pytest.mark.parametrize("name", HUDI_TABLES)
def test_reads_what_hudi_reads(name: str, tmp_path: Path):
    table = unpack_table(name, tmp_path)
    rows = read_rows(str(table))
    assert rows.column_names[:5] == list(META_COLUMNS)
    columns = set(_plain_columns())
    expected = [_line({k: v for k, v in row.items() if k in columns}) for row in expected_rows(table)]
    assert _plain(rows) == sorted(expected)


def _plain_columns() -> list[str]:
    return [*META_COLUMNS, "id", "k2", "region", "ts", "b", "i", "f", "d", "st", "arr", "val"]


def test_as_of_includes_its_instant_and_since_excludes_it(simple: Path):
    # insert 0..199; upsert 0..49 and 200..229; delete 90..99
    first, second, third = commit_instants(simple)
    assert [read_rows(str(simple), as_of=at).num_rows for at in (first, second, third)] == [200, 230, 220]
    assert read_rows(str(simple), as_of=str(int(second) - 1)).num_rows == 200
    assert read_rows(str(simple), since=first).num_rows == 80
    assert read_rows(str(simple), since=str(int(first) - 1)).num_rows == 220
    assert read_rows(str(simple), since=second).num_rows == 0
    assert read_rows(str(simple), since=first, as_of=second).num_rows == 80
    times = read_rows(str(simple), since=first).column("_hoodie_commit_time")
    assert pc.unique(times).to_pylist() == [second]


def test_points_in_time_may_be_iso_texts(simple: Path):
    first, second, _ = commit_instants(simple)
    iso = f"{first[:4]}-{first[4:6]}-{first[6:8]}T{first[8:10]}:{first[10:12]}:{first[12:14]}.{first[14:]}Z"
    assert read_rows(str(simple), as_of=iso).num_rows == 200
    assert read_rows(str(simple), since=iso).num_rows == 80
    assert read_rows(str(simple), as_of=second).equals(read_rows(str(simple), as_of=second, since="2001-01-01"))


def test_before_the_first_commit_a_table_is_empty(simple: Path):
    rows = read_rows(str(simple), as_of="20000101000000000")
    assert rows.num_rows == 0
    assert rows.column_names[:5] == list(META_COLUMNS)


@pytest.mark.parametrize("argument", ["as_of", "since"])
def test_an_instant_behind_everything_is_refused_with_the_range(simple: Path, argument: str):
    first, _, third = commit_instants(simple)
    with pytest.raises(UsageError) as caught:
        read_rows(str(simple), **{argument: "29991231235959999"})
    assert caught.value.culprit == "29991231235959999"
    assert first in str(caught.value.hint)
    assert third in str(caught.value.hint)


@pytest.mark.parametrize("text", ["yesterday", "2026", "2026-13-01", ""])
def test_nonsense_is_no_point_in_time(simple: Path, text: str):
    with pytest.raises(OptionError):
        read_rows(str(simple), as_of=text)


def test_a_time_whose_files_were_cleaned_away_is_refused(tmp_path: Path):
    table = unpack_table("h0150_v6_clean", tmp_path)
    commits = sorted(p.name.split(".")[0] for p in (table / ".hoodie").glob("*.commit"))
    with pytest.raises(UsageError, match=r"cleaned away|archived"):
        read_rows(str(table), as_of=commits[0])
    assert read_rows(str(table), as_of=commits[-1]).num_rows == read_rows(str(table)).num_rows


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_time_is_refused_whose_files_are_of_archived_commits_and_were_cleaned_away(tmp_path: Path, is_replaced: bool):
    """No commit of the timeline up to then names what is gone; the later one that took its place does."""
    table = make_table(tmp_path / "t")
    table.upsert(batch_of([Row("a", "x", 1, "v"), Row("b", "y", 1, "v")]))
    then = str(table.upsert(batch_of([Row("c", "z", 1, "v")])).instant)
    if is_replaced:
        table.delete_partitions(["x"])
    else:
        table.upsert(batch_of([Row("a", "x", 2, "v")]))
    for ts in (2, 3):
        table.upsert(batch_of([Row("c", "z", ts, "v")]))
    table.archive(keep_commits=4, options={"hoodie.cleaner.commits.retained": "2"})
    assert set(table.read(as_of=then, meta=False)["id"].to_pylist()) == {"a", "b", "c"}
    assert len(table.changes(since=then).to_arrow()) == (3 if is_replaced else 4)
    assert table.clean(keep_commits=2).files
    reads: list[Callable[[], object]] = [
        lambda: table.read(as_of=then, meta=False),
        lambda: table.get(["a", "b"], as_of=then),
        lambda: table.count(as_of=then),
        lambda: table.changes(since=then).to_arrow(),
    ]
    for read in reads:
        with pytest.raises(UsageError, match="cleaned away"):
            read()
    kept = sorted(one.instant for one in table.history() if one.instant > then)[1:]
    for later in kept:
        assert "b" in table.read(as_of=later, meta=False)["id"].to_pylist()


def test_a_time_before_archived_commits_is_refused(tmp_path: Path):
    table = unpack_table("h0150_v6_clean", tmp_path)
    assert list((table / ".hoodie" / "archived").iterdir()), "the vector has an archive"
    with pytest.raises(UsageError, match="archived"):
        read_rows(str(table), as_of="20200101000000000")


def test_a_committed_file_that_is_gone_never_gives_an_older_slice(simple: Path):
    gone = live_files(simple)[0]
    gone.unlink()
    with pytest.raises(TableCorruptError, match="is missing") as caught:
        read_rows(str(simple))
    assert caught.value.culprit == relative(simple, gone)


@pytest.mark.parametrize("keep", [0, 3, 100, -1])
def test_a_truncated_file_is_named(simple: Path, keep: int):
    file = live_files(simple)[0]
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(TableCorruptError) as caught:
        read_rows(str(simple))
    assert caught.value.culprit == relative(simple, file)


def test_a_damaged_page_is_named(simple: Path):
    file = live_files(simple)[0]
    for at in range(4, 400, 7):
        flip(file, at)
    with pytest.raises(TableCorruptError) as caught:
        read_rows(str(simple))
    assert caught.value.culprit == relative(simple, file)


@pytest.mark.usefixtures("time_leaps")
def test_a_damaged_commit_is_named(simple: Path):
    commit = simple / ".hoodie" / f"{commit_instants(simple)[1]}.commit"
    commit.write_bytes(commit.read_bytes()[:100])
    with pytest.raises(TableCorruptError, match=commit.name):
        read_rows(str(simple))


def test_no_table(tmp_path: Path):
    with pytest.raises(TableNotFoundError):
        read_rows(str(tmp_path))


def test_writing_rows_gives_what_reading_gives(simple: Path, tmp_path: Path):
    first = commit_instants(simple)[0]
    out = tmp_path / "out.parquet"
    summary = write_rows(str(simple), str(out), ScanRequest(since=first, meta=True))
    assert pq.read_table(out).equals(read_rows(str(simple), since=first))
    assert (summary.rows, summary.since, summary.bytes_written) == (80, first, out.stat().st_size)
    assert stat.S_IMODE(out.stat().st_mode) == 0o644, "others may read it"


def test_an_output_appears_whole_or_not_at_all(simple: Path, tmp_path: Path):
    folder = tmp_path / "out"
    folder.mkdir()
    file = live_files(simple)[-1]
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(TableCorruptError):
        write_rows(str(simple), str(folder / "rows.parquet"))
    assert list(folder.iterdir()) == []


def test_an_output_may_be_a_url(simple: Path):
    from lakeindex.storage import open_storage

    write_rows(str(simple), "memory://reading-out/a/rows.parquet")
    data = open_storage("memory://reading-out/a").read("rows.parquet")
    assert pq.read_table(pa.BufferReader(data)).num_rows == 220


@pytest.mark.parametrize("out", ["", "/", "folder/"])
def test_an_output_that_is_no_file_is_refused(simple: Path, out: str):
    with pytest.raises(UsageError, match="--out"):
        write_rows(str(simple), out)


def test_an_output_in_a_folder_that_is_not_there_is_refused(simple: Path, tmp_path: Path):
    with pytest.raises((UsageError, StorageError), match="--out"):
        write_rows(str(simple), str(tmp_path / "nowhere" / "x.parquet"))


def test_a_moment_between_the_newest_commit_and_now_is_now(simple: Path):
    third = commit_instants(simple)[2]
    iso = f"{third[:4]}-{third[4:6]}-{third[6:8]}T{third[8:10]}:{third[10:12]}:{int(third[12:14]) + 1:02d}"
    assert read_rows(str(simple), as_of=iso).num_rows == 220


def test_iso_texts_are_utc_also_where_instants_are_local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    table = unpack_table("h120_v6_main", tmp_path)
    first = min(p.name.split(".")[0] for p in (table / ".hoodie").glob("*.commit"))
    monkeypatch.setenv("TZ", "Etc/GMT-5")  # five hours ahead of UTC
    time.tzset()
    try:
        five_hours_before = datetime.strptime(f"{first}000", "%Y%m%d%H%M%S%f").astimezone(UTC).isoformat()
        assert read_rows(str(table), as_of=five_hours_before).num_rows == 300
        assert read_rows(str(table), as_of=first).num_rows == 300
    finally:
        monkeypatch.undo()
        time.tzset()
