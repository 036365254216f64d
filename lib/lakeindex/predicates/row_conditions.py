"""Conditions of an upsert, as of MERGE: what becomes of a row, by the stored row of its key (``old``) and it (``new``).

They are asked first. What they leave to do is done as without them: an older row is ignored, a marked row deletes, and
a row of another partition moves.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeindex.errors import UsageError
from lakeindex.frozen import Frozen
from lakeindex.time_spent import loading

if TYPE_CHECKING:
    from lakeindex.predicates.predicate import Predicate

OLD: Final = "old"
NEW: Final = "new"

Columns: TypeAlias = Mapping[str, pa.Array]
Mask: TypeAlias = npt.NDArray[np.bool_]


class RowConditions(Frozen):
    """The conditions of an upsert; None: not given.

    Attributes:
        update_if: a row whose key is stored replaces the stored row only if it holds.
        delete_if: if it holds, the stored row is deleted instead; it is asked before ``update_if``.
        insert_if: a row whose key is not stored is inserted only if it holds.
    """

    update_if: Predicate | None = None
    delete_if: Predicate | None = None
    insert_if: Predicate | None = None

    @property
    def old_columns(self) -> tuple[str, ...]:
        """Columns of the stored row that they read."""
        return _columns((self.update_if, self.delete_if), OLD)

    @property
    def new_columns(self) -> tuple[str, ...]:
        """Columns of a row whose key is stored that they read."""
        return _columns((self.update_if, self.delete_if), NEW)

    @property
    def inserted_columns(self) -> tuple[str, ...]:
        """Columns of a row whose key is not stored that they read."""
        return _columns((self.insert_if,), NEW)

    @property
    def texts(self) -> tuple[str, ...]:
        """As they were given, in a fixed order; empty if none was."""
        given = (("update", self.update_if), ("delete", self.delete_if), ("insert", self.insert_if))
        return tuple(f"{name} {one.text}" for name, one in given if one is not None)

    def of_stored(self, old: Columns, new: Columns, rows: int) -> tuple[Mask, Mask]:
        """What they say of rows whose keys are stored.

        Args:
            old: the stored rows' values, in the types of the table.
            new: the same of the incoming rows.

        Returns:
            bool [rows], the stored row is to be deleted; and bool [rows], it stays as it is, whatever the row asks for.
        """
        deletes = np.zeros(rows, np.bool_)
        if self.delete_if is not None:
            deletes = _holds(self.delete_if, {OLD: old, NEW: new}, rows)
        if self.update_if is None:
            return deletes, np.zeros(rows, np.bool_)
        return deletes, ~deletes & ~_holds(self.update_if, {OLD: old, NEW: new}, rows)

    def inserts(self, new: Columns, rows: int) -> Mask:
        """Whether rows (``new``, in the table's types) whose keys are not stored are inserted: bool [rows]."""
        return np.ones(rows, np.bool_) if self.insert_if is None else _holds(self.insert_if, {NEW: new}, rows)


@lru_cache(maxsize=16)
def row_conditions(
    schema: pa.Schema,
    update_if: str | None = None,
    delete_if: str | None = None,
    insert_if: str | None = None,
    incoming: pa.Schema | None = None,
) -> RowConditions:
    """Conditions from their texts.

    Args:
        update_if: over ``old.<column>`` and ``new.<column>``.
        delete_if: the same.
        insert_if: over ``new.<column>``.
        incoming: the batch's columns, if it has not all of the table's.

    Raises:
        UsageError: one cannot be read, names a column that there is not, or asks for what is not valid.
    """
    both = pa.schema([(OLD, pa.struct(list(schema))), (NEW, pa.struct(list(incoming or schema)))])
    alone = pa.schema([both.field(NEW)])
    return RowConditions(
        _read("update_if", update_if, both), _read("delete_if", delete_if, both), _read("insert_if", insert_if, alone)
    )


def _read(name: str, text: str | None, schema: pa.Schema) -> Predicate | None:
    if text is None:
        return None
    from lakeindex.predicates.predicate import predicate_of

    listed = ", ".join(schema.field(NEW).type.field(n).name for n in range(schema.field(NEW).type.num_fields))
    rows = " and ".join(f"{one}.<column>" for one in schema.names)
    try:
        found = predicate_of(text, schema)
    except UsageError as error:
        if error.culprit is not None and error.culprit.split(".")[0] == OLD not in schema.names:
            raise UsageError(
                f"{name}: the condition {text!r} names {error.culprit}, and a row that is inserted has no stored row",
                culprit=error.culprit,
                hint=f"name columns as {rows}; columns: {listed}",
            ) from None
        is_bare = error.culprit is not None and error.culprit.split(".")[0] not in schema.names
        hint = f"name columns as {rows}; columns: {listed}" if is_bare and "no column" in error.message else error.hint
        raise UsageError(f"{name}: {error.message}", culprit=error.culprit, hint=hint) from None
    whole = next((path[0] for path in found.paths if len(path) == 1), None)
    if whole is not None:
        raise UsageError(
            f"{name}: {whole!r} is a row, of which the condition {text!r} names no column",
            culprit=whole,
            hint=f"name columns as {rows}; columns: {listed}",
        )
    return found


def _columns(conditions: tuple[Predicate | None, ...], row: str) -> tuple[str, ...]:
    paths = (path for one in conditions if one is not None for path in one.paths)
    return tuple(sorted({path[1] for path in paths if path[0] == row}))


def _holds(predicate: Predicate, sides: Mapping[str, Columns], rows: int) -> Mask:
    """Where a condition is true: bool [rows]."""
    with loading():
        import pyarrow.dataset as ds

    table = pa.table({"row": pa.array(np.arange(rows))} | {name: _struct(side, rows) for name, side in sides.items()})
    found = ds.dataset(table).to_table(columns={"holds": predicate.expression}, use_threads=False).column(0)
    return found.fill_null(False).to_numpy()


def _struct(columns: Columns, rows: int) -> pa.Array:
    if not columns:
        return pa.nulls(rows)
    return pa.StructArray.from_arrays(list(columns.values()), names=list(columns))
