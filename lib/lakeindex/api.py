"""The Python door: ``open_table(uri)`` and what it can do. Heavy libraries load when they are needed."""

from __future__ import annotations

import os
import posixpath
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from lakeindex.config import ReportFormat, parse_options
from lakeindex.errors import InputError, OptionError, UsageError
from lakeindex.model import Operation

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeindex.runners.progress import Progress
    from lakeindex.services.advising import Advice
    from lakeindex.services.check_report import CheckReport
    from lakeindex.services.getting import GetResult
    from lakeindex.services.getting_keys import KeySet
    from lakeindex.services.history import HistoryEntry
    from lakeindex.services.indexing import IndexBuilt, IndexDropped, IndexStatus
    from lakeindex.services.indexing_verify import IndexVerified
    from lakeindex.services.migrating import IndexMigrated
    from lakeindex.stages.context import RunSpec
    from lakeindex.stages.scheduling import Runner
    from lakeindex.stages.summary import RunSummary

_IN_MEMORY_BYTES = 64 * 1024 * 1024

BatchData: TypeAlias = Any
"""An Arrow table or record batches, a pandas or Polars frame, a Spark DataFrame, or a path or paths of files."""


@dataclass(frozen=True)
class LakeTable:
    """A Hudi copy-on-write table that can be upserted into.

    Attributes:
        uri: the table's folder, a path or URL.
        storage_options: settings of the store that are no secrets (endpoint, region); credentials come from the
            environment.
    """

    uri: str
    storage_options: Mapping[str, str] = field(default_factory=dict)

    def upsert(self, data: BatchData, **arguments: Any) -> RunSummary:
        """Insert new keys, update those that are there, delete rows marked ``_hoodie_is_deleted``.

        Args:
            data: an Arrow table, a pandas or Polars frame, a Spark DataFrame, paths of files, or ``table:NAME``.
            **arguments: as :func:`run`.

        Returns:
            What happened to every row.
        """
        return run(self.uri, data, Operation.UPSERT, **arguments)

    def delete(self, data: BatchData, **arguments: Any) -> RunSummary:
        """Delete the keys of ``data`` (key and partition columns); keys that are not there are counted as ignored."""
        return run(self.uri, data, Operation.DELETE, **arguments)

    def read(self, *, as_of: str | None = None, since: str | None = None) -> pa.Table:
        """The table's rows, meta columns first.

        Args:
            as_of: an instant or ISO time, inclusive: rows as they were then.
            since: an instant or ISO time, exclusive: only rows written after it.
        """
        from lakeindex.services.reading import read_rows

        return read_rows(self.uri, as_of=as_of, since=since)

    def get(
        self,
        keys: KeySet,
        *,
        partition: str | None = None,
        columns: Sequence[str] | None = None,
        as_of: str | None = None,
        options: Mapping[str, str] | None = None,
        runner: Runner | str = "local",
        master: str | None = None,
        progress: Progress | None = None,
    ) -> GetResult:
        """The rows of some record keys: the index says which files to look into, and only what is needed of them is read.

        Args:
            keys: record keys as they are stored: texts, an Arrow column or table of them, or a ``pathlib.Path`` of a file
                with one key a line, or of a Parquet file. Of a table with a complex key: ``a:1,b:2``.
            partition: only rows of this partition path.
            columns: columns to return; all, meta columns first, if not given.
            as_of: an instant or ISO time, inclusive: rows as they were then.
            options: ``hoodie.*`` and ``lakeindex.*`` options, such as the address of a store.
            runner: ``local``, ``spark``, or a runner; the rows come to this process.
            master: Spark master, if a session has to be made.
            progress: told about the steps.

        Returns:
            ``.rows``, ``.missing`` keys, and a ``.report`` of what was read.
        """
        from lakeindex.services.getting import get_rows

        chosen = _runner(runner, parse_options(options or {}).parallelism, master, progress)
        return get_rows(
            _absolute(self.uri), keys, chosen, partition=partition, columns=columns, as_of=as_of, options=options
        )

    def advise(
        self, data: BatchData, *, options: Mapping[str, str] | None = None, checkpoints: str | None = None
    ) -> Advice:
        """What each index type would cost on this table for batches like this one, and which to take. Changes nothing.

        Args:
            data: a typical batch: an Arrow table, a pandas or Polars frame, or paths of files; a sample of it is read.
            options: ``hoodie.*`` and ``lakeindex.*`` options of the writes to come.
            checkpoints: root of the run folders, for the error of the last runs' estimates.
        """
        from lakeindex.services.advising import advise

        if isinstance(data, (str, os.PathLike)):
            data = [data]
        if isinstance(data, Sequence) and data and all(isinstance(d, (str, os.PathLike)) for d in data):
            batch: Any = [_absolute(os.fspath(d)) for d in data]
        else:
            batch = _arrow_table(data)
        return advise(_absolute(self.uri), batch, options=options, checkpoints=checkpoints)

    def history(self) -> tuple[HistoryEntry, ...]:
        """All instants of the active timeline, newest first."""
        from lakeindex.services.history import table_history

        return table_history(self.uri)

    def index_build(self, index_type: str | None = None, **arguments: Any) -> IndexBuilt:
        """Build a stored index anew from the key columns of all live files.

        Args:
            index_type: which index; by default the one that the table is bound to.
            **arguments: ``options``, ``checkpoints``, ``runner``, ``master`` and ``progress``, as of :func:`run`.
        """
        from lakeindex.services.indexing import build_index

        return build_index(self.uri, index_type=index_type, **self._index_arguments(**arguments))

    def index_drop(self, index_type: str | None = None, **arguments: Any) -> IndexDropped:
        """Remove a stored index; arguments as of :meth:`index_build`."""
        from lakeindex.services.indexing import drop_index

        return drop_index(self.uri, index_type=index_type, **self._index_arguments(**arguments))

    def index_verify(self, index_type: str | None = None, **arguments: Any) -> IndexVerified:
        """Compare every entry of a stored index with the keys in the live files; arguments as of :meth:`index_build`."""
        from lakeindex.services.indexing_verify import verify_index

        return verify_index(self.uri, index_type=index_type, **self._index_arguments(**arguments))

    def index_status(self, index_type: str | None = None, **arguments: Any) -> IndexStatus:
        """What there is of a stored index; arguments as of :meth:`index_build`."""
        from lakeindex.services.indexing import index_status

        return index_status(self.uri, index_type=index_type, **self._index_arguments(**arguments))

    def index_migrate(self, to: str, *, dry_run: bool = False, force: bool = False, **arguments: Any) -> IndexMigrated:
        """Give the table another index.

        Args:
            to: the index type.
            dry_run: check what can be checked, and change nothing.
            force: take any pending instant of another writer for dead.
            **arguments: as of :meth:`index_build`; options that are bound with the index are bound anew.
        """
        from lakeindex.config import parse_options
        from lakeindex.services.migrating import migrate_index

        wanted = parse_options({"hoodie.index.type": to}).index_type
        if wanted is None:
            raise OptionError("say which index the table shall have", culprit="to", hint="for example RECORD_INDEX")
        return migrate_index(self.uri, wanted, dry_run=dry_run, force=force, **self._index_arguments(**arguments))

    def _index_arguments(
        self,
        *,
        options: Mapping[str, str] | None = None,
        checkpoints: str | None = None,
        runner: Runner | str = "local",
        master: str | None = None,
        progress: Progress | None = None,
    ) -> dict[str, Any]:
        slots = parse_options(options or {}).parallelism
        return {
            "runner": _runner(runner, slots, master, progress),
            "checkpoints": checkpoints or default_checkpoints(self.uri),
            "options": options,
        }

    def check(self) -> CheckReport:
        """Check every invariant of the table."""
        from lakeindex.services.checking import check_table

        return check_table(self.uri)


def open_table(uri: str, storage_options: Mapping[str, str] | None = None) -> LakeTable:
    """Open a table.

    Args:
        uri: a path, or a URL such as ``s3://bucket/table``.
        storage_options: endpoint, region and the like, set as environment variables of this process before the store is
            opened; credentials belong in the environment.

    Raises:
        TableNotFoundError: there is no table.
        TableUnsupportedError: a kind of table that is not read.
    """
    from lakeindex.storage import open_storage
    from lakeindex.table.handle import Table

    for name, value in (storage_options or {}).items():
        os.environ[name.upper()] = value
    Table.open(open_storage(uri))
    return LakeTable(uri, dict(storage_options or {}))


def run(
    uri: str,
    data: BatchData,
    operation: Operation,
    *,
    options: Mapping[str, str] | None = None,
    batch_id: str | None = None,
    run_id: str | None = None,
    checkpoints: str | None = None,
    max_quarantined: int = 0,
    force: bool = False,
    runner: Runner | str = "local",
    master: str | None = None,
    progress: Progress | None = None,
    report: ReportFormat = ReportFormat.JSON,
) -> RunSummary:
    """One batch, all stages.

    Args:
        uri: the table.
        data: the batch.
        operation: upsert or delete.
        options: ``hoodie.*`` and ``lakeindex.*`` options.
        batch_id: names the batch for good: the same id is committed once.
        run_id: names the checkpoint folder; made from the batch id, or new.
        checkpoints: root of the run folders; by default ``<table>.lakeindex`` beside the table.
        max_quarantined: bad rows that are tolerated.
        force: commit a used batch id again; roll back foreign pending instants whatever their age.
        runner: ``local``, ``spark``, or a runner.
        master: Spark master, if a session has to be made.
        progress: told about the steps.
        report: what is left of the run's report if ``lakeindex.report`` is not given.

    Raises:
        LakeIndexError: see :mod:`lakeindex.errors`; nothing was published.
    """
    from lakeindex.stages.context import RunSpec

    pairs = tuple(sorted((options or {}).items()))
    config = parse_options(pairs)
    run_id = run_id or run_id_of(batch_id)
    chosen = _runner(runner, config.parallelism, master, progress)
    spec = RunSpec(
        table_uri=_absolute(uri),
        checkpoints_uri=_absolute(checkpoints or default_checkpoints(uri)),
        run_id=run_id,
        batch_id=batch_id or run_id,
        operation=operation,
        inputs=(),
        options=pairs,
        max_quarantined=max_quarantined,
        force=force,
    )
    return _watched(spec, data, chosen, report)


def _watched(spec: RunSpec, data: BatchData, runner: Runner, report: ReportFormat) -> RunSummary:
    """The run, and what is told and kept of it."""
    from lakeindex.report.keeping import keep_report
    from lakeindex.stages.retention import drop_old_runs
    from lakeindex.stages.upserting import run_batch
    from lakeindex.telemetry.observing import RunObserver

    with RunObserver(spec) as observer:
        spec = _with_inputs(spec, data, runner)
        observer.begins(spec)
        summary = run_batch(spec, runner)
        notes = observer.ends(summary)
    notes += keep_report(spec, report)
    drop_old_runs(spec)
    return replace(summary, notes=summary.notes + notes)


def run_id_of(batch_id: str | None) -> str:
    """Folder name of a run: of the batch id if there is one, so that a retry finds its checkpoints; else new."""
    if batch_id is None:
        return f"run-{datetime.now(UTC):%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}"
    safe = "".join(c if c.isascii() and (c.isalnum() or c in "-_.=") else "-" for c in batch_id).strip(".")
    tail = uuid.uuid5(uuid.NAMESPACE_URL, batch_id).hex[:8]
    return f"batch-{safe[:80]}-{tail}"


def default_checkpoints(uri: str) -> str:
    """``<table>.lakeindex``, beside the table."""
    return f"{uri.rstrip('/')}.lakeindex"


def _absolute(uri: str) -> str:
    return uri if "://" in uri else str(Path(uri).resolve())


def _runner(runner: Runner | str, slots: int, master: str | None, progress: Progress | None) -> Runner:
    if not isinstance(runner, str):
        return runner
    if runner == "local":
        from lakeindex.runners.local import LocalRunner

        return LocalRunner(slots, progress)
    if runner == "spark":
        from lakeindex.runners.spark import SparkRunner
        from lakeindex.runners.spark_session import spark_session

        return SparkRunner(spark_session(master), slots, progress)
    raise OptionError(f"no runner {runner!r}", culprit=runner, hint="valid: local | spark")


def _with_inputs(spec: RunSpec, data: BatchData, runner: Runner) -> RunSpec:
    """The run with its inputs named; data in memory is written to the run folder first, in pieces."""
    from dataclasses import replace

    if isinstance(data, (str, os.PathLike)):
        data = [data]
    if isinstance(data, Sequence) and data and all(isinstance(d, (str, os.PathLike)) for d in data):
        return _with_paths(spec, [os.fspath(d) for d in data], runner)
    folder = f"{spec.run_id}/input/{uuid.uuid4().hex[:12]}"
    if type(data).__module__.startswith("pyspark.") and hasattr(data, "mapInArrow"):
        from lakeindex.runners.spark import SparkRunner, write_pieces

        if not isinstance(runner, SparkRunner):
            raise UsageError("a Spark DataFrame needs the Spark runner", hint="pass runner='spark'")
        paths = write_pieces(data, spec.checkpoints_uri, folder)
        return replace(spec, inputs=tuple(posixpath.join(spec.checkpoints_uri, p) for p in paths))
    return replace(spec, inputs=_write_in_memory(spec, _arrow_table(data), folder))


def _with_paths(spec: RunSpec, paths: Sequence[str], runner: Runner) -> RunSpec:
    """Paths made absolute; ``table:NAME`` is a table of the Spark session."""
    from dataclasses import replace

    if not any(p.startswith("table:") for p in paths):
        return replace(spec, inputs=tuple(_absolute(p) for p in paths))
    from lakeindex.runners.spark import SparkRunner, with_tables_written

    if not isinstance(runner, SparkRunner):
        raise UsageError(f"{paths[0]!r} is a Spark table, which needs the Spark runner", hint="--runner spark")
    inputs = tuple(p if p.startswith("table:") else _absolute(p) for p in paths)
    return with_tables_written(replace(spec, inputs=inputs), runner)


def _arrow_table(data: BatchData) -> pa.Table:
    import pyarrow as pa

    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, (pa.RecordBatchReader,)):
        return data.read_all()
    if type(data).__module__.startswith("pandas."):
        return pa.Table.from_pandas(data, preserve_index=False)
    if hasattr(data, "__arrow_c_stream__"):
        return pa.table(data)
    raise InputError(
        f"a batch cannot be a {type(data).__name__}",
        culprit=type(data).__name__,
        hint="give an Arrow table, a pandas, Polars or Spark frame, or paths of files",
    )


def _write_in_memory(spec: RunSpec, table: pa.Table, folder: str) -> tuple[str, ...]:
    """Write rows as Arrow files of a fixed size: the batch's digest must not depend on options."""
    import pyarrow as pa

    from lakeindex.storage import open_storage

    store = open_storage(spec.checkpoints_uri)
    rows = max(-(-table.num_rows // max(-(-table.nbytes // _IN_MEMORY_BYTES), 1)), 1)
    paths = []
    for number, start in enumerate(range(0, max(table.num_rows, 1), rows)):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table.slice(start, rows))
        path = f"{folder}/{number:05d}.arrow"
        store.write(path, sink.getvalue().to_pybytes())
        paths.append(posixpath.join(spec.checkpoints_uri, path))
    return tuple(paths)
