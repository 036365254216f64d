"""Take whole partitions out of the table: Hudi's DELETE_PARTITION, a replacecommit that writes no file.

No row is read. The files stay where they are until a clean deletes them, so a roll-back brings the rows back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec.structs import replace

from lakeindex.commit.guards import refuse_clustered
from lakeindex.commit.ledger import find_done
from lakeindex.commit.write_queue import EVERYTHING
from lakeindex.commit.write_session import (
    AlreadyDone,
    PublishGuards,
    Replacement,
    RunIdentity,
    WriteSession,
    begin_write,
)
from lakeindex.conductor.open_for_write import open_for_write, retry_on_conflict
from lakeindex.conductor.upsert import done_before, keep_summary
from lakeindex.errors import UsageError, WriteConflictError
from lakeindex.files.file_system_view import Snapshot
from lakeindex.files.footer_cache import RowCount, count_rows
from lakeindex.format.commit_metadata import SCHEMA_KEY, CommitMetadata
from lakeindex.frozen import Frozen
from lakeindex.lock.write_context import WriteContext
from lakeindex.model import BaseFile
from lakeindex.run.checkpoints import digest_of_text
from lakeindex.run.replaced import ids_by_partition
from lakeindex.run.spec import RunSpec
from lakeindex.run.summary import RunSummary
from lakeindex.stages.stage_input.inputs import CONTENT_DIGEST
from lakeindex.table.handle import Table
from lakeindex.table.host import this_host
from lakeindex.table.table_columns import written_schema
from lakeindex.time_spent import Account, current_account
from lakeindex.write.types.avro_schema import schema_to_avro


class Chooser(Protocol):
    """Says which partitions go, on every snapshot anew."""

    def partitions(self, there: Sequence[str]) -> Sequence[str]:
        """Of the partitions that are there, those that go."""


class Named(Frozen):
    """Partitions that are named one by one; None: all of the table."""

    paths: tuple[str, ...] | None

    def partitions(self, there: Sequence[str]) -> Sequence[str]:
        """As :class:`Chooser`. Raises: UsageError: there is none of that name."""
        for path in sorted(set(self.paths or ()) - set(there)):
            raise UsageError(
                f"the table has no partition {path!r}",
                culprit=path,
                hint="`lakeindex inspect` lists the partitions, by their paths: region=eu where the table is "
                "hive style",
            )
        return there if self.paths is None else self.paths


def delete_partitions(spec: RunSpec, chooser: Chooser | None = None) -> RunSummary:
    """Replace all file groups of some partitions, or of all, by nothing.

    Args:
        chooser: says it instead.

    Returns:
        The summary, which is also in the run folder; of the earlier run, with ``noop``, if the batch id is
        committed already.

    Raises:
        UsageError: there is no such partition.
        ConflictError: another writer's work stands in the way for good; nothing was published.
    """
    account = current_account()
    table = open_for_write(spec.table_uri, spec.config).table
    identity = RunIdentity(spec.run_id, spec.batch_id, f"{CONTENT_DIGEST}:{_asked(spec)}")
    session = begin_write(table, identity, spec.operation, spec.config, force=spec.force)
    if isinstance(session, AlreadyDone):
        return keep_summary(spec, done_before(spec, session))
    deletion = _Deletion(spec, table, session, chooser or Named(spec.partitions), account)
    try:
        session.take_turn(EVERYTHING)  # later writers wait: one small batch would make this one in vain
        done = retry_on_conflict(table, spec.config, deletion.on, session.abandon)
        return keep_summary(spec, done)
    finally:
        session.close()


def plan_deletion(spec: RunSpec, chooser: Chooser | None = None) -> RunSummary:
    """What :func:`delete_partitions` would do; nothing is written. Raises: as it."""
    account = current_account()
    table = open_for_write(spec.table_uri, spec.config).table
    identity = RunIdentity(spec.run_id, spec.batch_id, f"{CONTENT_DIGEST}:{_asked(spec)}")
    done = find_done(WriteContext(table, this_host(), spec.config, None, spec.force), identity)
    if done is not None:
        return replace(done_before(spec, done), dry_run=True)

    def planned(snapshot: Snapshot) -> RunSummary:
        files = _files_of(chooser or Named(spec.partitions), snapshot)
        refuse_clustered(snapshot, files, spec.config)
        summary = _summary(spec, files, count_rows(table.storage, files), account)
        return replace(summary, noop=not files, dry_run=True)

    return retry_on_conflict(table, spec.config, planned)


def _asked(spec: RunSpec) -> str:
    if spec.chosen is not None:
        return spec.chosen.digest
    return digest_of_text(str(spec.operation), str(spec.partitions))


def _files_of(chooser: Chooser, snapshot: Snapshot) -> tuple[BaseFile, ...]:
    """Live files of the partitions that go."""
    wanted = sorted(set(chooser.partitions(snapshot.partitions())))
    snapshot.preload(wanted)
    return tuple(file for path in wanted for file in snapshot.base_files(path))


class _Deletion(Frozen):
    """One attempt of the run; on every snapshot until one is published."""

    spec: RunSpec
    table: Table
    session: WriteSession
    chooser: Chooser
    account: Account

    def on(self, snapshot: Snapshot) -> RunSummary:
        files = _files_of(self.chooser, snapshot)
        refuse_clustered(snapshot, files, self.spec.config)
        summary = _summary(self.spec, files, count_rows(self.table.storage, files), self.account)
        if not files:
            return replace(summary, notes=summary.notes + self.session.notes)
        return self._publish(snapshot, files, summary)

    def _publish(self, snapshot: Snapshot, files: tuple[BaseFile, ...], summary: RunSummary) -> RunSummary:
        spec, session = self.spec, self.session
        everywhere = spec.chosen is None and spec.partitions is None
        alone_in = None if everywhere else frozenset(spec.partitions or {file.partition_path for file in files})
        guards = PublishGuards.of(snapshot.timeline, self._recheck, alone_in=alone_in)
        replacement = Replacement(files)
        digest = digest_of_text(_asked(spec), *(file.path for file in files))
        session.plan((), snapshot.instant_time, digest, replacement)
        summary = replace(summary, instant=session.instant, noop=False)
        schema = schema_to_avro(written_schema(self.table, snapshot), self.table.name)
        commit = CommitMetadata({}, spec.operation, {SCHEMA_KEY: schema}, replaced_file_ids=ids_by_partition(files))
        instant = session.publish(commit, (), guards, summary.to_json())
        return replace(summary, instant=instant, noop=instant != summary.instant, notes=summary.notes + session.notes)

    def _recheck(self, since: Sequence[BaseFile]) -> None:
        """Nobody made a partition meanwhile that a condition chooses, too. Raises: WriteConflictError."""
        if self.spec.chosen is None:
            return
        for path in self.chooser.partitions(sorted({file.partition_path for file in since})):
            raise WriteConflictError(
                f"rows that meet the condition {self.spec.chosen.text} were committed meanwhile in partition {path!r}",
                culprit=path,
            )


def _summary(spec: RunSpec, files: tuple[BaseFile, ...], counted: RowCount, account: Account) -> RunSummary:
    spent = account.unsettled()
    return RunSummary(
        instant=None,
        batch_id=spec.batch_id,
        run_id=spec.run_id,
        operation=spec.operation,
        noop=True,
        files_replaced=len(files),
        rows_replaced=counted.rows,
        seconds=round(spent.wall, 4),
        startup_seconds=round(spent.startup, 4),
        waiting_seconds=round(spent.waiting, 4),
        notes=spec.config.notes + counted.notes,
        change=spec.change,
    )
