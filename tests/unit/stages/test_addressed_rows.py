"""A load of Parquet files stages keys and addresses, not rows; its files are those that copied rows make."""

from __future__ import annotations

import datetime as dt
import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import lakeindex
from lakeindex.api.table import LakeTable
from lakeindex.conductor.open_for_write import open_for_write
from lakeindex.conductor.upsert import run_batch, run_stage
from lakeindex.errors import InputError, SchemaMismatchError
from lakeindex.files.footers import Footer
from lakeindex.model import Operation
from lakeindex.pipeline import Stage
from lakeindex.run import chunks
from lakeindex.run.input_rows import Column, InputChangedError, InputRows, KeyedFile, Places, RowGroup, input_rows
from lakeindex.run.spec import RunSpec
from lakeindex.stages.merge_write import loading, spilled_waves
from lakeindex.stages.stage_input import addressed
from lakeindex.tasks.local_runner import LocalRunner
from tests.builders import Row, batch_of, make_table, rows_of
from tests.meanwhile import OVERTAKES, Meanwhile
from tests.strategies import examples

COLUMNS, WRITING = "merge write: columns of files", "merge write: rewrite"
SCHEMA = pa.schema(
    [
        pa.field("a", pa.int64(), nullable=False),
        pa.field("b", pa.string()),
        pa.field("day", pa.string()),
        pa.field("ts", pa.int64()),
        pa.field("price", pa.decimal128(15, 2), nullable=False),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("kind", pa.string()),
        pa.field("size", pa.float64()),
        pa.field("parts", pa.list_(pa.struct([("n", pa.int32()), ("t", pa.string())]))),
    ]
)


class KilledError(BaseException):
    """The process is gone."""


@pytest.fixture(autouse=True)
def however_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addressed, "LEAST_BYTES", 0)


@contextmanager
def copied() -> Iterator[None]:
    """All rows are staged."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(addressed, "LEAST_BYTES", 2**60)
        yield


@contextmanager
def at_once(rows: int | None) -> Iterator[None]:
    """So many rows are written at once."""
    with pytest.MonkeyPatch.context() as patch:
        if rows is not None:
            patch.setattr("lakeindex.stages.merge_write.stage.rows_at_once", lambda *_: rows)
        yield


def rows_with(seed: int, count: int, keys: int, *, has_bad: bool) -> pa.Table:
    """Rows in no order; keys repeat if there are few of them."""
    random = np.random.default_rng(seed)
    numbers = random.integers(0, keys, count)
    bad, lacking = (random.random(count) < (0.1 if has_bad else 0.0) for _ in range(2))
    prices = [Decimal(int(n)) / 100 for n in random.integers(-(10**6), 10**6, count)]
    return pa.table(
        [
            pa.array([int(n) for n in numbers], pa.int64()),
            pa.array([None if is_bad else f"k{n % 7}" for n, is_bad in zip(numbers, bad, strict=True)], pa.string()),
            pa.array([f"2026-0{1 + n % 3}-01" for n in numbers], pa.string()),
            pa.array(random.integers(0, 4, count), pa.int64()),
            pa.array(
                [None if is_bad else one for one, is_bad in zip(prices, lacking, strict=True)], pa.decimal128(15, 2)
            ),
            pa.array([dt.datetime(2026, 1, 1 + int(n), tzinfo=dt.UTC) for n in random.integers(0, 28, count)]),
            pa.array([("red", "green", None)[n] for n in random.integers(0, 3, count)], pa.string()),
            pa.array([float("nan") if n == 0 else float(n) for n in random.integers(0, 50, count)], pa.float64()),
            pa.array(
                [[{"n": int(n), "t": "x" * int(n)}] * int(n) if n < 3 else None for n in random.integers(0, 4, count)],
                SCHEMA.field("parts").type,
            ),
        ],
        schema=pa.schema([field.with_nullable(True) for field in SCHEMA]),
    )


def in_files(folder: Path, rows: pa.Table, files: int, group: int, *, codes: bool, tells: bool) -> list[str]:
    """The rows in several Parquet files of small row groups; ``codes``: a text column of the first is a dictionary;
    ``tells``: their footers have statistics.
    """
    paths = []
    step = max(-(-rows.num_rows // files), 1)
    for start in range(0, rows.num_rows, step):
        some = rows.slice(start, step)
        if codes and not start:
            some = some.set_column(6, "kind", some.column("kind").dictionary_encode())
        paths.append(str(folder / f"{start:05d}.parquet"))
        pq.write_table(
            some, paths[-1], row_group_size=group, use_dictionary=bool(start % 2) or codes, write_statistics=tells
        )
    return paths


TABLES: dict[str, dict[str, Any]] = {
    "plain": {"partition": "day"},
    "hive": {"partition": "day", "properties": {"hoodie.datasource.write.hive_style_partitioning": "true"}},
    "months": {"partition": "at:month"},
    "several keys": {"partition": ["day", "kind"], "key": ["a", "b"]},
    "global": {"partition": "day", "index": "GLOBAL_SIMPLE"},
    "buckets": {"partition": "day", "index": "BUCKET", "properties": {"hoodie.bucket.index.num.buckets": "3"}},
    "no partitions": {},
    "stored index": {"partition": "day", "index": "RECORD_INDEX"},
    "virtual keys": {
        "partition": "day", "index": "SIMPLE", "properties": {"hoodie.populate.meta.fields": "false"},
    },
    "no ordering": {"partition": "day", "ordering": None},
    "two ordering fields": {"partition": "day", "ordering": ["ts", "size"], "table_version": 9},
}  # fmt: skip


def stored(table: LakeTable) -> list[tuple[str, list[dict[str, Any]], list[int]]]:
    """Of each file, by partition and first row: rows in their order, and row groups; not what names the commit."""
    found = []
    for file in table.files():
        parquet = pq.ParquetFile(f"{table.uri}/{file.path}")
        whole = parquet.read()
        keep = [n for n in whole.column_names if n not in ("_hoodie_commit_time", "_hoodie_file_name")]
        rows = whole.select(keep).to_pylist()
        for row in rows:  # the instant stands before it
            number = row.pop("_hoodie_commit_seqno")
            row["number"] = None if number is None else number.rpartition("_")[2]
        groups = [parquet.metadata.row_group(g) for g in range(parquet.metadata.num_row_groups)]
        names = [groups[0].column(c).path_in_schema for c in range(groups[0].num_columns)] if groups else []
        sizes = [
            group.column(c).total_uncompressed_size
            for group in groups
            for c, name in enumerate(names)
            if not name.startswith("_hoodie")
        ]
        found.append((repr(rows[:1]), rows, [*(group.num_rows for group in groups), *sizes]))
    return sorted(found, key=lambda one: one[0])


@settings(max_examples=examples(12), deadline=None)
@given(
    kind=st.sampled_from(sorted(TABLES)),
    operation=st.sampled_from(["upsert", "insert", "bulk_insert", "insert_overwrite", "insert_overwrite_table"]),
    seed=st.integers(0, 2**16),
    count=st.integers(1, 90),
    keys=st.sampled_from([20, 10**6]),
    files=st.integers(1, 3),
    group=st.integers(1, 40),
    wave=st.one_of(st.none(), st.integers(1, 60)),
    has_bad=st.booleans(),
    codes=st.booleans(),
    batch_id=st.sampled_from([None, "b"]),
    tells=st.booleans(),
    is_flat=st.booleans(),
)
@example("plain", "upsert", 1, 90, 10**6, 2, 9, None, False, False, None, True, False)
@example("plain", "upsert", 1, 90, 10**6, 2, 9, None, True, False, None, False, True)
@example("several keys", "bulk_insert", 2, 90, 10**6, 3, 7, 11, True, True, None, True, False)
@example("two ordering fields", "upsert", 3, 90, 20, 2, 9, None, False, False, None, True, True)
def test_files_are_those_that_copied_rows_make(  # noqa: PLR0917 - what is drawn
    tmp_path_factory: pytest.TempPathFactory,
    kind: str,
    operation: str,
    seed: int,
    count: int,
    keys: int,
    files: int,
    group: int,
    wave: int | None,
    has_bad: bool,
    codes: bool,
    batch_id: str | None,
    tells: bool,
    is_flat: bool,
) -> None:
    """Of rows without a nested column none but those of the key are read first, if the footers tell the others."""
    folder, rows = tmp_path_factory.mktemp("x"), rows_with(seed, count, keys, has_bad=has_bad)
    columns = pa.schema([field for field in SCHEMA if field.name != "parts" or not is_flat])
    batch = in_files(folder, rows.select(columns.names), files, group, codes=codes, tells=tells)
    options = {"lakeindex.parquet.row.group.rows": "5"}
    said: list[Any] = []
    for name in ("addressed", "copied"):
        table = lakeindex.create_table(
            str(folder / name / "t"), columns, **{"key": "a", "ordering": "ts", **TABLES[kind]}
        )
        with copied() if name == "copied" else at_once(wave):
            try:
                done = getattr(table, operation)(batch, max_quarantined=count, options=options, batch_id=batch_id)
            except InputError as error:  # a bulk insert of keys that are there twice
                said.append(error.message)
                continue
        counts = {n: getattr(done, n) for n in ("rows_in", "inserts", "combined", "quarantined", "files_created")}
        said.append((counts, stored(table), table.check().violations))
        if name == "addressed" and counts["inserts"]:
            assert staged_names(table) == {"_li_partition", "_li_key", "_li_op", "_li_address"}
    if wave is not None and not isinstance(said[0], str):  # rows that are made apart get dictionaries apart
        said = [(counts, [(*one[:2], None) for one in found], wrong) for counts, found, wrong in said]
    assert repr(said[0]) == repr(said[1])


def staged_names(table: LakeTable) -> set[str]:
    files = Path(f"{table.uri}.lakeindex").glob("*/stage_input/*/staged/*.parquet")
    return {name for file in files for name in pq.read_schema(file).names}


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    return make_table(tmp_path / "t")


def batch_at(path: Path, value: str = "right", rows: int = 40) -> Path:
    """Rows in no order; no column marks any as deleted."""
    numbers = [n * 17 % rows for n in range(rows)]
    batch = batch_of(Row(f"k{n:03d}", f"d{n % 2}", 5, value) for n in numbers).drop_columns(["_hoodie_is_deleted"])
    pq.write_table(batch, path, row_group_size=7)
    return path


def spec_of(table: LakeTable, batch: Path | str) -> RunSpec:
    return RunSpec(table.uri, f"{table.uri}.lakeindex", "r", "r", Operation.UPSERT, (str(batch),))


def values(table: LakeTable) -> dict[str, object]:
    return {str(row["id"]): row["v"] for row in rows_of(table)}


def changed(path: Path) -> None:
    """Of the same size and time, as a copy may be."""
    at = path.stat()
    batch_at(path, "wrong")
    assert path.stat().st_size == at.st_size
    os.utime(path, ns=(at.st_atime_ns, at.st_mtime_ns))


CHANGES: dict[str, Callable[[Path], object]] = {
    "unseen": changed,
    "other rows": lambda path: batch_at(path, "wrong", rows=50),
    "no Parquet file": lambda path: path.write_bytes(path.read_bytes()[:-9]),
    "gone": lambda path: path.unlink(),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"x"),
}


@pytest.mark.parametrize("odd", ["more", "v", "V", "_change_type"])
def test_a_column_of_one_file_that_the_table_has_not_or_has_twice_is_refused(
    table: LakeTable, tmp_path: Path, odd: str
) -> None:
    """Of many files only some are sampled; of the others the footers have to tell that nothing else is in them."""
    paths = [batch_at(tmp_path / f"{number:02d}.parquet") for number in range(20)]
    rows = pq.read_table(paths[1])
    pq.write_table(rows.append_column(odd, pa.repeat("delete", rows.num_rows)), paths[1])
    for operation in (table.upsert, table.bulk_insert, table.insert_overwrite):
        with pytest.raises(SchemaMismatchError, match=rf"column '{odd}'"):
            operation([str(path) for path in paths])
    assert not rows_of(table)
    pq.write_table(rows.append_column("_hoodie_commit_time", pa.repeat("1", rows.num_rows)), paths[1])
    table.upsert([str(path) for path in paths])  # those of Hudi's are left out
    assert staged_names(table) == {"_li_partition", "_li_key", "_li_op", "_li_address"}
    assert set(values(table).values()) == {"right"}


@pytest.mark.parametrize("how", CHANGES)
@pytest.mark.parametrize("title", ["tag inserts", "keys of files", COLUMNS])
@pytest.mark.few(6)
def test_input_that_changes_before_it_is_written_ends_the_run(table: LakeTable, tmp_path: Path, title: str, how: str):
    path = batch_at(tmp_path / "in.parquet")
    table.upsert(batch_of([Row("old", "d9", 1, "old")]))
    spec = RunSpec(
        table.uri, f"{table.uri}.lakeindex", "r", "r", Operation.INSERT_OVERWRITE, (str(path),)
    )  # a load of a table that has rows
    runner = Meanwhile(title, lambda: CHANGES[how](path) and None)
    with pytest.raises(InputChangedError, match=r"in.parquet' (has changed|is gone)"):
        run_batch(spec, runner)
    assert runner.done
    assert values(table) == {"old": "old"}
    batch_at(path)
    run_batch(spec, LocalRunner(1))
    assert set(values(table).values()) == {"old", "right"}
    assert table.check().violations == ()


def test_input_that_changes_is_seen_beside_another_writer_too(tmp_path: Path) -> None:
    """Whose rows make the batch one that is merged: its rows are then taken by each file that needs some."""
    other = [Row("k001", "d1", 1, "old"), Row("z", "d0", 1, "old")]
    for number, change in enumerate(CHANGES.values()):
        table, path = make_table(tmp_path / f"t{number}"), batch_at(tmp_path / f"in{number}.parquet")

        def both(table: LakeTable = table, path: Path = path, change: Callable[[Path], object] = change) -> None:
            table.upsert(batch_of(other), options=OVERTAKES)
            change(path)

        runner = Meanwhile("tag inserts", both)
        with pytest.raises(InputChangedError, match=r"in\d.parquet' (has changed|is gone)"):
            run_batch(spec_of(table, path), runner)
        assert runner.done
        assert values(table) == {"k001": "old", "z": "old"}
        batch_at(path)
        run_batch(spec_of(table, path), LocalRunner(1))
        assert set(values(table).values()) == {"old", "right"}


@pytest.mark.parametrize("title", ["tag inserts", "keys of files", COLUMNS, WRITING])
@pytest.mark.parametrize("meanwhile", ["nothing", "the file is moved", "single job"])
@pytest.mark.few(5)
def test_a_killed_run_is_gone_on_with(table: LakeTable, tmp_path: Path, title: str, meanwhile: str):
    folder = tmp_path / "in"
    folder.mkdir()
    path = batch_at(folder / "in.parquet")

    def kill() -> None:
        raise KilledError

    with pytest.raises(KilledError):
        run_batch(spec_of(table, folder), Meanwhile(title, kill))
    assert not rows_of(table)
    if meanwhile == "the file is moved":  # the same batch, at another place
        path = path.rename(folder / "other.parquet")
    if meanwhile == "single job" and title in (COLUMNS, WRITING):
        run_stage(Stage.MERGE_WRITE, spec_of(table, folder), LocalRunner(1))
    else:
        summary = run_batch(spec_of(table, folder), LocalRunner(1))
        assert summary.stages[0].reused is (meanwhile != "the file is moved")
    assert values(table) == {f"k{n:03d}": "right" for n in range(40)}
    assert table.check().violations == ()


@pytest.mark.parametrize("index", ["BLOOM", "GLOBAL_SIMPLE", "BUCKET"])
def test_rows_that_another_writer_has_put_in_meanwhile_stay(tmp_path: Path, index: str):
    """None of their keys is one of the batch's, whose rows are put into the same files."""
    buckets = {"hoodie__bucket__index__num__buckets": "1"} if index == "BUCKET" else {}
    table = make_table(tmp_path / "t", hoodie__index__type=index, **buckets)
    path = batch_at(tmp_path / "in.parquet")
    runner = Meanwhile(
        "combine duplicates", lambda: table.upsert(batch_of([Row("z", "d0", 1, "old")]), options=OVERTAKES) and None
    )
    summary = run_batch(spec_of(table, path), runner)
    assert runner.done
    assert values(table) == {f"k{n:03d}": "right" for n in range(40)} | {"z": "old"}
    assert (summary.inserts, summary.files_rewritten) == (40, 1)
    assert table.check().violations == ()


@pytest.mark.parametrize("index", ["BLOOM", "GLOBAL_SIMPLE", "BUCKET"])
def test_rows_that_another_writer_has_put_in_meanwhile_are_updated(tmp_path: Path, index: str):
    """The batch was staged for a table without rows: its rows are then taken one file at a time."""
    table = make_table(tmp_path / "t", hoodie__index__type=index)
    path = batch_at(tmp_path / "in.parquet")
    other = [Row("k001", "d1", 1, "old"), Row("k002", "d0", 9, "newer"), Row("z", "d0", 1, "old")]
    if index == "GLOBAL_SIMPLE":
        other.append(Row("k004", "d7", 1, "elsewhere"))
    runner = Meanwhile("tag inserts", lambda: table.upsert(batch_of(other), options=OVERTAKES) and None)
    summary = run_batch(spec_of(table, path), runner)
    assert runner.done
    expected = {f"k{n:03d}": "right" for n in range(40)} | {"k002": "newer", "z": "old"}
    assert values(table) == expected
    assert summary.inserts == 40 - len(other) + 1
    assert table.check().violations == ()


def test_rows_are_taken_from_their_files_where_their_keys_are_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """There is no room to hand over what was staged, and another writer is first."""
    monkeypatch.setattr(chunks, "chunk_bytes", lambda _: 0)
    path = batch_at(tmp_path / "in.parquet")
    for operation in (Operation.UPSERT, Operation.INSERT):
        table = make_table(tmp_path / operation, hoodie__index__type="BLOOM")
        other = batch_of([Row("k002", "d0", 1, "old"), Row("z", "d0", 1, "old")])
        runner = Meanwhile(
            "tag inserts", lambda table=table, other=other: table.upsert(other, options=OVERTAKES) and None
        )
        run_batch(replace(spec_of(table, path), operation=operation, max_quarantined=1), runner)
        assert runner.done
        is_upsert = operation is Operation.UPSERT
        right = {f"k{n:03d}": "right" for n in range(40)}
        assert values(table) == right | {"z": "old"} | ({} if is_upsert else {"k002": "old"})
        bad = [pq.read_table(one) for one in Path(f"{table.uri}.lakeindex").rglob("quarantine/*.parquet")]
        assert [one.select(["id", "ts", "v"]).to_pylist() for one in bad] == (
            [] if is_upsert else [[{"id": "k002", "ts": 5, "v": "right"}]]
        )


def test_files_that_are_larger_than_what_is_written_at_once(tmp_path: Path):
    """Rows of several waves, some of them parts of one file."""
    path = batch_at(tmp_path / "in.parquet", rows=200)
    made = []
    for rows in (None, 30, 1):
        table = make_table(tmp_path / f"t{rows}")
        with at_once(rows):
            table.upsert(str(path), options={"lakeindex.parquet.row.group.rows": "8"})
        files = [pq.ParquetFile(f"{table.uri}/{file.path}") for file in table.files()]
        groups = [[f.metadata.row_group(g).num_rows for g in range(f.metadata.num_row_groups)] for f in files]
        made.append((groups, values(table), [f.read(["id"]).column(0).to_pylist() for f in files]))
    assert made[0][0] == [[8] * 12 + [4]] * 2
    assert made[0] == made[1] == made[2]


SPILLING = "merge write: rows by files"


@contextmanager
def spilled_objects(monkeypatch: pytest.MonkeyPatch, limit: int) -> Iterator[list[str]]:
    """Paths of what loads write for their waves: rows of ``limit`` bytes each."""
    found: list[str] = []

    def seen(*arguments: Any) -> Any:
        made = write(*arguments)
        found.append(made.path)
        return made

    with monkeypatch.context() as patch:
        write = spilled_waves._write
        patch.setattr(spilled_waves, "_write", seen)
        patch.setattr(spilled_waves, "spilled_bytes", lambda _: limit)
        yield found


@pytest.mark.parametrize(
    "limit", [pytest.param(1, marks=pytest.mark.slow), 300, pytest.param(2**20, marks=pytest.mark.slow)]
)
def test_rows_of_several_waves_are_read_once_and_spilled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int):
    """In pieces of one column, of several, and of several row groups; columns that one file lacks or has in codes."""
    batch = in_files(tmp_path, rows_with(7, 400, 300, has_bad=False), 3, 50, codes=True, tells=True)
    pq.write_table(pq.read_table(batch[1]).drop_columns(["size"]), batch[1], row_group_size=40, use_dictionary=["kind"])
    options = {"lakeindex.parquet.row.group.rows": "10", "hoodie.write.set.null.for.missing.columns": "true"}
    made, counts = [], []
    for wave, partition in ((None, "b"), (60, "b"), (None, "day"), (23, "day")):
        at = str(tmp_path / f"{partition}{wave}")
        table = lakeindex.create_table(at, SCHEMA, key="a", ordering="ts", partition=partition)
        with at_once(wave), spilled_objects(monkeypatch, limit) as spilled:
            assert table.upsert(batch, options=options).combined
        assert bool(spilled) is (wave is not None)
        assert not list(Path(f"{table.uri}.lakeindex").rglob("*.rows"))
        assert not list(Path(f"{table.uri}.lakeindex").rglob("spilled"))
        made.append([(file[1], file[2]) for file in stored(table)])
        counts.append(len(spilled))
    assert counts[1] == counts[3] == {1: 10 * len(SCHEMA), 300: counts[1], 2**20: 1}[limit]
    assert repr(made[0]) == repr(made[1])
    # those of larger files are made apart, with other dictionaries
    assert repr([rows for rows, _ in made[2]]) == repr([rows for rows, _ in made[3]])


def test_rows_are_not_spilled_if_few_waves_read_each_row_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As of input in the order of the files."""
    path = tmp_path / "in.parquet"
    rows = batch_of(Row(f"k{n:03d}", f"d{n // 20:02d}", 5, "v") for n in range(400)).drop_columns(
        ["_hoodie_is_deleted"]
    )
    pq.write_table(rows, path, row_group_size=40)
    table = make_table(tmp_path / "t")
    with at_once(20), spilled_objects(monkeypatch, 1) as spilled:
        table.upsert(str(path))
    assert not spilled
    assert len(values(table)) == 400


def test_nothing_of_a_wave_is_held_while_the_next_is_made(
    table: LakeTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Neither what its files were made of nor their filters, which grow with the table; look-ups find these kept."""
    rows = batch_of(Row(f"k{n:03d}", f"d{n // 20:02d}", 5, "v") for n in range(200)).drop_columns(
        ["_hoodie_is_deleted"]
    )
    pq.write_table(rows, tmp_path / "in.parquet")

    def living() -> list[object]:
        gc.collect()
        ours = [one for one in gc.get_objects() if type(one) in (Footer, loading._Begun)]
        return [one for one in ours if type(one) is loading._Begun or one.filter_text]

    begin, held, others = loading._begin, [], living()  # of other tests

    def seen(*arguments: Any) -> Any:
        held.append(len(living()) - len(others))
        return begin(*arguments)

    monkeypatch.setattr(loading, "_begin", seen)
    with at_once(20):
        table.upsert(str(tmp_path / "in.parquet"))
    assert held == [0] * 10
    stages = {stage.name: stage.counters for stage in table.upsert(rows).stages}
    assert stages["index_lookup"]["footers_cached"] == 10
    assert stages["bloom_check"]["footers_read"] == 0


@pytest.mark.parametrize("how", [*CHANGES, "killed", "damaged", "lost"])
@pytest.mark.few(3)
def test_what_was_spilled_goes_with_a_load_that_fails(
    table: LakeTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
):
    monkeypatch.setattr(loading, "_TIMES_READ", 0)
    path = batch_at(tmp_path / "in.parquet")

    def harm() -> None:
        there = list(Path(f"{table.uri}.lakeindex").rglob("*.rows"))
        if how == "killed":
            raise KilledError
        if how == "lost":
            there[0].unlink()
        elif how == "damaged":
            there[0].write_bytes(there[0].read_bytes()[:-1] + b"!")
        else:
            CHANGES[how](path)

    runner = Meanwhile(SPILLING, harm, is_late=how not in CHANGES)
    with at_once(10), nullcontext() if how in {"damaged", "lost"} else pytest.raises((KilledError, InputChangedError)):
        run_batch(spec_of(table, path), runner)
    assert runner.done
    assert bool(rows_of(table)) is (how in {"damaged", "lost"})  # all is made again from the batch
    assert not list(Path(f"{table.uri}.lakeindex").rglob("*.rows"))
    batch_at(path)
    with at_once(10):
        run_batch(spec_of(table, path), LocalRunner(1))
    assert values(table) == {f"k{n:03d}": "right" for n in range(40)}
    assert table.check().violations == ()


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.string_view(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())]
)
def test_only_keys_are_read_of_texts_that_the_footer_tells(table: LakeTable, tmp_path: Path, kind: pa.DataType):
    """Views and large texts, as tpchgen and Polars write them, too; of a file with numbers in their place all is read."""
    batch = pq.read_table(batch_at(tmp_path / "in.parquet"))
    spec = spec_of(table, tmp_path / "in.parquet")
    facts = open_for_write(spec.table_uri, spec.config).facts
    for changed_to, told in ((kind, True), (pa.int64(), False)):
        texts = pa.array(["1"] * batch.num_rows).cast(changed_to)
        path = tmp_path / f"{changed_to}.parquet"
        pq.write_table(batch.set_column(batch.schema.get_field_index("v"), "v", texts), path)
        file = KeyedFile(str(tmp_path), path.name, path.stat().st_size, None, "")
        assert addressed._tells_all(spec, facts, pq.read_metadata(path), file) == told


def test_a_batch_without_rows(table: LakeTable, tmp_path: Path):
    empty = batch_of([]).drop_columns(["_hoodie_is_deleted"])
    pq.write_table(empty, tmp_path / "in.parquet")
    assert table.upsert(str(tmp_path / "in.parquet")).noop


def test_rows_that_are_not_staged_are_not_read_from_files_far_away(table: LakeTable, tmp_path: Path):
    """Nor those of jobs, which hand the batch on for hours."""
    run_stage(Stage.STAGE_INPUT, spec_of(table, batch_at(tmp_path / "in.parquet")), LocalRunner(1))
    assert "v" in staged_names(table)


def test_columns_are_taken_wherever_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Files that differ in a column's type or lack it; texts in dictionaries or not; views, beside a type that only the
    Arrow schema tells, too; more bytes than are joined.
    """
    random = np.random.default_rng(5)
    texts = [f"text {n % 5}" for n in range(90)]
    kinds = [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()), None]
    kinds += [pa.string_view(), pa.string_view()]
    files, groups, expected = [], [], []
    for number, kind in enumerate(kinds):
        path = tmp_path / f"{number}.parquet"
        some = pa.table({"n": pa.array(range(90))} | ({} if kind is None else {"t": pa.array(texts).cast(kind)}))
        if number < 5:
            some = some.append_column("d", pa.array(range(90), pa.duration("us")))
        pq.write_table(some, path, row_group_size=20, use_dictionary=number != 1)
        files.append(KeyedFile(str(tmp_path), path.name, path.stat().st_size, None, ""))
        groups += [RowGroup(number, g, (number << 40) + 20 * g, 20 if g < 4 else 10) for g in range(5)]
        expected += [(number << 40) + n for n in range(90)]
    schema = pa.schema([("n", pa.int64()), ("t", pa.string()), ("d", pa.duration("us"))])
    rows = InputRows(tuple(files), tuple(groups), schema, {"t": 1.0})
    rows = input_rows(rows.to_bytes().to_pybytes())
    for joined in (2**30, 0):
        monkeypatch.setattr("lakeindex.run.input_rows._LARGEST_JOINED", joined)
        for picked in (*(random.permutation(expected)[:n] for n in (540, 50, 1, 0)), np.repeat(expected[7:9], 200)):
            places = Places(rows, picked.astype(np.int64))
            wanted = [None if a >> 40 == 3 else texts[a % 2**40] for a in picked.tolist()]
            assert places.column("t").taken(places.rank).to_pylist() == wanted
            assert places.column("n").taken(places.rank).to_pylist() == [a % 2**40 for a in picked.tolist()]
            days = places.column("d").taken(places.rank).cast(pa.int64()).to_pylist()
            assert days == [None if a >> 40 == 5 else a % 2**40 for a in picked.tolist()]


def test_a_null_that_the_footer_does_not_tell_is_no_value():
    column = Column(pa.field("v", pa.int64(), nullable=False), pa.chunked_array([pa.array([1, None])]))
    with pytest.raises(InputError, match=r"'v'.*nulls"):
        column.taken(np.array([1, 0]))


def test_what_is_written_at_once_has_its_share_of_the_memory():
    rows = InputRows((), (), SCHEMA, {"a": 8.0, "b": 100.0, "day": 14.0})
    small, large = (loading.rows_at_once(rows, bound, 2, 50.0) for bound in (2**28, 2**30))
    assert 0.9 < 4 * small / large < 1.1
    assert small * (100 + 14 + 50) < 2**27
    assert loading.rows_at_once(rows, 2**50, 2, 50.0) < 3 * 2**30 / (100 + 14 + 50)
    load = loading.Load(rows, 1_000)
    assert load.part(1_000, 100) >= 1
    assert load.part(2_550, 100) * 2_550 == pytest.approx(1_000)
