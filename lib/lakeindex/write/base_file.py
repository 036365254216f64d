"""Encode base files: meta columns, footer key/values, row groups.

Footer keys about record keys are made by :mod:`lakeindex.bloom.marks`; beside them stand ``parquet.avro.schema`` and
``writer.model.name``, as Hudi's Avro writer puts them (docs/format.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import sample_of
from lakeindex.options.types import Codec, WriteConfig
from lakeindex.write.types.avro_schema import META_COLUMNS, META_FIELDS, schema_to_avro

COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY, PARTITION_PATH, FILE_NAME = META_COLUMNS
_UNIQUE_COLUMNS = (COMMIT_SEQNO, RECORD_KEY)
_SAMPLE_ROWS = 4096
_LOW_DIGITS: Final = 3
_FEW_ROWS = 256


class EncodedFile(Frozen):
    """A base file that was made; ``tail`` are its last bytes, the footer among them; ``bytes_copied`` those of chunks
    that were copied.
    """

    size: int
    tail: bytes
    chunks_copied: int
    chunks_encoded: int
    bytes_copied: int
    row_group_rows: tuple[int, ...]
    key_entries: Mapping[str, str]


def constant_column(value: str, rows: int) -> pa.DictionaryArray:
    """A column that holds one text in every row, as one dictionary entry."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([value], pa.string()))


def sequence_numbers(instant: str, tasks: np.ndarray | int, rows: np.ndarray) -> pa.Array:
    """``<instant>_<task>_<row>``: unique in a commit. Shape: (rows,).

    Args:
        tasks: number of the rows' file in it, or of each row's: int64 [rows]; rows of a file are neighbours.
        rows: int64, places of the rows in their files.
    """
    of_row = np.broadcast_to(np.asarray(tasks, np.int64), rows.shape)
    if len(rows) and of_row[0] == of_row[-1] and bool((np.diff(rows) == 1).all()):
        return _counted(f"{instant}_{of_row[0]}_".encode(), int(rows[0]), len(rows))
    texts = [pc.cast(pa.array(numbers), pa.string()) for numbers in (of_row, rows)]
    return pc.binary_join_element_wise(pa.scalar(instant), *texts, "_")


def _counted(prefix: bytes, first: int, count: int) -> pa.Array:
    """The prefix before each number from ``first`` on: a thousand texts are made, copied,
    and given their higher digits.
    """
    stop = first + count
    texts, lengths = [], []
    for digits in range(len(str(first)), len(str(stop - 1)) + 1):
        begin, end = max(first, 10 ** (digits - 1) if digits > 1 else 0), min(stop, 10**digits)
        width = len(prefix) + digits
        low = min(digits, _LOW_DIGITS)
        block = 10**low
        blocks = range(begin // block, -(-end // block))
        text = np.empty((len(blocks), block, width), np.uint8)
        text[0, :, : len(prefix)] = np.frombuffer(prefix, np.uint8)
        text[0, :, width - low :] = _digits(range(block), low)
        text[1:] = text[0]
        if digits > low:
            higher = _digits(blocks, digits - low).T
            for place, column in enumerate(higher, len(prefix)):
                text[:, :, place] = column[:, np.newaxis]
        texts.append(text.reshape(-1)[(begin - blocks[0] * block) * width : (end - blocks[0] * block) * width])
        lengths.append(np.full(end - begin, width, np.int32))
    offsets = np.concatenate([np.zeros(1, np.int32), np.cumsum(np.concatenate(lengths), dtype=np.int32)])
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(np.concatenate(texts)))


@lru_cache(maxsize=16)
def _digits(numbers: range, width: int) -> np.ndarray:
    """Decimal digits, with leading zeros: uint8, shape (numbers, width)."""
    return np.frombuffer("".join(f"{n:0{width}d}" for n in numbers).encode(), np.uint8).reshape(len(numbers), width)


def file_schema_of(schema: pa.Schema) -> pa.Schema:
    """A base file's columns: the meta columns, then the table's."""
    return pa.schema([*META_FIELDS, *schema])


def schema_footer(schema: pa.Schema, table_name: str) -> dict[str, str]:
    """Footer entries about the columns."""
    return {
        "parquet.avro.schema": schema_to_avro(schema, table_name, with_meta_columns=True),
        "writer.model.name": "avro",
    }


def parquet_writer(
    sink: pa.NativeFile, schema: pa.Schema, config: WriteConfig, dictionaries: Sequence[str] = ()
) -> pq.ParquetWriter:
    """A writer of base files, or of some of their columns; ``dictionaries`` names those to encode with one."""
    return pq.ParquetWriter(
        sink,
        schema,
        compression="none" if config.codec is Codec.UNCOMPRESSED else config.codec.value,
        use_dictionary=list(dictionaries),
        store_schema=False,
        data_page_version="1.0",
        version="2.6",
        write_batch_size=8192,
        write_page_checksum=True,
    )


def dictionaries_for(rows: pa.Table) -> list[str]:
    """Columns for which a dictionary pays: of a sample's values at most half are distinct.

    Others are smaller and faster plain.
    """
    return [name for name in rows.column_names if _repeats(name, rows.column(name))]


def _repeats(name: str, column: pa.ChunkedArray) -> bool:
    if name in _UNIQUE_COLUMNS or pa.types.is_nested(column.type) or pa.types.is_boolean(column.type):
        return False
    if name in META_COLUMNS or pa.types.is_dictionary(column.type):
        return True
    if len(column) > _SAMPLE_ROWS:
        some = _distinct(column.take(_few_places(len(column))))
        if some == _FEW_ROWS:
            return False  # were half of a sample distinct, there would be ten equal pairs
        if some <= _FEW_ROWS / 2:
            return True  # nor would so many be equal
    sample = sample_of(column, _SAMPLE_ROWS)
    return _distinct(sample) <= len(sample) / 2


@lru_cache(maxsize=64)
def _few_places(rows: int) -> pa.Array:
    """Of a sample of so many rows: the same ones each time."""
    return pa.array(np.random.default_rng(0).integers(rows, size=_FEW_ROWS))


def _distinct(values: pa.ChunkedArray) -> int:
    return int(pc.count_distinct(values, mode="all").as_py())


def schema_of_arrays(rows: pa.Table, schema: pa.Schema) -> pa.Schema:
    """The file's schema, with dictionary types where the arrays are dictionaries (they encode as plain text)."""
    return pa.schema(
        [
            pa.field(f.name, rows.schema.field(f.name).type, f.nullable)
            if pa.types.is_dictionary(rows.schema.field(f.name).type)
            else f
            for f in schema
        ]
    )


def footer_texts(entries: Mapping[bytes, bytes]) -> dict[str, str]:
    """A footer's key/values."""
    return {k.decode(errors="replace"): v.decode(errors="replace") for k, v in entries.items()}
