"""The run of a rescaling: what has to be rewritten, the two phases of tasks, the replacecommit."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from lakeindex.commands.rescale.tasks import BuildTask, BuiltFile, SplitFile, SplitTask, build_files, split_files
from lakeindex.commands.results import JsonResult
from lakeindex.commit.run_records import run_folder
from lakeindex.commit.session import (
    ExpectedFile,
    PlannedFile,
    PublishGuards,
    Replacement,
    RunIdentity,
    WriteSession,
)
from lakeindex.commit.turns import EVERYTHING
from lakeindex.conductor.moved import until_still
from lakeindex.conductor.opened import Opened
from lakeindex.errors import MOVED_ERRORS, InvariantError, TableCorruptError, WriteConflictError
from lakeindex.files.file_system_view import Snapshot
from lakeindex.format.commit_metadata import SCHEMA_KEY, CommitMetadata, WriteStat, footer_entry
from lakeindex.format.file_names import write_token
from lakeindex.hashing.row_digest import sum_of
from lakeindex.index.bucket.bucket import bucket_of, file_id_of, groups_by_bucket
from lakeindex.index.bucket.bucket_layout import COUNT_OPTION, FIELDS_OPTION, RULES_OPTION, BucketLayout, spec_of
from lakeindex.model import ARRANGING_OPERATION, BaseFile
from lakeindex.options.types import WriteConfig
from lakeindex.run.checkpoints import digest_of_text
from lakeindex.stages.merge_write.written_files import new_file_stat
from lakeindex.table.columns import written_schema
from lakeindex.table.index_changes import index_change_times, index_record, newest_in_force
from lakeindex.table.virtual_key_rules import check_stores_keys
from lakeindex.tasks.runner import Runner, pack, run_tasks
from lakeindex.timeline.records import key_of
from lakeindex.write.types.avro_schema import schema_to_avro

OPERATION: Final = ARRANGING_OPERATION
"""Incremental readers may pass it over."""
_OPEN_COST: Final = 1_000_000.0
_HUDI_OPTIONS: Final = (COUNT_OPTION, FIELDS_OPTION, RULES_OPTION)


@dataclass(frozen=True, slots=True)
class RescaledPartition:
    """A partition that is rewritten.

    Attributes:
        partition: its path.
        buckets_before: its count; None if the table was no bucket table.
        buckets_after: its count from now on.
        files: base files that are replaced.
        bytes: their size.
    """

    partition: str
    buckets_before: int | None
    buckets_after: int
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class RescaleSummary(JsonResult):
    """What a rescaling did, or would do.

    Attributes:
        table: the table's name.
        uri: where it is.
        instant: the replacecommit; None if nothing was to be done, or nothing was done yet.
        noop: whether the table was as asked already.
        dry_run: whether only the plan was asked for.
        partitions: what is rewritten, by path.
        rows: rows that were rewritten.
        files_replaced: base files that are no part of the table any more.
        files_created: base files that are there instead.
        bytes_written: size of the latter.
        hudi_options: what Hudi writers have to say from now on.
        seconds: how long it took.
        notes: what was done to other writers' instants.
    """

    shown_by: ClassVar[str] = "upkeep:show_rescaled"

    table: str
    uri: str
    instant: str | None
    noop: bool
    dry_run: bool
    partitions: tuple[RescaledPartition, ...]
    rows: int
    files_replaced: int
    files_created: int
    bytes_written: int
    hudi_options: Mapping[str, str]
    seconds: float
    notes: tuple[str, ...] = ()


class Rescale:
    """One rewrite, attempt by attempt."""

    def __init__(
        self,
        opened: Opened,
        layout: BucketLayout | None,
        target: BucketLayout,
        runner: Runner,
        config: WriteConfig,
    ) -> None:
        check_stores_keys(opened.table.properties, "a rewrite into other buckets")
        self._table = opened.table
        self._facts = opened.facts
        self._layout = layout
        self._target = target
        self._runner = runner
        self._config = config
        changed = newest_in_force(opened.snapshot.timeline, index_change_times(opened.table.storage))
        self._asked = digest_of_text(str(opened.index), str(spec_of(target)), changed or "")

    def identity(self) -> RunIdentity:
        """The same for the same change of the same index, so that a killed run is taken up again."""
        name = f"rescale {self._asked}"
        return RunIdentity(name, name, self._asked)

    def partitions(self, snapshot: Snapshot) -> dict[str, tuple[BaseFile, ...]]:
        """Live files of the partitions that have to be rewritten:
        another count, or groups that no bucket index makes.
        """
        found: dict[str, tuple[BaseFile, ...]] = {}
        for path in snapshot.partitions():
            files = snapshot.base_files(path)
            if files and not self._is_right(path, files):
                found[path] = files
        return found

    def run(self, session: WriteSession, identity: RunIdentity, started: float) -> RescaleSummary:
        """Rewrite and publish; anew while other writers change what it rests on.

        Raises:
            WriteConflictError: they do so too often, or have changed the index.
        """
        session.take_turn(EVERYTHING)  # who comes now waits: one small batch would make all of this in vain

        def attempt(snapshot: Snapshot) -> RescaleSummary:
            try:
                return self._attempt(session, identity, snapshot, started)
            except (*MOVED_ERRORS, InvariantError):
                session.abandon()  # whether or not there is another try: nothing is left pending
                raise

        return until_still(self._table, self._config, attempt, who=f"run {identity.run_id}")

    def _attempt(
        self, session: WriteSession, identity: RunIdentity, snapshot: Snapshot, started: float
    ) -> RescaleSummary:
        self._check_index(snapshot)
        self._facts = replace(self._facts, schema=written_schema(self._table, snapshot))
        built = self._write(session, identity, snapshot)
        report = self.summary(snapshot, session.instant, built, started)
        instant = self._publish(session, snapshot, built, report)
        seconds = round(time.perf_counter() - started, 4)
        return replace(report, instant=instant, seconds=seconds, notes=session.notes)

    def summary(
        self,
        snapshot: Snapshot,
        instant: str | None,
        built: Sequence[BuiltFile],
        started: float,
        *,
        noop: bool = False,
        dry_run: bool = False,
    ) -> RescaleSummary:
        """The report."""
        plan = self.partitions(snapshot)
        options = {key: text for key, text in self._target.options().items() if key in _HUDI_OPTIONS and text}
        return RescaleSummary(
            table=self._table.name,
            uri=self._table.uri,
            instant=instant,
            noop=noop,
            dry_run=dry_run,
            partitions=tuple(
                RescaledPartition(
                    path,
                    None if self._layout is None else self._layout.count_of(path),
                    self._target.count_of(path),
                    len(files),
                    sum(file.size_bytes for file in files),
                )
                for path, files in sorted(plan.items())
            ),
            rows=sum(one.digest.rows for one in built),
            files_replaced=0 if dry_run else sum(len(files) for files in plan.values()),
            files_created=len(built),
            bytes_written=sum(one.file.size_bytes for one in built),
            hudi_options=options,
            seconds=round(time.perf_counter() - started, 4),
        )

    def _is_right(self, path: str, files: Sequence[BaseFile]) -> bool:
        if self._layout is None or self._layout.count_of(path) != self._target.count_of(path):
            return False
        try:
            groups_by_bucket(path, (file.file_id for file in files), self._target)
        except TableCorruptError:
            return False
        return True

    def _check_index(self, snapshot: Snapshot) -> None:
        now = self._table.index(snapshot.timeline)
        if now != self._facts.index:
            raise WriteConflictError(
                "the index of the table was changed meanwhile by another run",
                culprit=str(snapshot.instant_time),
                hint="look at `lakeindex history`, and run again if the change is still wanted",
            )

    def _write(self, session: WriteSession, identity: RunIdentity, snapshot: Snapshot) -> tuple[BuiltFile, ...]:
        old = self.partitions(snapshot)
        for files in old.values():
            snapshot.refuse_clustered(files)
        split = self._split(identity, [file for files in old.values() for file in files])
        wanted = sorted({(one.old.partition_path, bucket) for one in split for bucket in one.pieces})
        planned = [
            PlannedFile(path, self._file_id(path, bucket), write_token(n, 0, 0), inserts=_rows(split, path, bucket))
            for n, (path, bucket) in enumerate(wanted)
        ]
        replaced = tuple(file for files in old.values() for file in files)
        everywhere = self._layout is None or _drops_a_rule(self._layout, self._target)
        record = index_record(spec_of(self._target))
        digest = digest_of_text(self._asked, self._columns(), *(file.path for file in replaced))
        replacement = Replacement(replaced, record, everywhere)
        plan = session.plan(planned, snapshot.instant_time, digest, replacement)
        built = self._build(identity, split, plan.files)
        before, after = sum_of(one.digest for one in split), sum_of(one.digest for one in built)
        if before != after:
            raise InvariantError(
                f"{before.rows} rows were read, the new files hold {after.rows}, or other ones",
                culprit=plan.instant,
                hint="nothing was published; report this",
            )
        return built

    def _columns(self) -> str:
        """Names the columns that the files are read with: they may be others in the next try."""
        return digest_of_text(self._facts.schema.to_string())

    def _file_id(self, path: str, bucket: int) -> str:
        """A function of the run, so that attempts agree; unique in the table."""
        return file_id_of(bucket, bytes.fromhex(key_of(f"{self._asked}\0{path}\0{bucket}")))

    def _split(self, identity: RunIdentity, files: Sequence[BaseFile]) -> tuple[SplitFile, ...]:
        folder = f"{run_folder(identity.key)}/split"
        tasks = [
            SplitTask(self._table.uri, self._facts.schema, file, self._target, f"{folder}/{name}")
            for file in files
            for name in [key_of(f"{file.path}\0{self._columns()}")]
        ]
        packs = pack([_OPEN_COST + file.size_bytes for file in files], self._runner.slots * 3) if files else []
        work = run_tasks(
            self._runner,
            split_files,
            [tuple(tasks[i] for i in one) for one in packs],
            "rescale: split base files by bucket",
        )
        return tuple(sorted((one for result in work for one in result), key=lambda one: one.old))

    def _build(
        self, identity: RunIdentity, split: Sequence[SplitFile], files: Sequence[BaseFile]
    ) -> tuple[BuiltFile, ...]:
        folder = f"{run_folder(identity.key)}/built"
        tasks, costs = [], []
        for file in files:
            bucket = bucket_of(file.file_id)
            pieces = tuple(
                one.pieces[bucket]
                for one in split
                if one.old.partition_path == file.partition_path and bucket is not None and bucket in one.pieces
            )
            record = f"{folder}/{key_of(file.path)}.json"
            tasks.append(
                BuildTask(self._table.uri, self._facts.name, self._facts.schema, self._config, file, pieces, record)
            )
            costs.append(_OPEN_COST + sum(piece.length for piece in pieces))
        packs = pack(costs, self._runner.slots * 3) if tasks else []
        work = run_tasks(
            self._runner,
            build_files,
            [tuple(tasks[i] for i in one) for one in packs],
            "rescale: write the new base files",
        )
        by_path = {one.file.path: one for result in work for one in result}
        return tuple(by_path[file.path] for file in files)

    def _publish(
        self, session: WriteSession, snapshot: Snapshot, built: Sequence[BuiltFile], report: RescaleSummary
    ) -> str:
        stats: dict[str, tuple[WriteStat, ...]] = {}
        for one in built:
            stats[one.file.partition_path] = (
                *stats.get(one.file.partition_path, ()),
                new_file_stat(one.file, one.digest.rows),
            )
        commit = CommitMetadata(
            stats,
            OPERATION,
            {
                SCHEMA_KEY: schema_to_avro(self._facts.schema, self._facts.name),
                **footer_entry({one.file.path: one.footer for one in built if one.footer}),
            },
            replaced_file_ids={
                path: tuple(file.file_id for file in files) for path, files in self.partitions(snapshot).items()
            },
        )
        expected = tuple(ExpectedFile(one.file.path, one.file.size_bytes, one.digest.rows) for one in built)
        guards = PublishGuards.of(snapshot.timeline)
        return session.publish(commit, expected, guards, report.to_json())


def _drops_a_rule(before: BucketLayout, after: BucketLayout) -> bool:
    """Whether partitions that are not there yet may have another count from now on."""
    return before.count != after.count or bool(set(before.rules) - set(after.rules))


def _rows(split: Sequence[SplitFile], path: str, bucket: int) -> int:
    return sum(one.pieces[bucket].rows for one in split if one.old.partition_path == path and bucket in one.pieces)
