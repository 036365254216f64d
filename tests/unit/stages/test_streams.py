"""Rows that come batch by batch: what every kind of batch becomes, what is held meanwhile, and what a retry reads."""

from __future__ import annotations

import datetime as dt
import gc
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import lakeindex
from lakeindex.api.given_rows import RowStream, rows_in
from lakeindex.api.table import LakeTable
from lakeindex.errors import InputError
from lakeindex.run import row_pieces
from lakeindex.storage import open_storage
from tests.builders import Row, batch_of, make_table
from tests.scheduling import some_of
from tests.strategies import examples

MIB = 1024 * 1024
ROWS = batch_of([Row("a", "x", 1, "1"), Row("b", "y", 1, "2"), Row("c", "x", 1, "3")])
PLAIN = ROWS.drop_columns(["_hoodie_is_deleted"])


class ByStream:
    """Something of another library: all that is known of it is the protocol."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return PLAIN.__arrow_c_stream__(requested_schema)


class ByArray:
    """The same, in one piece."""

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return PLAIN.to_batches()[0].__arrow_c_array__(requested_schema)


def of_duckdb() -> Any:
    return duckdb.from_arrow(PLAIN).order("id")


def of_dictionaries() -> Iterator[pa.RecordBatch]:
    """Every batch with a dictionary of its own."""
    for one in PLAIN.to_batches(max_chunksize=1):
        columns = [c.dictionary_encode() if c.type == pa.string() else c for c in one.columns]
        yield pa.RecordBatch.from_arrays(columns, names=one.schema.names)


BATCHES: dict[str, Callable[[], Any]] = {
    "table": lambda: PLAIN,
    "record batch": lambda: PLAIN.combine_chunks().to_batches()[0],
    "reader": lambda: PLAIN.to_reader(1),
    "list of batches": lambda: PLAIN.to_batches(max_chunksize=1),
    "list of tables": lambda: [PLAIN.slice(0, 2), PLAIN.slice(2)],
    "tuple of batches": lambda: tuple(PLAIN.to_batches(max_chunksize=2)),
    "list of dicts": PLAIN.to_pylist,
    "generator of batches": lambda: iter(PLAIN.to_batches(max_chunksize=1)),
    "generator of tables": lambda: (PLAIN.slice(n, 1) for n in range(3)),
    "generator of frames": lambda: (PLAIN.slice(n, 1).to_pandas() for n in range(3)),
    "generator of dictionaries": of_dictionaries,
    "dataset": lambda: pyarrow.dataset.dataset(PLAIN),
    "scanner": lambda: pyarrow.dataset.dataset(PLAIN).scanner(columns=PLAIN.schema.names),
    "pandas": PLAIN.to_pandas,
    "pandas with an index": lambda: PLAIN.to_pandas().set_index("id"),
    "pandas with two": lambda: PLAIN.to_pandas().set_index(["id", "day"]),
    "polars": lambda: pl.from_arrow(PLAIN),
    "polars lazy": lambda: pl.from_arrow(PLAIN).lazy().filter(pl.col("ts") > 0),  # type: ignore[union-attr] # a frame
    "duckdb": of_duckdb,
    "stream protocol": ByStream,
    "array protocol": ByArray,
}


@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.few(7)
def test_every_kind_of_batch_is_the_same_batch(tmp_path: Path, name: str) -> None:
    table = make_table(tmp_path / "t")
    assert table.upsert(BATCHES[name]()).inserts == 3
    rows = table.read(meta=True).select(PLAIN.schema.names).sort_by("id")
    assert rows.to_pylist() == PLAIN.to_pylist()
    assert table.upsert(BATCHES[name]()).updates == 3
    assert table.delete(BATCHES[name]()).deletes == 3


def test_slices_of_runs_are_the_rows_that_they_are(tmp_path: Path) -> None:
    """Arrow's cast of a slice of runs to its own type begins at the first run, or fails."""
    runs = pc.run_end_encode(pa.array(["a", "b", "b", None]))
    columns = {
        "plain": runs,
        "struct": pa.StructArray.from_arrays([runs], names=["x"]),
        "list": pa.ListArray.from_arrays([0, 1, 2, 3, 4], runs),
        "map": pa.MapArray.from_arrays([0, 1, 2, 3, 4], ["k"] * 4, runs),
    }
    rows = pa.table({"id": pa.array(list("abcd")), **columns})
    table = lakeindex.create_table(tmp_path / "t", rows.schema, key="id")
    for batch in (
        rows,
        rows.to_batches(1),
        iter(rows.to_batches(1)),
        iter([rows.slice(2), rows.slice(0, 2)]),
        rows.to_reader(3),
    ):
        table.upsert(batch)
        assert table.read(meta=False).sort_by("id").to_pylist() == rows.to_pylist()
        table.truncate()


def test_paths_globs_and_folders(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    (tmp_path / "in").mkdir()
    for n in range(3):
        pq.write_table(PLAIN.slice(n, 1), tmp_path / f"in/{n}.parquet")
    for data in (tmp_path / "in", str(tmp_path / "in/*.parquet"), sorted((tmp_path / "in").iterdir())):
        assert table.upsert(data).rows_in == 3
    assert table.count() == 3


def test_a_row_may_leave_a_column_out(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    table.upsert(
        [
            {"id": "a", "day": "x", "ts": 1},
            {"day": "x", "v": "late", "id": "b", "ts": 2},
            {"id": "c", "day": "x", "ts": 3, "v": None},
        ]
    )
    assert table.read(meta=True).sort_by("id")["v"].to_pylist() == [None, "late", None]


def test_levels_of_an_index_with_names_are_columns(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    frame = PLAIN.to_pandas()
    levels = pd.MultiIndex.from_arrays([frame.pop("id"), [7, 8, 9]], names=["id", None])
    assert table.upsert(frame.set_index(levels)).inserts == 3
    with pytest.raises(InputError, match="a column 'id', and its index is called so, too") as caught:
        table.upsert(PLAIN.to_pandas().set_index("id", drop=False))
    assert "drop=True" in str(caught.value.hint)
    unnamed = PLAIN.to_pandas().set_axis([5, 6, 7])
    assert table.upsert(unnamed).updates == 3


OTHER = PLAIN.set_column(2, "ts", pa.array(["1", "1", "1"]))
MIXED = (dt.date(2026, 1, 2), dt.datetime(2026, 1, 2, 3), dt.datetime(2026, 1, 2, 3, tzinfo=dt.UTC))  # noqa: DTZ001 - one without
"""Values of three types, of which Arrow makes one of the first."""


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (lambda: iter([PLAIN, OTHER]), "batch number 1 has other columns than the first: ts is string, was int64"),
        (lambda: [PLAIN, PLAIN.drop_columns(["v"])], "v is not there, was string"),
        (lambda: iter([PLAIN.select(["day", "id", "ts", "v"]), PLAIN]), "another order"),
        (lambda: iter([]), "gave no batch, and so no columns"),
        (lambda: iter(["a.parquet"]), "a generator of batches gave a str as number 0"),
        (lambda: (one for one in [PLAIN, {"id": "a"}]), "gave a dict as number 1"),
        (lambda: [{"id": "a", "ts": 1}, {"id": 7}], "column id of the rows has no one type"),
        (
            lambda: [{"id": MIXED[0]}, {"id": MIXED[1]}],
            "column id of the rows has no one type: .*a date has no time of day",
        ),
        (lambda: [{"id": [MIXED[2]]}, {"id": [MIXED[1]]}], "no one type: .*one has a time zone, the other has none"),
        (
            lambda: pd.DataFrame({"at": pd.Series([None, pd.NaT, *MIXED[:2]], dtype=object)}),
            "column at .*no time of day",
        ),
        (lambda: [{7: "a"}], "a column cannot be named 7"),
        (lambda: [PLAIN, {"id": "a"}], "a batch cannot be a list"),
        (lambda: ["a.parquet", 7], "a batch cannot be a list"),
        (lambda: pl.Series("id", ["a"]), "a batch cannot be a Series"),
        (lambda: pd.Series(["a"]), "a batch cannot be a Series"),
        (lambda: {"id": ["a"]}, "a batch cannot be a dict"),
        (lambda: 7, "a batch cannot be a int"),
    ],
)
def test_what_is_no_batch_is_refused_and_nothing_is_published(
    tmp_path: Path, data: Callable[[], Any], said: str
) -> None:
    table = make_table(tmp_path / "t")
    with pytest.raises(InputError, match=said) as caught:
        table.upsert(data())
    assert caught.value.hint
    assert table.history() == ()
    assert table.upsert(PLAIN).inserts == 3


def test_a_stream_that_fails_publishes_nothing(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")

    def failing() -> Iterator[pa.RecordBatch]:
        yield PLAIN.to_batches()[0]
        raise ZeroDivisionError("the caller's own")

    with pytest.raises(ZeroDivisionError, match="the caller's own"):
        table.upsert(failing(), batch_id="b")
    reader = pa.RecordBatchReader.from_batches(PLAIN.schema, failing())
    with pytest.raises((InputError, ZeroDivisionError)):
        table.upsert(reader, batch_id="b")
    assert (table.history(), list(Path(f"{table.uri}.lakeindex").rglob("*.arrow"))) == ((), [])
    assert table.upsert(PLAIN.to_reader(), batch_id="b").inserts == 3


def wide(count: int, gone: list[int]) -> Iterator[pa.RecordBatch]:
    """4 MiB a batch, and what Arrow holds at each of them."""
    gc.collect()
    gc.freeze()  # else each of those below looks at all that the tests before this one loaded
    base = pa.total_allocated_bytes()
    for n in range(count):
        rows = 512
        gc.collect()
        gone.append(pa.total_allocated_bytes() - base)
        yield pa.record_batch(
            {
                "id": pa.array([f"{n:04d}-{row:04d}" for row in range(rows)]),
                "day": pa.array(["x"] * rows),
                "ts": pa.array([1] * rows, pa.int64()),
                "v": pa.array([f"{row}" * 2 + "v" * 8192 for row in range(rows)]),
            }
        )


def as_reader(batches: Iterator[pa.RecordBatch]) -> pa.RecordBatchReader:
    schema = pa.schema([("id", pa.string()), ("day", pa.string()), ("ts", pa.int64()), ("v", pa.string())])
    return pa.RecordBatchReader.from_batches(schema, batches)


@pytest.mark.parametrize("kind", [lambda batches: batches, as_reader], ids=["generator", "reader"])
def test_a_stream_is_never_held(tmp_path: Path, kind: Callable[[Iterator[pa.RecordBatch]], Any]) -> None:
    """24 batches of 4 MiB: what Arrow holds when the next one is asked for is two or three of them, first or last."""
    held: list[int] = []
    stream = rows_in(kind(wide(24, held)))
    assert isinstance(stream, RowStream)
    store = open_storage(str(tmp_path))
    paths = row_pieces.write_pieces(store, "run/", stream.schema, row_pieces.in_blocks(stream.batches))
    assert max(held) < 16 * MIB
    assert sum(rows for _, rows in paths) == 24 * 512
    sizes = [(tmp_path / path).stat().st_size for path, _ in paths]
    assert sum(sizes) > 96 * MIB
    assert len(sizes) == 2
    assert max(sizes) < row_pieces.PIECE_BYTES + 2 * row_pieces.BLOCK_BYTES


def test_a_run_that_streams_is_within_its_memory(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    held: list[int] = []
    options = {"lakeindex.memory": "64m", "lakeindex.parallelism": 1}
    assert table.upsert(wide(16, held), options=options).inserts == 16 * 512
    assert max(held) < 16 * MIB


@settings(max_examples=examples(25), deadline=None)
@given(
    count=st.integers(0, 20_000),
    cut=st.lists(st.integers(1, 5000), min_size=1, max_size=8),
    width=st.sampled_from([1, 300, 9_000]),
)
@example(count=20_000, cut=[1], width=9_000)
@example(count=20_000, cut=[11, 2], width=300)
def test_blocks_are_of_the_rows_and_not_of_how_they_came(count: int, cut: list[int], width: int) -> None:
    total = min(count, 9 * MIB // width)
    numbers = pa.array(range(total), pa.int64())
    rows = pa.table({"n": numbers, "v": pa.array(["v" * (width + n % 7) for n in range(total)])})

    def pieces(lengths: list[int]) -> Iterator[pa.RecordBatch]:
        at = turn = 0
        while at < total:
            yield from rows.slice(at, lengths[turn % len(lengths)]).combine_chunks().to_batches()
            at, turn = at + lengths[turn % len(lengths)], turn + 1

    blocks = list(row_pieces.in_blocks(pieces(cut)))
    assert [one.num_rows for one in blocks] == [one.num_rows for one in row_pieces.in_blocks(pieces([total or 1]))]
    assert pa.Table.from_batches(blocks, rows.schema) == rows
    assert all(0 < one.num_rows <= row_pieces.BLOCK_ROWS for one in blocks)
    limit = row_pieces.BLOCK_BYTES + 16 * (width + 64)
    assert all(one.nbytes <= limit for one in blocks)


KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "text": (pa.string(), ["", "abc", None, "long" * 9]),
    "large text": (pa.large_string(), ["a", None, "bc" * 30]),
    "text view": (pa.string_view(), ["a", None, "beyond twelve bytes"]),
    "bytes": (pa.binary(), [b"", b"ab" * 20, None]),
    "bytes view": (pa.binary_view(), [None, b"ab" * 20]),
    "fixed": (pa.binary(16), [b"a" * 16, None]),
    "uuid": (pa.uuid(), [b"a" * 16, None]),
    "truth": (pa.bool_(), [True, None, False]),
    "none": (pa.null(), [None]),
    "decimal": (pa.decimal128(20, 2), [Decimal("1.25"), None]),
    "time": (pa.timestamp("us", "UTC"), [datetime(2026, 1, 2, tzinfo=UTC), None]),
    "list": (pa.list_(pa.string()), [["a", "bc"], None, [], ["d" * 30]]),
    "large list": (pa.large_list(pa.int64()), [[1, 2, 3], None, []]),
    "list view": (pa.list_view(pa.int64()), [[1, 2, 3], None, []]),
    "vector": (pa.list_(pa.float32(), 3), [[0.5, 1.0, 2.0], None]),
    "struct": (
        pa.struct([("a", pa.string()), ("b", pa.list_(pa.int8()))]),
        [{"a": "x" * 9, "b": [1]}, None, {"a": None, "b": []}],
    ),
    "map": (pa.map_(pa.string(), pa.struct([("n", pa.int32())])), [[("k", {"n": 1}), ("l", None)], None, []]),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), ["red", "green", None]),
    "dictionaries": (pa.list_(pa.dictionary(pa.int8(), pa.string())), [["red", "green"], None]),
}


@pytest.mark.parametrize("kind", some_of([*KINDS, "all"], KINDS.__contains__, pytest.mark.slow))
def test_blocks_of_rows_of_any_kind_are_of_the_rows(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(row_pieces, "BLOCK_BYTES", 3_000)
    monkeypatch.setattr(row_pieces, "BLOCK_ROWS", 1_024)
    columns = {}
    for name, (of, some) in KINDS.items() if kind == "all" else [(kind, KINDS[kind])]:
        columns[name] = pa.array([some[(n // 3) % len(some)] for n in range(3_000)], of)
    rows = pa.table(columns)
    blocks = {
        cut: list(row_pieces.in_blocks(iter(rows.to_batches(max_chunksize=cut)))) for cut in (1, 5, 16, 37, 3_000)
    }
    lengths = {cut: [one.num_rows for one in found] for cut, found in blocks.items()}
    assert lengths == dict.fromkeys(blocks, lengths[3_000])
    assert {len(found) > 3 for found in blocks.values()} == {kind not in ("none", "truth")}
    for found in blocks.values():
        assert pa.Table.from_batches(found).to_pylist() == rows.to_pylist()
        assert all(one.nbytes > 750 or one.num_rows == 1_024 for one in found[:-1])


def test_what_is_behind_a_null_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_pieces, "BLOCK_BYTES", 3_000)
    offsets, values = pa.array(range(0, 6_001, 3), pa.int32()), pa.array(range(6_000), pa.int64())
    held = pa.ListArray.from_arrays(offsets, values, mask=pa.array([n % 3 > 0 for n in range(2_000)]))
    clean = pa.array(held.to_pylist(), held.type)
    assert len(held.values) > len(clean.values)
    found = [
        [one.num_rows for one in row_pieces.in_blocks(pa.table({"v": rows}).to_batches())] for rows in (held, clean)
    ]
    assert found[0] == found[1]
    assert len(found[0]) > 3


@pytest.mark.parametrize("width", [9_000, 600])
@pytest.mark.few(1)
def test_wide_rows_that_come_one_by_one_are_the_batch_that_they_are_in_one(tmp_path: Path, width: int) -> None:
    table = make_table(tmp_path / "t")
    rows = batch_of([Row(f"k{n}", "x", 1, f"{n:05d}" + "v" * width) for n in range(6 * MIB // width)])
    assert table.upsert(iter(rows.to_batches(max_chunksize=1)), batch_id="b").inserts == rows.num_rows
    assert table.upsert(rows.to_reader(), batch_id="b").noop


def test_the_same_stream_is_the_same_batch(tmp_path: Path) -> None:
    """A retry makes its stream anew, and it may be cut in other places."""
    table = make_table(tmp_path / "t")
    assert table.upsert(PLAIN.to_reader(1), batch_id="b").inserts == 3
    assert table.upsert(iter(PLAIN.to_batches(max_chunksize=2)), batch_id="b").noop


class Once:
    """A stream that says how often it was read."""

    def __init__(self) -> None:
        self.read = 0

    def batches(self, before_the_end: Callable[[], object] = lambda: None) -> Iterator[pa.RecordBatch]:
        self.read += 1
        yield from PLAIN.to_batches(max_chunksize=1)
        before_the_end()


def test_a_run_planned_anew_reads_the_staged_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer commits between look-up and merge: the keys are looked up again, in the pieces."""
    from lakeindex.conductor import upsert as conductor

    table, other, once = make_table(tmp_path / "t"), LakeTable(str(tmp_path / "t")), Once()
    merge, lost = conductor.merge_until_published, []

    def late(*args: Any) -> Any:
        if not lost:
            lost.append("begun")
            other.upsert(batch_of([Row("a", "x", 1, "other"), Row("z", "x", 1, "other")]))
        return merge(*args)

    monkeypatch.setattr(conductor, "merge_until_published", late)
    done = table.upsert(once.batches())
    assert (done.inserts, done.updates, once.read, len(lost)) == (2, 1, 1, 1)
    assert table.count() == 4


def test_a_damaged_checkpoint_is_made_again_of_the_staged_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakeindex.conductor import upsert as conductor

    table, once, damaged = make_table(tmp_path / "t"), Once(), []
    look_up = conductor.look_up

    def after_damage(spec: Any, *args: Any, **named: Any) -> Any:
        if not damaged:
            path = next(Path(spec.checkpoints_uri).glob(f"{spec.run_id}/stage_input/*/*.parquet"))
            path.write_bytes(bytes(path.stat().st_size))
            damaged.append(path)
        return look_up(spec, *args, **named)

    monkeypatch.setattr(conductor, "look_up", after_damage)
    assert table.upsert(once.batches()).inserts == 3
    assert (once.read, len(damaged)) == (1, 1)
    assert table.count() == 3
