"""Make a table of files that are there: look at them, make the table, load them in one commit or several.

Each commit's batch id is a digest of the files that it loads, so an import that ended early goes on where it was, and
loads no row twice. Until all commits are there the table's folder says so (:mod:`lakeindex.commit.import_mark`). The
source is only read.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import ClassVar, Final

import pyarrow as pa
from msgspec import Struct, field
from msgspec.structs import replace

from lakeindex.commit.import_mark import ImportMark, PlannedCommit, load_mark, put_complete, put_mark
from lakeindex.commit.ledger import find_batch
from lakeindex.commit.recovery import maintaining
from lakeindex.errors import (
    InputError,
    InvariantError,
    KeysStoredError,
    OptionError,
    QuarantineExceededError,
    SchemaMismatchError,
    TableExistsError,
    TableNotFoundError,
    UsageError,
)
from lakeindex.format.partitions import ESCAPED
from lakeindex.frozen import Frozen
from lakeindex.model import Operation
from lakeindex.operations.create_table import CreateArguments, Exists, PlannedTable, create_or_find, plan_table
from lakeindex.operations.importing.key_check import KeysFound, RepeatedKey, look_at_keys
from lakeindex.operations.importing.open_source import open_source
from lakeindex.operations.importing.sources import ICEBERG_NAME, Source, SourceKind, mark_of
from lakeindex.options.types import CreateConfig, WriteConfig
from lakeindex.run.checkpoints import digest_of_text
from lakeindex.run.input_rows import Constants
from lakeindex.run.summary import RunSummary
from lakeindex.showing.json_result import TableResult
from lakeindex.stages.stage_input.inputs import InputFile
from lakeindex.storage.paths import absolute
from lakeindex.table.handle import Table
from lakeindex.table.property_keys import HIVE_STYLE, URL_ENCODE
from lakeindex.tasks.memory_bound import memory_bound
from lakeindex.tasks.runner import Runner
from lakeindex.write.types.type_fit import is_text

MAX_BYTES: Final = 16 * 1024**3
"""Bytes of the source that are committed together, about, if nothing else is said."""
_HOW_TO_COMBINE: Final = (
    "--combine (combine=True) keeps of each key the row that is newest by the ordering column; or make the keys unique"
)


class ImportRequest(Frozen):
    """What is asked for.

    Attributes:
        partitions: columns of the partition path; None: those that divide the source.
        config: of the new table.
        named: options of it that were given.
        like: columns of the table, instead of those that the files have.
        combine: keep of each key the row that is newest by the ordering column.
        max_bytes: bytes of the source that are committed together, about.
        write: options of the load.
    """

    source: str
    keys: tuple[str, ...]
    partitions: tuple[str, ...] | None = None
    ordering: tuple[str, ...] = ()
    config: CreateConfig = field(default_factory=CreateConfig)
    named: frozenset[str] = frozenset()
    metadata: bool | None = None
    like: pa.Schema | None = None
    combine: bool = False
    max_bytes: int = MAX_BYTES
    write: WriteConfig = field(default_factory=WriteConfig)
    dry_run: bool = False


class ImportBatch(Frozen):
    """What one commit loads.

    Attributes:
        inputs: files that are read as they lie.
        constants: columns that they do not hold.
        rows: the rows, where files cannot be read as they lie.
    """

    batch_id: str
    operation: Operation
    inputs: tuple[str, ...] = ()
    constants: Mapping[str, Constants] = field(default_factory=dict)
    rows: Iterator[pa.RecordBatch] | None = None


Load = Callable[[ImportBatch], RunSummary]


class ImportSummary(TableResult):
    """What an import did, or a dry run would do; ``rows`` are ``inserted``, and those that another row of their key won
    over.

    Attributes:
        source: what was imported.
        kind: files, delta or iceberg.
        source_version: of a Delta or Iceberg table, the version that was imported.
        files: its files.
        bytes: their size.
        rows: their rows.
        partitions: partitions of the table that they make.
        partition_fields: columns of the partition path.
        casts: columns that get another type than a file has.
        repeated_keys: keys that are in the source more than once.
        repeated: some of them.
        commits: commits that the import has.
        commits_before: of them, those that an earlier run had made.
        instants: instants of the commits, the oldest first.
        inserted: rows of the table by it.
        combined: rows that another row of their key won over.
        dry_run: nothing was made.
        seconds: wall time.
        notes: what else there is to know.
    """

    shown_by: ClassVar[str] = "imported:show_import"

    source: str
    kind: str
    source_version: str | None
    files: int
    bytes: int
    rows: int
    partitions: int
    partition_fields: tuple[str, ...]
    casts: tuple[str, ...]
    repeated_keys: int
    repeated: tuple[RepeatedKey, ...]
    commits: int
    commits_before: int
    instants: tuple[str, ...]
    inserted: int
    combined: int
    dry_run: bool
    seconds: float
    notes: tuple[str, ...] = ()


def import_source(uri: str, asked: ImportRequest, runner: Runner, load: Load) -> ImportSummary:
    """Make a table of a source, or go on with an import that ended early.

    Args:
        load: writes what one commit has.

    Raises:
        UsageError: a key that is there twice, or rows without a key, as the message says; or a source that is none.
        InputError: the source cannot be read, or changed while it was imported.
        SchemaMismatchError: columns that a table cannot have.
        TableExistsError: there is a table that is not of this import.
    """
    started = time.perf_counter()
    if asked.combine and not asked.ordering:
        raise OptionError(
            "rows of one key cannot be combined without a column that says which of them is newest",
            culprit="combine",
            hint="name it: --ordering (ordering=)",
        )
    if asked.max_bytes < 1:
        raise OptionError(f"max_bytes cannot be {asked.max_bytes}", culprit="max_bytes", hint="give 1 or more")
    _check_apart(uri, asked.source)
    with memory_bound(asked.write.memory):
        done = _Import(uri, asked, runner, load).run()
    return replace(done, seconds=round(time.perf_counter() - started, 4))


def _check_apart(uri: str, source: str) -> None:
    if source.startswith(ICEBERG_NAME):
        return
    one, other = (f"{absolute(place).rstrip('/')}/" for place in (uri, source))
    if one.startswith(other) or other.startswith(one):
        raise UsageError(
            f"the table {uri} cannot lie in what is imported, {source}, nor around it",
            culprit=uri,
            hint="choose a folder beside it: an import leaves its source as it is",
        )


class _Import(Frozen):
    uri: str
    asked: ImportRequest
    runner: Runner
    load: Load

    def run(self) -> ImportSummary:
        table = self._table()
        begun = None if table is None else load_mark(table.storage)
        if table is not None and begun is not None and not (begun.is_complete or self.asked.dry_run):
            with maintaining(table, "going on with an import", self.asked.write):
                pass  # a commit that a killed run has decided is there from now on
        if table is not None and begun is None and table.load_timeline().completed_writes:
            raise TableExistsError(
                f"there is a table with rows at {self.uri}, which no import made",
                culprit=self.uri,
                hint="choose another folder; rows go into a table with upsert or insert",
            )
        source = self._source(begun)
        if begun is not None and (begun.is_complete or self._commits(begun)):
            return self._go_on(begun, source)
        return self._begin(source, begun)

    def _table(self) -> Table | None:
        try:
            return Table.at(self.uri)
        except TableNotFoundError:
            return None

    def _source(self, begun: ImportMark | None) -> Source:
        version = None if begun is None or begun.source != _named(self.asked.source) else begun.version
        write = self.asked.write
        return open_source(self.asked.source, write.input_format, write.csv, self.asked.like, version)

    def _commits(self, mark: ImportMark) -> int:
        table = Table.at(self.uri)
        timeline = table.load_timeline()
        return sum(find_batch(table.storage, timeline, one.batch_id) is not None for one in mark.commits)

    def _arguments(self, source: Source) -> CreateArguments:
        """The table that is to be made."""
        asked, config = self.asked, self.asked.config
        partitions = source.partitions if asked.partitions is None else asked.partitions
        names = {text.partition(":")[0] for text in partitions}
        if set(source.partitions) & names:
            if not set(HIVE_STYLE) & asked.named:
                config = replace(config, hive_style=True)
            if not set(URL_ENCODE) & asked.named and _need_escapes(source):
                config = replace(config, url_encode=True)
        return {
            "keys": asked.keys,
            "partitions": partitions,
            "ordering": asked.ordering,
            "config": config,
            "metadata": asked.metadata,
        }

    def _make(self, source: Source, arguments: CreateArguments, begun: ImportMark | None) -> None:
        """Make the table, or make sure that it is the one. Raises: TableExistsError: it is another."""
        try:
            create_or_find(self.uri, source.columns, Exists.OK, self.asked.named, **arguments)
        except TableExistsError as error:
            if begun is None or begun.is_complete:
                raise
            raise TableExistsError(
                error.message,
                culprit=error.culprit,
                hint="ask for what is there; or, as the import that made it is not complete, delete the table's "
                "folder, and begin anew",
            ) from error

    def _begin(self, source: Source, begun: ImportMark | None) -> ImportSummary:
        arguments = self._arguments(source)
        planned = plan_table(self.uri, source.columns, **arguments)
        found = self._checked_keys(source, planned)
        mark = _plan(source, found, self.asked, is_global=planned.index.is_global)
        if self.asked.dry_run:
            return self._summary(source, mark, found, planned)
        self._make(source, arguments, begun)
        put_mark(Table.at(self.uri).storage, mark)
        return self._carried_out(source, mark, found, planned)

    def _go_on(self, mark: ImportMark, source: Source) -> ImportSummary:
        _check_read_alike(mark, self.asked.write)
        arguments = self._arguments(source)
        if not self.asked.dry_run:
            self._make(source, arguments, mark)
        _check_same(self.uri, mark, source)
        planned = plan_table(self.uri, source.columns, **arguments)
        if self.asked.dry_run:
            return self._summary(source, mark, None, planned)
        return self._carried_out(source, mark, None, planned)

    def _checked_keys(self, source: Source, planned: PlannedTable) -> KeysFound:
        write = self.asked.write
        found = look_at_keys(
            source,
            planned.keys,
            planned.columns,
            self.runner,
            wanted=write.input_format,
            csv=write.csv,
            is_global=planned.index.is_global,
        )
        if self.asked.dry_run:
            return found
        if found.bad:
            raise InputError(
                f"{found.bad} of {found.rows} rows cannot be imported: {found.first_bad}",
                culprit=found.first_bad,
                hint="mend these rows, or name other columns with --key and --partition, or another type of a column "
                "with --like; nothing was made",
            )
        if found.repeated and not self.asked.combine:
            one = found.examples[0]
            scope = "" if planned.index.is_global or not one.partition else f" of partition {one.partition!r}"
            raise InputError(
                f"{found.repeated} keys are there more than once, in {found.surplus + found.repeated} of {found.rows} "
                f"rows: {one.key!r}{scope} in {one.rows} rows of {', '.join(one.files)}",
                culprit=one.key,
                hint=f"{_HOW_TO_COMBINE}. A dry run shows more of them; nothing was made",
            )
        return found

    def _loaded(self, batch: ImportBatch) -> RunSummary:
        """As ``load``.

        Raises:
            QuarantineExceededError: rows are bad, of which an import leaves none out.
            SchemaMismatchError: a value that the table's type has not got.
        """
        try:
            return self.load(batch)
        except KeysStoredError:
            raise
        except QuarantineExceededError as error:  # an import has no --max-quarantined
            raise QuarantineExceededError(
                error.message,
                culprit=error.culprit,
                hint="look at the quarantine file, and correct these rows in the source; then delete the table's "
                "folder, and import it",
            ) from error
        except SchemaMismatchError as error:  # nor a schema mode
            raise SchemaMismatchError(
                error.message,
                culprit=error.culprit,
                hint="write the source with one type that has all values, or name one with --like; then delete the "
                "table's folder, and import it",
            ) from error

    def _carried_out(
        self, source: Source, mark: ImportMark, found: KeysFound | None, planned: PlannedTable
    ) -> ImportSummary:
        files = {file.place: file for file in source.files}
        notes: dict[str, None] = {}
        before = 0
        instants: list[str] = []
        counts = _Counts()
        for commit in mark.commits:
            table = Table.at(self.uri)
            timeline = table.load_timeline()
            entry = find_batch(table.storage, timeline, commit.batch_id)
            if entry is not None:
                before += 1
                instants.append(entry.instant)
                counts.add(None if entry.summary is None else json.loads(entry.summary))
                continue
            batch = _batch_of(source, commit, [files[path] for path in commit.files])
            if batch.operation is Operation.BULK_INSERT and not timeline.completed_write_times <= set(instants):
                batch = replace(batch, operation=Operation.INSERT)  # somebody has written beside the import
            done = self._loaded(batch)
            instants += [] if done.instant is None else [done.instant]
            counts.add(done.as_dict())
            notes |= dict.fromkeys(done.notes)
        if counts.is_known and counts.rows != mark.rows:
            raise InvariantError(
                f"{mark.rows} rows were to be imported, and {counts.rows} were: {counts}",
                culprit=self.uri,
                hint="the table says that its import is not complete; report this",
            )
        now = self._source(mark)
        _check_same(self.uri, mark, now)
        if not mark.is_complete:
            put_complete(Table.at(self.uri).storage)
        new = [file.place for file in now.files if file.place not in mark.files and file not in _empty(found)]
        if new:
            notes[f"{len(new)} files of the source are none of this import, such as {new[0]}"] = None
        done_all = self._summary(source, mark, found, planned)
        return replace(
            done_all,
            commits_before=before,
            instants=tuple(instants),
            inserted=counts.inserted,
            combined=counts.combined,
            notes=(*done_all.notes, *notes),
        )

    def _summary(
        self, source: Source, mark: ImportMark, found: KeysFound | None, planned: PlannedTable
    ) -> ImportSummary:
        notes = source.notes
        if found is not None and found.bad:
            notes += (f"{found.bad} rows cannot be imported: {found.first_bad}",)
        if found is not None and found.repeated and not self.asked.combine:
            notes += (f"{found.repeated} keys are there more than once: {_HOW_TO_COMBINE}",)
        partitions = len(found.partitions) if found is not None else len(Table.at(self.uri).snapshot().partitions())
        return ImportSummary(
            table=absolute(self.uri).rstrip("/").rpartition("/")[2],
            uri=absolute(self.uri),
            source=source.uri,
            kind=source.kind,
            source_version=source.version,
            files=len(source.files),
            bytes=mark.bytes,
            rows=mark.rows,
            partitions=partitions,
            partition_fields=tuple(name for name, _ in planned.keys.partition_fields),
            casts=source.casts,
            repeated_keys=0 if found is None else found.repeated,
            repeated=() if found is None else found.examples,
            commits=len(mark.commits),
            commits_before=0,
            instants=(),
            inserted=0,
            combined=0 if found is None or not self.asked.combine else found.surplus,
            dry_run=self.asked.dry_run,
            seconds=0.0,
            notes=notes,
        )


class _Counts(Struct):
    """Rows of all commits.

    Attributes:
        is_known: none of the earlier ones is without its summary.
    """

    inserted: int = 0
    combined: int = 0
    is_known: bool = True

    @property
    def rows(self) -> int:
        return self.inserted + self.combined

    def add(self, summary: Mapping[str, int] | None) -> None:
        if summary is None:
            self.is_known = False
            return
        self.inserted += summary["inserts"]
        self.combined += summary["combined"] + summary["updates"] + summary["ignored"]


def _named(source: str) -> str:
    return source if source.startswith(ICEBERG_NAME) else absolute(source)


def _empty(found: KeysFound | None) -> Collection[InputFile]:
    return () if found is None else [file for file, paths in found.of_files.items() if not paths]


def _need_escapes(source: Source) -> bool:
    """Whether a partition's folder cannot be called as its value."""
    texts = [text for file in source.files for _, text in file.constants if text is not None]
    if any(frozenset(text) & ESCAPED for text in texts):
        return True
    return source.kind is SourceKind.ICEBERG and any(is_text(source.columns.field(n).type) for n in source.partitions)


def _plan(source: Source, found: KeysFound, asked: ImportRequest, *, is_global: bool) -> ImportMark:
    """Which files are committed together: those of whole partitions, as long as they have room."""
    filled = [(file, found.of_files[file]) for file in source.files if found.of_files.get(file)]
    filled.sort(key=lambda one: (min(one[1]), len(one[1]), one[0]))
    of_partition: dict[frozenset[str], int] = {}
    for file, paths in filled:
        of_partition[paths] = of_partition.get(paths, 0) + file.size_bytes
    groups: list[list[tuple[InputFile, frozenset[str]]]] = []
    size = 0
    for file, paths in filled:
        whole = of_partition[paths]
        begins = not groups or paths != groups[-1][-1][1]
        needed = whole if begins and whole <= asked.max_bytes else file.size_bytes
        if not groups or size + needed > asked.max_bytes:
            groups.append([])
            size = 0
        groups[-1].append((file, paths))
        size += file.size_bytes
    if groups:  # files without rows are watched, too: one that gets some has changed
        groups[-1] += [(file, frozenset()) for file in source.files if not found.of_files.get(file)]
    commits, seen = [], set[str]()
    for number, group in enumerate(groups):
        touched = {path for _, paths in group for path in paths}
        operation = Operation.BULK_INSERT if not seen or not (is_global or seen & touched) else Operation.INSERT
        operation = Operation.UPSERT if found.repeated else operation
        seen |= touched
        files = {file.place: mark_of(file) for file, _ in group}
        said = digest_of_text(operation, *((f.place, mark_of(f), f.constants) for f, _ in group))
        commits.append(PlannedCommit(f"import-{said[:24]}-{number + 1}-of-{len(groups)}", operation, files))
    return ImportMark(
        source.uri, source.version, found.rows, source.bytes, tuple(commits), read_as=_read_as(asked.write)
    )


def _batch_of(source: Source, commit: PlannedCommit, files: Sequence[InputFile]) -> ImportBatch:
    operation = Operation(commit.operation)
    if source.rows is not None:
        return ImportBatch(commit.batch_id, operation, rows=source.rows(files, None))
    paths = tuple(file.place for file in files)
    constants = {file.place: file.constants for file in files if file.constants}
    return ImportBatch(commit.batch_id, operation, paths, constants)


def _read_as(write: WriteConfig) -> str:
    csv = write.csv
    said = f"CSV with delimiter {csv.delimiter!r}, quote {csv.quote!r}, nulls {csv.nulls!r}"
    return f"format {write.input_format}, {said}, {'with' if csv.header else 'without'} a header"


def _check_read_alike(mark: ImportMark, write: WriteConfig) -> None:
    """All commits of an import read their files alike. Raises: OptionError: those that are left would not."""
    now = _read_as(write)
    if not mark.is_complete and mark.read_as not in ("", now):
        raise OptionError(
            f"the import reads files as {now}, and began with them as {mark.read_as}",
            culprit=now,
            hint="give the options that it began with; or delete the table's folder, and begin anew",
        )


def _check_same(uri: str, mark: ImportMark, source: Source) -> None:
    """The files of an import that has begun are what they were.

    Raises:
        TableExistsError: the table is made of another source.
        InputError: one is not.
    """
    if source.uri != mark.source:
        raise TableExistsError(
            f"the table at {uri} is an import of {mark.source}, not of {source.uri}",
            culprit=uri,
            hint="choose another folder",
        )
    now = {file.place: mark_of(file) for file in source.files}
    changed = [path for path, before in mark.files.items() if now.get(path) != before]
    if not changed:
        return
    more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
    cure = (
        "the table is complete as of then: upsert what has changed"
        if mark.is_complete
        else "put it back as it was and run the import again; or delete the table's folder, and begin anew"
    )
    raise InputError(
        f"{changed[0]!r}{more} {'has changed' if changed[0] in now else 'is gone'} since the import began",
        culprit=changed[0],
        hint=cure,
    )
