"""Files put together from chunks of others, read back by pyarrow and DuckDB."""

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from lakeindex.errors import InvariantError
from lakeindex.parquet import stamps
from lakeindex.parquet.splice import ChunkOf, GroupOf, ParquetParts, parts_of, splice

ROWS = 1_000
TABLE = pa.table(
    {
        "a": pa.array(range(ROWS), pa.int64()),
        "s": [f"k{i}" if i % 7 else None for i in range(ROWS)],
        "d": pa.array(["x", "y"] * (ROWS // 2)),
        "l": [[i, i + 1] if i % 5 else [] for i in range(ROWS)],
        "st": [{"p": i, "q": None if i % 3 else {"z": "é"}} for i in range(ROWS)],
        "m": pa.array([[("k", i)] for i in range(ROWS)], pa.map_(pa.string(), pa.int64())),
    }
)


def encoded(table: pa.Table, rows: int, entries: dict[str, str] | None = None, **options: Any) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema, compression="zstd", store_schema=False, **options) as writer:
        if table.num_rows:
            writer.write_table(table, row_group_size=rows)
        if entries:
            writer.add_key_value_metadata(entries)
    return sink.getvalue()


def parts(table: pa.Table, rows: int = ROWS, entries: dict[str, str] | None = None, **options: Any) -> ParquetParts:
    found = taken(encoded(table, rows, entries, **options))
    assert found is not None
    return found


def taken(data: bytes | pa.Buffer) -> ParquetParts | None:
    return parts_of(memoryview(data), pq.read_metadata(pa.BufferReader(data)))


def whole(source: ParquetParts, group: int) -> GroupOf:
    return GroupOf(source.rows[group], tuple(ChunkOf(source, group, c) for c in range(len(source.columns))))


def spliced(shell: ParquetParts, groups: list[GroupOf]) -> bytes:
    return b"".join(splice(shell, groups))


def read(data: bytes) -> pa.Table:
    return pq.read_table(pa.BufferReader(data), page_checksum_verification=True)


def test_row_groups_of_two_files_in_any_order():
    old, fresh = parts(TABLE, 100), parts(TABLE.slice(5, 77))
    shell = parts(TABLE.slice(0, 0), entries={"who": "me"})
    data = spliced(shell, [whole(old, 3), whole(fresh, 0), whole(old, 0)])
    assert read(data).equals(pa.concat_tables([TABLE.slice(300, 100), TABLE.slice(5, 77), TABLE.slice(0, 100)]))
    metadata = pq.read_metadata(pa.BufferReader(data))
    assert (metadata.num_rows, metadata.num_row_groups) == (277, 3)
    assert metadata.metadata.keys() == {b"who", stamps.HEADERS.encode(), stamps.FOOTER.encode()}
    assert metadata.metadata[b"who"] == b"me"
    assert metadata.row_group(1).total_byte_size == sum(c.full_size for c in fresh.text.chunks[0])


def test_one_column_of_another_file(tmp_path: Path):
    other = TABLE.set_column(2, "d", pa.array(["new"] * ROWS))
    old, fresh = parts(TABLE, 250), parts(other.select(["d"]), 250)
    chunks = [ChunkOf(fresh, 1, 0) if name == "d" else ChunkOf(old, 1, c) for c, name in enumerate(old.columns)]
    path = tmp_path / "f.parquet"
    path.write_bytes(spliced(parts(TABLE.slice(0, 0)), [GroupOf(250, tuple(chunks))]))
    assert pq.read_table(path).equals(other.slice(250, 250))
    found = duckdb.sql(f"select a, s, d from '{path}' where d = 'new' and a >= 400 order by a").fetchall()
    assert found == [tuple(r.values()) for r in other.slice(400, 100).select(["a", "s", "d"]).to_pylist()]


def test_statistics_still_prune():
    shell, old = parts(TABLE.slice(0, 0)), parts(TABLE, 100)
    data = spliced(shell, [whole(old, 9), whole(old, 2)])
    metadata = pq.read_metadata(pa.BufferReader(data))
    assert [metadata.row_group(g).column(0).statistics.min for g in range(2)] == [900, 200]
    found = pq.read_table(pa.BufferReader(data), filters=[("a", "==", 250)])
    assert found.column("a").to_pylist() == [250]


def test_checksums_of_pages_move_with_them():
    old = parts(TABLE, 100, write_page_checksum=True)
    assert read(spliced(parts(TABLE.slice(0, 0)), [whole(old, 5)])).equals(TABLE.slice(500, 100))


def test_a_spliced_file_can_be_spliced_again():
    shell, old = parts(TABLE.slice(0, 0)), parts(TABLE, 50)
    once = taken(spliced(shell, [whole(old, g) for g in range(20)]))
    assert once is not None
    assert read(spliced(shell, [whole(once, g) for g in range(20)])).equals(TABLE)


def test_no_row_groups():
    data = spliced(parts(TABLE.slice(0, 0)), [])
    assert read(data).equals(TABLE.slice(0, 0))


def test_a_chunk_with_more_than_pages_is_not_taken():
    assert taken(encoded(TABLE, 100, write_page_index=True)) is None


def test_chunks_outside_of_the_file_are_not_taken():
    data = encoded(TABLE, 100).to_pybytes()
    metadata = pq.read_metadata(pa.BufferReader(data))
    cut = data[:1000] + data[-metadata.serialized_size - 8 :]
    assert parts_of(memoryview(cut), metadata) is None


def test_more_than_fourteen_columns_and_row_groups():
    wide = pa.table({f"c{n:02d}": pa.array(range(40)) for n in range(40)})
    data = spliced(parts(wide.slice(0, 0)), [whole(parts(wide, 2), g) for g in range(20)])
    assert read(data).equals(wide)


def test_long_spans_are_given_out_in_pieces(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("lakeindex.parquet.splice._PIECE_BYTES", 1000)
    old = parts(TABLE, 100)
    pieces = list(splice(parts(TABLE.slice(0, 0)), [whole(old, g) for g in range(10)]))
    assert read(b"".join(pieces)).equals(TABLE)
    assert {len(piece) for piece in pieces[1:-2]} == {1000}


def test_row_groups_are_asked_for_one_after_the_other():
    old, asked = parts(TABLE, 100), []
    groups = (asked.append(g) or whole(old, g) for g in (5, 1, 7))
    seen = [len(asked) for _ in splice(parts(TABLE.slice(0, 0)), groups)]
    assert seen == [0, 2, 3, 3, 3]  # a span is given out when the next begins


def test_what_does_not_fit_together_is_refused():
    shell, old = parts(TABLE.slice(0, 0)), parts(TABLE, 100)
    good = whole(old, 0)
    with pytest.raises(InvariantError, match="columns"):
        spliced(shell, [replace(good, chunks=good.chunks[1:])])
    with pytest.raises(InvariantError, match="rows"):
        spliced(shell, [replace(good, rows=99)])
