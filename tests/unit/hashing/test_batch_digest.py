"""The same rows in the same order have one digest, however they are divided and laid out; any change has another."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakeindex.hashing.batch_digest import NO_ROWS, digest_batch
from tests.unit.hashing.test_row_digest import ROWS, SCHEMA, table

LONG = "long" * 200


@given(st.lists(ROWS, max_size=12), st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_pieces_slices_and_chunks_do_not_matter(rows: list[dict[str, object]], cuts: list[int]) -> None:
    whole = table(rows)
    wanted = digest_batch(whole)
    total, at, chunks = NO_ROWS, 0, []
    for turn in range(len(rows)):
        part = whole.slice(at, cuts[turn % len(cuts)])
        at += part.num_rows
        total = total.followed_by(digest_batch(part))
        chunks.append(part)
    assert total == wanted
    assert digest_batch(pa.concat_tables([whole.slice(0, 0), *chunks])) == wanted
    before = pa.concat_tables([table([{"s": "before"}]), whole]).combine_chunks()
    assert digest_batch(before.slice(1)) == wanted


@given(st.lists(ROWS, min_size=1, max_size=6), ROWS)
def test_another_row_order_or_number_is_another_digest(rows: list[dict[str, object]], other: dict[str, object]) -> None:
    wanted, same = digest_batch(table(rows)), repr(table(rows).to_pylist())
    for made in (rows[::-1], [*rows[:-1], other], rows + rows[:1], rows[1:]):
        assert (digest_batch(table(made)) == wanted) is (repr(table(made).to_pylist()) == same)


def test_values_alone_count() -> None:
    columns = {
        "n": pa.array([1, None, 3], pa.int64()),
        "v": pa.array(["a", LONG, None]),
        "f": [1.5, float("nan"), None],
    }
    rows = pa.table(columns)
    wanted = digest_batch(rows)
    more = rows.append_column("new", pa.nulls(3, pa.string()))
    garbage = pa.Array.from_buffers(
        pa.int64(), 3, [pa.py_buffer(bytes([5])), pa.array([1, 77, 3], pa.int64()).buffers()[1]]
    )
    for name, same in {
        "order of columns": rows.select(["f", "v", "n"]),
        "a column without values": more,
        "metadata": rows.replace_schema_metadata({"pandas": "{}"}),
        "width": rows.set_column(0, "n", rows["n"].cast(pa.int8())).set_column(2, "f", rows["f"].cast(pa.float32())),
        "large texts": rows.set_column(1, "v", rows["v"].cast(pa.large_string())),
        "what a null hides": rows.set_column(0, "n", garbage),
        "another NaN": rows.set_column(2, "f", pa.array([1.5, -float("nan"), None])),
    }.items():
        assert digest_batch(same) == wanted, name
    for name, other in {
        "name": rows.rename_columns(["m", "v", "f"]),
        "null": rows.set_column(0, "n", pa.array([1, 0, 3], pa.int64())),
        "empty text": rows.set_column(1, "v", pa.array(["a", LONG, ""])),
        "end of a long text": rows.set_column(1, "v", pa.array(["a", LONG[:-1] + "x", None])),
        "moved between columns": pa.table({"n": columns["n"], "f": columns["v"], "v": columns["f"]}),
        "zero at the end": rows.set_column(1, "v", pa.array(["a\0", LONG, None])),
    }.items():
        assert digest_batch(other) != wanted, name


def test_texts_of_every_length_and_place() -> None:
    texts = [chr(97 + n % 26) * (n % 530) for n in range(3000)]
    whole = pa.table({"v": texts})
    parts = [digest_batch(pa.table({"v": [text]})) for text in texts]
    total = NO_ROWS
    for part in parts:
        total = total.followed_by(part)
    assert digest_batch(whole) == total
    assert len({part.sums for part in parts}) == len(set(texts))


def test_an_empty_batch_and_the_columns_of_every_type() -> None:
    assert digest_batch(SCHEMA.empty_table()) == NO_ROWS
    assert digest_batch(table([{}])).rows == 1
    assert NO_ROWS.text() != NO_ROWS.text("given")
