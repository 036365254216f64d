"""Keys that another writer has stored more than once: keep one row of each, and delete the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from lakeindex.commands.repair.doubled_keys import DoubledKey, DoubledKeys, Keep
from lakeindex.commands.results import JsonResult
from lakeindex.conductor.chosen import run_chosen
from lakeindex.conductor.dry_run import plan_batch
from lakeindex.errors import OptionError
from lakeindex.run.spec import RunSpec
from lakeindex.run.summary import RunSummary
from lakeindex.tasks.runner import Runner


@dataclass(frozen=True, slots=True)
class KeysRepaired(JsonResult):
    """Keys that were stored more than once, and what became of them.

    Attributes:
        uri: the table.
        scope: where a key must be unique: ``partition`` or ``table``.
        keep: which row of a key stays: ``newest``, ``oldest`` or ``ordering``.
        keys: how many keys were stored more than once.
        rows_removed: rows that are deleted, or would be.
        files_rewritten: base files that held them.
        found: the first keys, in their order.
        dry_run: nothing was written.
        instant: the commit; None if there is none.
        seconds: wall time.
        notes: information for the caller.
    """

    shown_by: ClassVar[str] = "upkeep:show_repaired"

    uri: str
    scope: str
    keep: str
    keys: int
    rows_removed: int
    files_rewritten: int
    found: tuple[DoubledKey, ...]
    dry_run: bool
    instant: str | None
    seconds: float
    notes: tuple[str, ...]


def repair_keys(
    spec: RunSpec,
    runner: Runner,
    keep: str | None,
    around: Callable[[Callable[[RunSpec], RunSummary]], RunSummary],
    *,
    dry_run: bool,
) -> KeysRepaired:
    """Keep one row of every key that is stored more than once.

    Args:
        spec: the run.
        runner: schedules the tasks.
        keep: which row stays: newest, oldest or ordering; None: as the table's own merging would choose.
        around: runs what it is given with a run folder.
        dry_run: write nothing.

    Raises:
        OptionError: there is no such choice, or no ordering field to choose by.
        ConflictError: another writer's work stands in the way for good; nothing was published.
    """
    if keep is not None and keep not in list(Keep):
        raise OptionError(f"keep cannot be {keep!r}", culprit="keep", hint=f"valid: {' | '.join(Keep)}")
    source = DoubledKeys(None if keep is None else Keep(keep), runner)
    done = around(lambda begun: plan_batch(begun, runner, source) if dry_run else run_chosen(begun, source, runner))
    return KeysRepaired(
        uri=spec.table_uri,
        scope=source.scope,
        keep=str(source.kept),
        keys=done.deletes,
        rows_removed=done.deletes + done.copies,
        files_rewritten=done.files_rewritten,
        found=source.shown,
        dry_run=dry_run,
        instant=done.instant,
        seconds=done.seconds,
        notes=done.notes,
    )
