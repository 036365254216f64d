"""Check the timeline: names, contents, states, and that what was rolled back is gone."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from lakeindex.commands.check.lost_columns import check_commit_columns
from lakeindex.commands.check.report import Broken, Checked, Findings, Violation
from lakeindex.commands.written_slices import Commits, written_slices
from lakeindex.commit.services.archive import archived_lately
from lakeindex.errors import ObjectNotFoundError, TableCorruptError, TimelineChangedError
from lakeindex.format import instants
from lakeindex.format.commit_metadata import CommitMetadata, WriteStat
from lakeindex.format.file_names import parse_base_path
from lakeindex.index.bucket.bucket import bucket_of
from lakeindex.model import Instant, InstantState
from lakeindex.storage import in_parallel
from lakeindex.table.handle import Table
from lakeindex.timeline.avro_instants import parse_clean_metadata, parse_rollback_metadata, parse_savepoint
from lakeindex.timeline.timeline import Timeline
from lakeindex.timeline.verdicts import BATCH_KEY
from lakeindex.write.types.avro_schema import schema_from_avro

_RESTORE: Final = "restore the file, or roll the instant back"
# written by Hudi before its own first requested file, or without one
_WITHOUT_REQUESTED: Final = frozenset({instants.SAVEPOINT, instants.RESTORE})
_COUNTED: Final = frozenset({"UPSERT", "DELETE", "INSERT"})
"""Operations whose counts say how a file's rows changed."""

_PARSERS: Final[dict[str, Callable[[bytes, str], object]]] = {
    instants.ROLLBACK: parse_rollback_metadata,
    instants.CLEAN: parse_clean_metadata,
    instants.SAVEPOINT: parse_savepoint,
}


@dataclass(frozen=True)
class CheckedTimeline:
    """The findings, and the commits that could be read, oldest first."""

    findings: Findings
    commits: Commits


def check_timeline(table: Table, timeline: Timeline) -> CheckedTimeline:
    """Check every instant of the active timeline."""
    readable: list[tuple[Instant, CommitMetadata]] = []
    violations: list[Violation] = [
        *_strange_names(table, timeline),
        *_incomplete(table, timeline),
        *_collisions(timeline),
    ]
    for instant, content in zip(
        timeline.completed,
        in_parallel(table.storage.uri, lambda one: _content(table, timeline, one), timeline.completed),
        strict=True,
    ):
        if isinstance(content, Violation):
            violations.append(content)
        elif isinstance(content, CommitMetadata):
            readable.append((instant, content))
    for instant, metadata in readable:
        violations += _check_stats(timeline.path(instant), instant, metadata)
    violations += _check_counts(timeline, readable)
    violations += _check_schema(timeline, readable)
    violations += check_commit_columns(timeline, readable)
    violations += _check_rollbacks(table, timeline)
    checked = Checked(instants=len(timeline.instants), commits=len(timeline.completed_writes))
    return CheckedTimeline(Findings(tuple(violations), tuple(_notes(timeline)), checked), readable)


def _strange_names(table: Table, timeline: Timeline) -> Iterator[Violation]:
    for one in table.storage.list_folder(timeline.layout.folder).objects:
        name = one.path.rpartition("/")[2]
        if name[:14].isdigit() and instants.parse_instant(name) is None:
            yield Violation(Broken.TIMELINE, one.path, f"{one.path} looks like an instant and is none", "move it away")


def _incomplete(table: Table, timeline: Timeline) -> Iterator[Violation]:
    """Completed instants whose requested file is gone: Hudi's archiver and rollbacks stumble over them.

    One that is archived already is none of them: whoever archived it was killed,
    and the next archiving deletes the rest.
    """
    requested = {(one.time, one.action) for one in timeline.files if one.state is InstantState.REQUESTED}
    aliases = {done: action for action, done in instants.COMPLETED_ACTION.items()}
    for one in timeline.completed:
        names = {(one.time, one.action), (one.time, aliases.get(one.action, one.action))}
        if one.action not in _WITHOUT_REQUESTED and not names & requested:
            if (one.time, one.action) in archived_lately(table):
                continue
            path = timeline.path(one)
            yield Violation(
                Broken.TIMELINE,
                path,
                f"{one.action} {one.time} is completed, but was never requested",
                f"put an empty {instants.requested_name(one.time, one.action)} beside it, or roll it back",
            )


def _collisions(timeline: Timeline) -> Iterator[Violation]:
    writes = timeline.completed_writes
    for before, after in itertools.pairwise(writes):
        if before.time == after.time:
            yield Violation(
                Broken.TIMELINE,
                after.time,
                f"instant {after.time} is both a {before.action} and a {after.action}",
                "two writers took the same instant; keep the one whose files are there",
            )


def _content(table: Table, timeline: Timeline, instant: Instant) -> object:
    """Parsed content of a completed instant; a Violation if it cannot be read; None if we do not look inside."""
    try:
        if instant.action in instants.WRITE_ACTIONS:
            return timeline.commit_metadata(table.storage, instant)
        parse = _PARSERS.get(instant.action)
        path = timeline.path(instant)
        return None if parse is None else parse(table.storage.read(path), path)
    except TableCorruptError as error:
        return Violation.of(Broken.COMMIT, error, instant.time)
    except (ObjectNotFoundError, TimelineChangedError):
        return None  # archived since the listing


def _check_stats(path: str, instant: Instant, metadata: CommitMetadata) -> Iterator[Violation]:
    for partition, stats in metadata.write_stats.items():
        for stat in stats:
            wrong = _wrong_stat(instant, partition, stat)
            if wrong is not None:
                yield Violation(Broken.COMMIT, path, f"{path}: {wrong}", _RESTORE)


def _wrong_stat(instant: Instant, partition: str, stat: WriteStat) -> str | None:
    file = None if stat.path is None else parse_base_path(stat.path)
    if stat.path is None:
        return f"the stat of file group {stat.file_id} names no file"
    if file is None:
        return None  # a log file of Hudi's; a copy-on-write table has none that counts
    if (file.file_id, file.instant_time) != (stat.file_id, instant.time):
        return f"{stat.path} is not of file group {stat.file_id} and instant {instant.time}"
    if partition not in (file.partition_path, stat.partition_path):
        return f"{stat.path} is listed under partition {partition!r}"
    return None


def _check_counts(timeline: Timeline, commits: Commits) -> Iterator[Violation]:
    """Rows after = rows before + inserts - deletes, for every file group with both slices on the timeline.

    In buckets that another writer wrote the deletes are a bound:
    Hudi 1.2 finds a key's bucket, not the key, and counts deletes of keys that were never there.
    """
    rows: dict[tuple[str, str, str], int] = {}
    for instant, metadata in commits:
        for one in written_slices(instant, metadata):
            stat = one.stat
            before = rows.get((one.file.partition_path, one.file.file_id, stat.prev_commit or ""))
            rows[one.file.partition_path, one.file.file_id, instant.time] = stat.num_writes
            if before is None or metadata.operation not in _COUNTED:
                continue
            most = before + stat.num_inserts
            least = most - stat.num_deletes
            if BATCH_KEY in metadata.extra_metadata or bucket_of(one.file.file_id) is None:
                most = least
            if not least <= stat.num_writes <= most:
                yield Violation(
                    Broken.ROWS,
                    one.file.path,
                    f"{timeline.path(instant)}: {one.file.path} has {stat.num_writes} rows after {before} rows, "
                    f"{stat.num_inserts} inserts and {stat.num_deletes} deletes",
                    "rows were lost or doubled by that commit; roll it back",
                )


def _check_schema(timeline: Timeline, commits: Commits) -> Iterator[Violation]:
    texts = [(instant, text) for instant, metadata in commits if (text := metadata.schema_text)]
    if commits and not texts:
        path = timeline.path(commits[-1][0])
        yield Violation(
            Broken.COMMIT,
            path,
            "no commit carries the table's schema",
            "Hudi's next upsert fails; write with lakeindex",
        )
    for instant, text in texts[-1:]:
        try:
            schema_from_avro(text)
        except TableCorruptError as error:
            yield Violation.of(Broken.COMMIT, error, timeline.path(instant))


def _check_rollbacks(table: Table, timeline: Timeline) -> Iterator[Violation]:
    for one in timeline.completed:
        if one.action != instants.ROLLBACK:
            continue
        path = timeline.path(one)
        try:
            rollback = parse_rollback_metadata(table.storage.read(path), path)
        except (TableCorruptError, ObjectNotFoundError):
            continue  # reported with the instants
        left = [found for found in timeline.find(rollback.instant_time) if found.action != instants.SAVEPOINT]
        if left:
            yield Violation(
                Broken.ROLLBACK,
                rollback.instant_time,
                f"{left[0].action} {rollback.instant_time} was rolled back by {one.time} and is still on the timeline",
                f"delete its files in {timeline.layout.folder}",
            )


def _notes(timeline: Timeline) -> Iterator[str]:
    for action in sorted({one.action for one in timeline.instants} - instants.ACTIONS):
        yield f"instants of the unknown action {action!r} are on the timeline; they were not looked into"
    last = timeline.last_completed_write_time
    for one in timeline.pending_writes:
        note = f"{one.action} {one.time} is {one.state}, not completed: a writer is at work, or was killed"
        if last is not None and one.time < last:
            note += f"; it is older than {last}, so Hudi's writers stop at it until it is rolled back"
        yield note
