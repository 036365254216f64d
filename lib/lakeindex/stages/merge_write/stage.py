"""Stage 5: tag, plan, write, publish. The only stage that changes the table; everything before can be thrown away.

One attempt, against the snapshot of the look-up. If the table moves while files are written,
publishing finds out under the lock.

A row that moves to another partition keeps what the batch does not say: its old values are in the file that it leaves,
and it is written into another one. So before anything is planned, each chunk with such rows is staged again with whole
rows in their places, read from the files that they leave, a row group at a time. Later steps take rows from the chunk
as always.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from lakeindex.commit.guards import Recheck, accept_inserts
from lakeindex.commit.write_queue import EVERYTHING, TurnScope
from lakeindex.commit.write_session import ExpectedFile, PlannedFile, PublishGuards, Replacement, WriteSession
from lakeindex.errors import WriteConflictError
from lakeindex.files.footer_cache import FooterCache
from lakeindex.format.commit_metadata import SCHEMA_KEY, CommitMetadata, WriteStat, footer_entry, kept_entry
from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import one_array
from lakeindex.index.bloom_options import USE_METADATA_OPTION, BloomOptions
from lakeindex.index.cost import FILTER_BYTES_A_ROW, FOOTER_TEXT, LookupLoad, cost_of, entries_of, hit_chance, touched
from lakeindex.index.cost_constants import CONSTANTS
from lakeindex.index.fate import Fate
from lakeindex.index.locations.change_log import CoveredFile, Delta
from lakeindex.index.registry import index_for
from lakeindex.model import BaseFile, IndexType
from lakeindex.pipeline import STAGED_OP, STAGED_PARTITION, Stage
from lakeindex.run.checkpoints import LookedUp, Manifest, OutOfDateError, Part, digest_of_text
from lakeindex.run.chunks import Chunk, chunk_columns, chunks_of, rows_of_input, same_columns, without_repeated
from lakeindex.run.feeds import mark_applied
from lakeindex.run.index.sessions import session_for
from lakeindex.run.input_rows import INPUT_ROWS_TABLE
from lakeindex.run.lookup_files import LookupFile
from lakeindex.run.replaced import ids_by_partition
from lakeindex.run.spec import BoundTable, RunSpec, TableFacts, conditions_of, run_folder
from lakeindex.run.summary import Estimate, RunSummary, StageSummary, costs_of, stage_summary
from lakeindex.stages.merge_write.file_slices import (
    WriteTask,
    WrittenFile,
    check_counts,
    keep_written,
    tiny_files_note,
    unreadable,
    update_rule,
    write_files,
    write_stat,
)
from lakeindex.stages.merge_write.loading import Load, rows_at_once, write_load
from lakeindex.stages.merge_write.planning import (
    MergePlan,
    PlannedMerge,
    PlannedSlice,
    find_committed_homes,
    find_committed_inserts,
    plan_merge,
    planned_name,
)
from lakeindex.stages.merge_write.tags import FoundLine
from lakeindex.storage.storage_file import StoredBytes
from lakeindex.tasks.memory_bound import current_bound, verify_bytes, write_bytes, write_part
from lakeindex.tasks.meter import StageCost
from lakeindex.tasks.runner import Runner, do_task, for_work, pack, run_tasks
from lakeindex.tasks.stores import storage_at
from lakeindex.time_spent import current_account
from lakeindex.write.file_parts import open_slice
from lakeindex.write.row_groups import ALL_IN_MEMORY
from lakeindex.write.single_columns import replaced
from lakeindex.write.types.avro_schema import schema_to_avro

_OPEN_COST = 1_000_000
"""A file costs about as much as rewriting this many bytes."""
_DECODED_FACTOR = 4
"""Rows of the batch cost about as much as a file that they would make: a quarter of what they take decoded."""
_PACKS_A_SLOT = 5
_COLUMNS_NAMED = 8
_FILES_NAMED: Final = 3


class MovedTask(Frozen):
    """A chunk with rows that move, the files that they leave, by number, and the locations that name them."""

    spec: RunSpec
    facts: TableFacts
    chunk: Chunk
    files: tuple[tuple[int, BaseFile], ...]
    locations: tuple[Part, ...]
    folder: str

    @property
    def held_bytes(self) -> int:
        """Memory it will need, about: the files come one after the other."""
        return max(verify_bytes(file.size_bytes) for _, file in self.files)


class Located(Frozen):
    """What the look-up found: its files, the counts, and the location files."""

    files: Sequence[LookupFile]
    found: Sequence[FoundLine]
    parts: Sequence[Part]


def with_moved_rows(
    spec: RunSpec, facts: TableFacts, chunks: Sequence[Chunk], located: Located, runner: Runner, *, folder: str
) -> list[Chunk]:
    """The batch's chunks; in those with rows that move, these are whole."""
    of_chunk: dict[int, list[FoundLine]] = defaultdict(list)
    if not update_rule(spec, facts).replaces:
        for line in located.found:
            if line.moves:
                of_chunk[line.chunk].append(line)
    tasks = [
        MovedTask(
            spec,
            facts,
            chunks[number],
            tuple((n, located.files[n].file) for n in sorted({line.file for line in lines})),
            tuple(located.parts[n] for n in sorted({line.part for line in lines})),
            f"{folder}/moved",
        )
        for number, lines in sorted(of_chunk.items())
    ]
    result = list(chunks)
    near = for_work(runner, sum(task.held_bytes for task in tasks), spec.config)
    for chunk in run_tasks(near, stage_moved, tasks, "merge write: rows that move"):
        result[chunk.number] = chunk
    return result


def stage_moved(task: MovedTask) -> Chunk:
    """Write the chunk again, with whole rows for those that move.

    Raises:
        TableCorruptError: a file that they leave cannot be read.
    """
    folder, facts = run_folder(task.spec), task.facts
    wanted = ["chunk", "row", "file", "row_group", "row_in_group", "fate"]
    located = pa.concat_tables([folder.read_table(part, wanted) for part in task.locations])
    is_mine = pc.and_(
        pc.equal(located.column("chunk"), task.chunk.number), pc.equal(located.column("fate"), int(Fate.MOVED))
    )
    located = located.filter(is_mine).sort_by([("file", "ascending"), ("row_group", "ascending")])
    stored = [
        _stored_rows(task, file, located.filter(pc.equal(located.column("file"), number)))
        for number, file in task.files
    ]
    places = located.column("row").to_numpy()
    order = np.argsort(places, kind="stable")
    rows, rule = chunk_columns(folder, task.chunk, None), update_rule(task.spec, facts)
    leaving = ", ".join(file.path for _, file in task.files[:_FILES_NAMED])
    moved = rule.updated(
        pa.concat_tables(stored).take(pa.array(order)), rows.take(pa.array(places[order])), facts.schema, leaving
    )
    whole = rule.inserted(rows, facts.schema)
    columns = {name: rows.column(name) for name in (STAGED_PARTITION, STAGED_OP)}
    for name in whole.column_names:
        columns[name] = replaced(one_array(whole.column(name)), places[order], one_array(moved.column(name)))
    staged = pa.table(columns)
    stored = without_repeated(staged, same_columns(staged, {}))
    part = folder.write_table(f"{task.folder}/{task.chunk.number:05d}.parquet", stored)
    return replace(task.chunk, part=part, row_group=0)


def _stored_rows(task: MovedTask, file: BaseFile, located: pa.Table) -> pa.Table:
    """The stored rows at these locations of a file, in their order, with the table's columns."""
    store, schema = storage_at(task.spec.table_uri), task.facts.schema
    try:
        content = StoredBytes(store, file.path, file.size_bytes)
        slice_ = open_slice(content, schema, task.spec.config, has_virtual_keys=task.facts.has_virtual_keys)
        return slice_.rows_at(
            located.column("row_group").to_numpy(), located.column("row_in_group").to_numpy(), schema.names
        )
    except (pa.ArrowException, OSError) as error:
        raise unreadable(file, error) from error


def notes_of(spec: RunSpec, facts: TableFacts) -> tuple[str, ...]:
    """What the caller should know of the run's options and of the index."""
    notes = [*spec.config.notes, *facts.changes, *index_for(facts.index).notes(spec.config)]
    stays = facts.kept if spec.chosen is None else ()
    kept = [name for name in facts.schema.names if name in stays]
    if kept:
        more = f" and {len(kept) - _COLUMNS_NAMED} more" if len(kept) > _COLUMNS_NAMED else ""
        notes.append(f"the batch lacks {', '.join(kept[:_COLUMNS_NAMED])}{more}: kept in the rows that it updates")
    if spec.config.of(BloomOptions).use_metadata and not facts.index_type.has_filters:
        notes.append(f"{USE_METADATA_OPTION} changes nothing: {facts.index_type} has no filters")
    return tuple(notes)


def _write_cost(file_bytes: int, staged_bytes: int) -> float:
    return _OPEN_COST + file_bytes + staged_bytes / _DECODED_FACTOR


class Terms(Frozen):
    """What an attempt is bound to.

    Attributes:
        lost: attempts that were made before, in vain.
        recheck: is given the base files that were committed since the snapshot, and raises WriteConflictError if the
            batch would be another one with them.
    """

    lost: int = 0
    recheck: Recheck = accept_inserts


class _Merged(Frozen):
    """What an attempt has done before it publishes.

    Attributes:
        chunks: the batch's; those with rows that move are whole.
        written: the data files, in the order of the plan.
    """

    planned: PlannedMerge
    chunks: Sequence[Chunk]
    written: tuple[WrittenFile, ...] = ()


class MergeAttempt:
    """One attempt at the merge, against one snapshot, on which stages 1 to 4 (``looked_up``) were done."""

    def __init__(
        self,
        spec: RunSpec,
        bound: BoundTable,
        session: WriteSession,
        runner: Runner,
        looked_up: LookedUp,
        terms: Terms,
    ) -> None:
        self._spec, self._bound, self._facts = spec, bound, bound.facts
        self._session, self._runner, self._terms = session, runner, terms
        self._looked_up = looked_up
        self._folder = run_folder(spec)
        self._chunks = chunks_of(self._folder, looked_up.staged)
        self._account = current_account()
        self._begun = self._account.so_far()
        self._attempt = self._folder.new_attempt(Stage.MERGE_WRITE)
        self._index = session_for(spec, bound.facts, runner)

    def given_up(self) -> None:
        self._index.failed()

    def run(self) -> RunSummary:
        """Tag, plan, write, publish.

        Raises:
            WriteConflictError: the table moved under the plan; nothing was published.
        """
        outcome = do_task(lambda _: self._tag_plan_write(), None)
        merged, written = outcome.value, outcome.value.written
        summary = self._summary(merged, outcome.cost)
        summary.check_identity()
        check_counts(written, summary)
        if not written and not merged.planned.replaced.files:
            return replace(summary, notes=summary.notes + self._session.notes)
        keep_written(self._folder, self._attempt, self._looked_up.verified, written, summary.stages[-1])
        notes = summary.notes + tiny_files_note(written, self._facts.keys, self._facts.schema)
        summary = replace(summary, instant=self._session.instant, noop=False, notes=notes)
        published = do_task(lambda _: self._publish(merged, summary), None)
        self._session.note("footers were not kept", lambda: self._keep_footers(written))
        stage = self._stage_line(merged, outcome.cost + published.cost)
        return replace(
            summary,
            instant=published.value,
            notes=summary.notes + self._session.notes,
            noop=published.value != summary.instant,  # another run of the same batch was first
        ).with_stages((*self._looked_up.summaries, stage))

    def _tag_plan_write(self) -> _Merged:
        planned = plan_merge(self._spec, self._bound, self._chunks, self._looked_up, self._runner, self._attempt)
        places = Located(planned.files, planned.found, self._looked_up.verified.parts("locations"))
        chunks = with_moved_rows(self._spec, self._facts, self._chunks, places, self._runner, folder=self._attempt)
        merged, plan = _Merged(planned, chunks), planned.plan
        if not plan.slices and not planned.replaced.files:
            return merged
        near = self._writer(plan)
        load = self._load_of(planned)
        tasks = self._write_tasks(merged, near.slots, load)
        if load is not None:
            return replace(merged, written=tuple(write_load(tasks, load, self._runner)))
        costs = [_write_cost(s.old.size_bytes if s.old else 0, self._staged_bytes(s)) for s in plan.slices]
        packs = [tuple(tasks[i] for i in numbers) for numbers in pack(costs, near.slots * _PACKS_A_SLOT)]
        results = run_tasks(near, write_files, packs, "merge write: rewrite and create base files")
        written = {one.file.path: one for result in results for one in result}
        return replace(merged, written=tuple(written[t.new.path] for t in tasks))

    def _writer(self, plan: MergePlan) -> Runner:
        """The runner that writes: this process is done with small files before workers have started."""
        work = sum((s.old.size_bytes if s.old else 0) + self._staged_bytes(s) for s in plan.slices)
        return for_work(self._runner, work, self._spec.config, len(plan.slices))

    def _load_of(self, planned: PlannedMerge) -> Load | None:
        """Where the rows of a load are, if all of them stayed in files that this process reads."""
        parts = self._looked_up.staged.parts(INPUT_ROWS_TABLE)
        is_near = self._runner.nearby() is self._runner
        if not parts or not is_near or planned.found or any(one.old is not None for one in planned.plan.slices):
            return None
        counters = self._looked_up.staged.counters
        encoded = int(counters["staged_column_bytes"]) / max(int(counters["rows_out"]), 1) + _META_BYTES
        rows = rows_of_input(self._folder, parts[0])
        return Load(rows, rows_at_once(rows, current_bound(), self._runner.slots, encoded))

    def _write_tasks(self, merged: _Merged, slots: int, load: Load | None) -> list[WriteTask]:
        plan, gone = merged.planned.plan, merged.planned.replaced
        share = current_bound() // slots
        sizes = [(s.old.size_bytes if s.old else 0, self._staged_bytes(s)) for s in plan.slices]
        needs = [write_bytes(*size) for size in sizes]
        # How rows are cut into row groups depends on it, so it is part of the plan:
        # a retry with another bound has other names.
        limit = self._spec.config.row_group_rows
        parts = [
            write_part(share, *size) if load is None else load.part(one.inserts, limit)
            for one, size in zip(plan.slices, sizes, strict=True)
        ]
        replacing = (str(self._spec.operation), tuple(f.path for f in gone.files)) if gone.is_replacing else ()
        function = self._spec.merge_function
        merging = () if function is None else (function.name, self._attempt)  # it may be another one by now
        # The plan numbers rows of the batch: with other options, or other input, they may be others, or other bytes.
        digest = digest_of_text(
            self._looked_up.staged.basis,
            plan.digest, *merging, *((n, part) for n, part in enumerate(parts) if part < ALL_IN_MEMORY), *replacing,
            *conditions_of(self._spec, self._facts).texts, *self._spec.config.encoding,
        )  # fmt: skip
        named = []
        for number, planned in enumerate(plan.slices):
            file_id, token = planned_name(planned, number)
            named.append(
                PlannedFile(planned.partition_path, file_id, token, planned.old, planned.updates, planned.inserts)
            )
        # What the commit takes out of the table; it is a replacecommit, as Hudi's, also if there was nothing yet.
        replacement = Replacement(gone.files) if gone.is_replacing else None
        self._wait_for_turn(named, replacement, merged)
        run_plan = self._session.plan(named, self._bound.snapshot.instant_time, digest, replacement)
        locations = self._looked_up.verified.parts("locations")
        addressed = self._looked_up.staged.parts(INPUT_ROWS_TABLE)
        return [
            WriteTask(
                self._spec,
                self._facts,
                number,
                planned.old,
                planned.old_number,
                file,
                tuple(locations[i] for i in planned.location_parts),
                planned.placed,
                {n: merged.chunks[n] for n in planned.chunks},
                f"{self._attempt}/delta/{number:05d}.parquet" if self._index.keeps_changes else None,
                part,
                min(need, share),
                are_addressed=bool(addressed),
            )
            for number, (planned, file, part, need) in enumerate(
                zip(plan.slices, run_plan.files, parts, needs, strict=True)
            )
        ]

    def _wait_for_turn(self, planned: Sequence[PlannedFile], replacement: Replacement | None, merged: _Merged) -> None:
        """Wait for the writers that came first, then make sure that the plan is not in vain.

        Raises:
            OutOfDateError: it is.
        """
        homes = index_for(self._facts.index).homes
        changed = [
            (p.partition_path, p.file_id if homes is None else str(homes.home_of(p.file_id)))
            for p in planned
            if homes is not None or p.previous is not None
        ]
        created = {p.partition_path for p in planned if p.previous is None}
        lost = self._terms.lost > 0
        alone = replacement is not None or (lost and self._spec.chosen is not None)
        scope = EVERYTHING if alone else TurnScope.of(changed, created, lost=lost)
        self._session.take_turn(scope)
        try:
            time, guards = self._bound.snapshot.instant_time, self._guards(merged)
            self._session.check_planned(planned, time, guards, replacement)
        except WriteConflictError as conflict:
            raise OutOfDateError(conflict) from None

    def _guards(self, merged: _Merged) -> PublishGuards:
        new, replaced, homes = merged.planned.tags.new_rows, merged.planned.replaced, index_for(self._facts.index).homes
        rechecks: list[Recheck] = [] if homes is None else [partial(find_committed_homes, homes, new, replaced.left)]
        rechecks += [partial(find_committed_inserts, self._spec, self._facts, merged.chunks, new), self._terms.recheck]
        return PublishGuards.of(self._bound.snapshot.timeline, *rechecks, alone_in=replaced.alone_in)

    def _staged_bytes(self, planned: PlannedSlice) -> int:
        counters = self._looked_up.staged.counters
        # New rows get all columns, whatever the batch has.
        rows = planned.updates + planned.inserts * len(self._facts.schema) // len(self._facts.staged)
        return rows * int(counters.get("staged_bytes", 0)) // max(int(counters["rows_out"]), 1)

    def _publish(self, merged: _Merged, summary: RunSummary) -> str:
        written = merged.written
        stats: dict[str, tuple[WriteStat, ...]] = {}
        for one in written:
            path = one.file.partition_path
            stats[path] = (*stats.get(path, ()), write_stat(one))
        schema = schema_to_avro(self._facts.schema, self._facts.name)
        footers = footer_entry({one.file.path: one.footer for one in written})
        gone = ids_by_partition(merged.planned.replaced.files)
        kept = merged.planned.kept
        groups = zip(*(kept.column(name).to_pylist() for name in ("partition", "file_id")), strict=True)
        extra = {SCHEMA_KEY: schema, **footers, **kept_entry(set(groups))}
        commit = CommitMetadata(stats, self._spec.operation, extra, replaced_file_ids=gone)
        expected = tuple(ExpectedFile(one.file.path, one.file.size_bytes, one.rows) for one in written)
        covered = tuple(
            CoveredFile(w.file.partition_path, w.file.file_id, w.file.name, w.rows, w.old.name if w.old else None)
            for w in written
        )
        deltas = [w.delta for w in written if w.delta is not None]
        if kept.num_rows:
            deltas.append(run_folder(self._spec).write_table(f"{self._attempt}/kept.parquet", kept))
        if self._spec.feed is not None and self._spec.feed.source:
            mark_applied(storage_at(self._spec.table_uri), self._spec.feed, self._session.instant)
        lost = tuple((one.partition_path, one.file_id) for one in merged.planned.replaced.files)
        self._index.prepare(self._bound.snapshot, Delta(self._session.instant, covered, lost), deltas)
        guards = replace(self._guards(merged), in_order=partial(self._index.check_order, self._session.instant))
        instant = self._session.publish(commit, expected, guards, summary.to_json())
        if instant == summary.instant:
            behind = f"index {self._facts.index_type} is behind {instant} until the next look-up"
            self._session.note(behind, lambda: self._index.committed(covered, deltas))
        return instant

    def _keep_footers(self, written: Sequence[WrittenFile]) -> None:
        FooterCache(self._bound.table.storage).keep_facts(w.cached for w in written if w.cached is not None)

    def _summary(self, merged: _Merged, cost: StageCost) -> RunSummary:
        written, planned, bad = merged.written, merged.planned, merged.planned.in_the_way.quarantined
        staged = self._looked_up.staged.counters
        stage = self._stage_line(merged, cost)
        touched = sum(w.updates + w.inserts for w in written)
        summary = RunSummary(
            instant=None,
            notes=notes_of(self._spec, self._facts) + planned.counted.notes,
            batch_id=self._spec.batch_id,
            run_id=self._spec.run_id,
            operation=self._spec.operation,
            noop=True,
            rows_in=int(staged["rows_in"]),
            combined=int(staged["combined"]),
            quarantined=int(staged["quarantined"]) + bad + planned.tags.incomplete.quarantined,
            files_created=sum(w.old is None for w in written),
            files_rewritten=sum(w.old is not None for w in written),
            bytes_written=sum(w.file.size_bytes for w in written),
            bytes_copied=sum(w.bytes_copied for w in written),
            rows_copied=sum(w.rows for w in written) - touched,
            chunks_copied=sum(w.chunks_copied for w in written),
            chunks_encoded=sum(w.chunks_encoded for w in written),
            files_replaced=len(planned.replaced.files),
            rows_replaced=planned.counted.rows,
            estimate=estimate_of(
                self._facts.index_type,
                self._looked_up.staged,
                self._looked_up.lookup,
                self._looked_up.summaries,
            ),
            retries=self._terms.lost,
            change=self._spec.change,
        )
        counted = planned.tags.counted_in(summary, planned.found, bad)
        return counted.with_stages((*self._looked_up.summaries, stage))

    def _stage_line(self, merged: _Merged, cost: StageCost) -> StageSummary:
        written = merged.written
        counters = {
            "rows_in": int(self._looked_up.staged.counters["rows_out"]),
            "rows_out": sum(w.rows for w in written),
            "keys_found": sum(f.found for f in merged.planned.found),
            "files_created": sum(w.old is None for w in written),
            "files_rewritten": sum(w.old is not None for w in written),
            "bytes_written": sum(w.file.size_bytes for w in written),
            "chunks_copied": sum(w.chunks_copied for w in written),
            "chunks_encoded": sum(w.chunks_encoded for w in written),
        }
        seconds = (self._account.so_far() - self._begun).work
        costs = costs_of(replace(cost, seconds=seconds), self._account.unsettled())
        return stage_summary(Stage.MERGE_WRITE, costs, counters, reused=False)


_LOOKUP = (Stage.INDEX_LOOKUP, Stage.BLOOM_CHECK, Stage.VERIFY_KEYS)
_META_BYTES = 24.0
"""What the meta columns add to a row on disk, about."""
_OWN_FPP = 1e-6


def estimate_of(
    index_type: IndexType, staged: Manifest, lookup: Manifest, summaries: Sequence[StageSummary]
) -> Estimate | None:
    """Estimate and actual cost of stages 2 to 4, kept in every run's summary; None if there was nothing to look up.

    Counts are those that are known when the index has answered (stage 2), so that no more is read for it; how many of
    the pairs are true is estimated as the adviser does: each key is stored once in the files whose ranges hold it.
    """
    mine = [one for one in summaries if one.name in _LOOKUP]
    if not lookup.counters.get("files") or not mine:
        return None
    load = load_of(index_type, staged, lookup, mine)
    cost = cost_of(load, CONSTANTS, has_filters=any(one.name == Stage.BLOOM_CHECK for one in mine))
    return Estimate(
        seconds=round(cost.seconds, 4),
        actual_seconds=round(sum(one.seconds for one in mine), 4),
        bytes_read=round(load.bytes_read),
        actual_bytes_read=sum(one.bytes_read for one in mine),
    )


def load_of(index_type: IndexType, staged: Manifest, lookup: Manifest, summaries: Sequence[StageSummary]) -> LookupLoad:
    """The counts of a look-up, from what its first stage left; arguments as of :func:`estimate_of`."""
    counters = lookup.counters
    keys, files, pairs = (float(counters[name]) for name in ("rows_in", "files", "pairs_out"))
    file_bytes = float(counters.get("file_bytes", 0))
    rows = float(counters["file_rows"]) or file_bytes / _row_bytes(staged)
    probed = next((one for one in summaries if one.name == Stage.BLOOM_CHECK), None)
    located = not lookup.parts("ranges") and probed is None
    kept = float(probed.counters["files"]) if probed is not None else files
    verified = pairs
    opened = touched(files, pairs) if located else kept
    if probed is not None:
        true_share = min(1.0, keys / pairs) if pairs else 0.0
        opened = kept * hit_chance(pairs / kept, true_share) if kept else 0.0
        verified = pairs * true_share + pairs * (1 - true_share) * _OWN_FPP
    share = opened / files
    footers = float(counters.get("footers_read", 0))
    entries, store_bytes = entries_of(rows, keys) if index_type.is_stored else (0.0, 0.0)
    a_footer = rows / files * FILTER_BYTES_A_ROW * FOOTER_TEXT
    return LookupLoad(
        keys=keys,
        files=files,
        footers_read=footers,
        keys_located=keys if located else 0.0,
        entries_read=entries,
        store_bytes=store_bytes,
        filters=kept if probed is not None else 0.0,
        filter_rows=rows * kept / files if probed is not None else 0.0,
        pairs_probed=pairs if probed is not None else 0.0,
        pairs_verified=verified,
        files_opened=opened,
        rows_matched=rows * share,
        key_bytes=file_bytes * share * CONSTANTS.key_share,
        footer_bytes=(footers + opened) * a_footer,
    )


def _row_bytes(staged: Manifest) -> float:
    """Bytes of a row on disk, by the staged batch."""
    rows = float(staged.counters["rows_out"])
    return float(staged.counters["staged_column_bytes"]) / max(rows, 1.0) + _META_BYTES
