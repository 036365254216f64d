"""The run of a clustering: groups of base files are put together into new ones, in order, by one replacecommit.

Rows keep everything but the file's name, also their commit time and sequence number. What becomes one new file and fits
a task is read by the task that writes it; what does not is taken apart first, at places of the order that are known
from a sample (:mod:`lakeindex.operations.rewrite_run`). New files of a group are cut at these places, so that their
ranges share nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

import pyarrow as pa
from msgspec.structs import replace

from lakeindex.commit.guards import refuse_clustered
from lakeindex.commit.undo import located
from lakeindex.commit.write_queue import TurnScope
from lakeindex.commit.write_session import (
    Clustering,
    PlannedFile,
    PublishGuards,
    Replacement,
    RunIdentity,
    WriteSession,
)
from lakeindex.conductor.open_for_write import retry_on_conflict
from lakeindex.errors import MOVED_ERRORS, InvariantError
from lakeindex.files.file_system_view import Snapshot
from lakeindex.format import instants as names
from lakeindex.format.file_names import new_file_id, write_token
from lakeindex.frozen import Frozen
from lakeindex.index.bucket import bucket_of, file_id_of
from lakeindex.index.registry import index_for
from lakeindex.model import ARRANGING_OPERATION, IndexType
from lakeindex.operations.cluster_plan import (
    ORDER_KEY,
    ClusterGroup,
    Part,
    Request,
    Sized,
    candidates,
    choose,
    sampled,
    sized_files,
    whole_parts,
)
from lakeindex.operations.rewrite_run import BuiltFile, CopiedFile, Mover, Source, SplitFile, check_same_rows
from lakeindex.operations.row_order import RowOrder
from lakeindex.options.clustering_options import LAYOUT_OPTION, SORT_COLUMNS_OPTION, Curve
from lakeindex.run.checkpoints import digest_of_text
from lakeindex.run.spec import BoundTable, TableFacts
from lakeindex.showing.json_result import TableResult
from lakeindex.storage.port import Storage
from lakeindex.table.refusals import check_stores_keys
from lakeindex.table.table_columns import written_schema
from lakeindex.tasks.memory_bound import current_bound, write_bytes
from lakeindex.tasks.runner import Runner, for_work
from lakeindex.timeline.avro_instants import (
    ClusteringGroup,
    ClusteringSlice,
    RequestedReplace,
    format_requested_replace,
)
from lakeindex.timeline.records import key_of

_SHOWN_VALUES: Final = 2_000
_COPY_TIMES: Final = 3
"""What is copied is held as old files, as pieces of the new one, and as this."""


class ClusteredPartition(Frozen):
    """A partition that is clustered.

    Attributes:
        files_before: base files that are replaced.
        files_after: base files that are there instead; of a plan, about how many.
        candidates_before: base files of the partition whose range holds a value, on average of sampled rows: by column,
            the record key among them. What data skipping reads of a file a value.
        candidates_after: the same afterwards; empty in a plan.
    """

    partition: str
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    rows: int
    candidates_before: Mapping[str, float]
    candidates_after: Mapping[str, float]


class ClusterSummary(TableResult):
    """What a clustering did, or would do.

    Attributes:
        instant: the replacecommit, or the plan that was scheduled; None if nothing was to be done or was done.
        noop: whether nothing was to be done.
        dry_run: whether only the plan was asked for.
        scheduled: whether the plan was put on the timeline and not carried out.
        order: how rows are sorted.
        partitions: what is put together, by path.
        rows_before: rows of the files that are replaced.
        rows_after: rows of those that are there instead: as many.
        seconds: how long it took.
        notes: what was done to other writers' instants.
    """

    shown_by: ClassVar[str] = "results:show_clustered"

    instant: str | None
    noop: bool
    dry_run: bool
    scheduled: bool
    order: str
    partitions: tuple[ClusteredPartition, ...]
    rows_before: int
    rows_after: int
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    seconds: float
    notes: tuple[str, ...] = ()


class _Output(Frozen):
    """A new file.

    Attributes:
        places: of the group's order that it has; None: all, of whole old files.
        parts: where the rows of each place are.
    """

    group: ClusterGroup
    order: RowOrder
    places: range | None
    parts: tuple[tuple[Source, ...], ...]
    rows: int

    @property
    def content(self) -> str:
        """The same for the same rows."""
        if self.places is not None:
            return f"{self.places} {self.order.cuts[max(self.places.start - 1, 0) : self.places.stop]}"
        return "\0".join(one.path for part in self.parts for one in part)


def requested_of(storage: Storage, groups: Sequence[ClusterGroup], order: RowOrder) -> bytes:
    """What the requested file of a clustering says: Hudi's plan, which Hudi can carry out."""
    planned = []
    for group in groups:
        urls = located(storage, (one.file.path for one in group.files))[group.partition]
        by_name = {url.rpartition("/")[2]: url for url in urls}
        slices = (ClusteringSlice(group.partition, one.file.file_id, by_name[one.file.name]) for one in group.files)
        planned.append(ClusteringGroup(tuple(slices), group.outputs))
    params = {LAYOUT_OPTION: str(order.curve)}
    if order.curve is not Curve.NONE:
        params[SORT_COLUMNS_OPTION] = ",".join(order.columns)
    return format_requested_replace(RequestedReplace(ARRANGING_OPERATION, tuple(planned), params))


class Cluster:
    """One clustering, attempt by attempt."""

    def __init__(self, opened: BoundTable, request: Request, runner: Runner) -> None:
        check_stores_keys(opened.table.properties, "a clustering")
        self._table, self._facts = opened.table, opened.facts
        self._request, self._runner = request, runner
        self._is_bucketed = opened.facts.index.index_type is IndexType.BUCKET

    def groups(self, snapshot: Snapshot) -> list[ClusterGroup]:
        """What is put together. Raises: UsageError: no partition is meant."""
        return choose(self._request, self._table, self._facts, snapshot)

    def identity(self, snapshot: Snapshot, scheduled: str | None = None) -> RunIdentity:
        """The same for the same request on the same table, so that a killed run is taken up again."""
        asked = digest_of_text(self._request.text, scheduled or snapshot.instant_time or "")
        name = f"cluster {asked}"
        return RunIdentity(name, name, asked)

    def run(
        self,
        session: WriteSession,
        identity: RunIdentity,
        started: float,
        scheduled: tuple[str, Sequence[ClusterGroup]] | None = None,
    ) -> ClusterSummary:
        """Move the rows and publish; anew while other writers change the file groups.

        Args:
            scheduled: a plan that is on the timeline, and its groups.

        Raises:
            WriteConflictError: others do so too often; or, of a scheduled plan, once: it is rolled back then.
        """

        def attempt(snapshot: Snapshot) -> ClusterSummary:
            try:
                groups = self.groups(snapshot) if scheduled is None else scheduled[1]
                if not groups:
                    return self.summary(snapshot, (), started)
                return self._attempt(session, identity, snapshot, groups, started, scheduled and scheduled[0])
            except (*MOVED_ERRORS, InvariantError):
                session.abandon()  # whether or not there is another try: nothing is left pending
                raise

        if scheduled is not None:
            return attempt(self._table.snapshot())
        return retry_on_conflict(self._table, self._request.config, attempt, who=f"run {identity.run_id}")

    def _attempt(
        self,
        session: WriteSession,
        identity: RunIdentity,
        snapshot: Snapshot,
        groups: Sequence[ClusterGroup],
        started: float,
        scheduled: str | None,
    ) -> ClusterSummary:
        replaced = tuple(one.file for group in groups for one in group.files)
        if scheduled is None:
            refuse_clustered(snapshot, replaced, self._request.config)
        snapshot.check_newest(replaced, every=True)
        homes = index_for(self._facts.index).homes
        named = ((f.partition_path, f.file_id if homes is None else str(homes.home_of(f.file_id))) for f in replaced)
        session.take_turn(TurnScope.of(named, ()))
        facts = replace(self._facts, schema=written_schema(self._table, snapshot))
        mover = Mover("cluster", self._table, facts, self._runner, self._request.config, identity.key)
        samples = self._samples(facts, groups)
        split, outputs = self._outputs(mover, groups, samples)
        planned = [
            PlannedFile(one.group.partition, self._file_id(identity, one, n), write_token(n, 0, 0), inserts=one.rows)
            for n, one in enumerate(outputs)
        ]
        digest = digest_of_text(
            identity.input_digest, mover.writes, *(f.path for f in replaced), *(one.content for one in outputs)
        )
        begins_as = names.REPLACE_COMMIT if self._is_bucketed else self._table.properties.timeline_layout.clustering
        replacement = Replacement(replaced, begins_as=begins_as, groups_only=True)
        clustering = Clustering(requested_of(self._table.storage, groups, self._request.order), scheduled)
        plan = session.plan(
            planned, snapshot.instant_time, digest, replacement, None if self._is_bucketed else clustering
        )
        tasks = [
            mover.task(file, one.order, one.parts, self._held(one.group))
            for file, one in zip(plan.files, outputs, strict=True)
        ]
        built = mover.build(tasks)
        check_same_rows(plan.instant, split, built)
        report = replace(self.summary(snapshot, groups, started, built, samples), instant=plan.instant)
        if report.rows_before != report.rows_after:  # of a file that nobody read
            raise InvariantError(
                f"the old files have {report.rows_before} rows, the new ones {report.rows_after}",
                culprit=plan.instant,
                hint="nothing was published; report this",
            )
        guards = PublishGuards.of(snapshot.timeline)
        mark = {ORDER_KEY: self._request.order.text}
        instant = mover.publish(session, guards, built, replaced, report.to_json(), mark)
        return replace(report, instant=instant, seconds=round(time.perf_counter() - started, 4), notes=session.notes)

    def _samples(self, facts: TableFacts, groups: Sequence[ClusterGroup]) -> dict[str, pa.Table]:
        files = [one.file for group in groups for one in group.files]
        runner = for_work(self._runner, sum(file.size_bytes for file in files), self._request.config)
        return sampled(self._table, facts, files, self._request.columns, runner)

    def _order(self, group: ClusterGroup, samples: Mapping[str, pa.Table]) -> RowOrder:
        """The order of a group, cut into so many places that each file has some, and that each fits a task."""
        share = current_bound() // self._runner.slots
        outputs = min(group.outputs, max(1, sum(one.rows for one in group.files)))
        parts = max(1, -(-write_bytes(group.bytes, 0) // outputs // max(share, 1)))
        return self._request.order.fitted(samples[group.partition], outputs * parts)

    def _outputs(
        self, mover: Mover, groups: Sequence[ClusterGroup], samples: Mapping[str, pa.Table]
    ) -> tuple[list[SplitFile], list[_Output]]:
        """Take apart what does not fit; the new files."""
        outputs: list[_Output] = []
        orders: list[tuple[ClusterGroup, RowOrder]] = []
        for group in groups:
            whole = self._whole(group)
            order = self._request.order if whole else self._order(group, samples)
            if whole or not order.cuts:
                outputs += whole or [_whole_output(group, order, [(group.files, False)])]
            else:
                orders.append((group, order))
        orders_of = {one.file: order for group, order in orders for one in group.files}
        mark = digest_of_text(self._request.order.text, *(order.cuts for _, order in orders))
        split = mover.split(list(orders_of), orders_of.__getitem__, mark) if orders else []
        for group, order in orders:
            of_group = frozenset(one.file for one in group.files)
            mine = [one for one in split if one.old in of_group]
            pieces = [tuple(p for one in mine for p in one.pieces.get(n, ())) for n in range(len(order.cuts) + 1)]
            rows = [sum(piece.rows for piece in some) for some in pieces]
            outputs += [
                _Output(group, order, places, tuple(pieces[n] for n in places), sum(rows[n] for n in places))
                for places in _shared_out(rows, group)
            ]
        return split, outputs

    def _whole(self, group: ClusterGroup) -> list[_Output]:
        """New files of whole old ones, where so many fit a task at once; none if they do not."""
        share = current_bound() // self._runner.slots
        most = min(self._request.target_bytes, share // write_bytes(1, 0))
        parts = whole_parts(group, self._request.order, self._request.config, most)
        sizes = [sum(one.file.size_bytes for one in files) for files, _ in parts]
        shared = _shared_out(sizes, group) if parts else []
        if any(_COPY_TIMES * sum(sizes[n] for n in some) > share for some in shared):
            return []
        return [_whole_output(group, self._request.order, [parts[n] for n in some]) for some in shared]

    def _held(self, group: ClusterGroup) -> int:
        """What making one of its new files holds, about."""
        share = current_bound() // self._runner.slots
        return min(write_bytes(group.bytes // max(1, group.outputs), 0), share)

    def _file_id(self, identity: RunIdentity, output: _Output, number: int) -> str:
        """A function of the run and of what it reads, so that attempts agree; unique in the table."""
        files = "\0".join(one.file.path for one in output.group.files)
        entropy = bytes.fromhex(key_of(f"{identity.input_digest}\0{files}\0{number}"))
        bucket = bucket_of(output.group.files[0].file.file_id) if self._is_bucketed else None
        return new_file_id(entropy) if bucket is None else file_id_of(bucket, entropy)

    def summary(
        self,
        snapshot: Snapshot,
        groups: Sequence[ClusterGroup],
        started: float,
        built: Sequence[BuiltFile] = (),
        samples: Mapping[str, pa.Table] | None = None,
    ) -> ClusterSummary:
        """What was done, or would be."""
        if samples is None:
            samples = self._samples(self._facts, groups)
        lines = tuple(
            self._line(snapshot, path, groups, built, samples) for path in sorted({group.partition for group in groups})
        )
        return ClusterSummary(
            table=self._table.name,
            uri=self._table.uri,
            instant=None,
            noop=not groups,
            dry_run=False,
            scheduled=False,
            order=self._request.order.text,
            partitions=lines,
            rows_before=sum(one.rows for group in groups for one in group.files),
            rows_after=sum(one.digest.rows for one in built),
            files_before=sum(len(group.files) for group in groups),
            files_after=sum(line.files_after for line in lines),
            bytes_before=sum(group.bytes for group in groups),
            bytes_after=sum(one.file.size_bytes for one in built),
            seconds=round(time.perf_counter() - started, 4),
        )

    def _line(
        self,
        snapshot: Snapshot,
        path: str,
        groups: Sequence[ClusterGroup],
        built: Sequence[BuiltFile],
        samples: Mapping[str, pa.Table],
    ) -> ClusteredPartition:
        mine = [group for group in groups if group.partition == path]
        old = {one.file: one for group in mine for one in group.files}
        new = [one.file for one in built if one.file.partition_path == path]
        others = [file for file in snapshot.base_files(path) if file not in old]
        beside = sized_files(self._table.storage, others, self._request.columns)
        made = sized_files(self._table.storage, new, self._request.columns)
        return ClusteredPartition(
            path,
            files_before=len(old),
            files_after=len(new) if built else sum(group.outputs for group in mine),
            bytes_before=sum(file.size_bytes for file in old),
            bytes_after=sum(file.size_bytes for file in new),
            rows=sum(one.rows for group in mine for one in group.files),
            candidates_before=_candidates([*old.values(), *beside], samples[path]),
            candidates_after=_candidates([*beside, *made], samples[path]) if new else {},
        )


def _whole_output(group: ClusterGroup, order: RowOrder, parts: Sequence[Part]) -> _Output:
    sources = [tuple(CopiedFile(one.file) if copied else one.file for one in files) for files, copied in parts]
    return _Output(group, order, None, tuple(sources), sum(one.rows for files, _ in parts for one in files))


def _candidates(files: Sequence[Sized], sample: pa.Table) -> dict[str, float]:
    """Of each sampled column, how many files may hold a value."""
    rows = sample.take(pa.array(range(0, sample.num_rows, max(1, sample.num_rows // _SHOWN_VALUES)), pa.int64()))
    found = {}
    for name in sample.column_names:
        values = rows.column(name).drop_null().to_pylist()
        found[name] = round(candidates((one.ends[name] for one in files), values), 3)
    return found


def _shared_out(rows: Sequence[int], group: ClusterGroup) -> list[range]:
    """Places for each new file: neighbours, of about equal rows (or bytes), none without."""
    each = max(1.0, sum(rows) / group.outputs)
    found: list[range] = []
    begin, held, done = 0, 0, 0
    for place, count in enumerate(rows):
        if held and held + done + count / 2 > each * (len(found) + 1):
            found.append(range(begin, place))
            begin, done, held = place, done + held, 0
        held += count
    if held or not found:
        found.append(range(begin, len(rows)))
    return found
