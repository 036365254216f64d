"""The Python door: ``open_table(uri)`` and what it can do. Heavy libraries load when they are needed."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Unpack

from msgspec.structs import force_setattr

from lakeindex.api import looking, maintaining
from lakeindex.api.arguments import (
    IndexArguments,
    RunnerArguments,
    UpsertArguments,
    names_of_arguments,
    with_defaults,
)
from lakeindex.api.batch_data import (
    BatchData,
    PathText,
    PointInTime,
    name_of,
    names_of,
    paths_in,
    point_text,
    run_folders,
    uri_text,
)
from lakeindex.api.operations import TableOperations
from lakeindex.api.own_stores import in_its_stores
from lakeindex.api.run import chosen_runner, run_upsert
from lakeindex.errors import OptionError, door, doors
from lakeindex.frozen import Frozen
from lakeindex.options.parse import Options, option_texts, parse_options
from lakeindex.storage.options import NO_OPTIONS, StoreOptions, using
from lakeindex.storage.paths import absolute

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeindex.api.changes import Changes
    from lakeindex.api.scan import Scan
    from lakeindex.operations.advise import Advice
    from lakeindex.operations.check_violations import CheckReport
    from lakeindex.operations.index import IndexBuilt, IndexDropped, IndexStatus, IndexVerified
    from lakeindex.operations.look.history import History
    from lakeindex.operations.maintain import MaintenanceSummary
    from lakeindex.operations.metadata import MetadataBuilt, MetadataDropped, MetadataStatus, MetadataVerified
    from lakeindex.operations.migrate_index import IndexMigrated
    from lakeindex.operations.rows.get import GetResult
    from lakeindex.operations.rows.key_sets import KeySet
    from lakeindex.operations.table_services import ArchiveSummary, CleanSummary, RollbackSummary
    from lakeindex.predicates.predicate import Condition
    from lakeindex.run.summary import RunSummary
    from lakeindex.tasks.progress_bars import ProgressChoice

_META_WILL_GO: Final = (
    "read() gives Hudi's five meta columns first; the next release leaves them out: "
    "say read(meta=True) or read(meta=False)"
)


def _task_arguments(uri: str, arguments: IndexArguments) -> dict[str, Any]:
    asked = with_defaults(arguments)
    texts = option_texts(asked["options"] or {})
    runner = chosen_runner(parse_options(texts).parallelism, arguments)
    return {"runner": runner, "checkpoints": run_folders(asked["checkpoints"], uri), "options": texts}


@doors
class LakeTable(TableOperations, Frozen):
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
        force_setattr(self, "storage_options", StoreOptions.of(self.storage_options))
        force_setattr(self, "uri", self._located(uri_text(self.uri)))

    @in_its_stores
    def _located(self, place: str) -> str:
        """Where the table is, of one in a catalog, too."""
        if "://" not in place:
            return place
        from lakeindex.catalogs.places import located

        return located(place)

    def __repr__(self) -> str:
        settings = f", {self.storage_options!r}" if self.storage_options else ""
        return f"LakeTable({self.uri!r}{settings})"

    @in_its_stores
    def _repr_html_(self) -> str:
        from lakeindex.operations.look.table_card import show_table
        from lakeindex.showing.notebook import html_of

        return html_of(show_table, self.uri)

    @in_its_stores
    @names_of_arguments(UpsertArguments)
    def upsert(self, data: BatchData, **arguments: Unpack[UpsertArguments]) -> RunSummary:
        """Insert new keys, update those that are there, delete rows marked ``_hoodie_is_deleted``.

        >>> import pyarrow as pa
        >>> batch = pa.table({"id": ["a", "b"], "region": ["eu", "us"], "ts": [1, 1], "amount": [3.5, 4.0]})
        >>> run = orders.upsert(batch, batch_id="2026-11-21")
        >>> run.inserts, run.updates
        (2, 0)
        >>> orders.upsert(batch, batch_id="2026-11-21").noop
        True

        Args:
            data: any frame or stream of rows, or paths of files: the table of docs/api.md lists them.
            **arguments: as of :func:`run`: options, batch_id, dry_run, ...; conditions on rows: ``update_if``,
                ``insert_if``, ``delete_if`` (docs/operations.md); ``partial``, ``nulls``, ``merge`` (docs/columns.md).

        Returns:
            What happened to every row.
        """
        return run_upsert(self.uri, data, **arguments)

    @in_its_stores
    def read(
        self,
        *,
        as_of: PointInTime | None = None,
        since: PointInTime | None = None,
        meta: bool | None = None,
        options: Options | None = None,
    ) -> pa.Table:
        """The table's rows; :meth:`scan` reads a part of them, or streams.

        >>> orders.delete(pa.table({"id": ["b", "x"], "region": ["us", "us"]})).fates
        {'deletes': 1, 'ignored': 1}
        >>> orders.read(meta=True).column("id").to_pylist()
        ['a']

        Args:
            as_of: an instant, an ISO time or a datetime, inclusive: rows as they were then.
            since: an instant, an ISO time or a datetime, exclusive: only rows written after it.
            meta: Hudi's five meta columns come first. If it is not given they do, with a FutureWarning: the next
                release leaves them out then.
            options: ``hoodie.metadata.enable=false`` lists folders, where a metadata table would name the files.
        """
        from lakeindex.api.scan import Scan
        from lakeindex.operations.rows.request import ScanRequest

        if meta is None:
            warnings.warn(_META_WILL_GO, FutureWarning, stacklevel=4)
        request = ScanRequest(
            as_of=point_text(as_of, "as_of"),
            since=point_text(since, "since"),
            meta=meta,
            options=option_texts(options or {}),
        )
        return Scan(self.uri, request, self.storage_options).to_arrow()

    @in_its_stores
    @names_of_arguments(RunnerArguments)
    def get(
        self,
        keys: KeySet,
        *,
        partition: str | None = None,
        columns: Sequence[str] | None = None,
        as_of: PointInTime | None = None,
        options: Options | None = None,
        **arguments: Unpack[RunnerArguments],
    ) -> GetResult:
        """The rows of some record keys: the index names the files, and only the needed parts of them are read.

        >>> found = orders.get(["a", "x"], columns=["amount"])
        >>> found.rows.to_pylist(), found.missing
        ([{'amount': 3.5}], ('x',))

        Args:
            keys: record keys as they are stored: texts, an Arrow column or table of them, or a ``pathlib.Path`` of a
                file with one key a line, or of a Parquet file. Of a table with a complex key: ``a:1,b:2``.
            partition: only rows of this partition path, as its folder is named; there has to be one.
            columns: columns to return; all, meta columns first, if not given.
            as_of: an instant, an ISO time or a datetime, inclusive: rows as they were then.
            options: ``hoodie.*`` and ``lakeindex.*`` options, such as the address of a store.
            **arguments: ``runner``, ``master`` and ``progress``; the rows come to this process.

        Returns:
            ``.rows``, ``.missing`` keys, and a ``.report`` of what was read.
        """
        from lakeindex.operations.rows.get import get_rows
        from lakeindex.operations.rows.request import ScanRequest

        request = ScanRequest(
            columns=names_of(columns, "columns"),
            partitions=None if partition is None else (name_of(partition, "partition") or "",),
            as_of=point_text(as_of, "as_of"),
            meta=None,
            options=option_texts(options or {}),
        )
        runner = chosen_runner(parse_options(request.options).parallelism, arguments)
        return get_rows(absolute(self.uri), keys, request, runner)

    @in_its_stores
    def scan(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: Condition | None = None,
        partitions: Sequence[str] | None = None,
        as_of: PointInTime | None = None,
        since: PointInTime | None = None,
        meta: bool = False,
        options: Options | None = None,
    ) -> Scan:
        """Rows of the table, lazily: ``.to_arrow()``, ``.to_batches()``, ``.to_pandas()``, ``.to_polars()``,
        ``.to_duckdb()``, ``.to_dataset()``, ``.to_spark(session)``, ``.count()``, ``.explain()``.

        >>> orders.scan(columns=["id", "amount"], where="region = 'eu' AND amount > 3").to_arrow().to_pylist()
        [{'id': 'a', 'amount': 3.5}]
        >>> orders.scan(where="id IN ('a', 'x')").explain().keys
        2

        Args:
            columns: columns to return, in this order; the table's, if not given.
            where: a condition as SQL has it behind WHERE, or a pyarrow expression. Partitions, files and row groups
                that cannot hold such a row are not read; record keys of a text go through the index.
            partitions: only rows of these partition paths, as their folders are named; there have to be such.
            as_of: an instant, an ISO time or a datetime, inclusive: rows as they were then.
            since: an instant, an ISO time or a datetime, exclusive: only rows written after it.
            meta: Hudi's five meta columns come first, where ``columns`` does not say what is wanted.
            options: options that the index needs; ``hoodie.metadata.enable=false`` lists folders.
        """
        from lakeindex.api.scan import Scan
        from lakeindex.operations.rows.request import ScanRequest

        request = ScanRequest(
            columns=names_of(columns, "columns"),
            where=where,
            partitions=names_of(partitions, "partitions"),
            as_of=point_text(as_of, "as_of"),
            since=point_text(since, "since"),
            meta=meta,
            options=option_texts(options or {}),
        )
        return Scan(self.uri, request, self.storage_options)

    @in_its_stores
    def changes(
        self,
        *,
        since: PointInTime | None = None,
        until: PointInTime | None = None,
        columns: Sequence[str] | None = None,
        meta: bool = False,
        options: Options | None = None,
    ) -> Changes:
        """What happened to the rows between two points in time: inserts, updates (before and after) and deletes.

        >>> first = orders.history()[-1].instant
        >>> changed = orders.changes(since=first).to_arrow()
        >>> changed.select(["id", "_change_type"]).to_pylist()
        [{'id': 'b', '_change_type': 'delete'}]

        Args:
            since: an instant, an ISO time or a datetime, exclusive; the beginning, if not given.
            until: an instant, an ISO time or a datetime, inclusive; what is completed now, if not given. The next feed
                begins at ``.until`` of the result.
            columns: columns to return, before ``_change_type`` and ``_commit_instant``; the table's, if not given.
            meta: Hudi's five meta columns come first, where ``columns`` does not say what is wanted.
            options: ``hoodie.metadata.enable=false`` lists folders.

        Raises:
            UsageError: a point that the history does not reach (the earliest is said), or an order that is none.
        """
        from msgspec.structs import replace

        from lakeindex.api.changes import Changes
        from lakeindex.operations.changes import ChangesRequest, resolved

        asked = ChangesRequest(
            since=point_text(since, "since"),
            until=point_text(until, "until"),
            columns=names_of(columns, "columns"),
            meta=meta,
            options=option_texts(options or {}),
        )
        first, last = resolved(self.uri, asked)
        return Changes(self.uri, first, last, replace(asked, since=first, until=last), self.storage_options)

    @in_its_stores
    def advise(self, data: BatchData, *, options: Options | None = None, checkpoints: PathText | None = None) -> Advice:
        """Estimate what each index type would cost on this table for batches like this one,
        and recommend one. Changes nothing.

        Args:
            data: a typical batch, as of :meth:`upsert`; a sample of files is read, a stream to its end.
            options: ``hoodie.*`` and ``lakeindex.*`` options of the future writes.
            checkpoints: root of the run folders, for the error of the last runs' estimates.
        """
        from lakeindex.api.given_rows import all_rows
        from lakeindex.operations.advise import advise

        paths = paths_in(data)
        batch: Any = all_rows(data) if paths is None else [absolute(path) for path in paths]
        where = run_folders(checkpoints, absolute(self.uri))
        return advise(absolute(self.uri), batch, options=option_texts(options or {}), checkpoints=where)

    @property
    def schema(self) -> pa.Schema:
        """As :func:`lakeindex.api.looking.schema`."""
        return looking.schema(self)

    @property
    def properties(self) -> dict[str, str]:
        """As :func:`lakeindex.api.looking.properties`."""
        return looking.properties(self)

    count = looking.count
    files = looking.files
    partitions = looking.partitions
    inspect = looking.inspect
    report = looking.report
    report_history = looking.report_history
    compare = looking.compare
    rescale = maintaining.rescale
    repair = maintaining.repair
    repair_keys = maintaining.repair_keys
    repair_properties = maintaining.repair_properties
    repair_discard = maintaining.repair_discard
    savepoint_create = maintaining.savepoint_create
    savepoint_list = maintaining.savepoint_list
    savepoint_delete = maintaining.savepoint_delete
    restore = maintaining.restore
    sync = maintaining.sync

    @in_its_stores
    def history(self) -> History:
        """All instants of the active timeline, newest first.

        >>> [(one.operation, one.inserts, one.deletes) for one in orders.history()]
        [('DELETE', 0, 1), ('UPSERT', 2, 0)]
        """
        from lakeindex.operations.look.history import table_history

        return table_history(self.uri)

    @in_its_stores
    @names_of_arguments(IndexArguments)
    def index_build(self, index_type: str | None = None, **arguments: Unpack[IndexArguments]) -> IndexBuilt:
        """Build a stored index again from the key columns of all live files.

        Args:
            index_type: which index; by default the one that the table is bound to.
            **arguments: ``options``, ``checkpoints``, ``runner``, ``master`` and ``progress``, as of :func:`run`.
        """
        from lakeindex.operations.index import build_index

        return build_index(self.uri, index_type=index_type, **_task_arguments(self.uri, arguments))

    @in_its_stores
    @names_of_arguments(IndexArguments)
    def index_drop(self, index_type: str | None = None, **arguments: Unpack[IndexArguments]) -> IndexDropped:
        """Remove a stored index; arguments as of :meth:`index_build`."""
        from lakeindex.operations.index import drop_index

        return drop_index(self.uri, index_type=index_type, **_task_arguments(self.uri, arguments))

    @in_its_stores
    @names_of_arguments(IndexArguments)
    def index_verify(self, index_type: str | None = None, **arguments: Unpack[IndexArguments]) -> IndexVerified:
        """Compare every entry of a stored index with the keys in the live files;
        arguments as of :meth:`index_build`.
        """
        from lakeindex.operations.index import verify_index

        return verify_index(self.uri, index_type=index_type, **_task_arguments(self.uri, arguments))

    @in_its_stores
    @names_of_arguments(IndexArguments)
    def index_status(self, index_type: str | None = None, **arguments: Unpack[IndexArguments]) -> IndexStatus:
        """The state of a stored index; arguments as of :meth:`index_build`."""
        from lakeindex.operations.index import index_status

        return index_status(self.uri, index_type=index_type, **_task_arguments(self.uri, arguments))

    @in_its_stores
    @names_of_arguments(IndexArguments)
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
        from lakeindex.operations.migrate_index import migrate_index

        wanted = parse_options({"hoodie.index.type": to}).index_type
        if wanted is None:
            raise OptionError("name the new index type of the table", culprit="to", hint="for example RECORD_INDEX")
        return migrate_index(self.uri, wanted, dry_run=dry_run, force=force, **_task_arguments(self.uri, arguments))

    @in_its_stores
    def metadata_build(
        self, partitions: Sequence[str] = (), *, force: bool = False, options: Options | None = None
    ) -> MetadataBuilt:
        """Build the metadata table, from which Hudi's readers list the table's files, or add partitions to it; every
        write keeps it up.

        Args:
            partitions: those that are built, ``record_index`` for example, and what they need; if none are named those
                that Hudi makes by itself. A record index that is named and there is made anew.
            force: take other writers' pending instants for dead.
            options: ``hoodie.*`` and ``lakeindex.*`` options.

        Raises:
            MetadataTableError: it has them.
        """
        from lakeindex.operations.metadata import metadata_build

        return metadata_build(
            self.uri, names_of(partitions, "partitions") or (), parse_options(options or {}), force=force
        )

    @in_its_stores
    def metadata_drop(self, partitions: Sequence[str] = (), *, options: Options | None = None) -> MetadataDropped:
        """Take the metadata table away; readers list folders from then on.

        Args:
            partitions: only these of its partitions, ``column_stats`` for example; all, if none are named.
            options: ``hoodie.*`` and ``lakeindex.*`` options.

        Raises:
            MetadataTableError: it has no such partition.
        """
        from lakeindex.operations.metadata import metadata_drop

        return metadata_drop(self.uri, names_of(partitions, "partitions") or (), parse_options(options or {}))

    @in_its_stores
    def metadata_status(self) -> MetadataStatus:
        """Which partitions the metadata table has, their size, and its newest compaction."""
        from lakeindex.operations.metadata import metadata_status

        return metadata_status(self.uri)

    @in_its_stores
    def metadata_verify(self) -> MetadataVerified:
        """Compare the metadata table with files, footers and record keys; what is wrong is reported and does not raise.

        Raises:
            MetadataTableError: there is none.
        """
        from lakeindex.operations.metadata import metadata_verify

        return metadata_verify(self.uri)

    @in_its_stores
    def check(self, *, deep: bool = False, progress: ProgressChoice = None) -> CheckReport:
        """Check every invariant of the table.

        Args:
            deep: compare every page of every file, superseded ones too, with its checksums.
            progress: receives the progress of the steps; by default bars in a notebook and on a terminal; False: none.

        >>> orders.check().ok
        True
        """
        from lakeindex.operations.check import check_table

        return check_table(self.uri, chosen_runner(0, {"progress": progress}), deep=deep)

    @in_its_stores
    def rollback(self, instant: str, *, force: bool = False, options: Options | None = None) -> RollbackSummary:
        """Roll back the newest commit, or a pending instant whose writer is dead.

        Args:
            instant: the instant to roll back.
            force: consider every pending instant of another writer dead.
            options: ``hoodie.*`` and ``lakeindex.*`` options.
        """
        from lakeindex.operations.table_services import rollback_table

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
        from lakeindex.operations import table_services

        return table_services.clean(self.uri, keep_commits, parse_options(options or {}), dry_run=dry_run, force=force)

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
        from lakeindex.operations import table_services

        return table_services.archive(
            self.uri, keep_commits, parse_options(options or {}), dry_run=dry_run, force=force
        )

    @in_its_stores
    @names_of_arguments(IndexArguments)
    def maintain(self, steps: Sequence[str] | None = None, **arguments: Unpack[IndexArguments]) -> MaintenanceSummary:
        """Settle what dead writers left, clean, archive, compact a stored index, fill the footer cache, sync catalogs;
        check on request.

        >>> [step.step for step in orders.maintain().steps]
        ['settle', 'savepoint', 'clean', 'metadata', 'archive', 'compact', 'cache', 'runs', 'sync']

        Args:
            steps: only these; default: all but ``repair``, which takes files out of the table, ``cluster``, which may
                rewrite much, and ``check``, which reads all.
            **arguments: as of :meth:`index_build`; tasks of ``cluster`` and ``compact`` run on Spark, where that is the
                runner, and what the other steps do in this process.
        """
        from lakeindex.operations import maintain

        named = names_of(steps, "steps")
        wanted = maintain.UNASKED if named is None else named
        return maintain.maintain(self.uri, steps=wanted, **_task_arguments(self.uri, arguments))


@door
def open_table(uri: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None) -> LakeTable:
    """Open a table.

    >>> open_table("lake/orders")
    LakeTable('lake/orders')

    Args:
        uri: a path, a URL such as ``s3://bucket/table``, or a name in a catalog: ``glue://database/table``.
        storage_options: endpoint, region, credentials, by the names of the environment variables that docs/storage.md
            has, in either case. They belong to the handle that is returned, and are nowhere else.

    Raises:
        OptionError: an option that the store does not know.
        TableNotFoundError: there is no table; or the catalog knows none of this name.
        TableUnsupportedError: a kind of table that is not read.
    """
    from lakeindex.storage import open_storage
    from lakeindex.table.handle import Table

    options = StoreOptions.of(storage_options)
    table = LakeTable(uri_text(uri), options)
    with using(options):
        Table.open(open_storage(table.uri))
    return table
