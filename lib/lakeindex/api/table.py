"""The Python door: ``open_table(uri)`` and what it can do. Heavy libraries load when they are needed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from lakeindex.api.batch_data import BatchData, PointInTime, absolute, arrow_table, point_text, uri_text, with_inputs
from lakeindex.api.upkeep import Upkeep, in_its_stores
from lakeindex.errors import OptionError
from lakeindex.model import Operation
from lakeindex.options.parse import Options, option_texts, parse_options
from lakeindex.options.types import ReportFormat
from lakeindex.pipeline import default_checkpoints, run_id_of
from lakeindex.raw_errors import door, doors
from lakeindex.storage.options import NO_OPTIONS, StoreOptions, using

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeindex.commands.advise.advise import Advice
    from lakeindex.commands.check.report import CheckReport
    from lakeindex.commands.get.get import GetResult
    from lakeindex.commands.get.key_sets import KeySet
    from lakeindex.commands.index.index import IndexBuilt, IndexDropped, IndexStatus
    from lakeindex.commands.index.verify import IndexVerified
    from lakeindex.commands.look.history import History
    from lakeindex.commands.upkeep.migrate import IndexMigrated
    from lakeindex.run.spec import RunSpec
    from lakeindex.run.summary import RunSummary
    from lakeindex.tasks.progress_bars import Progress
    from lakeindex.tasks.runner import Runner


class RunArguments(TypedDict, total=False):
    """Arguments of :func:`run` that :meth:`LakeTable.upsert` and :meth:`LakeTable.delete` take."""

    options: Options | None
    batch_id: str | None
    run_id: str | None
    checkpoints: str | None
    max_quarantined: int
    force: bool
    runner: Runner | str
    master: str | None
    progress: Progress | None
    report: ReportFormat


class IndexArguments(TypedDict, total=False):
    """Arguments of the methods that concern a stored index, as of :func:`run`."""

    options: Options | None
    checkpoints: str | None
    runner: Runner | str
    master: str | None
    progress: Progress | None


@doors
@dataclass(frozen=True, repr=False)
class LakeTable(Upkeep):
    """A Hudi copy-on-write table that can be upserted into.

    Attributes:
        uri: the table's folder, a path or URL.
        storage_options: endpoint, region, credentials, for every URL of its calls: the table, run folders, input. They
            are this handle's alone: other handles of the process have their own. What they leave out comes from the
            environment. Secrets are not shown, and go into the memory of tasks only.
    """

    uri: str
    storage_options: Mapping[str, str] = NO_OPTIONS

    def __post_init__(self) -> None:
        object.__setattr__(self, "uri", uri_text(self.uri))
        object.__setattr__(self, "storage_options", StoreOptions.of(self.storage_options))

    def __repr__(self) -> str:
        settings = f", {self.storage_options!r}" if self.storage_options else ""
        return f"LakeTable({self.uri!r}{settings})"

    @in_its_stores
    def _repr_html_(self) -> str:
        from lakeindex.commands.look.table_card import table_html

        return table_html(self.uri)

    @in_its_stores
    def upsert(self, data: BatchData, **arguments: Unpack[RunArguments]) -> RunSummary:
        """Insert new keys, update those that are there, delete rows marked ``_hoodie_is_deleted``.

        >>> import pyarrow as pa
        >>> batch = pa.table({"id": ["a", "b"], "region": ["eu", "us"], "ts": [1, 1], "amount": [3.5, 4.0]})
        >>> run = orders.upsert(batch, batch_id="2026-11-21")
        >>> run.inserts, run.updates
        (2, 0)
        >>> orders.upsert(batch, batch_id="2026-11-21").noop
        True

        Args:
            data: an Arrow table, a pandas or Polars frame, a Spark DataFrame, paths of files, or ``table:NAME``.
            **arguments: as :func:`run`.

        Returns:
            What happened to every row.
        """
        return run(self.uri, data, Operation.UPSERT, **arguments)

    @in_its_stores
    def delete(self, data: BatchData, **arguments: Unpack[RunArguments]) -> RunSummary:
        """Delete the keys of ``data`` (key and partition columns); keys that are not stored are counted as ignored.

        >>> import pyarrow as pa
        >>> orders.delete(pa.table({"id": ["b", "x"], "region": ["us", "us"]})).fates
        {'deletes': 1, 'ignored': 1}
        """
        return run(self.uri, data, Operation.DELETE, **arguments)

    @in_its_stores
    def read(self, *, as_of: PointInTime | None = None, since: PointInTime | None = None) -> pa.Table:
        """The table's rows, meta columns first.

        >>> orders.read().column("id").to_pylist()
        ['a']

        Args:
            as_of: an instant, an ISO time or a datetime, inclusive: rows as they were then.
            since: an instant, an ISO time or a datetime, exclusive: only rows written after it.
        """
        from lakeindex.commands.read.read import read_rows

        return read_rows(self.uri, as_of=point_text(as_of, "as_of"), since=point_text(since, "since"))

    @in_its_stores
    def get(  # noqa: PLR0913 - public: callers name what they want
        self,
        keys: KeySet,
        *,
        partition: str | None = None,
        columns: Sequence[str] | None = None,
        as_of: PointInTime | None = None,
        options: Options | None = None,
        runner: Runner | str = "local",
        master: str | None = None,
        progress: Progress | None = None,
    ) -> GetResult:
        """The rows of some record keys: the index names the files, and only the needed parts of them are read.

        >>> found = orders.get(["a", "x"], columns=["amount"])
        >>> found.rows.to_pylist(), found.missing
        ([{'amount': 3.5}], ('x',))

        Args:
            keys: record keys as they are stored: texts, an Arrow column or table of them, or a ``pathlib.Path`` of a
                file with one key a line, or of a Parquet file. Of a table with a complex key: ``a:1,b:2``.
            partition: only rows of this partition path.
            columns: columns to return; all, meta columns first, if not given.
            as_of: an instant, an ISO time or a datetime, inclusive: rows as they were then.
            options: ``hoodie.*`` and ``lakeindex.*`` options, such as the address of a store.
            runner: ``local``, ``spark``, or a runner; the rows come to this process.
            master: Spark master, if a session has to be created.
            progress: receives the progress of the steps.

        Returns:
            ``.rows``, ``.missing`` keys, and a ``.report`` of what was read.
        """
        from lakeindex.commands.get.get import get_rows

        texts = option_texts(options or {})
        chosen = _runner(runner, parse_options(texts).parallelism, master, progress)
        point = point_text(as_of, "as_of")
        return get_rows(
            absolute(self.uri), keys, chosen, partition=partition, columns=columns, as_of=point, options=texts
        )

    @in_its_stores
    def advise(self, data: BatchData, *, options: Options | None = None, checkpoints: str | None = None) -> Advice:
        """Estimate what each index type would cost on this table for batches like this one,
        and recommend one. Changes nothing.

        Args:
            data: a typical batch: an Arrow table, a pandas or Polars frame, or paths of files; a sample of it is read.
            options: ``hoodie.*`` and ``lakeindex.*`` options of the future writes.
            checkpoints: root of the run folders, for the error of the last runs' estimates.
        """
        from lakeindex.commands.advise.advise import advise

        if isinstance(data, (str, os.PathLike)):
            data = [data]
        if isinstance(data, Sequence) and data and all(isinstance(d, (str, os.PathLike)) for d in data):
            batch: Any = [absolute(os.fspath(d)) for d in data]
        else:
            batch = arrow_table(data)
        return advise(absolute(self.uri), batch, options=option_texts(options or {}), checkpoints=checkpoints)

    @in_its_stores
    def history(self) -> History:
        """All instants of the active timeline, newest first.

        >>> [(one.operation, one.inserts, one.deletes) for one in orders.history()]
        [('DELETE', 0, 1), ('UPSERT', 2, 0)]
        """
        from lakeindex.commands.look.history import table_history

        return table_history(self.uri)

    @in_its_stores
    def index_build(self, index_type: str | None = None, **arguments: Unpack[IndexArguments]) -> IndexBuilt:
        """Build a stored index again from the key columns of all live files.

        Args:
            index_type: which index; by default the one that the table is bound to.
            **arguments: ``options``, ``checkpoints``, ``runner``, ``master`` and ``progress``, as of :func:`run`.
        """
        from lakeindex.commands.index.index import build_index

        return build_index(self.uri, index_type=index_type, **self._index_arguments(**arguments))

    @in_its_stores
    def index_drop(self, index_type: str | None = None, **arguments: Unpack[IndexArguments]) -> IndexDropped:
        """Remove a stored index; arguments as of :meth:`index_build`."""
        from lakeindex.commands.index.index import drop_index

        return drop_index(self.uri, index_type=index_type, **self._index_arguments(**arguments))

    @in_its_stores
    def index_verify(self, index_type: str | None = None, **arguments: Unpack[IndexArguments]) -> IndexVerified:
        """Compare every entry of a stored index with the keys in the live files;
        arguments as of :meth:`index_build`.
        """
        from lakeindex.commands.index.verify import verify_index

        return verify_index(self.uri, index_type=index_type, **self._index_arguments(**arguments))

    @in_its_stores
    def index_status(self, index_type: str | None = None, **arguments: Unpack[IndexArguments]) -> IndexStatus:
        """The state of a stored index; arguments as of :meth:`index_build`."""
        from lakeindex.commands.index.index import index_status

        return index_status(self.uri, index_type=index_type, **self._index_arguments(**arguments))

    @in_its_stores
    def index_migrate(
        self, to: str, *, dry_run: bool = False, force: bool = False, **arguments: Unpack[IndexArguments]
    ) -> IndexMigrated:
        """Change the table's index type.

        Args:
            to: the index type.
            dry_run: check what can be checked, and change nothing.
            force: consider every pending instant of another writer dead.
            **arguments: as of :meth:`index_build`; options that are bound with the index are bound again.
        """
        from lakeindex.commands.upkeep.migrate import migrate_index
        from lakeindex.options.parse import parse_options

        wanted = parse_options({"hoodie.index.type": to}).index_type
        if wanted is None:
            raise OptionError("name the new index type of the table", culprit="to", hint="for example RECORD_INDEX")
        return migrate_index(self.uri, wanted, dry_run=dry_run, force=force, **self._index_arguments(**arguments))

    def _index_arguments(
        self,
        *,
        options: Options | None = None,
        checkpoints: str | None = None,
        runner: Runner | str = "local",
        master: str | None = None,
        progress: Progress | None = None,
    ) -> dict[str, Any]:
        texts = option_texts(options or {})
        return {
            "runner": _runner(runner, parse_options(texts).parallelism, master, progress),
            "checkpoints": checkpoints or default_checkpoints(self.uri),
            "options": texts,
        }

    @in_its_stores
    def check(self, *, deep: bool = False) -> CheckReport:
        """Check every invariant of the table.

        Args:
            deep: compare every page of every file, superseded ones too, with its checksums.

        >>> orders.check().ok
        True
        """
        from lakeindex.commands.check.check import check_table

        return check_table(self.uri, deep=deep)


@door
def open_table(uri: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None) -> LakeTable:
    """Open a table.

    >>> open_table("lake/orders")
    LakeTable('lake/orders')

    Args:
        uri: a path, or a URL such as ``s3://bucket/table``.
        storage_options: endpoint, region, credentials, by the names of the environment variables that docs/storage.md
            has, in either case. They belong to the handle that is returned, and are nowhere else.

    Raises:
        OptionError: an option that the store does not know.
        TableNotFoundError: there is no table.
        TableUnsupportedError: a kind of table that is not read.
    """
    from lakeindex.storage import open_storage
    from lakeindex.table.handle import Table

    options = StoreOptions.of(storage_options)
    table = LakeTable(uri_text(uri), options)
    with using(options):
        Table.open(open_storage(table.uri))
    return table


@door
def run(  # noqa: PLR0913 - public: the arguments of LakeTable.upsert and delete
    uri: str,
    data: BatchData,
    operation: Operation,
    *,
    options: Options | None = None,
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
        batch_id: name of the batch: the same id is committed once.
        run_id: name of the run folder; by default made from the batch id, or new.
        checkpoints: root of the run folders; by default ``<table>.lakeindex`` beside the table.
        max_quarantined: bad rows that are tolerated.
        force: commit a used batch id again; roll back pending instants of other writers whatever their age.
        runner: ``local``, ``spark``, or a runner.
        master: Spark master, if a session has to be created.
        progress: receives the progress of the steps.
        report: format of the run's report if ``lakeindex.report`` is not given.

    Raises:
        LakeIndexError: see :mod:`lakeindex.errors`; nothing was published.
    """
    from lakeindex.run.run_folders import run_id_for
    from lakeindex.run.spec import RunSpec

    pairs = tuple(sorted(option_texts(options or {}).items()))
    config = parse_options(pairs)
    where = absolute(checkpoints or default_checkpoints(uri))
    run_id = run_id or (run_id_of(None) if batch_id is None else run_id_for(batch_id, absolute(uri), where))
    chosen = _runner(runner, config.parallelism, master, progress)
    spec = RunSpec(
        table_uri=absolute(uri),
        checkpoints_uri=where,
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
    from lakeindex.conductor.upsert import run_batch
    from lakeindex.report.keep import keep_report
    from lakeindex.run.retention import end_run
    from lakeindex.run.run_folders import begin_run
    from lakeindex.telemetry.observer import RunObserver

    begin_run(spec)
    with RunObserver(spec) as observer:
        spec = with_inputs(spec, data, runner)
        observer.begins(spec)
        summary = run_batch(spec, runner)
        notes = observer.ends(summary)
    notes += keep_report(spec, report)
    notes += end_run(spec)
    return replace(summary, notes=summary.notes + notes)


def _runner(runner: Runner | str, slots: int, master: str | None, progress: Progress | None) -> Runner:
    if not isinstance(runner, str):
        return runner
    if runner == "local":
        from lakeindex.tasks.local_runner import LocalRunner

        return LocalRunner(slots, progress)
    if runner == "spark":
        from lakeindex.runners.spark import SparkRunner
        from lakeindex.runners.spark_session import spark_session

        return SparkRunner(spark_session(master), slots, progress)
    raise OptionError(f"no runner {runner!r}", culprit=runner, hint="valid: local | spark")
