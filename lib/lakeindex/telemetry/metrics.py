"""Metrics of runs as a text file for Prometheus's textfile collector; ``docs/metrics.md`` lists them.

A run is a short process that nobody can scrape, so it leaves its numbers in a file that node_exporter reads. Counters
go on from what the file says; a file that is gone or unreadable starts them again, which Prometheus takes as a reset.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import tenacity
from msgspec import Struct, field

from lakeindex.errors import OptionError, UsageError
from lakeindex.frozen import Frozen
from lakeindex.pipeline import Stage
from lakeindex.run.spec import RunSpec
from lakeindex.run.summary import FATES, RunSummary, StageSummary
from lakeindex.storage.paths import plain
from lakeindex.telemetry.outcome import RunEnding, RunOutcome
from lakeindex.time_spent import loading

if TYPE_CHECKING:
    from prometheus_client.core import Metric

OPTION: Final = "lakeindex.metrics.textfile"
SUFFIX: Final = ".prom"
_LOCK_SECONDS: Final = 10.0

#: Sample name and labels, sorted.
_Key = tuple[str, tuple[tuple[str, str], ...]]


class _Kind(Frozen):
    """A metric: name without ``_total``, whether it counts on over runs, what it says."""

    name: str
    counts: bool
    text: str


_KINDS: Final = (
    _Kind("lakeindex_runs", True, "Runs by what became of them."),
    _Kind("lakeindex_records_in", True, "Rows of the input."),
    _Kind("lakeindex_records", True, "Rows of the input by what happened to them."),
    _Kind("lakeindex_rows_copied", True, "Untouched rows that were rewritten with their file."),
    _Kind("lakeindex_files", True, "Base files written: of new file groups (created), new slices (rewritten)."),
    _Kind("lakeindex_file_bytes_written", True, "Bytes of base files."),
    _Kind("lakeindex_candidate_pairs", True, "Pairs of a key and a file: possible, left by ranges, left by filters."),
    _Kind("lakeindex_stage_seconds", True, "Wall time of stages, without start-up and waiting."),
    _Kind("lakeindex_startup_seconds", True, "Start-up of runs, which is in no stage's seconds."),
    _Kind("lakeindex_waiting_seconds", True, "Waiting of runs, which is in no stage's seconds."),
    _Kind("lakeindex_stage_read_bytes", True, "Bytes that stages read from storage."),
    _Kind("lakeindex_stage_written_bytes", True, "Bytes that stages wrote to storage, checkpoints included."),
    _Kind("lakeindex_stage_requests", True, "Calls of stages to the storage."),
    _Kind("lakeindex_last_run_outcome", False, "1 for what became of the last run, 0 for the rest."),
    _Kind("lakeindex_last_run_exit_code", False, "Exit code of the last run, as the command line ends with."),
    _Kind("lakeindex_last_run_timestamp_seconds", False, "When the last run ended."),
    _Kind(
        "lakeindex_last_run_records", False, "Rows of the last run's input by what happened to them; none if it failed."
    ),
    _Kind("lakeindex_last_run_candidate_pairs", False, "Candidate pairs of the last run."),
    _Kind("lakeindex_last_run_stage_seconds", False, "Wall time of the stages that the last run finished."),
    _Kind("lakeindex_last_run_stage_peak_bytes", False, "Most resident memory of a process that worked for the stage."),
    _Kind("lakeindex_last_success_timestamp_seconds", False, "When a run last ended without failing."),
)
_COUNTERS: Final = frozenset(kind.name for kind in _KINDS if kind.counts)


def metrics_file(place: str, spec: RunSpec) -> MetricsFile:
    """The file of a run's metrics.

    Args:
        place: a file ``NAME.prom``, which tables may share, or a folder, in which each table has its own file.

    Raises:
        UsageError: prometheus-client is not installed.
        OptionError: the place is not local.
    """
    try:
        with loading():
            import prometheus_client  # noqa: F401 - is it there?
    except ImportError as error:
        raise UsageError(
            f"option {OPTION} needs the package prometheus-client",
            culprit=OPTION,
            hint="pip install 'lakeindex[metrics]', or leave the option out",
        ) from error
    local = plain(place)
    if "://" in local:
        raise OptionError(
            f"option {OPTION} cannot be {place!r}",
            culprit=OPTION,
            hint="give a local file NAME.prom or a local folder: the textfile collector reads local files",
        )
    path = Path(local)
    return MetricsFile(path if path.suffix == SUFFIX else path / file_name(spec.table_uri))


def file_name(table_uri: str) -> str:
    """Name of a table's own file: its name, and a digest of its place, as two tables may have one name."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", table_uri.rstrip("/").rpartition("/")[2]) or "table"
    return f"lakeindex-{name[:80]}-{hashlib.sha256(table_uri.encode()).hexdigest()[:8]}{SUFFIX}"


class MetricsFile(Frozen):
    """A text file in Prometheus's format; other tables' samples in it stay."""

    path: Path

    def update(self, spec: RunSpec, ending: RunEnding) -> None:
        """Put a run's end into the file, atomically; a writer at a time.

        Raises:
            OSError, TimeoutError: it cannot be written.
        """
        from prometheus_client import CollectorRegistry, write_to_textfile

        self.path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(self.path.with_name(f".{self.path.name}.lock")):
            samples = _Samples(_read(self.path))
            samples.take(spec, ending)
            registry = CollectorRegistry()
            registry.register(samples)
            write_to_textfile(str(self.path), registry)


class _Samples(Struct, eq=False):
    """All samples of a file; a collector of prometheus-client's."""

    values: dict[_Key, float] = field(default_factory=dict)

    def collect(self) -> Iterator[Metric]:
        """One family a kind that has samples."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        for kind in _KINDS:
            found = [
                (dict(labels), value) for (name, labels), value in sorted(self.values.items()) if name == kind.name
            ]
            if not found:
                continue
            family = CounterMetricFamily if kind.counts else GaugeMetricFamily
            names = list(found[0][0])
            metric = family(kind.name, kind.text, labels=names)
            for labels, value in found:
                metric.add_metric([labels[name] for name in names], value)
            yield metric

    def take(self, spec: RunSpec, ending: RunEnding) -> None:
        table = spec.table_uri
        self._forget_last_run(table)
        self._add("lakeindex_runs", 1, table=table, operation=str(spec.operation).lower(), outcome=str(ending.outcome))
        for outcome in RunOutcome:
            self._set("lakeindex_last_run_outcome", ending.outcome is outcome, table=table, outcome=str(outcome))
        self._set("lakeindex_last_run_exit_code", ending.exit_code, table=table)
        self._set("lakeindex_last_run_timestamp_seconds", ending.finished_at, table=table)
        if ending.outcome is not RunOutcome.FAILED:
            self._set("lakeindex_last_success_timestamp_seconds", ending.finished_at, table=table)
        if ending.counted is not None:
            self._take_summary(table, ending.counted)
        if ending.counted is not None or ending.summary is None:
            for stage in ending.stages:
                self._set("lakeindex_last_run_stage_seconds", stage.seconds, table=table, stage=stage.name)
                self._set("lakeindex_last_run_stage_peak_bytes", stage.peak_bytes, table=table, stage=stage.name)

    def _forget_last_run(self, table: str) -> None:
        gone = [key for key in self.values if key[0].startswith("lakeindex_last_run_") and ("table", table) in key[1]]
        for key in gone:
            del self.values[key]

    def _take_summary(self, table: str, run: RunSummary) -> None:
        self._add("lakeindex_records_in", run.rows_in, table=table)
        for fate in FATES:
            self._add("lakeindex_records", getattr(run, fate), table=table, fate=fate)
            self._set("lakeindex_last_run_records", getattr(run, fate), table=table, fate=fate)
        self._add("lakeindex_rows_copied", run.rows_copied, table=table)
        self._add("lakeindex_files", run.files_created, table=table, action="created")
        self._add("lakeindex_files", run.files_rewritten, table=table, action="rewritten")
        self._add("lakeindex_file_bytes_written", run.bytes_written, table=table)
        for step, pairs in candidate_pairs(run.stages).items():
            self._add("lakeindex_candidate_pairs", pairs, table=table, step=step)
            self._set("lakeindex_last_run_candidate_pairs", pairs, table=table, step=step)
        self._add("lakeindex_startup_seconds", run.startup_seconds, table=table)
        self._add("lakeindex_waiting_seconds", run.waiting_seconds, table=table)
        for stage in run.stages:
            self._add("lakeindex_stage_seconds", stage.seconds, table=table, stage=stage.name)
            self._add("lakeindex_stage_read_bytes", stage.bytes_read, table=table, stage=stage.name)
            self._add("lakeindex_stage_written_bytes", stage.bytes_written, table=table, stage=stage.name)
            self._add("lakeindex_stage_requests", stage.requests, table=table, stage=stage.name)

    def _set(self, name: str, value: float, **labels: str) -> None:
        self.values[(name, tuple(sorted(labels.items())))] = float(value)

    def _add(self, name: str, value: float, **labels: str) -> None:
        key = (name, tuple(sorted(labels.items())))
        self.values[key] = self.values.get(key, 0.0) + value


def candidate_pairs(stages: tuple[StageSummary, ...]) -> Mapping[str, int]:
    """Pairs of a key and a file by step: possible, after ranges, after filters; only those that the run had."""
    by_name = {stage.name: stage for stage in stages}
    lookup, bloom = by_name.get(Stage.INDEX_LOOKUP), by_name.get(Stage.BLOOM_CHECK)
    found: dict[str, int] = {}
    if lookup is not None:
        found = {"possible": lookup.pairs_in, "after_ranges": lookup.pairs_out}
    if bloom is not None:
        found["after_filters"] = bloom.pairs_out
    return found


def _read(path: Path) -> dict[_Key, float]:
    """Samples of ours in a file; none if it is not there or not readable."""
    from prometheus_client.parser import text_string_to_metric_families

    known = {kind.name for kind in _KINDS}
    try:
        families = list(text_string_to_metric_families(path.read_text(encoding="utf-8")))
        return {
            (family.name, tuple(sorted(sample.labels.items()))): float(sample.value)
            for family in families
            if family.name in known
            for sample in family.samples
            if sample.name == (f"{family.name}_total" if family.name in _COUNTERS else family.name)
        }
    except (OSError, ValueError, KeyError, IndexError):
        return {}


class _BusyError(Exception):
    """Another process holds the lock."""


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One writer at a time: counters are read, changed and written back.

    Raises:
        TimeoutError: another writer did not finish in time.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        waiting = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_BusyError),
            wait=tenacity.wait_random(0.01, 0.1),
            stop=tenacity.stop_after_delay(_LOCK_SECONDS),
            retry_error_callback=_gave_up(path),
        )
        waiting(_take, handle)
        yield
    finally:
        os.close(handle)


def _take(handle: int) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise _BusyError from error


def _gave_up(path: Path) -> Any:
    def fail(_: tenacity.RetryCallState) -> None:
        raise TimeoutError(f"{path} was held by another writer for {_LOCK_SECONDS:.0f} s")

    return fail
