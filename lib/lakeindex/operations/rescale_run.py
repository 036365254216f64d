"""The run of a rescaling: what has to be rewritten, and the replacecommit; the rows are moved as
:mod:`lakeindex.operations.rewrite_run` does it, to the places of their buckets.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from lakeindex.commit.guards import refuse_clustered
from lakeindex.commit.write_queue import EVERYTHING
from lakeindex.commit.write_session import PlannedFile, PublishGuards, Replacement, RunIdentity, WriteSession
from lakeindex.conductor.open_for_write import retry_on_conflict
from lakeindex.errors import (
    MOVED_ERRORS,
    REPAIR_KEYS,
    InvariantError,
    OptionError,
    TableCorruptError,
    WriteConflictError,
)
from lakeindex.files.file_system_view import Snapshot
from lakeindex.format.file_names import write_token
from lakeindex.frozen import Frozen
from lakeindex.index.bucket import bucket_ids, file_id_of, groups_by_bucket
from lakeindex.index.bucket_options import COUNT_OPTION, FIELDS_OPTION, RULES_OPTION, BucketLayout, exact_rule, spec_of
from lakeindex.model import BaseFile
from lakeindex.operations.rewrite_run import BuiltFile, Mover, RowsPiece, SplitFile, check_same_rows
from lakeindex.options.types import WriteConfig
from lakeindex.run.checkpoints import digest_of_text
from lakeindex.run.spec import BoundTable
from lakeindex.showing.json_result import TableResult
from lakeindex.table.handle import Table
from lakeindex.table.index_changes import index_change_times, index_record, newest_in_force
from lakeindex.table.refusals import check_stores_keys
from lakeindex.table.stored_keys import row_elsewhere
from lakeindex.table.table_columns import written_schema
from lakeindex.tasks.runner import Runner
from lakeindex.timeline.records import key_of
from lakeindex.write.base_file import RECORD_KEY

_HUDI_OPTIONS: Final = (COUNT_OPTION, FIELDS_OPTION, RULES_OPTION)


class BucketPlacing(Frozen):
    """Rows go to the bucket of their key, sorted by key there."""

    layout: BucketLayout

    def places(self, rows: pa.Table, file: BaseFile) -> np.ndarray:
        """As :class:`~lakeindex.operations.rewrite_run.Placing`."""
        return bucket_ids(rows.column(RECORD_KEY), self.layout.count_of(file.partition_path), self.layout)

    def order(self, rows: pa.Table, file: BaseFile) -> pa.Array:
        """As :class:`~lakeindex.operations.rewrite_run.Placing`."""
        keys = rows.column(RECORD_KEY)
        order = pc.sort_indices(keys)
        _check_unique(keys.take(order), file)
        return order


def _check_unique(keys: pa.ChunkedArray, file: BaseFile) -> None:
    """Sorted keys have no twins: a bucket that held a key twice could not be upserted into."""
    joined = keys.combine_chunks()
    joined = joined.chunk(0) if isinstance(joined, pa.ChunkedArray) and joined.num_chunks else joined
    if len(joined) < 2:
        return
    twins = pc.equal(joined.slice(1), joined.slice(0, len(joined) - 1))
    place = pc.index(twins, value=True).as_py()
    if place >= 0:
        key = joined[place].as_py()
        raise TableCorruptError(
            f"key {key!r} is stored more than once in partition {file.partition_path!r}",
            culprit=key,
            hint=f"{REPAIR_KEYS}; then rescale",
        )


class RescaledPartition(Frozen):
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


class RescaleSummary(TableResult):
    """What a rescaling did, or would do.

    Attributes:
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

    shown_by: ClassVar[str] = "results:show_rescaled"

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


def check_places(table: Table, snapshot: Snapshot) -> None:
    """Make sure that each row lies in the partition that its columns say, where an index of partitions looks for it: a
    global one may have left it in another.

    Raises:
        OptionError: one does not.
    """
    found = row_elsewhere(table, snapshot)
    if found is not None:
        raise OptionError(
            f"the index of table {table.name} has to stay a global one: a row lies in partition {found.stored!r} "
            f"({found.file.path}), and its columns say {found.made!r}",
            culprit=found.file.path,
            hint="upsert the rows of that partition once more, with -o "
            "hoodie.bloom.index.update.partition.path=true or its like of the index that the table has: "
            "they move to where they say",
        )


class Rescale:
    """One rewrite, attempt by attempt."""

    def __init__(
        self,
        opened: BoundTable,
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

        Raises:
            OptionError: as :func:`check_places`.
        """
        if self._facts.is_global:
            check_places(self._table, snapshot)
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
        session.take_turn(EVERYTHING)  # later writers wait: one small batch would make all of this in vain

        def attempt(snapshot: Snapshot) -> RescaleSummary:
            try:
                return self._attempt(session, identity, snapshot, started)
            except (*MOVED_ERRORS, InvariantError):
                session.abandon()  # whether or not there is another try: nothing is left pending
                raise

        return retry_on_conflict(self._table, self._config, attempt, who=f"run {identity.run_id}")

    def _attempt(
        self, session: WriteSession, identity: RunIdentity, snapshot: Snapshot, started: float
    ) -> RescaleSummary:
        self._check_index(snapshot)
        self._facts = replace(self._facts, schema=written_schema(self._table, snapshot))
        built = self._write(session, identity, snapshot)
        report = self.summary(snapshot, session.instant, built, started)
        replaced = [file for files in self.partitions(snapshot).values() for file in files]
        guards = PublishGuards.of(snapshot.timeline)
        instant = self._mover(identity).publish(session, guards, built, replaced, report.to_json())
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
            refuse_clustered(snapshot, files, self._config)
        mover = self._mover(identity)
        replaced = tuple(file for files in old.values() for file in files)
        others = (path for path in snapshot.partitions() if not self._is_right(path, ()))
        snapshot.check_whole({*old, *others}, every=True)
        placing = BucketPlacing(self._target)
        split = mover.split(replaced, lambda _: placing, self._asked)
        wanted = sorted({(one.old.partition_path, bucket) for one in split for bucket in one.pieces})
        planned = [
            PlannedFile(path, self._file_id(path, bucket), write_token(n, 0, 0), inserts=_rows(split, path, bucket))
            for n, (path, bucket) in enumerate(wanted)
        ]
        everywhere = self._layout is None or _is_about_others(self._layout, self._target, old)
        record = index_record(spec_of(self._target))
        digest = digest_of_text(self._asked, mover.writes, *(file.path for file in replaced))
        plan = session.plan(planned, snapshot.instant_time, digest, Replacement(replaced, record, everywhere))
        tasks = [
            mover.task(file, placing, [_pieces(split, path, bucket)])
            for file, (path, bucket) in zip(plan.files, wanted, strict=True)
        ]
        built = mover.build(tasks)
        check_same_rows(plan.instant, split, built)
        return tuple(built)

    def _mover(self, identity: RunIdentity) -> Mover:
        return Mover("rescale", self._table, self._facts, self._runner, self._config, identity.key)

    def _file_id(self, path: str, bucket: int) -> str:
        """A function of the run, so that attempts agree; unique in the table."""
        return file_id_of(bucket, bytes.fromhex(key_of(f"{self._asked}\0{path}\0{bucket}")))


def _is_about_others(before: BucketLayout, after: BucketLayout, rewritten: Iterable[str]) -> bool:
    """Whether partitions that are not there yet, or have no file now, may have another count from now on."""
    rules = {exact_rule(path) for path in rewritten}
    has_more = any(rule not in rules for rule, _ in set(after.rules) - set(before.rules))
    return before.count != after.count or bool(set(before.rules) - set(after.rules)) or has_more


def _pieces(split: Sequence[SplitFile], path: str, bucket: int) -> list[RowsPiece]:
    return [piece for one in split if one.old.partition_path == path for piece in one.pieces.get(bucket, ())]


def _rows(split: Sequence[SplitFile], path: str, bucket: int) -> int:
    return sum(piece.rows for piece in _pieces(split, path, bucket))
