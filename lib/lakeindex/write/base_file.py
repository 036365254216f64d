"""Encode one base file: meta columns, footer key/values, row groups; bytes in memory, put whole by the caller.

Footer keys about record keys are made by :mod:`lakeindex.bloom.marks`; beside them stand ``parquet.avro.schema`` and
``writer.model.name``, as Hudi's Avro writer puts them (docs/format.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeindex.bloom import marks
from lakeindex.config import Codec, WriteConfig
from lakeindex.hashing.arrow import plain_strings
from lakeindex.write.avro_schema import META_COLUMNS, META_FIELDS, schema_to_avro

COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY, PARTITION_PATH, FILE_NAME = META_COLUMNS
_UNIQUE_COLUMNS = (COMMIT_SEQNO, RECORD_KEY)


@dataclass(frozen=True, slots=True)
class EncodedFile:
    """A whole base file in memory.

    Attributes:
        data: the Parquet file.
        rows: rows in it.
    """

    data: pa.Buffer
    rows: int


def constant_column(value: str, rows: int) -> pa.DictionaryArray:
    """A column that holds one text in every row, as one dictionary entry."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([value], pa.string()))


def sequence_numbers(instant: str, task: int, rows: int) -> pa.Array:
    """``<instant>_<task>_<row>``: unique in a commit. Shape: (rows,)."""
    numbers = pc.cast(pa.array(np.arange(rows, dtype=np.int64)), pa.string())
    return pc.binary_join_element_wise(f"{instant}_{task}", numbers, "_")


@dataclass(frozen=True, slots=True)
class CarriedFooter:
    """Key/values of the slice that is replaced, and the keys that the new one has beyond it."""

    key_value: Mapping[str, str]
    added: pa.Array


def encode_base_file(
    rows: pa.Table, table_name: str, schema: pa.Schema, config: WriteConfig, carried: CarriedFooter | None = None
) -> EncodedFile:
    """Encode rows with their meta columns as a base file.

    Args:
        rows: meta columns first, then the table's columns; sorted by record key.
        table_name: for the Avro schema in the footer.
        schema: the table's columns with their nullability.
        config: codec, row group size, filter type and sizing.
        carried: the old slice's footer, whose filter is taken over if it is ours and has room.

    Returns:
        The file's bytes. A file without rows has a filter and no key range, as Hudi writes it.
    """
    footer = {
        **_key_footer(plain_strings(rows.column(RECORD_KEY)), config, carried),
        "parquet.avro.schema": schema_to_avro(schema, table_name, with_meta_columns=True),
        "writer.model.name": "avro",
    }
    file_schema = pa.schema([*META_FIELDS, *schema])
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        _schema_of_arrays(rows, file_schema),
        compression="none" if config.codec is Codec.UNCOMPRESSED else config.codec.value,
        use_dictionary=[n for n in file_schema.names if n not in _UNIQUE_COLUMNS],
        store_schema=False,
        data_page_version="1.0",
        version="2.6",
        write_batch_size=8192,
    ) as writer:
        if rows.num_rows:  # as Hudi's writer: no rows, no row group
            writer.write_table(rows.cast(_schema_of_arrays(rows, file_schema)), row_group_size=config.row_group_rows)
        writer.add_key_value_metadata(footer)
    return EncodedFile(sink.getvalue(), rows.num_rows)


def _key_footer(keys: pa.Array, config: WriteConfig, carried: CarriedFooter | None) -> dict[str, str]:
    if carried is not None:
        footer = marks.footer_with_added(carried.key_value, carried.added, config)
        if footer is not None:
            return footer
    return marks.footer_of_keys(keys, config)


def _schema_of_arrays(rows: pa.Table, schema: pa.Schema) -> pa.Schema:
    """The file's schema, with dictionary types where the arrays are dictionaries (they encode as plain text)."""
    return pa.schema(
        [
            pa.field(f.name, rows.schema.field(f.name).type, f.nullable)
            if pa.types.is_dictionary(rows.schema.field(f.name).type)
            else f
            for f in schema
        ]
    )
