"""Record keys of a table whose rows do not store them (``hoodie.populate.meta.fields=false``): made from their columns.

They are what :class:`~lakeindex.write.keys.key_generators.KeyGenerator` makes of a batch; there is no other rule.
"""

from __future__ import annotations

import pyarrow as pa

from lakeindex.errors import TableCorruptError
from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import one_array, plain_strings
from lakeindex.write.keys.key_generators import KeyGenerator, KeySpec
from lakeindex.write.types.widening import widened

_NO_COLUMNS = pa.schema([])


class VirtualKeys(Frozen):
    """How keys of stored rows are made; a column that is not in ``schema`` keeps the type of the file."""

    spec: KeySpec
    schema: pa.Schema = _NO_COLUMNS

    @property
    def columns(self) -> tuple[str, ...]:
        """Top-level columns that a key is made of, each once."""
        return tuple(dict.fromkeys(name.split(".")[0] for name in self.spec.record_key_fields))

    def columns_in(self, stored: pa.Schema) -> list[str]:
        """Those of them that a file has; :meth:`of` says what is wrong with one that lacks some."""
        return [name for name in self.columns if name in stored.names]

    def of(self, rows: pa.Table, path: str) -> pa.Array:
        """Record keys of stored rows, in their order.

        Args:
            rows: with the columns that keys are made of, as they are stored.
            path: the base file that they are from, for messages.

        Raises:
            TableCorruptError: a row has no key, or the file lacks a column of it.
        """
        lacking = [name for name in self.columns if name not in rows.column_names]
        if lacking:
            raise _keyless(path, f"it has no column {lacking[0]!r}, which is part of the record key")
        columns = {name: self._typed(name, rows.column(name)) for name in self.columns}
        keys, problems = KeyGenerator(self.spec).record_keys(pa.table(columns))
        if problems.null_count < len(problems):
            raise _keyless(path, f"{problems.drop_null()[0].as_py()} in one of its rows")
        return plain_strings(one_array(keys)).cast(pa.string())

    def _typed(self, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
        return widened(column, self.schema.field(name).type) if name in self.schema.names else column


def _keyless(path: str, what: str) -> TableCorruptError:
    return TableCorruptError(
        f"base file {path!r} has rows whose keys cannot be made: {what}",
        culprit=path,
        hint="the table has virtual keys (hoodie.populate.meta.fields=false), made from these columns: "
        "restore the file, or roll back the commit that wrote it",
    )
