"""Mending tables: methods of :class:`lakeindex.LakeTable`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from lakeindex.api.own_stores import in_its_stores
from lakeindex.api.run import RunArguments, chosen_runner, dry, spec_of, watched
from lakeindex.model import Change, Operation
from lakeindex.options.parse import Options
from lakeindex.options.types import ReportFormat
from lakeindex.time_spent import accounting, starting

if TYPE_CHECKING:
    from lakeindex.api.table import LakeTable
    from lakeindex.commands.repair.repair_keys import KeysRepaired
    from lakeindex.tasks.progress_bars import Progress

KeepName: TypeAlias = Literal["newest", "oldest", "ordering"]
"""Which row stays of a key that is stored more than once."""


@in_its_stores
@accounting()
def repair_keys(
    table: LakeTable,
    *,
    keep: KeepName | None = None,
    apply: bool = False,
    options: Options | None = None,
    checkpoints: str | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> KeysRepaired:
    """Keep one row of every key that is stored more than once, as Hudi's ``insert`` can store it, and delete the others
    in one commit. All record keys of the table are read.

    Args:
        keep: which row stays: ``newest`` (of the newest commit), ``oldest``, or ``ordering`` (with the greatest
            ordering value); by default ordering where it decides which version of a row wins, else newest.
        apply: do it; otherwise only say what would be done, and write nothing.
        options: ``hoodie.*`` and ``lakeindex.*`` options.
        checkpoints: root of the run folders; by default ``<table>.lakeindex`` beside the table.
        force: roll back pending instants of other writers whatever their age.
        progress: receives the progress of the steps.

    Returns:
        The keys, and for the first hundred which files hold them and which row stays.

    Raises:
        OptionError: there is no such choice, or no ordering field to choose by.
        ConflictError: other writers are in the way for good; nothing was published.
    """
    with starting():
        from lakeindex.commands.repair import repair_keys as repairing
        from lakeindex.run.chosen_rows import ChosenRows

    asked: RunArguments = {"options": options, "checkpoints": checkpoints, "force": force, "dry_run": not apply}
    chosen = ChosenRows(Change.REPAIR, "", "that their keys are stored more than once", (("keep", str(keep)),))
    spec = replace(spec_of(table.uri, Operation.DELETE, asked), chosen=chosen)
    runner = chosen_runner("local", spec.config.parallelism, None, progress)
    if not apply:
        return repairing.repair_keys(spec, runner, keep, lambda work: dry(spec, runner, work), dry_run=True)
    return repairing.repair_keys(
        spec, runner, keep, lambda work: watched(spec, lambda begun: begun, work, ReportFormat.JSON), dry_run=False
    )
