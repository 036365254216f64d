"""Whole base files of rows that have their meta columns, made at once: what a file that is rewritten is compared with."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from lakeindex.bloom import marks
from lakeindex.hashing.arrow import plain_strings
from lakeindex.options.types import WriteConfig
from lakeindex.parquet.splice import parts_of, splice
from lakeindex.write.base_file import (
    RECORD_KEY,
    dictionaries_for,
    file_schema_of,
    parquet_writer,
    schema_footer,
    schema_of_arrays,
)
from lakeindex.write.single_columns import leaves_with_nan


def encode_base_file(rows: pa.Table, table_name: str, schema: pa.Schema, config: WriteConfig) -> bytes:
    """Encode rows that have their meta columns as a base file.

    Args:
        rows: meta columns first, then the table's columns; sorted by record key.
        table_name: for the Avro schema in the footer.

    Returns:
        The file. One without rows has a filter and no key range, as Hudi writes it.
    """
    file_schema = file_schema_of(schema)
    fitted = schema_of_arrays(rows, file_schema)
    fitted_rows = rows.cast(fitted)
    sink = pa.BufferOutputStream()
    with parquet_writer(sink, fitted, config, dictionaries_for(rows)) as writer:
        if rows.num_rows:  # as Hudi's writer: no rows, no row group
            writer.write_table(fitted_rows, row_group_size=config.row_group_rows)
        writer.add_key_value_metadata(
            {
                **marks.footer_of_keys(plain_strings(rows.column(RECORD_KEY)), config),
                **schema_footer(schema, table_name),
            }
        )
    data = sink.getvalue()
    limit = config.row_group_rows
    groups = [fitted_rows.slice(at, limit) for at in range(0, rows.num_rows, limit)]
    nan = frozenset((number, leaf) for number, group in enumerate(groups) for leaf in leaves_with_nan(group))
    parts = parts_of(memoryview(data), pq.read_metadata(pa.BufferReader(data)), is_stored=False, nan=nan)
    assert parts is not None
    return b"".join(splice(parts, parts.groups()))
