"""Maintenance of a table; methods of :class:`lakeindex.api.table.LakeTable`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from lakeindex.options.parse import Options, option_texts, parse_options
from lakeindex.raw_errors import doors
from lakeindex.storage.options import StoreOptions, using

if TYPE_CHECKING:
    from lakeindex.commands.upkeep.clean_table import ArchiveSummary, CleanSummary
    from lakeindex.commands.upkeep.maintain import MaintenanceSummary
    from lakeindex.commands.upkeep.rollback_table import RollbackSummary


P = ParamSpec("P")
R = TypeVar("R")
H = TypeVar("H", bound="Upkeep")


def in_its_stores(method: Callable[Concatenate[H, P], R]) -> Callable[Concatenate[H, P], R]:
    """A method of a table handle that opens all stores with the handle's options."""

    @functools.wraps(method)
    def within(handle: H, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with using(StoreOptions.of(handle.storage_options)):
            return method(handle, *args, **kwargs)

    return within


@doors
class Upkeep:
    """Maintenance of the table at ``uri``, whose stores are opened with ``storage_options``."""

    uri: str
    storage_options: Mapping[str, str]

    @in_its_stores
    def rollback(self, instant: str, *, force: bool = False, options: Options | None = None) -> RollbackSummary:
        """Roll back the newest commit, or a pending instant whose writer is dead.

        Args:
            instant: the instant to roll back.
            force: consider every pending instant of another writer dead.
            options: ``hoodie.*`` and ``lakeindex.*`` options.
        """
        from lakeindex.commands.upkeep.rollback_table import rollback_table

        return rollback_table(self.uri, instant, parse_options(options or {}), force=force)

    @in_its_stores
    def clean(
        self,
        keep_commits: int | None = None,
        *,
        dry_run: bool = False,
        force: bool = False,
        options: Options | None = None,
    ) -> CleanSummary:
        """Delete base files that none of the last commits needs.

        >>> orders.clean(keep_commits=2).files
        ()

        Args:
            keep_commits: commits whose files stay readable; default ``hoodie.cleaner.commits.retained`` (10).
            dry_run: only report what would be removed.
            force: consider every pending instant of another writer dead.
            options: ``hoodie.*`` and ``lakeindex.*`` options.
        """
        from lakeindex.commands.upkeep import clean_table as cleaning

        return cleaning.clean(self.uri, keep_commits, parse_options(options or {}), dry_run=dry_run, force=force)

    @in_its_stores
    def archive(
        self,
        keep_commits: int | None = None,
        *,
        dry_run: bool = False,
        force: bool = False,
        options: Options | None = None,
    ) -> ArchiveSummary:
        """Move old instants from the timeline to the archived timeline.

        Args:
            keep_commits: commits that stay; default ``hoodie.keep.min.commits`` (20).
            dry_run: only report what would be removed.
            force: consider every pending instant of another writer dead.
            options: ``hoodie.*`` and ``lakeindex.*`` options.
        """
        from lakeindex.commands.upkeep import clean_table as cleaning

        return cleaning.archive(self.uri, keep_commits, parse_options(options or {}), dry_run=dry_run, force=force)

    @in_its_stores
    def maintain(
        self,
        steps: Sequence[str] | None = None,
        *,
        options: Options | None = None,
        checkpoints: str | None = None,
    ) -> MaintenanceSummary:
        """Settle what dead writers left, clean, archive, compact a stored index, fill the footer cache;
        check on request.

        >>> [step.step for step in orders.maintain().steps]
        ['settle', 'clean', 'archive', 'compact', 'cache', 'runs']

        Args:
            steps: only these; default: all but ``check``, which reads the whole table.
            options: ``hoodie.*`` and ``lakeindex.*`` options.
            checkpoints: root of the run folders; by default ``<table>.lakeindex`` beside the table.
        """
        from lakeindex.commands.upkeep import maintain as maintaining
        from lakeindex.pipeline import default_checkpoints
        from lakeindex.tasks.local_runner import LocalRunner, usable_cores

        where, runner = checkpoints or default_checkpoints(self.uri), LocalRunner(usable_cores())
        wanted = maintaining.UNASKED if steps is None else steps
        return maintaining.maintain(self.uri, where, runner, option_texts(options or {}), wanted)
