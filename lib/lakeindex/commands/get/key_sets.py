"""Sets of record keys, as callers give them: texts, Arrow data, or a file."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeindex.errors import InputError, ObjectNotFoundError, first_line
from lakeindex.hashing.arrow import one_array, plain_strings
from lakeindex.storage.paths import absolute
from lakeindex.tasks.stores import storage_at
from lakeindex.write.base_file import RECORD_KEY

KeySet: TypeAlias = str | os.PathLike[str] | Sequence[str] | pa.Array | pa.ChunkedArray | pa.Table
"""One key, keys, an Arrow column or table of keys, or (as a path object) a file of keys."""


def key_set(keys: KeySet) -> pa.Array:
    """Distinct keys, ascending by UTF-8 bytes.

    Args:
        keys: texts; Arrow strings or integers; a table with the column ``_hoodie_record_key`` or with one column only;
            a path object: see :func:`keys_of_file`.

    Raises:
        InputError: no such column, a null, or a type that is no key.
    """
    if isinstance(keys, str):
        found: pa.Array = pa.array([keys], pa.string())
    elif isinstance(keys, os.PathLike):
        found = keys_of_file(os.fspath(keys))
    elif isinstance(keys, pa.Table):
        found = _as_text(_column_of(keys, "the table of keys"))
    elif isinstance(keys, (pa.Array, pa.ChunkedArray)):
        found = _as_text(keys)
    else:
        found = _of_list(keys)
    distinct = found.unique()
    return distinct.take(pc.sort_indices(distinct))


def keys_of_file(path: str) -> pa.Array:
    """Keys of a file: a Parquet file (``.parquet``) with a column ``_hoodie_record_key`` or one column only;
    else UTF-8 text, one key a line.

    Raises:
        InputError: the file is not there, or cannot be read as that.
    """
    folder, name = posixpath.split(absolute(path))
    try:
        data = storage_at(folder).read(name)
        if name.lower().endswith(".parquet"):
            return _as_text(_column_of(pq.read_table(pa.BufferReader(data)), path))
        lines = data.decode("utf-8-sig").split("\n")
    except ObjectNotFoundError:
        raise InputError(f"no file of keys at {path!r}", culprit=path, hint="check the path") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"the file of keys {path!r} cannot be read: {first_line(error)}",
            culprit=path,
            hint="give UTF-8 text with one key a line, or a Parquet file",
        ) from error
    return pa.array([key for line in lines if (key := line.removesuffix("\r"))], pa.string())


def _column_of(table: pa.Table, where: str) -> pa.ChunkedArray:
    if RECORD_KEY in table.column_names:
        return table.column(RECORD_KEY)
    if table.num_columns == 1:
        return table.column(0)
    raise InputError(
        f"{where} has columns {', '.join(table.column_names) or 'none'}: which one holds the keys?",
        culprit=where,
        hint=f"name it {RECORD_KEY}, or give that column only",
    )


def _of_list(keys: Sequence[str]) -> pa.Array:
    for key in keys:
        if not isinstance(key, str):
            raise InputError(f"a record key cannot be {key!r}", culprit=repr(key), hint="give texts")
    return pa.array(keys, pa.string())


def _as_text(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise InputError(f"key {row} is null", culprit=str(row), hint="leave it out: no row has a null key")
    kind = column.type
    if pa.types.is_integer(kind):
        array = one_array(column) if isinstance(column, pa.ChunkedArray) else column
        return array.cast(pa.string())
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if not any(is_text(kind) for is_text in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)):
        raise InputError(f"record keys cannot be {kind}", culprit=str(kind), hint="give texts or whole numbers")
    return plain_strings(column).cast(pa.string())
