"""Count, files and partitions: the live ones, of any point in time, as the rows themselves say; and no row is read."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeindex
from lakeindex.api.table import LakeTable
from lakeindex.errors import TableNotFoundError, UsageError
from tests.builders import Row, as_hudis, batch_of, make_table
from tests.cli_support import lakeindex as command
from tests.cli_support import validate
from tests.scheduling import some_of


def story(table: LakeTable) -> None:
    """Inserts, updates and deletes in four partitions, four commits; one partition loses all its rows, and the path of another goes on."""
    table.upsert(batch_of(Row(f"k{n:02d}", f"d{n % 3}", 1, "a") for n in range(30)))
    table.upsert(batch_of(Row(f"k{n:02d}", f"d{n % 3}", 2, "b") for n in range(5)))
    table.delete(batch_of(Row(f"k{n:02d}", "d2", 3, "") for n in range(2, 30, 3)))
    table.upsert(batch_of([Row("new", "d0", 1, "c"), Row("more", "d00", 1, "c")]))


def check(table: LakeTable, as_of: str | None = None) -> None:
    """What is told is what is read."""
    rows = table.read(as_of=as_of, meta=True)
    assert table.count(as_of=as_of) == rows.num_rows
    by_day = {one: rows["day"].to_pylist().count(one) for one in set(rows["day"].to_pylist())}
    told = {one.path: one for one in table.partitions(as_of=as_of)}
    assert {path: one.rows for path, one in told.items() if one.rows} == by_day
    names = set(rows["_hoodie_file_name"].to_pylist())
    files = table.files(as_of=as_of)
    assert {Path(one.path).name for one in files if one.rows} == names
    for one in files:
        path = Path(table.uri) / one.path
        assert (path.stat().st_size, pq.read_metadata(path).num_rows) == (one.bytes, one.rows)
        assert one.file_id in path.name
        assert one.instant in path.name
    for day, count in by_day.items():
        assert table.count(partition=day, as_of=as_of) == count
        assert table.files(partition=day, as_of=as_of) == tuple(one for one in files if one.partition == day)
        assert told[day].files == len(table.files(partition=day, as_of=as_of))


@pytest.mark.parametrize("version", some_of(["6", "8", "9"], {"9"}.__contains__, pytest.mark.slow))
@pytest.mark.parametrize("index", ["BLOOM", "BUCKET"])
def test_what_is_told_is_what_is_read(tmp_path: Path, version: str, index: str) -> None:
    table = make_table(tmp_path / "t", hoodie__index__type=index, hoodie__write__table__version=version)
    assert (table.count(), table.files(), table.partitions()) == (0, (), ())
    story(table)
    check(table)
    for entry in table.history():
        if entry.operation:
            check(table, entry.instant)


def test_archived_commits_are_counted_by_footers(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    for n in range(6):
        table.upsert(batch_of([Row(f"k{n}", f"d{n}", 1, "a")]))
    table.clean(1)
    table.archive(2, options={"hoodie.cleaner.commits.retained": 1})
    assert len([one for one in table.history() if one.action == "commit"]) == 2
    check(table)
    assert table.inspect().rows == table.count() == 6


def test_no_row_is_read(tmp_path: Path) -> None:
    """Files whose pages are rubbish are counted, so long as the commits say what they hold."""
    table = make_table(tmp_path / "t")
    story(table)
    before = (table.count(), table.files(), table.partitions())
    for path in Path(table.uri).rglob("*.parquet"):
        path.write_bytes(bytes(path.stat().st_size))
    assert (table.count(), table.files(), table.partitions()) == before


def test_a_table_of_hudi_without_partitions(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", partitions=())
    table.upsert(batch_of([Row("a", "x", 1, "1"), Row("b", "y", 1, "1")]))
    as_hudis(table)
    assert [(one.path, one.rows) for one in table.partitions()] == [("", 2)]
    assert table.count(partition="") == 2
    assert table.schema.names == ["id", "day", "ts", "v"]


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    story(table)
    looks: tuple[Callable[..., object], ...] = (
        table.count,
        table.files,
        lambda partition: table.get(["a"], partition=partition),
        lambda partition: table.scan(partitions=["d1", partition]).to_arrow(),
    )
    for look, unknown in itertools.product(looks, ("d9", "d1/", "day=d1", "")):
        with pytest.raises(UsageError, match=f"has no partition {unknown!r}") as caught:
            look(partition=unknown)
        assert "lakeindex partitions" in str(caught.value.hint)
    table.delete_partitions(["d1"])
    assert (table.count(partition="d1"), table.files(partition="d1")) == (0, ()), "it was emptied, and is known"
    assert table.get(["a"], partition="d1").missing == ("a",)
    assert table.scan(partitions=["d1"]).count() == 0
    table.clean(1)
    table.metadata_build(["files"])
    assert table.get(["a"], partition="d1").missing == ("a",)
    with pytest.raises(UsageError, match="no instant that new"):
        table.count(as_of="29991231235959000")
    with pytest.raises(UsageError, match="as_of cannot be 5"):
        table.partitions(as_of=5)  # type: ignore[arg-type] # refused
    with pytest.raises(UsageError, match="is neither a table nor the folder of a finished run"):
        table.report("no-such-run")
    with pytest.raises(UsageError, match="a run cannot be 7"):
        table.report(7)  # type: ignore[arg-type] # refused
    for name in ("schema", "properties"):
        with pytest.raises(TableNotFoundError):
            getattr(LakeTable(str(tmp_path / "nowhere")), name)


def test_the_schema_is_the_tables_and_changes_nothing(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    wanted = pa.schema(
        [pa.field("id", pa.string(), nullable=False), ("day", pa.string()), ("ts", pa.int64()), ("v", pa.string())]
    )
    assert table.schema == wanted
    story(table)
    assert table.schema == wanted
    entries = table.properties
    entries.clear()
    assert table.properties["hoodie.table.name"] == "t"


def test_reports_of_runs_are_found_by_what_names_them(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    one = table.upsert(batch_of([Row("a", "x", 1, "1")]), batch_id="one")
    two = table.upsert(batch_of([Row("b", "x", 1, "1"), Row("c", "x", 1, "1")]), checkpoints=str(tmp_path / "runs"))
    for run in (one, one.run_id, None, f"{table.uri}.lakeindex/{one.run_id}"):
        assert table.report(run).run.run_id == one.run_id
    there = str(tmp_path / "runs")
    assert table.report(two, checkpoints=there).run.inserts == 2
    found = table.compare(one, f"{there}/{two.run_id}")
    assert {name.name: (name.first, name.second) for name in found.figures}["inserts"] == (1.0, 2.0)


def test_the_command_line_says_the_same(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    story(table)
    first = [entry for entry in table.history() if entry.operation][-1].instant
    for name in ("schema", "properties", "count", "files", "partitions"):
        answer = command(name, table.uri, "--json")
        validate(name, answer.json)
        assert command(name, table.uri).exit_code == 0
    assert command("count", table.uri).stdout.strip() == str(table.count())
    assert command("count", table.uri, "--as-of", first, "--json").json["rows"] == 30
    assert command("count", table.uri, "--partition", "d0").stdout.strip() == "11"
    listed = command("files", table.uri, "--json").json["files"]
    assert [one["path"] for one in listed] == [one.path for one in table.files()]
    assert "id string not null" in command("schema", table.uri).stdout
    assert "hoodie.table.recordkey.fields=id" in command("properties", table.uri).stdout
    assert len(command("partitions", table.uri).stdout.splitlines()) == len(table.partitions())
    assert lakeindex.open_table(table.uri).properties == command("properties", table.uri, "--json").json["properties"]


def test_files_that_no_reader_sees_are_counted_apart(tmp_path: Path) -> None:
    """Those that something took the place of, one that two tasks wrote, one of no commit; a partition without a row."""
    table = make_table(tmp_path / "t")
    story(table)
    table.delete_partitions(["d1"])
    live = [Path(table.uri) / one.path for one in table.files()]
    of_two_tasks = live[0].with_name(re.sub("_[0-9-]+_", "_9-9-9_", live[0].name))
    of_no_commit = live[0].with_name(re.sub("_[0-9]+[.]", "_20990101000000000.", live[0].name))
    assert len({live[0], of_two_tasks, of_no_commit}) == 3
    for path in (of_two_tasks, of_no_commit):
        path.write_bytes(live[0].read_bytes())
    found = table.inspect()
    older = set(Path(table.uri).glob("d*/*.parquet")) - {*live, of_no_commit}
    assert (found.files, found.bytes) == (len(live), sum(path.stat().st_size for path in live))
    assert (found.older_files, found.older_bytes) == (len(older), sum(path.stat().st_size for path in older))
    assert found.uncommitted_files == 1
    assert found.partitions == len({path.parent for path in live})
    assert found.partitions < len(list(Path(table.uri).glob("d*")))
