"""Take whole partitions out of the table: Hudi's DELETE_PARTITION, a replacecommit that writes no file.

No row is read. The files stay where they are until a clean deletes them, so a roll-back brings the rows back.
"""

from __future__ import annotations

import time
from dataclasses import replace

from lakeindex.commit.session import (
    AlreadyDone,
    PublishGuards,
    Replacement,
    RunIdentity,
    WriteSession,
    begin_write,
)
from lakeindex.commit.turns import EVERYTHING
from lakeindex.conductor.moved import MOVED_ERRORS, has_moved, moved_error
from lakeindex.conductor.opened import open_for_write
from lakeindex.conductor.upsert import done_before, keep_summary
from lakeindex.errors import UsageError
from lakeindex.files.file_system_view import Snapshot
from lakeindex.files.row_counts import RowCount, count_rows
from lakeindex.format.commit_metadata import SCHEMA_KEY, CommitMetadata
from lakeindex.model import BaseFile
from lakeindex.run.checkpoints import digest_of_text
from lakeindex.run.replaced import ids_by_partition
from lakeindex.run.spec import RunSpec
from lakeindex.run.summary import RunSummary
from lakeindex.run.table_facts import table_schema
from lakeindex.stages.stage_input.inputs import CONTENT_DIGEST
from lakeindex.table.handle import Table
from lakeindex.write.types.avro_schema import schema_to_avro


def delete_partitions(spec: RunSpec) -> RunSummary:
    """Replace all file groups of some partitions, or of all, by nothing.

    Args:
        spec: the run; ``partitions`` says which.

    Returns:
        The summary, which is also in the run folder; of the earlier run, with ``noop``, if the batch id is
        committed already.

    Raises:
        UsageError: there is no such partition.
        ConflictError: another writer's work stands in the way for good; nothing was published.
    """
    started = time.perf_counter()
    table = open_for_write(spec.table_uri, spec.config).table
    identity = RunIdentity(spec.run_id, spec.batch_id, f"{CONTENT_DIGEST}:{_asked(spec)}")
    session = begin_write(table, identity, spec.operation, spec.config, force=spec.force)
    if isinstance(session, AlreadyDone):
        return keep_summary(spec, done_before(spec, session))
    try:
        return keep_summary(spec, _published(spec, table, session, started))
    finally:
        session.close()


def _asked(spec: RunSpec) -> str:
    return digest_of_text(str(spec.operation), str(spec.partitions))


def _published(spec: RunSpec, table: Table, session: WriteSession, started: float) -> RunSummary:
    """Publish; anew while other writers change the partitions."""
    session.take_turn(EVERYTHING)  # who comes now waits: one small batch would make this one in vain
    for left in range(spec.config.conflict_retries, -1, -1):
        snapshot = None
        try:
            snapshot = table.snapshot()
            files = _files_of(spec, table, snapshot)
            snapshot.refuse_clustered(files)
            counted = count_rows(table.storage, files)
            summary = _summary(spec, files, counted, started)
            if not files:
                return replace(summary, notes=summary.notes + session.notes)
            return _publish(spec, table, session, snapshot, files, summary)
        except MOVED_ERRORS as error:
            if not has_moved(table, snapshot, error):
                raise
            session.abandon()
            if not left:
                raise moved_error(table, error) from error
    raise AssertionError("unreachable: every try returns or raises")


def _files_of(spec: RunSpec, table: Table, snapshot: Snapshot) -> tuple[BaseFile, ...]:
    """Live files of the partitions. Raises: UsageError: there is no such partition."""
    there = snapshot.partitions()
    for path in sorted(set(spec.partitions or ()) - set(there)):
        raise UsageError(
            f"table {table.name} has no partition {path!r}",
            culprit=path,
            hint="`lakeindex inspect` lists the partitions, by their paths: region=eu where the table is hive style",
        )
    wanted = there if spec.partitions is None else sorted(set(spec.partitions))
    snapshot.preload(wanted)
    return tuple(file for path in wanted for file in snapshot.base_files(path))


def _publish(
    spec: RunSpec,
    table: Table,
    session: WriteSession,
    snapshot: Snapshot,
    files: tuple[BaseFile, ...],
    summary: RunSummary,
) -> RunSummary:
    alone_in = None if spec.partitions is None else frozenset(spec.partitions)
    guards = PublishGuards.of(snapshot.timeline, alone_in=alone_in)
    replacement = Replacement(files)
    digest = digest_of_text(_asked(spec), *(file.path for file in files))
    session.plan((), snapshot.instant_time, digest, replacement)
    summary = replace(summary, instant=session.instant, noop=False)
    schema = schema_to_avro(table_schema(table, snapshot), table.name)
    commit = CommitMetadata({}, spec.operation, {SCHEMA_KEY: schema}, replaced_file_ids=ids_by_partition(files))
    instant = session.publish(commit, (), guards, summary.to_json())
    return replace(summary, instant=instant, noop=instant != summary.instant, notes=summary.notes + session.notes)


def _summary(spec: RunSpec, files: tuple[BaseFile, ...], counted: RowCount, started: float) -> RunSummary:
    return RunSummary(
        instant=None,
        batch_id=spec.batch_id,
        run_id=spec.run_id,
        operation=spec.operation,
        noop=True,
        files_replaced=len(files),
        rows_replaced=counted.rows,
        seconds=round(time.perf_counter() - started, 4),
        notes=spec.config.notes + counted.notes,
    )
