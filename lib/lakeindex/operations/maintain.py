"""What a table needs beside upserts, step by step: settle dead writers, repair, keep a commit, cluster, clean, compact
the metadata table and archive its timeline, archive, compact the index, mend the cache, drop the folders of dead runs,
sync catalogs, check.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import ClassVar, Final

from lakeindex.commit.recovery import maintaining
from lakeindex.commit.services.clean import finish_cleans
from lakeindex.commit.services.metadata_service import archive_metadata_table, compact_metadata_table
from lakeindex.errors import InvariantError, UsageError
from lakeindex.files.file_system_view import all_base_files
from lakeindex.files.footer_cache import FooterCache
from lakeindex.files.footers import read_footer
from lakeindex.frozen import Frozen
from lakeindex.index.registry import built_index_for, index_for
from lakeindex.operations.check import check_table
from lakeindex.operations.cluster import cluster_table
from lakeindex.operations.cluster_plan import Asked as AskedOfClustering
from lakeindex.operations.index import compact_index
from lakeindex.operations.repair import Asked, no_keys, repair_table
from lakeindex.operations.repair_plan import UNATTENDED
from lakeindex.operations.restore import savepoint_create, savepoint_delete, savepoint_list
from lakeindex.operations.table_services import archive, clean
from lakeindex.options.parse import parse_options
from lakeindex.options.sync_options import SyncOptions
from lakeindex.options.types import WriteConfig
from lakeindex.run.index.in_metadata import is_in_metadata
from lakeindex.run.run_folders import check_root, sweep_runs
from lakeindex.showing.json_result import TableResult
from lakeindex.storage import in_parallel
from lakeindex.storage.paths import absolute
from lakeindex.table.handle import Table
from lakeindex.tasks.runner import Runner
from lakeindex.tasks.stores import storage_at
from lakeindex.timeline.timeline import Timeline


class MaintenanceStep(StrEnum):
    """A step of maintenance, in the order in which they are taken."""

    SETTLE = "settle"
    REPAIR = "repair"
    SAVEPOINT = "savepoint"
    CLUSTER = "cluster"
    CLEAN = "clean"
    METADATA = "metadata"
    ARCHIVE = "archive"
    COMPACT = "compact"
    CACHE = "cache"
    RUNS = "runs"
    SYNC = "sync"
    CHECK = "check"


class StepSummary(TableResult):
    """What a step of maintenance did.

    Attributes:
        step: which step.
        counts: what it changed, by name; all zero if there was nothing to do.
        note: what one should know, in words; None if nothing.
        seconds: wall time.
    """

    step: str
    counts: Mapping[str, int]
    note: str | None
    seconds: float

    @property
    def changed(self) -> bool:
        return any(self.counts.values())


class MaintenanceSummary(TableResult):
    """What maintenance of a table did, step by step."""

    shown_by: ClassVar[str] = "results:show_maintenance"

    steps: tuple[StepSummary, ...]


class _Work(Frozen):
    """What a step is given.

    Attributes:
        runner: of steps that rewrite many files; what others read is read :meth:`~Runner.nearby`.
    """

    table: Table
    checkpoints: str
    runner: Runner
    options: Mapping[str, str]


_Done = tuple[dict[str, int], str | None]

_ROOT_STEPS: Final = frozenset({MaintenanceStep.COMPACT, MaintenanceStep.RUNS})
"""They write or delete below the checkpoints' root."""

STEPS: Final = tuple(MaintenanceStep)
_ASKED: Final = (MaintenanceStep.REPAIR, MaintenanceStep.CLUSTER, MaintenanceStep.CHECK)
UNASKED: Final = tuple(one for one in STEPS if one not in _ASKED)
"""The steps that are taken if none is named: all but the repair, which takes files out of the table, clustering, which
may rewrite much, and the check, which reads the whole table.
"""


def maintain(
    uri: str, checkpoints: str, runner: Runner, options: Mapping[str, str] | None = None, steps: Sequence[str] = STEPS
) -> MaintenanceSummary:
    """Take the steps of maintenance, in their order.

    Args:
        checkpoints: where a folder for working data may be made; it is removed at the end.
        options: ``hoodie.*`` and ``lakeindex.*`` options.

    Raises:
        UsageError: a step that there is not; or the checkpoints' root is a table, or holds one.
        LakeIndexError: a step failed; those before it stand.
    """
    wanted = [_step_named(name) for name in steps]
    if _ROOT_STEPS & set(wanted):
        check_root(storage_at(absolute(checkpoints)))
    done = tuple(maintain_step(uri, step, checkpoints, runner, options) for step in STEPS if step in wanted)
    table = Table.at(uri)
    return MaintenanceSummary(table.name, table.uri, done)


def maintain_step(
    uri: str, step: str, checkpoints: str, runner: Runner, options: Mapping[str, str] | None = None
) -> StepSummary:
    """Take one step of maintenance. Repeating it does what is left to do.

    Args:
        step: a value of :class:`MaintenanceStep`.
        checkpoints: where a folder for working data may be made; it is removed at the end.
        options: ``hoodie.*`` and ``lakeindex.*`` options.

    Raises:
        UsageError: no such step.
        TableError: no table, or one that is not written to.
        ConflictError: another writer is in flight or holds the lock.
        InvariantError: the check found a broken invariant.
    """
    started = time.perf_counter()
    pairs = dict(options or {})
    chosen = _step_named(step)
    table = Table.at(uri)
    counts, note = _WORK[chosen](_Work(table, absolute(checkpoints), runner, pairs))
    return StepSummary(table.name, table.uri, chosen.value, counts, note, round(time.perf_counter() - started, 4))


def _step_named(name: str) -> MaintenanceStep:
    try:
        return MaintenanceStep(name)
    except ValueError:
        raise UsageError(
            f"there is no maintenance step {name!r}", culprit=name, hint=f"steps: {', '.join(STEPS)}"
        ) from None


def _settle(work: _Work) -> _Done:
    table = work.table
    before = table.load_timeline()
    with maintaining(table, "settling what dead writers left", parse_options(work.options)) as (context, lock):
        finished = finish_cleans(context, lock)
        notes = tuple(context.notes)
    after = table.load_timeline()
    gone = _writes_of(before) - _writes_of(after)  # a restore that was cut short takes several
    gone = {time for time in gone if time not in after.archived.writes}  # by a writer that was waited for
    committed = before.pending_times & after.completed_write_times
    living = ", ".join(sorted(one.time for one in after.pending_writes))
    counts = {"rolled_back": len(gone), "committed": len(committed), "cleans_finished": len(finished)}
    return counts, _said(*notes, f"in flight, and left alone: {living}" if living else None)


def _said(*notes: str | None) -> str | None:
    return "; ".join(note for note in notes if note) or None


def _writes_of(timeline: Timeline) -> set[str]:
    return {one.time for one in (*timeline.completed_writes, *timeline.pending_writes)}


def _repair(work: _Work) -> _Done:
    """What changes no row: nobody has to look at the plan first."""
    config, asked = parse_options(work.options), Asked(tuple(sorted(UNATTENDED)), apply=True)
    done = repair_table(work.table.uri, work.runner.nearby(), no_keys, asked, config)
    counts = {kind.value: sum(one.kind is kind for one in done.mends) for kind in sorted(UNATTENDED)}
    kept = f"what was there before is in {done.kept}" if done.kept else None
    left = f"not mended: {done.unmended[0].found} ({done.unmended[0].why})" if done.unmended else None
    return counts, _said(kept, left)


def _cluster(work: _Work) -> _Done:
    if not work.table.properties.populate_meta_fields:
        return {"files": 0, "bytes": 0}, "rows of the table do not store their keys: it is not clustered"
    config = parse_options(work.options)
    done = cluster_table(work.table.uri, work.runner, AskedOfClustering(by_thresholds=True), config=config)
    return {"files": done.files_before, "bytes": done.bytes_before}, _said(*done.notes)


_KEPT: Final = "kept by maintenance"


def _keep_newest(work: _Work) -> _Done:
    """Keep the newest commit, and of those that were kept in this way only the newest ones."""
    table, config = work.table, parse_options(work.options)
    counts = {"made": 0, "deleted": 0}
    if not config.savepoints:
        return counts, None
    notes: tuple[str, ...] = ()
    if table.load_timeline().completed_writes:
        made = savepoint_create(table.uri, None, _KEPT, config)
        counts["made"], notes = int(made.action == "made"), made.notes
    ours = [one for one in savepoint_list(table.uri).savepoints if one.comment == _KEPT]
    by_age = sorted(ours, key=lambda one: one.made_at or "")  # a commit that began first may be the newer one
    for one in by_age[: -config.savepoints]:
        notes += savepoint_delete(table.uri, one.instant, config).notes
        counts["deleted"] += 1
    return counts, _said(*notes)


def _clean(work: _Work) -> _Done:
    done = clean(work.table.uri, config=parse_options(work.options))
    kept = f"{done.kept_for_savepoints} files stay because a savepoint names them" if done.kept_for_savepoints else None
    return {"files": len(done.files), "bytes": done.bytes}, _said(*done.notes, kept)


def _compact_metadata(work: _Work) -> _Done:
    if not work.table.properties.metadata_partitions:
        return {"compactions": 0, "instants": 0}, None
    config = parse_options(work.options)
    done = compact_metadata_table(work.table, config)
    archived = archive_metadata_table(work.table, config)
    return {"compactions": int(done is not None), "instants": len(archived)}, None


def _archive(work: _Work) -> _Done:
    done = archive(work.table.uri, config=parse_options(work.options))
    held = f"what is newer stays because of {done.held_by}" if done.held_by is not None else None
    return {"instants": len(done.instants), "strays": len(done.strays)}, _said(*done.notes, held)


def _compact(work: _Work) -> _Done:
    spec = work.table.index()
    index = None if spec is None else built_index_for(spec)
    if index is None:
        return {"deltas": 0}, "the table's index stores nothing that could be compacted"
    if is_in_metadata(work.table.storage, index):
        return {"deltas": 0}, f"the table's index is in the metadata table: {MaintenanceStep.METADATA} compacts it"
    done = compact_index(work.table.uri, work.runner, work.checkpoints, options=work.options)
    return {"deltas": done.deltas}, None


def _mend_cache(work: _Work) -> _Done:
    config: WriteConfig = parse_options(work.options)
    table = work.table
    if not config.footer_cache:
        return {"footers": 0, "dropped": 0}, "lakeindex.footer.cache is off"
    cache = FooterCache(table.storage)
    there = all_base_files(table.storage)
    dropped = sum(one.keep_only(there) for one in (cache, FooterCache(table.storage, only_rows=True)))
    spec = table.index()
    if spec is not None and not index_for(spec).needs_footers:
        return {"footers": 0, "dropped": dropped}, "the table's index asks for no footers: none are added"
    files = table.snapshot().base_files_all()
    known = cache.load(files)
    missing = [file for file in files if file.path not in known]
    footers = in_parallel(table.storage.uri, lambda file: read_footer(table.storage, file), missing)
    cache.add(list(zip(missing, footers, strict=True)))
    return {"footers": len(missing), "dropped": dropped}, None


def _drop_runs(work: _Work) -> _Done:
    config = parse_options(work.options)
    done = sweep_runs(
        work.table.uri,
        work.checkpoints,
        keep=config.keep_runs,
        days=config.keep_dead_runs_days,
        now_ms=int(time.time() * 1000),
    )
    return {"runs": done.dropped}, done.note


def _sync(work: _Work) -> _Done:
    config = parse_options(work.options)
    if not config.of(SyncOptions).catalogs:
        return {"partitions": 0, "entries": 0}, None
    from lakeindex.catalogs.syncing import sync_table

    done = sync_table(work.table.uri, config).catalogs
    partitions = sum(one.added + one.moved + one.dropped for one in done)
    return {"partitions": partitions, "entries": sum(one.created or bool(one.altered) for one in done)}, None


def _check(work: _Work) -> _Done:
    report = check_table(work.table.uri, work.runner.nearby())
    if report.ok:
        return {"violations": 0}, f"{report.checked.rows:,} rows in {report.checked.files:,} files are sound"
    first = report.violations[0]
    raise InvariantError(
        f"{len(report.violations)} invariants are broken, the first: {first.message}",
        culprit=first.culprit,
        hint=f"{first.hint}; `lakeindex check` lists all",
    )


_WORK: Final[dict[MaintenanceStep, Callable[[_Work], _Done]]] = {
    MaintenanceStep.SETTLE: _settle,
    MaintenanceStep.REPAIR: _repair,
    MaintenanceStep.SAVEPOINT: _keep_newest,
    MaintenanceStep.CLUSTER: _cluster,
    MaintenanceStep.CLEAN: _clean,
    MaintenanceStep.METADATA: _compact_metadata,
    MaintenanceStep.ARCHIVE: _archive,
    MaintenanceStep.COMPACT: _compact,
    MaintenanceStep.CACHE: _mend_cache,
    MaintenanceStep.RUNS: _drop_runs,
    MaintenanceStep.SYNC: _sync,
    MaintenanceStep.CHECK: _check,
}
