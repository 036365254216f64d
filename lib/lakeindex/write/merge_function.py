"""A caller's function that makes one row of a stored row and a row of the batch with its key."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.errors import LakeIndexError, UsageError, first_line
from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import one_array
from lakeindex.options.option import CONDITION_OPTIONS
from lakeindex.time_spent import loading
from lakeindex.write.single_columns import changed
from lakeindex.write.types.schema_fit import fit_batch

Merge: TypeAlias = Callable[[pa.Table, pa.Table], Any]
"""Takes stored rows and rows of the batch, of the table's columns, row by row of one key; returns as many rows."""
ROWS_OF_A_CALL: Final = 16_384
"""Most rows that a call gets."""


class MergeFunction(Frozen):
    """The function, and what it is called in messages: ``module:name``."""

    name: str
    function: Merge

    @staticmethod
    def of(function: Merge) -> MergeFunction:
        """A function by its own name."""
        module, name = getattr(function, "__module__", "?"), getattr(function, "__qualname__", repr(function))
        return MergeFunction(f"{module}:{name}", function)

    @staticmethod
    def named(text: str) -> MergeFunction:
        """The function of an importable module.

        Args:
            text: ``module:function``.

        Raises:
            UsageError: there is none.
        """
        module, _, name = text.partition(":")
        try:
            with loading():
                found: Any = importlib.import_module(module)
            for part in name.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError, ValueError) as error:
            raise _refused(text, f"cannot be imported: {first_line(error)}", "name it as module:function") from error
        if not callable(found):
            raise _refused(text, "is no function", "name one that takes stored and new rows")
        return MergeFunction(text, found)

    def merged(
        self,
        stored: pa.Table,
        incoming: pa.Table,
        deciding: frozenset[str],
        where: str,
        delete_mark: tuple[str, str] | None = None,
    ) -> pa.Table:
        """Rows that take the place of the stored ones.

        Args:
            incoming: rows of the batch, one for each, with the same columns in the same order.
            deciding: columns in which the result has to be as ``incoming``: those of the record key and of the
                partition path, the ordering field.
            where: what the rows are of, for messages.
            delete_mark: as of :func:`~lakeindex.write.types.schema_fit.fit_batch`.

        Raises:
            UsageError: the function raised an error, or what it returned is no such rows.
        """
        spans = [(at, ROWS_OF_A_CALL) for at in range(0, incoming.num_rows, ROWS_OF_A_CALL)]
        pieces = [
            self._called(stored.slice(*span), incoming.slice(*span), deciding, where, delete_mark) for span in spans
        ]
        return pa.concat_tables(pieces) if pieces else incoming

    def _called(
        self,
        stored: pa.Table,
        incoming: pa.Table,
        deciding: frozenset[str],
        where: str,
        delete_mark: tuple[str, str] | None,
    ) -> pa.Table:
        try:
            made = self.function(stored, incoming)
        except Exception as error:
            what = f"raised {type(error).__name__} for rows of {where}: {first_line(error)}"
            raise _refused(self.name, what, "nothing was published; correct the function") from error
        if isinstance(made, pa.RecordBatch):
            made = pa.Table.from_batches([made])
        if not isinstance(made, pa.Table):
            raise _refused(self.name, f"returned {type(made).__name__} for rows of {where}", "return an Arrow table")
        if made.num_rows != incoming.num_rows:
            what = f"returned {made.num_rows} rows for {incoming.num_rows} of {where}"
            raise _refused(self.name, what, "return a row for each, in their order")
        try:
            fitted = fit_batch(made, incoming.schema, delete_mark=delete_mark)
        except LakeIndexError as error:
            what = f"returned rows for {where} that do not fit the table: {error.message}"
            raise _refused(self.name, what, "return the table's columns in its types") from error
        if fitted.null_problem.null_count < made.num_rows:
            why = fitted.null_problem.drop_null()[0].as_py()
            raise _refused(self.name, f"returned rows for {where} that cannot be stored: {why}", "fill the column")
        if pc.any(fitted.deleted).as_py():
            what = f"marked rows of {where} as deleted, and what it returns is stored"
            hint = f"mark rows of the batch, or say with {CONDITION_OPTIONS['delete_if']} which rows go"
            raise _refused(self.name, what, hint)
        for name in sorted(deciding):
            if not _is_kept(one_array(incoming.column(name)), one_array(fitted.columns.column(name))):
                what = f"changed column {name!r} of rows of {where}"
                raise _refused(
                    self.name, what, "return the new row's record key, partition and ordering columns as they are"
                )
        return fitted.columns.cast(pa.schema([f.with_nullable(True) for f in incoming.schema]))


def _is_kept(before: pa.Array, after: pa.Array) -> bool:
    """Whether a column is what it was: NaN whatever its bits, and zeros with their sign, as Java orders them."""
    if not pa.types.is_floating(before.type):
        return bool(before.equals(after))
    both_nan = pc.fill_null(pc.and_(pc.is_nan(before), pc.is_nan(after)), False).to_numpy(zero_copy_only=False)
    return not (changed(before, after) & ~both_nan).any()


def _refused(name: str, what: str, hint: str) -> UsageError:
    return UsageError(f"merge function {name} {what}", culprit=name, hint=hint)
