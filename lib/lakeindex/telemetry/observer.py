"""Tell metrics, lineage and catalogs of a run. Whatever goes wrong in them, the run's own outcome stays the same."""

from __future__ import annotations

import logging
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from lakeindex.errors import LakeIndexError, noted
from lakeindex.options.sync_options import SyncOptions
from lakeindex.pipeline import Stage
from lakeindex.run.checkpoints import finished_stages
from lakeindex.run.spec import RunSpec, run_folder
from lakeindex.run.summary import RunSummary, StageSummary
from lakeindex.telemetry.outcome import RunEnding, ended_badly, ended_well
from lakeindex.time_spent import loading

if TYPE_CHECKING:
    from lakeindex.telemetry.lineage import Lineage
    from lakeindex.telemetry.metrics import MetricsFile

_LOG = logging.getLogger("lakeindex.telemetry")


class RunObserver:
    """Tells metrics, lineage and catalogs of a run, where its options ask for it.

    Used as a context manager around the run. ``begins`` says that the inputs are known, ``ends`` what came out; an
    exception that leaves the block is the run's failure and passes on. Nothing that goes wrong in here fails the run.

    Args:
        stage: the only stage that this process does, or None for all of them.
        parent: ``NAMESPACE/JOB/RUN ID`` of what started the run, if the caller knows it, for OpenLineage.

    Raises:
        UsageError: an option needs a library that is not installed.
        OptionError: the place of the metrics is no local file.
    """

    def __init__(self, spec: RunSpec, stage: Stage | None = None, parent: str | None = None) -> None:
        config = spec.config
        self._spec = spec
        self._told = False
        self._metrics: MetricsFile | None = None
        self._lineage: Lineage | None = None
        if config.metrics_textfile is not None:
            with loading():
                from lakeindex.telemetry.metrics import metrics_file

            self._metrics = metrics_file(config.metrics_textfile, spec)
        if config.of(SyncOptions).catalogs:
            with loading():
                from lakeindex.catalogs.places import open_catalog

            for kind in config.of(SyncOptions).catalogs:
                open_catalog(kind, config.of(SyncOptions)).close()
        if config.openlineage:
            with loading():
                from lakeindex.telemetry.lineage import lineage_of

            self._lineage = lineage_of(stage, parent)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or self._told:
            return
        for note in self._tell(ended_badly(error, self._stages(), time.time())):
            _LOG.warning(note)

    def begins(self, spec: RunSpec) -> None:
        """The run's inputs are known; the work starts."""
        self._spec = spec
        if self._lineage is not None:
            for note in noted("OpenLineage was not told of the start", lambda: self._started(spec)):
                _LOG.warning(note)

    def ends(self, result: RunSummary | StageSummary) -> tuple[str, ...]:
        """The work is done; the line of one stage is not yet the end of the run.

        Returns:
            Notes on what went wrong in telling, if anything did.
        """
        if not isinstance(result, RunSummary):
            return ()
        return self._synced() + self._tell(ended_well(result, time.time()))

    def _synced(self) -> tuple[str, ...]:
        """Let the catalogs know of the commit; of an earlier one, if this run found its batch committed."""
        if not self._spec.config.of(SyncOptions).catalogs:
            return ()
        from lakeindex.catalogs.syncing import sync_after

        return sync_after(self._spec.table_uri, self._spec.config)

    def _started(self, spec: RunSpec) -> None:
        if self._lineage is not None:
            self._lineage.start(spec)

    def _tell(self, ending: RunEnding) -> tuple[str, ...]:
        self._told = True
        notes: tuple[str, ...] = ()
        if self._metrics is not None:
            metrics = self._metrics
            notes += noted("the run's metrics could not be written", lambda: metrics.update(self._spec, ending))
        if self._lineage is not None:
            lineage = self._lineage
            notes += noted("OpenLineage was not told of the end", lambda: lineage.end(self._spec, ending))
        return notes

    def _stages(self) -> tuple[StageSummary, ...]:
        """Stages that a failed run finished."""
        if self._metrics is None:
            return ()
        try:
            return finished_stages(run_folder(self._spec))
        except (LakeIndexError, OSError, ValueError, KeyError):
            return ()
