"""Changes of the rows that meet a condition: what the methods of a table and the command line call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack

from lakeindex.api.arguments import RunArguments
from lakeindex.api.batch_data import BatchData
from lakeindex.api.run import Request
from lakeindex.errors import UsageError, door
from lakeindex.model import Change, Operation
from lakeindex.time_spent import accounting, loading

if TYPE_CHECKING:
    from lakeindex.predicates.predicate import Condition
    from lakeindex.run.summary import RunSummary

_HUDIS = {Change.DELETE: Operation.DELETE, Change.UPDATE: Operation.UPSERT, Change.REPLACE: Operation.UPSERT}


@door
@accounting()
def run_where(
    uri: str,
    change: Change,
    where: Condition,
    *,
    values: Mapping[str, Any] | None = None,
    data: BatchData = None,
    **arguments: Unpack[RunArguments],
) -> RunSummary:
    """Delete, update or replace the rows that meet a condition.

    Args:
        uri: the table.
        change: what is done with them.
        where: SQL-like text, or a pyarrow expression.
        values: of an update, the new values by column.
        data: the rows that come, if the others are replaced.
        **arguments: as of :class:`lakeindex.api.arguments.RunArguments`.

    Raises:
        LakeIndexError: see :mod:`lakeindex.errors`; nothing was published.
    """
    with loading():
        from lakeindex.operations.change_by_condition import change_rows
        from lakeindex.run.spec import ChosenRows

    if where is None or (isinstance(where, str) and not where.strip()):
        raise UsageError(
            f"there is no condition for the {change}",
            culprit="where",
            hint="where='true' means all rows; truncate deletes them",
        )
    if change is Change.UPDATE and not isinstance(values, Mapping):
        hint = "give a dict: set={'column': value}"
        raise UsageError(f"the new values cannot be {values!r}", culprit="set", hint=hint)
    told = tuple((name, repr(value)) for name, value in (values or {}).items())
    request = Request.of(uri, _HUDIS[change], arguments, chosen=ChosenRows(change, where, str(where), told))
    return request.done(
        lambda begun: change_rows(begun, request.runner, values, dry_run=request.dry_run),
        *((data,) if change is Change.REPLACE else ()),
    )
