"""Results for a person: the funnel of a run, what a table holds, and what was done to it."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from lakeindex.showing.facts import facts_of
from lakeindex.showing.notebook import Screen
from lakeindex.showing.text import Column as GridColumn
from lakeindex.showing.text import Grid, escape, human_bytes

if TYPE_CHECKING:
    from lakeindex.catalogs.syncing import SyncSummary
    from lakeindex.operations.advise import Advice
    from lakeindex.operations.changes import ChangesSummary
    from lakeindex.operations.check_violations import CheckReport
    from lakeindex.operations.cluster_run import ClusterSummary
    from lakeindex.operations.create_table import CreatedTable
    from lakeindex.operations.index import IndexBuilt, IndexDropped, IndexStatus, IndexVerified
    from lakeindex.operations.look.history import HistoryEntry, TableHistory
    from lakeindex.operations.look.inspect import Column, SizeBucket, TableInspection
    from lakeindex.operations.maintain import MaintenanceSummary
    from lakeindex.operations.metadata import MetadataBuilt, MetadataDropped, MetadataStatus, MetadataVerified
    from lakeindex.operations.migrate_index import IndexMigrated
    from lakeindex.operations.repair import RepairSummary
    from lakeindex.operations.repair_kept import RepairDiscarded
    from lakeindex.operations.repair_keys import KeysRepaired
    from lakeindex.operations.repair_properties import PropertiesRepaired
    from lakeindex.operations.rescale_run import RescaleSummary
    from lakeindex.operations.restore import RestoreSummary, Savepoints, SavepointSummary
    from lakeindex.operations.rows.get import GetResult
    from lakeindex.operations.rows.scan import ReadSummary
    from lakeindex.operations.table_services import ArchiveSummary, CleanSummary, RollbackSummary
    from lakeindex.run.summary import RunSummary, StageSummary

_SHOWN_COLUMNS: Final = 40
_MOST_VIOLATIONS: Final = 50
_SHOWN_ROWS: Final = 200


def _count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def show_run(console: Screen, run: RunSummary) -> None:
    """What a write did to every row, and the funnel of its stages."""
    console.print(f"[bold]{run.operation.lower()}[/bold] {escape(run.batch_id)}: {run.outcome}")
    counts = ", ".join(f"{_count(count)} {name}" for name, count in run.fates.items())
    unmet = f", {_count(run.unmet)} of these by a condition" if run.unmet else ""
    console.print(f"{_count(run.rows_in)} rows in" + (f": {counts}{unmet}" if counts else ""))
    if run.copies:
        console.print(f"{_count(run.copies)} more rows deleted: their keys were stored more than once")
    if run.dry_run:
        console.print(
            f"would create {_count(run.files_created)} files, and rewrite {_count(run.files_rewritten)} "
            f"of {human_bytes(run.bytes_to_rewrite)}"
        )
    elif run.files_created or run.files_rewritten:
        chunks = f"{_count(run.chunks_copied)} of {_count(run.chunks_copied + run.chunks_encoded)} column chunks"
        console.print(
            f"{_count(run.files_created)} files created, {_count(run.files_rewritten)} rewritten, "
            f"{human_bytes(run.bytes_written)} written"
            + (f" ({human_bytes(run.bytes_copied)} in {chunks} copied as bytes)" if run.chunks_copied else "")
            + f", {_count(run.rows_copied)} untouched rows copied, {run.seconds:.2f} s"
        )
    if run.files_replaced:
        console.print(f"{_count(run.files_replaced)} files with {_count(run.rows_replaced)} rows replaced")
    if run.stages:
        console.print(funnel(run))
    show_notes(console, run.notes)


def show_notes(console: Screen, notes: Iterable[str]) -> None:
    for note in notes:
        console.print(f"note: {note}", markup=False, soft_wrap=not console.is_terminal)


def funnel(run: RunSummary) -> Grid:
    """What each stage of a run took in and let through, and what it cost."""
    names = ("stage", "rows in", "rows out", "pairs in", "pairs out", "pairs kept", "seconds", "read", "requests")
    grid = Grid.of(*names, spare=("requests", "read", "pairs kept", "rows out"))
    for stage in run.stages:
        grid.add_row(
            stage.name + (" (reused)" if stage.reused else ""),
            _count(stage.rows_in),
            _count(stage.rows_out),
            _count(stage.pairs_in),
            _count(stage.pairs_out),
            _kept(stage),
            f"{stage.seconds:.2f}",
            human_bytes(stage.bytes_read),
            _count(stage.requests),
        )
    for name, seconds in run.beside_stages.items():
        grid.add_row(name, *[""] * 5, f"{seconds:.2f}")
    return grid


def _kept(stage: StageSummary) -> str:
    return f"{100 * stage.pairs_out / stage.pairs_in:.2f} %" if stage.pairs_in else ""


def show_created(console: Screen, created: CreatedTable) -> None:
    facts = {
        "where": created.uri,
        "version": f"{created.version}{f', not read by {created.unread_by}' if created.unread_by else ''}",
        "record key": ", ".join(created.key_fields),
        "partitions": ", ".join(created.partition_fields) or "none",
        "ordering": created.ordering_field or "none",
        "key generator": created.key_generator or "",
        "index": created.index_type,
        "merge mode": created.merge_mode,
        "metadata table": ", ".join(created.metadata) or "none",
        "columns": _columns(created.columns),
    }
    console.print(facts_of(f"{'found' if created.existed else 'created'} {created.table}", facts))


def _columns(columns: tuple[Column, ...]) -> str:
    shown = ", ".join(f"{column.name} {column.type}" for column in columns[:_SHOWN_COLUMNS])
    more = len(columns) - _SHOWN_COLUMNS
    return f"{shown}, and {more} more" if more > 0 else shown


def show_inspection(console: Screen, found: TableInspection) -> None:
    index = found.index_type or "not bound yet (the first write binds it: as it says, else as the files show)"
    pending = ", ".join(f"{one.action} {one.instant} ({one.state})" for one in found.pending)
    instants = ", ".join(f"{_count(count)} {action}" for action, count in found.instants.items())
    size = (
        f"{_count(found.rows)} rows in {_count(found.files)} files of {_count(found.partitions)} partitions, "
        f"{human_bytes(found.bytes)}"
    )
    facts = {
        "where": found.uri,
        "type, version": f"{found.table_type}, {found.version}",
        "record key": ", ".join(found.key_fields) or "generated by Hudi",
        "partitions by": ", ".join(found.partition_fields) or "nothing",
        "ordering": ", ".join(found.ordering_fields) or "none",
        "key generator": found.key_generator or "unknown",
        "index": index,
        "merge mode": found.merge_mode or "the table does not say",
        "metadata table": ", ".join(found.metadata_partitions) or "none",
        "columns": _columns(found.columns) or "the table does not say",
        "instants": instants or "none",
        "last commit": f"{found.last_commit} ({found.last_commit_time})" if found.last_commit else "none",
        "pending": pending or "none",
        "savepoints": ", ".join(found.savepoints) or "none",
        "size": size,
        "file sizes": _sizes(found.file_sizes),
        "superseded": f"{_count(found.older_files)} files, {human_bytes(found.older_bytes)}",
        "uncommitted": f"{_count(found.uncommitted_files)} files",
        **({} if found.pending_import is None else {"import": found.pending_import}),
        "writable": "yes" if found.refusal is None else f"no: {found.refusal.message} ({found.refusal.hint})",
    }
    console.print(facts_of(found.name, facts))


def _sizes(buckets: tuple[SizeBucket, ...]) -> str:
    texts = []
    for bucket in buckets:
        if bucket.files:
            below = "larger" if bucket.below_bytes is None else f"below {human_bytes(bucket.below_bytes)}"
            texts.append(f"{_count(bucket.files)} {below}")
    return ", ".join(texts) or "none"


def show_history(console: Screen, history: TableHistory) -> None:
    if history.instants:
        show_instants(console, history.instants)
    else:
        console.print(f"{escape(history.table)} has no instants yet")


def show_instants(console: Screen, instants: Sequence[HistoryEntry]) -> None:
    grid = Grid.of(
        *("instant", "time", "action", "operation", "batch"),
        *("inserts", "updates", "deletes", "created", "rewritten", "removed", "bytes"),
        text=5,
        spare=("removed", "created", "rewritten", "time", "bytes", "operation"),
        folded=("action", "operation", "batch"),
    )
    for entry in instants:
        grid.add_row(
            entry.instant,
            entry.time or "",
            entry.action if entry.state == "completed" else f"{entry.action} ({entry.state})",
            escape(entry.operation or _target(entry)),
            escape(entry.batch_id or ""),
            *(_count(count) for count in (entry.inserts, entry.updates, entry.deletes)),
            *(_count(count) for count in (entry.files_created, entry.files_rewritten, entry.files_removed)),
            "" if entry.bytes_written is None else human_bytes(entry.bytes_written),
        )
    console.print(grid)
    for entry in instants:
        if entry.problem:
            console.print(f"[red]damaged[/red] {entry.action} {entry.instant}: {escape(entry.problem)}")


def _target(entry: HistoryEntry) -> str:
    if entry.undone is not None:
        gone = f"without {', '.join(entry.undone)}" if entry.undone else ""
        return f"to {entry.target} {gone}".strip() if entry.target else gone
    return entry.comment or (f"of {entry.target}" if entry.target else "")


def show_check(console: Screen, report: CheckReport) -> None:
    say = functools.partial(console.print, soft_wrap=not console.is_terminal)  # piped, a finding is a line
    checked = report.checked
    say(
        f"checked {_count(checked.instants)} instants, {_count(checked.partitions)} partitions, "
        f"{_count(checked.files)} files, {_count(checked.rows)} rows ({human_bytes(checked.bytes)}), "
        f"{_count(checked.filters)} filters, {_count(checked.ranges)} key ranges, "
        f"{_count(checked.keys_recomputed)} keys made anew; a key is unique in its {checked.unique_scope}; "
        f"{report.seconds:.2f} s"
    )
    if checked.pages:
        say(
            f"compared {_count(checked.pages)} pages with their checksums, "
            f"{_count(checked.pages_without_crc)} have none"
        )
    show_notes(console, report.notes)
    for violation in report.violations[:_MOST_VIOLATIONS]:
        say(f"[red]{violation.kind}[/red] {escape(violation.told)}")
        say(f"  cure: {escape(violation.hint)}")
    more = len(report.violations) - _MOST_VIOLATIONS
    if more > 0:
        say(f"and {_count(more)} more (--json lists them all)")
    say("[green]every invariant holds[/green]" if report.ok else f"{len(report.violations)} invariants broken")


def show_read(console: Screen, summary: ReadSummary) -> None:
    console.print(
        f"{_count(summary.rows)} rows as of {summary.as_of or summary.instant or 'the beginning'}"
        + (f" written after {summary.since}" if summary.since else "")
        + f" from {_count(summary.files)} files"
        + (f" ({_count(summary.files_pruned)} left out)" if summary.files_pruned else "")
        + f" to {escape(summary.out)} ({human_bytes(summary.bytes_written)})"
    )


def show_changes(console: Screen, summary: ChangesSummary) -> None:
    console.print(
        f"{_count(summary.inserts)} inserts, {_count(summary.updates)} updates and {_count(summary.deletes)} deletes"
        f" from {summary.since or 'the beginning'} to {summary.until or 'now'}"
        f" in {_count(summary.file_groups)} file groups"
        f", to {escape(summary.out)} ({human_bytes(summary.bytes_written)})"
    )


def show_get(console: Screen, found: GetResult, aside: Screen | None = None) -> None:
    """Rows by key; what it took goes to another screen, if there is one."""
    if found.out is not None:
        console.print(f"{_count(found.rows.num_rows)} rows to {escape(found.out)}")
    elif found.rows.num_rows:
        show_rows(console, found.rows.column_names, found.rows.slice(0, _SHOWN_ROWS).to_pylist())
        more = found.rows.num_rows - _SHOWN_ROWS
        if more > 0:
            console.print(f"and {_count(more)} more (--json or --out FILE.parquet gives them all)")
    for key in found.missing[:_SHOWN_ROWS]:
        console.print(f"not there: {escape(key)}")
    if len(found.missing) > _SHOWN_ROWS:
        console.print(f"and {_count(len(found.missing) - _SHOWN_ROWS)} more that are not there")
    took = found.report
    beside = aside or console
    beside.print(
        f"{_count(took.rows)} rows of {_count(took.keys)} keys: {took.index_type} left {_count(took.files_opened)} of "
        f"{_count(took.files)} files, {_count(took.row_groups_searched)} of {_count(took.row_groups)} row groups "
        f"searched, {_count(took.row_groups_read)} read; {human_bytes(took.bytes_read)} in {_count(took.requests)} "
        f"requests, {took.seconds:.2f} s",
        soft_wrap=True,
    )
    show_notes(beside, took.notes)


def show_rows(console: Screen, names: list[str], rows: list[dict[str, object]]) -> None:
    """A line a row if that fits the width there is; else a line a value, as long values fold and none is cut."""
    texts = [["" if value is None else escape(str(value)) for value in row.values()] for row in rows]
    grid = Grid.of(*map(escape, names), text=len(names))
    for row in texts:
        grid.add_row(*row)
    if grid.width <= console.width:
        console.print(grid)
        return
    for at, row in enumerate(texts, 1):
        console.print(f"row {at:,} of {len(texts):,}", style="dim")
        record = Grid((GridColumn(style="bold", most=console.width // 2), GridColumn()), headed=False)
        for name, value in zip(names, row, strict=True):
            record.add_row(escape(name), value)
        console.print(record)


def show_advice(console: Screen, found: Advice) -> None:
    """Each index type's cost, the recommendation, warnings."""
    console.print(
        f"about {_count(found.keys)} keys ({_count(found.sampled_rows)} of {_count(found.batch_rows)} rows looked at), "
        f"{found.updates:.0%} of them in the table; {_count(found.files)} of {_count(found.files_in_table)} files in "
        f"{_count(found.partitions)} partitions"
    )
    grid = Grid.of(
        *("index", "pairs", "after ranges", "after filters", "files opened", "read", "requests"),
        *("look-up s", "files rewritten", "rewrite s", "build s"),
        spare=("requests", "build s", "read", "files rewritten", "after ranges", "files opened"),
    )
    for one in found.types:
        grid.add_row(
            one.index_type + (" (now)" if one.index_type == found.index_type else ""),
            *(_count(n) for n in (one.comparisons, one.after_ranges, one.after_filters, one.files_opened)),
            human_bytes(one.bytes_read),
            _count(one.requests),
            f"{one.lookup_seconds:.2f}" + ("" if one.measured else " ~"),
            _count(one.files_rewritten),
            f"{one.rewrite_seconds:.2f}",
            f"{one.build_seconds:.2f}" if one.build_seconds else "",
        )
    console.print(grid)
    if any(not one.measured for one in found.types):
        console.print("~ by rule of thumb, not measured")
    console.print(f"[bold]{escape(found.reason)}[/bold]")
    for warning in found.warnings:
        console.print(f"warning: {escape(warning)}")
    model = found.model
    runs = f"{model.seconds:.0%} over the last {model.runs:,} runs" if model.seconds is not None else "no runs yet"
    console.print(
        f"mean error of the model: {runs}; {model.calibrated:.0%} when it was calibrated ({escape(model.measured_on)})"
    )


def show_rollback(console: Screen, summary: RollbackSummary) -> None:
    console.print(
        f"rolled {summary.instant} back"
        + (f" with {summary.rollback_instant}" if summary.rollback_instant else "")
        + f"; {_count(len(summary.files_deleted))} files deleted; the newest commit is {summary.last_commit or 'none'}"
    )
    show_notes(console, summary.notes)


def show_restore(console: Screen, summary: RestoreSummary) -> None:
    if not summary.commits:
        console.print(f"{escape(summary.table)} is as of {summary.to}: nothing was committed after it")
        show_notes(console, summary.notes)
        return
    grid = Grid.of("commit that goes", "operation", "batch", "inserts", "updates", "deletes", text=3, folded=("batch",))
    for one in summary.commits:
        counts = (_count(count) for count in (one.inserts, one.updates, one.deletes))
        grid.add_row(one.instant, escape(one.operation or ""), escape(one.batch_id or ""), *counts)
    console.print(grid)
    console.print(
        f"{_count(summary.rows_before)} rows - {_count(summary.rows_gone)} in files that go + "
        f"{_count(summary.rows_back)} in {_count(summary.files_back)} files that are live again = "
        f"{_count(summary.rows_after)} rows"
    )
    verb = "would take" if summary.dry_run else "took"
    console.print(
        f"{verb} {escape(summary.table)} back to {summary.to}"
        + (f" with restore {summary.instant}" if summary.instant else "")
        + f"; {_count(len(summary.commits))} commits and {_count(len(summary.files_deleted))} files, "
        f"{human_bytes(summary.bytes_deleted)}, {'would go' if summary.dry_run else 'went'}"
    )
    show_notes(console, summary.notes)


def show_savepoint(console: Screen, summary: SavepointSummary) -> None:
    one = summary.savepoint
    what = {"made": "keeps", "there": "has been keeping", "deleted": "is deleted; it kept"}[summary.action]
    console.print(f"savepoint {one.instant} {what} {_count(one.files)} files")
    show_notes(console, summary.notes)


def show_savepoints(console: Screen, found: Savepoints) -> None:
    if not found.savepoints:
        console.print(f"{escape(found.table)} has no savepoints")
        return
    grid = Grid.of("commit", "made", "by", "files", "comment", text=3, folded=("comment",))
    for one in found.savepoints:
        made = one.made_at or "cut short: make or delete it again"
        grid.add_row(one.instant, made, escape(one.user or ""), _count(one.files), escape(one.comment or ""))
    console.print(grid)


def show_clean(console: Screen, summary: CleanSummary) -> None:
    for instant in summary.finished:
        console.print(f"finished clean {instant}, which somebody had left")
    what = f"{_count(len(summary.files))} files, {human_bytes(summary.bytes)}"
    if summary.dry_run:
        console.print(f"would delete {what}")
        for path in summary.files[:_SHOWN_ROWS]:
            console.print(f"  {escape(path)}")
    elif summary.instant is not None:
        console.print(f"clean {summary.instant} deleted {what}")
    else:
        console.print("nothing to delete")
    if summary.kept_for_savepoints:
        console.print(f"{_count(summary.kept_for_savepoints)} files stay because a savepoint names them")
    console.print(f"the last {summary.keep_commits:,} commits can be read" + _since(summary.earliest_retained))
    show_notes(console, summary.notes)


def show_archive(console: Screen, summary: ArchiveSummary) -> None:
    for path in summary.strays:
        console.print(f"deleted stray {escape(path)}")
    count = _count(len(summary.instants))
    if not summary.instants:
        console.print("nothing to archive")
    elif summary.dry_run:
        console.print(f"would archive {count} instants, {summary.instants[0].time} to {summary.instants[-1].time}")
    else:
        console.print(f"archived {count} instants" + (f" in {', '.join(summary.logs)}" if summary.logs else ""))
    if summary.held_by is not None:
        console.print(f"[yellow]![/yellow] what is newer stays because of {escape(summary.held_by)}")
    console.print(f"the timeline begins with {summary.first_commit or 'nothing'}")
    show_notes(console, summary.notes)


def _since(earliest: str | None) -> str:
    return f", from {earliest} on" if earliest is not None else "; the timeline has no more"


def show_maintenance(console: Screen, summary: MaintenanceSummary) -> None:
    grid = Grid.of("step", "what it changed", "seconds", text=2, folded=("what it changed",))
    for step in summary.steps:
        changes = ", ".join(f"{_count(count)} {name.replace('_', ' ')}" for name, count in step.counts.items() if count)
        grid.add_row(step.step, changes or "nothing", f"{step.seconds:.2f}")
    console.print(grid)
    for step in summary.steps:
        if step.note is not None:
            console.print(f"{step.step}: {escape(step.note)}")


def show_sync(console: Screen, done: SyncSummary) -> None:
    for one in done.catalogs:
        would = "would be " if done.checked else ""
        console.print(f"{one.catalog} {one.name}: " + ("agrees" if one.agrees else "did not agree"), markup=False)
        if one.created:
            console.print(f"  the table {would or 'was '}made")
        for what in one.altered:
            console.print(f"  {what}", markup=False)
        counts = {"added": one.added, "moved": one.moved, "dropped": one.dropped}
        if any(counts.values()):
            changes = ", ".join(f"{_count(count)} {would}{name}" for name, count in counts.items() if count)
            shown = ", ".join(one.partitions[:5]) + (", ..." if len(one.partitions) > 5 else "")
            console.print(f"  partitions: {changes} ({shown})", markup=False)
        if one.strange:
            console.print(f"  {_count(one.strange)} partitions lie outside of the table, and stay")


_KEYS_SHOWN: Final = 20
_KEY_COLUMN: Final = "_hoodie_record_key"


def show_index_built(console: Screen, done: IndexBuilt) -> None:
    console.print(
        f"built {done.index_type} as {done.generation}: {done.rows:,} keys of {done.files:,} files, through "
        f"{done.covered_through or 'the beginning'}, {done.bytes:,} bytes, {done.seconds:.2f} s",
        markup=False,
    )


def show_index_migrated(console: Screen, done: IndexMigrated) -> None:
    show_notes(console, done.notes)
    if done.noop:
        console.print(f"the index of {done.table} is {done.index_type} already", markup=False)
        return
    facts = [
        f"{done.keys_checked:,} keys proven unique" if done.keys_checked else "",
        f"{done.rows_built:,} keys built" if done.rows_built else "",
        f"{done.rows_rewritten:,} rows in {done.files_rewritten:,} files rewritten" if done.files_rewritten else "",
        "no file rewritten" if not done.files_rewritten else "",
        f"{done.seconds:.2f} s",
    ]
    what = "would migrate" if done.dry_run else "migrated"
    at = f" at {done.instant}" if done.instant else ""
    console.print(f"{what} {done.before} to {done.index_type}{at}: {', '.join(f for f in facts if f)}", markup=False)


def show_index_dropped(console: Screen, done: IndexDropped) -> None:
    what = "removed" if done.was_built else "was not built; removed what was left of"
    console.print(f"{what} {done.index_type} ({done.bytes:,} bytes)", markup=False)


def show_index_verified(console: Screen, found: IndexVerified) -> None:
    console.print(
        f"compared {found.entries:,} entries of {found.index_type} with {found.rows:,} keys in {found.files:,} files; "
        f"{found.seconds:.2f} s",
        markup=False,
    )
    if found.files_behind:
        console.print(f"note: {found.files_behind:,} files are not covered yet; the next write reads them first")
    for count, what in index_faults(found):
        if count:
            console.print(f"{count:,} {what}", markup=False)
    for one in found.examples:
        places = f"stored in {one.stored or 'no file'}, entry says {one.entry or 'nothing'}"
        console.print(f"  {one.kind} {one.key!r}: {places}", markup=False)
    if found.ok:
        console.print("[green]every entry is right[/green]")


def show_index_status(console: Screen, found: IndexStatus) -> None:
    state = "built" if found.is_built else "not built: lakeindex index build TABLE"
    in_metadata = found.kept_in != "lakeindex"
    rows = (
        ("index", found.index_type + ("" if found.is_bound else " (the table is not bound to it)")),
        ("kept in", "the metadata table, by every commit" if in_metadata else "lakeindex's own store"),
        ("state", state),
        ("generation", found.generation or "none"),
        ("covers", f"through {found.covered_through or 'nothing'}; the newest commit is {found.last_commit or 'none'}"),
        ("files", f"{found.files:,} covered, {found.files_behind:,} to be read by the next write"),
        ("deltas", f"{found.deltas:,}"),
        ("keys", "not counted" if found.rows is None else f"{found.rows:,}"),
        ("size", f"{found.bytes:,} bytes"),
    )
    for name, value in rows:
        console.print(f"{name:<11} {value}", markup=False)


def show_metadata_built(console: Screen, done: MetadataBuilt) -> None:
    named = ", ".join(done.built)
    console.print(f"built {named}: {done.files:,} files named; {done.seconds:.2f} s", markup=False)
    show_notes(console, done.notes)


def show_metadata_dropped(console: Screen, done: MetadataDropped) -> None:
    left = f"; left: {', '.join(done.left)}" if done.left else ""
    console.print(f"dropped {', '.join(done.dropped) or 'nothing: there is no metadata table'}{left}", markup=False)
    if done.undone_by is not None:
        console.print(f"built again by: {done.undone_by}", markup=False, soft_wrap=True)


def show_metadata_status(console: Screen, found: MetadataStatus) -> None:
    if not found.partitions:
        console.print(f"table {found.table} has no metadata table", markup=False)
    for one in found.partitions:
        kept = f"{one.groups:,} file groups, {one.logs:,} logs, {one.bytes:,} bytes" if one.kept else "not kept up"
        console.print(f"{one.name:<16} {kept}", markup=False)
    if found.inflight:
        console.print(f"in the making: {', '.join(found.inflight)}", markup=False)
    if found.partitions:
        last = found.last_compaction or "never"
        console.print(f"compacted {last}; {found.delta_commits:,} delta commits since", markup=False)


def show_metadata_verified(console: Screen, found: MetadataVerified) -> None:
    where = f"{found.files:,} files in {found.partitions:,} partitions"
    console.print(f"compared with {where}; {found.seconds:.2f} s", markup=False)
    for kind, count in found.counts.items():
        console.print(f"{count:,} {kind}", markup=False)
    for kind, count in found.record_index.items():
        if count:
            console.print(f"  {count:,} {kind} in the record index", markup=False)
    for one in found.examples:
        console.print(f"  {one.entry or one.kind} {one.path}: says {one.said}, is {one.is_so}", markup=False)
    if found.ok:
        console.print("[green]it says what is there[/green]")


def show_rescaled(console: Screen, done: RescaleSummary) -> None:
    """What was rewritten, and what Hudi writers have to say from now on."""
    show_notes(console, done.notes)
    if done.noop:
        console.print(f"nothing to do: the table has these buckets already{_by(done)}")
        return
    for one in done.partitions:
        before = "another index" if one.buckets_before is None else f"{one.buckets_before:,} buckets"
        console.print(
            escape(
                f"{one.partition or '(the table)'}: {before} -> {one.buckets_after:,} ({one.files:,} files, "
                f"{one.bytes:,} bytes)"
            )
        )
    if done.dry_run:
        console.print(f"would rewrite {sum(one.files for one in done.partitions):,} files; nothing was done")
    else:
        console.print(
            f"committed {done.instant}: {done.rows:,} rows in {done.files_created:,} files instead of "
            f"{done.files_replaced:,}, {done.seconds:.1f} s"
        )
    console.print("Hudi writers of this table need:", markup=False)
    for key, text in done.hudi_options.items():
        console.print(f"  {key}={text}", markup=False)


def show_clustered(console: Screen, done: ClusterSummary) -> None:
    """What was put together, and how many files hold a value before and after."""
    show_notes(console, done.notes)
    if done.noop:
        by = f" (committed by {done.instant})" if done.instant else ""
        console.print(f"nothing to do: no base files to be put together{by}")
        return
    for one in done.partitions:
        after = one.candidates_after
        held = ", ".join(
            f"{'key' if name == _KEY_COLUMN else name} {before:g}" + (f" -> {after[name]:g}" if after else "")
            for name, before in one.candidates_before.items()
        )
        what = f"{one.files_before:,} -> {one.files_after:,} files, {one.bytes_before:,} bytes, {one.rows:,} rows"
        console.print(escape(f"{one.partition or '(the table)'}: {what}; files that may hold a value: {held}"))
    if done.dry_run:
        console.print("nothing was done")
    elif done.scheduled:
        console.print(f"scheduled {done.instant}: `lakeindex cluster --instant {done.instant}` or Hudi carries it out")
    else:
        console.print(
            f"committed {done.instant}: {done.rows_after:,} rows of {done.rows_before:,}, by {done.order}, in "
            f"{done.files_after:,} files instead of {done.files_before:,}, {done.seconds:.1f} s",
            markup=False,
        )


def _by(done: RescaleSummary) -> str:
    return f" (committed by {done.instant})" if done.instant else ""


def show_repair(console: Screen, done: RepairSummary) -> None:
    """What is mended and what is not, and what became of the rows."""
    show_notes(console, done.notes)
    for one in done.mends:
        console.print(escape(f"{one.kind}: {one.found}"))
        console.print(escape(f"  mend: {one.mend}"))
    for left in done.unmended:
        console.print(escape(f"not mended ({left.kind}): {left.found}"))
        console.print(escape(f"  why:  {left.why}"))
        console.print(escape(f"  cure: {left.cure}"))
    if done.rows_gone or done.rows_doubled:
        console.print(
            f"{done.rows_before:,} rows - {done.rows_gone:,} gone + {done.rows_back:,} back - "
            f"{done.rows_doubled:,} doubled = {done.rows_after:,}"
        )
    if not done.mends:
        console.print("nothing to mend")
    elif done.dry_run:
        console.print(f"{len(done.mends):,} mends; nothing was written: --apply does it")
    else:
        console.print(
            escape(f"{len(done.mends):,} mended, {done.seconds:.1f} s; what was there before is in {done.kept}")
        )


def show_properties_repaired(console: Screen, done: PropertiesRepaired) -> None:
    if done.source == "whole":
        console.print("the properties are not lost: nothing to do")
        return
    for name, value in done.entries.items():
        console.print(escape(f"{name}={value}"), soft_wrap=True)
    for what, by in done.evidence.items():
        console.print(escape(f"{what}: {by}"))
    show_notes(console, done.notes)
    compared = f"; {done.rows_compared:,} stored rows have these keys and paths" if done.rows_compared else ""
    console.print(("nothing was written: --apply does it" if done.dry_run else "written") + compared)


def show_discarded(console: Screen, done: RepairDiscarded) -> None:
    what = "would go" if done.dry_run else "went"
    of = f" of the repairs {', '.join(done.repairs)}" if done.repairs else ""
    console.print(escape(f"{done.files:,} objects, {done.bytes:,} bytes{of} {what} from {done.folder}"))


def show_repaired(console: Screen, done: KeysRepaired) -> None:
    show_notes(console, done.notes)
    if not done.keys:
        console.print(f"every key is stored once in its {done.scope}")
        return
    for one in done.found[:_KEYS_SHOWN]:
        console.print(escape(f"{one.key}: stays in {one.kept}, goes from {', '.join(one.removed)}"))
    if done.keys > _KEYS_SHOWN:
        console.print(f"and {done.keys - min(_KEYS_SHOWN, len(done.found)):,} more keys")
    console.print(
        f"{done.keys:,} keys are stored more than once in their {done.scope}; the {done.keep} row of each stays, "
        f"{done.rows_removed:,} rows go, {done.files_rewritten:,} files change"
    )
    console.print(
        "nothing was written: --apply does it" if done.dry_run else f"committed {done.instant}, {done.seconds:.1f} s"
    )


def index_faults(found: IndexVerified) -> tuple[tuple[int, str], ...]:
    """Counts of what is wrong with a stored index, and what that is."""
    return (
        (found.missing, "keys without an entry"),
        (found.wrong, "entries that name another place"),
        (found.surplus, "entries of keys that are not stored"),
        (found.doubled, "keys stored twice"),
    )
