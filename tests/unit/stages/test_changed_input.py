"""Files of a batch that somebody changes while they are read, or that hold what their types do not allow."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeindex
from lakeindex.conductor.open_for_write import open_for_write
from lakeindex.conductor.upsert import run_stage_input
from lakeindex.errors import InputError
from lakeindex.model import Operation
from lakeindex.run.chunks import chunk_columns, chunks_of
from lakeindex.run.feeds import Feed
from lakeindex.run.spec import RunSpec, run_folder
from lakeindex.storage.memory import MemoryStorage
from lakeindex.tasks.local_runner import LocalRunner
from tests.builders import Row, batch_of, make_table, rows_of
from tests.meanwhile import Meanwhile

CHANGED = "is not what it was when the run began"


READING = "stage input: keys"


def rows(value: str, count: int = 40) -> list[Row]:
    return [Row(f"k{number:03d}", "d0", 5, value) for number in range(count)]


def write(path: Path, value: str) -> Path:
    pq.write_table(batch_of(rows(value)), path, compression="none")
    return path


def values_of(table: lakeindex.LakeTable) -> set[object]:
    return {row["v"] for row in rows_of(table)}


@pytest.fixture
def table(tmp_path: Path) -> lakeindex.LakeTable:
    return make_table(tmp_path / "t")


@pytest.fixture
def batch(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    path = write(folder / "b.parquet", "A")
    settle(path)
    return path


def settle(path: Path) -> None:
    """Let the file be an old one."""
    os.utime(path, ns=(1_700_000_000 * 10**9,) * 2)


WITH_OPTIONS: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "lakeindex.csv.null": ({}, {"lakeindex.csv.null": "NA"}),
    "lakeindex.csv.quote": ({}, {"lakeindex.csv.quote": "none"}),
    "lakeindex.csv.header": ({}, {"lakeindex.csv.header": "false"}),
    "lakeindex.csv.delimiter": ({"lakeindex.csv.delimiter": "|"}, {}),
    "lakeindex.partial.update": ({"lakeindex.partial.update": "keep"}, {"lakeindex.partial.update": "overwrite"}),
    "lakeindex.chunk.rows": ({}, {"lakeindex.chunk.rows": "1"}),
    "lakeindex.input.format": ({}, {"lakeindex.input.format": "json"}),
}
TEXT = 'id,day,ts,v\nid,day,1,NA\nk,d,1,"w"\nk,d,2,\nm,d,1,x\n'


def staged(table: lakeindex.LakeTable, batch: Path, run: str, options: dict[str, str], **more: Any) -> tuple[Any, ...]:
    """What stage 1 makes of a batch as a whole run does, which does not go on."""
    spec = RunSpec(
        table.uri,
        f"{table.uri}.runs",
        run,
        run,
        Operation.UPSERT,
        (str(batch),),
        tuple(sorted(options.items())),
        9,
        **more,
    )
    facts = open_for_write(table.uri, spec.config).facts
    manifest = run_stage_input(spec, facts, LocalRunner(1)).manifest
    chunks = chunks_of(run_folder(spec), manifest)
    found = [chunk_columns(run_folder(spec), chunk, None).to_pylist() for chunk in chunks]
    return manifest.counters["quarantined"], found, manifest.facts["input_digest"]


@pytest.mark.parametrize("first", WITH_OPTIONS)
def test_a_run_that_is_told_otherwise_reads_its_batch_anew(
    table: lakeindex.LakeTable, tmp_path: Path, first: str
) -> None:
    one, other = WITH_OPTIONS[first]
    text = TEXT.replace(",", "|") if "|" in one.values() else TEXT
    path = tmp_path / "b.csv"
    path.write_text(text if first != "lakeindex.csv.delimiter" else f"id,day,ts,v\n{text}")

    def told(run: str, options: dict[str, str]) -> tuple[Any, ...] | str:
        try:
            return staged(table, path, run, options)
        except InputError as error:
            return str(error)

    told("r", one)
    assert told("r", other) == told("anew", other)


def test_the_same_bytes_with_other_constants_are_another_batch(table: lakeindex.LakeTable, tmp_path: Path) -> None:
    """Constants are what an import takes from the names of folders."""
    path = tmp_path / "b.csv"
    path.write_text("id,ts,v\nk,1,w\n")

    def made(run: str, day: str) -> tuple[Any, ...]:
        return staged(table, path, run, {}, constants={str(path): (("day", day),)})

    first, again, anew = made("r", "x"), made("r", "y"), made("anew", "y")
    assert again == anew
    assert [row["_li_partition"] for rows in again[1] for row in rows] == ["y"]
    assert first[2] != again[2]


@pytest.mark.parametrize("is_late", [False, True])
def test_a_file_that_is_replaced_is_not_committed_as_the_one_before(
    tmp_path: Path, table: lakeindex.LakeTable, batch: Path, *, is_late: bool
) -> None:
    other = write(tmp_path / "other.parquet", "B")
    runner = Meanwhile(READING, lambda: other.replace(batch), is_late=is_late)
    with pytest.raises(InputError, match=CHANGED) as caught:
        table.upsert(str(batch), batch_id="one", runner=runner)
    assert caught.value.culprit == f"file://{batch}"
    assert rows_of(table) == []
    assert not table.upsert(str(batch), batch_id="one").noop
    assert values_of(table) == {"B"}
    assert table.upsert(str(batch), batch_id="one").noop


def test_an_arrow_file_that_is_replaced_is_not_committed_as_the_one_before(
    tmp_path: Path, table: lakeindex.LakeTable
) -> None:
    """It is the library's own only below the run folders."""
    path = tmp_path / "b.arrow"

    def write_arrow(value: str) -> None:
        with pa.ipc.new_file(path, batch_of(rows(value)).schema) as file:
            file.write_table(batch_of(rows(value)))

    write_arrow("A")
    settle(path)
    with pytest.raises(InputError, match=CHANGED):
        table.upsert(str(path), runner=Meanwhile(READING, lambda: write_arrow("B"), is_late=True))
    assert rows_of(table) == []


def test_an_object_among_the_run_folders_that_is_replaced_is_found_out(
    tmp_path: Path, table: lakeindex.LakeTable, batch: Path
) -> None:
    """What lies there is the library's own only if it wrote it. (A root on this machine has two names.)"""
    root = f"memory://{tmp_path.name}-runs"
    store, other = MemoryStorage.named(root.removeprefix("memory://")), write(tmp_path / "other.parquet", "B")
    store.write("b.parquet", batch.read_bytes())
    runner = Meanwhile(READING, lambda: store.write("b.parquet", other.read_bytes()), is_late=True)
    with pytest.raises(InputError, match=CHANGED):
        table.upsert(f"{root}/b.parquet", checkpoints=root, runner=runner)
    assert rows_of(table) == []


def test_a_batch_that_is_a_feed_now_is_staged_anew(table: lakeindex.LakeTable, tmp_path: Path) -> None:
    """Of a feed a delete loses to a row of its key, of a batch the last one wins."""
    path = tmp_path / "b.csv"
    path.write_text("id,day,ts,v,_hoodie_is_deleted\nk,d,1,w,false\nk,d,1,,true\n")
    assert staged(table, path, "r", {}) != staged(table, path, "anew", {}, feed=Feed("s"))
    assert staged(table, path, "r", {}, feed=Feed("s")) == staged(table, path, "anew", {}, feed=Feed("s"))


def test_a_file_that_becomes_what_it_was_is_found_out(table: lakeindex.LakeTable, batch: Path, tmp_path: Path) -> None:
    kept = shutil.copy(batch, tmp_path / "kept.parquet")

    def there_and_back() -> None:
        write(batch, "B")
        shutil.copyfile(kept, batch)

    with pytest.raises(InputError, match=CHANGED):
        table.upsert(str(batch), runner=Meanwhile(READING, there_and_back))
    assert rows_of(table) == []


def test_a_file_just_written_is_compared_by_its_content(table: lakeindex.LakeTable, batch: Path) -> None:
    write(batch, "A")
    then = batch.stat()

    def at_the_same_time() -> None:
        write(batch, "B")
        os.utime(batch, ns=(then.st_atime_ns, then.st_mtime_ns))

    with pytest.raises(InputError, match=CHANGED):
        table.upsert(str(batch), runner=Meanwhile(READING, at_the_same_time))
    assert rows_of(table) == []


def test_a_file_that_goes_is_named(table: lakeindex.LakeTable, batch: Path) -> None:
    with pytest.raises(InputError, match=CHANGED) as caught:
        table.upsert(str(batch), runner=Meanwhile(READING, batch.unlink, is_late=True))
    assert str(batch) in str(caught.value)


def test_files_may_come_beside_those_of_the_batch(table: lakeindex.LakeTable, batch: Path) -> None:
    coming = batch.parent / "next.part"
    assert table.upsert(str(batch.parent), runner=Meanwhile(READING, lambda: coming.write_text("half"))).inserts == 40
    assert coming.exists()


@pytest.mark.parametrize("moment", ["choose the rows", READING])
def test_rows_that_come_for_others_are_those_that_the_run_began_with(
    table: lakeindex.LakeTable, batch: Path, tmp_path: Path, moment: str
) -> None:
    table.upsert(batch_of(rows("old")))
    other = write(tmp_path / "other.parquet", "B")
    meanwhile = Meanwhile(moment, lambda: other.replace(batch))
    with pytest.raises(InputError, match=CHANGED):
        table.replace_where(str(batch), where="ts = 5", runner=meanwhile)
    assert meanwhile.done
    assert values_of(table) == {"old"}
    table.replace_where(str(batch), where="ts = 5")
    assert values_of(table) == {"B"}


@pytest.mark.parametrize("column", ["id", "day", "v"])
@pytest.mark.parametrize("row", [0, 20])
def test_a_text_that_is_not_utf_8_names_file_and_column(
    tmp_path: Path, table: lakeindex.LakeTable, column: str, row: int
) -> None:
    whole = batch_of(rows("good"))
    raw = [text.encode() for text in whole.column(column).to_pylist()]
    raw[row] = raw[row][:-1] + b"\xb3"
    broken = pa.array(raw, pa.binary()).view(pa.string())
    path = tmp_path / "b.parquet"
    pq.write_table(whole.set_column(whole.column_names.index(column), column, broken), path)
    with pytest.raises(InputError, match=rf"b\.parquet' cannot be read: column '{column}'.*UTF8"):
        table.upsert(str(path))
    assert rows_of(table) == []
