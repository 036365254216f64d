"""Check every invariant of a table. Reads everything, changes nothing, in memory bounded by a row group a task."""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from lakeindex.commands.check.base_files import FileTask, check_file
from lakeindex.commands.check.listed_files import Committed, check_listing
from lakeindex.commands.check.lost_columns import columns_then
from lakeindex.commands.check.page_checks import PagesTask, check_pages
from lakeindex.commands.check.report import Broken, CheckReport, Findings, Violation, is_damage
from lakeindex.commands.check.timeline_check import check_timeline
from lakeindex.commands.check.unique_keys import UniqueTask, check_unique
from lakeindex.commands.written_slices import open_at
from lakeindex.errors import LakeIndexError, TableCorruptError, TableUnsupportedError
from lakeindex.files.file_system_view import Snapshot
from lakeindex.index.contract import FileGroups
from lakeindex.index.registry import index_for
from lakeindex.model import BaseFile, IndexSpec
from lakeindex.options.types import WriteConfig
from lakeindex.storage.paths import absolute
from lakeindex.table.binding import torn_binding
from lakeindex.table.columns import check_written, table_schema
from lakeindex.table.handle import Table
from lakeindex.table.spelling.inference import spec_given, spelling_of
from lakeindex.table.spelling.stored_keys import sample_rows
from lakeindex.tasks.runner import Runner, run_tasks
from lakeindex.tasks.threads import Threads
from lakeindex.write.keys.keys import KeySpec
from lakeindex.write.virtual_keys import VirtualKeys


def check_table(uri: str, runner: Runner | None = None, *, deep: bool = False) -> CheckReport:
    """Check every invariant.

    Args:
        uri: the table, of any version that is read.
        runner: schedules the files on threads of this process; by default one a core.
        deep: compare every page of every file, superseded ones too, with its checksums.

    Returns:
        What is broken; nothing, if ``ok``. Damage does not raise, it is reported.

    Raises:
        TableNotFoundError: no table.
        TableUnsupportedError: a kind of table that is not read.
    """
    started = time.perf_counter()
    try:
        table = open_at(uri)
    except TableCorruptError as error:
        broken = Findings((Violation.of(Broken.PROPERTIES, error, uri),))
        return _report("", absolute(uri), broken, started)
    torn = None if table.binding is not None else torn_binding(table.storage)
    if torn is not None:
        return _report(table.name, table.uri, Findings((Violation.of(Broken.PROPERTIES, torn, uri),)), started)
    return _report(table.name, table.uri, _check(table, runner or Threads(), deep=deep), started)


def _report(name: str, uri: str, found: Findings, started: float) -> CheckReport:
    seconds = round(time.perf_counter() - started, 4)
    return CheckReport(name, uri, not found.violations, found.violations, found.notes, found.checked, seconds)


def _check(table: Table, runner: Runner, *, deep: bool) -> Findings:
    timeline = table.load_timeline()
    checked_timeline = check_timeline(table, timeline)
    index = table.index(timeline)
    scope = "table" if index is not None and index.is_global else "partition"
    try:
        snapshot = table.listed_snapshot()
        committed = Committed.of(checked_timeline.commits)
        listing = check_listing(table, snapshot, committed)
        listing = Findings.joined([listing, Findings((), tuple(_unwritten(table, snapshot)))], scope)
        then = columns_then(checked_timeline.commits)
        rows = _check_rows(table, snapshot, committed, runner, scope, then)
        pages = _check_pages(table, snapshot, committed, runner) if deep else ()
    except TableUnsupportedError:
        raise
    except LakeIndexError as error:
        if not is_damage(error):
            raise
        # the timeline is so damaged that the live files are not known
        broken = Violation.of(Broken.TIMELINE, error, table.uri)
        known = {(one.kind, one.culprit) for one in checked_timeline.findings.violations}
        stopped = Findings(
            () if (Broken.COMMIT, broken.culprit) in known else (broken,),
            ("files were not checked: the timeline is damaged",),
        )
        return Findings.joined([checked_timeline.findings, stopped], scope)
    return Findings.joined([checked_timeline.findings, listing, *rows, *pages], scope)


def _unwritten(table: Table, snapshot: Snapshot) -> Iterator[str]:
    """Why lakeindex does not write to the table, which may be sound all the same."""
    try:
        check_written(table, snapshot)
    except LakeIndexError as error:
        yield f"lakeindex does not write to the table: {error.message} ({error.hint})"


def _check_pages(table: Table, snapshot: Snapshot, committed: Committed, runner: Runner) -> Sequence[Findings]:
    """Every page of every file that somebody may read: now, or as of an earlier instant."""
    folders = [snapshot.files_of(partition) for partition in snapshot.partitions()]
    written = committed.by_path
    tasks = [
        PagesTask(table.uri, file, written[file.path].digest if file.path in written else None)
        for files in folders
        for file in (*files.live, *files.older)
    ]
    return run_tasks(runner, check_pages, tasks, "check: pages")


@dataclass(frozen=True)
class _Keys:
    """How keys are made anew, or why they are not."""

    spec: KeySpec | None
    findings: Findings


def _check_rows(
    table: Table,
    snapshot: Snapshot,
    committed: Committed,
    runner: Runner,
    scope: str,
    then: Mapping[str, frozenset[str]],
) -> Sequence[Findings]:
    files = snapshot.base_files_all()
    if not files:
        return ()
    schema = table_schema(table, snapshot)
    keys = _key_spec(table, files, schema)
    stores_keys = table.properties.populate_meta_fields
    virtual = None if stores_keys or keys.spec is None else VirtualKeys(keys.spec, schema)
    index = table.index(snapshot.timeline)
    homes = tuple(_homes(index, snapshot)) if index is not None else ()
    with tempfile.TemporaryDirectory(prefix="lakeindex-check-") as folder:
        hashes = {file.path: Path(folder) / f"{number}.npy" for number, file in enumerate(files)}
        written = committed.by_path
        tasks = [
            FileTask(
                uri=table.uri,
                file=file,
                written=written.get(file.path),
                timeline=snapshot.timeline,
                schema=schema,
                keys=keys.spec,
                may_lie_elsewhere=scope == "table" or table.binding is None,
                hashes=hashes[file.path],
                index=index,
                columns=then.get(file.instant_time, frozenset()),
                virtual=virtual,
                stores_keys=stores_keys,
            )
            for file in files
        ]
        found = run_tasks(runner, check_file, tasks, "check: base files")
        unique = [_unique_task(table, scope, group, hashes, virtual) for group in _groups(files, scope)]
        doubled = run_tasks(runner, check_unique, unique, "check: one live row a key")
    return (keys.findings, Findings(homes), *found, *doubled)


def _homes(spec: IndexSpec, snapshot: Snapshot) -> Iterator[Violation]:
    """Partitions whose file groups are not as the index makes them: one a home."""
    homes = index_for(spec).homes
    if homes is None:
        return
    for partition in snapshot.partitions():
        files = snapshot.base_files(partition)
        groups = FileGroups({(partition, file.file_id): number for number, file in enumerate(files)})
        try:
            homes.group_of(partition, 0, groups)
        except TableCorruptError as error:
            yield Violation.of(Broken.BUCKET, error, partition)


def _groups(files: Sequence[BaseFile], scope: str) -> list[list[BaseFile]]:
    if scope == "table":
        return [list(files)]
    by_partition: dict[str, list[BaseFile]] = defaultdict(list)
    for file in files:
        by_partition[file.partition_path].append(file)
    return list(by_partition.values())


def _unique_task(
    table: Table, scope: str, files: Sequence[BaseFile], hashes: dict[str, Path], virtual: VirtualKeys | None
) -> UniqueTask:
    what = "the table" if scope == "table" else f"partition {files[0].partition_path!r}"
    there = tuple((file, hashes[file.path]) for file in files if hashes[file.path].exists())
    return UniqueTask(table.uri, what, there, virtual)


def _key_spec(table: Table, files: Sequence[BaseFile], schema: pa.Schema) -> _Keys:
    """How the table's keys are made; None if another writer's table does it in a way that is not ours."""
    options = WriteConfig()
    try:
        if table.binding is not None:
            return _Keys(KeySpec.from_properties(table.key_properties()), Findings(()))
        spec = spec_given(table, options)
    except LakeIndexError as error:
        return _Keys(None, Findings((), (f"keys were not made anew: {error.message}",)))
    try:
        samples = sample_rows(table, files, spec, schema)
        return _Keys(spelling_of(table, spec, samples, options, may_lie_elsewhere=True).spec, Findings(()))
    except TableCorruptError as error:
        return _Keys(None, Findings((Violation.of(Broken.RECORD_KEY, error, files[0].path),)))
    except LakeIndexError:
        return _Keys(spec, Findings(()))  # every file is asked, and says what differs
