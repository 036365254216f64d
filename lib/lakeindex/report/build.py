"""A run's report, made from what its stages left in the run folder."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import pyarrow as pa

from lakeindex.errors import LakeIndexError, ObjectNotFoundError, UsageError
from lakeindex.pipeline import SUMMARY_FILE, Stage
from lakeindex.report.advice import advise
from lakeindex.report.run_report import (
    STEPS_OF_FATES,
    FalsePositives,
    FileLine,
    FunnelStep,
    MetadataUse,
    PastRun,
    RangeLine,
    RangeMap,
    RunReport,
    SizeBin,
)
from lakeindex.run.checkpoints import Manifest, RunFolder
from lakeindex.run.run_folders import roster_of
from lakeindex.run.summary import RunSummary, StageSummary
from lakeindex.storage.port import Storage
from lakeindex.tasks.stores import storage_at

REPORT_FILE: Final = "report.json"
PAGE_FILE: Final = "report.html"
_MIB: Final = 2**20
_SIZES: Final = (_MIB, 8 * _MIB, 32 * _MIB, 64 * _MIB, 128 * _MIB)
_MOST_RANGES: Final = 120
_MOST_FILES: Final = 10
_MOST_PAST: Final = 10


def build_report(checkpoints_uri: str, run_id: str, table: str, run: RunSummary | None = None) -> RunReport:
    """The report of a finished run.

    Args:
        checkpoints_uri: root of the run folders.
        run_id: the run.
        table: the table's folder.
        run: its summary, if the caller has it; else it is read.

    Raises:
        UsageError: the run has not finished, or there is no such run.
        CheckpointError: what it left is damaged.
    """
    store = storage_at(checkpoints_uri)
    run = run or _summary(store, run_id)
    folder = RunFolder(store, run_id)
    staged, lookup = folder.read_manifest(Stage.STAGE_INPUT), folder.read_manifest(Stage.INDEX_LOOKUP)
    written = _table(folder, folder.read_manifest(Stage.MERGE_WRITE), "written")
    files = _table(folder, lookup, "files")
    stages = {stage.name: stage for stage in run.stages}
    bytes_staged = int(staged.counters.get("staged_column_bytes", 0)) if staged is not None else 0
    report = RunReport(
        table=table,
        index_type=str(staged.facts.get("index_type", "")) if staged is not None else "",
        finished_at=_finished_at(store, run_id),
        run=run,
        funnel=funnel_of(run),
        false_positives=false_positives_of(run),
        ranges=_range_map(files, stages),
        sizes=_sizes(files, written),
        bytes_staged=bytes_staged,
        amplification=round(run.bytes_written / bytes_staged, 2) if bytes_staged and run.bytes_written else None,
        slowest=_slowest(written),
        past=past_runs(store, run_id, table),
        advice=(),
        metadata=_metadata_use(stages),
    )
    return advise(report)


def _summary(store: Storage, run_id: str) -> RunSummary:
    try:
        return RunSummary.from_json(store.read(f"{run_id}/{SUMMARY_FILE}"))
    except ObjectNotFoundError:
        raise UsageError(
            f"run {run_id!r} has no summary",
            culprit=f"{store.uri}/{run_id}",
            hint="it has not finished, or its folder was deleted; list the checkpoints' root to see the existing runs",
        ) from None


def _finished_at(store: Storage, run_id: str) -> str:
    modified = store.head(f"{run_id}/{SUMMARY_FILE}").modified_ms
    return datetime.fromtimestamp(modified / 1000, UTC).isoformat(timespec="seconds")


def _table(folder: RunFolder, manifest: Manifest | None, name: str) -> pa.Table | None:
    parts = () if manifest is None else manifest.parts(name)
    return pa.concat_tables([folder.read_table(part) for part in parts]) if parts else None


def funnel_of(run: RunSummary) -> tuple[FunnelStep, ...]:
    """Rows that came in, pairs of keys and files that were left after each stage, and what became of the rows."""
    stages = {stage.name: stage for stage in run.stages}
    steps = [
        FunnelStep("rows in", run.rows_in, "rows"),
        FunnelStep("after quarantine and combining", run.rows_in - run.quarantined - run.combined, "rows"),
    ]
    lookup, bloom, verify = (stages.get(s) for s in (Stage.INDEX_LOOKUP, Stage.BLOOM_CHECK, Stage.VERIFY_KEYS))
    if lookup is not None:
        steps.append(FunnelStep("pairs possible", lookup.pairs_in, "pairs"))
        steps.append(FunnelStep("left by the index" if bloom is None else "left by ranges", lookup.pairs_out, "pairs"))
    if bloom is not None:
        steps.append(FunnelStep("left by filters", bloom.pairs_out, "pairs"))
    if verify is not None:
        steps.append(FunnelStep("found in their file", verify.pairs_out, "pairs"))
    counts = ((name, getattr(run, field)) for name, field in STEPS_OF_FATES.items())
    steps += [FunnelStep(name, count, "rows") for name, count in counts if count]
    if run.files_replaced:
        steps.append(FunnelStep("replaced, with their files", run.rows_replaced, "rows"))
    return tuple(steps)


def false_positives_of(run: RunSummary) -> FalsePositives | None:
    """Pairs that the filters let through although the key is not in the file; None if no filters were asked."""
    stages = {stage.name: stage for stage in run.stages}
    bloom, verify = stages.get(Stage.BLOOM_CHECK), stages.get(Stage.VERIFY_KEYS)
    if bloom is None or verify is None:
        return None
    expected = float(bloom.counters.get("expected_false_positives", 0.0))
    return FalsePositives(bloom.pairs_in, expected, int(verify.counters.get("false_positives", 0)))


def _metadata_use(stages: dict[str, StageSummary]) -> MetadataUse | None:
    lookup, bloom = stages.get(Stage.INDEX_LOOKUP), stages.get(Stage.BLOOM_CHECK)
    if lookup is None:
        return None
    asked = lookup.counters
    probed = {} if bloom is None else bloom.counters
    pruned, filters = (int(probed.get(name, 0)) for name in ("files_pruned_by_metadata", "filters_from_metadata"))
    names = ("partitions_named", "ranges_from_metadata", "keys_asked_of_metadata")
    partitions, ranges, keys = (int(asked.get(name, 0)) for name in names)
    found = MetadataUse(partitions, ranges, pruned, filters, keys, partitions + pruned + filters)
    return found if partitions or ranges or keys else None


def _range_map(files: pa.Table | None, stages: dict[str, StageSummary]) -> RangeMap | None:
    lookup = stages.get(Stage.INDEX_LOOKUP)
    if files is None or lookup is None or Stage.BLOOM_CHECK not in stages:
        return None
    rows = files.select(["partition", "file_id", "min_key", "max_key"]).to_pylist()
    ranged = [row for row in rows if row["min_key"] is not None and row["max_key"] is not None]
    ends = sorted({row[name] for row in ranged for name in ("min_key", "max_key")})
    place = {end: at / max(len(ends) - 1, 1) for at, end in enumerate(ends)}
    ranged.sort(key=lambda row: (row["partition"], row["min_key"], row["max_key"]))
    step = max(1, -(-len(ranged) // _MOST_RANGES))
    lines = tuple(
        RangeLine(row["partition"], row["file_id"], place[row["min_key"]], place[row["max_key"]])
        for row in ranged[::step]
    )
    return RangeMap(len(rows), len(rows) - len(ranged), lookup.pairs_out / max(lookup.rows_in, 1), lines)


def _sizes(files: pa.Table | None, written: pa.Table | None) -> tuple[SizeBin, ...]:
    scope, new = (_by_size(table) for table in (files, written))
    return tuple(SizeBin(below, *counts) for below, *counts in zip((*_SIZES, None), scope, new, strict=True))


def _by_size(table: pa.Table | None) -> list[int]:
    counts = [0] * (len(_SIZES) + 1)
    for size in [] if table is None else table.column("bytes").to_pylist():
        counts[sum(size >= below for below in _SIZES)] += 1
    return counts


def _slowest(written: pa.Table | None) -> tuple[FileLine, ...]:
    if written is None:
        return ()
    rows = sorted(written.to_pylist(), key=lambda row: -row["seconds"])[:_MOST_FILES]
    return tuple(
        FileLine(
            row["path"],
            row["seconds"],
            row["bytes"],
            row["rows"],
            row["updates"] + row["removed"] + row["inserts"],
            _reason(row),
        )
        for row in rows
    )


def _reason(row: dict[str, int]) -> str:
    """Why a file took what it took, in a few words."""
    chunks = row["chunks_copied"] + row["chunks_encoded"]
    if not row["rows_before"]:
        return f"new: {row['inserts']:,} rows"
    if not row["chunks_copied"]:
        return "no column chunk could be copied: rows changed in every row group, or it was another writer's"
    anew = f"{row['chunks_encoded']:,} of {chunks:,} column chunks encoded anew"
    for what, done in (("removed", "removed"), ("updates", "updated"), ("inserts", "inserted")):
        if row[what]:
            return f"{anew}: {row[what]:,} rows {done}"
    return anew


def past_runs(store: Storage, run_id: str, table: str) -> tuple[PastRun, ...]:
    """Earlier runs of the table, the newest first: the newest report that can be read,
    and what it says of those before it.
    """
    for earlier in (one.run_id for one in reversed(roster_of(store, table))):
        if earlier == run_id:
            continue
        try:
            newest = RunReport.from_json(store.read(f"{earlier}/{REPORT_FILE}"))
        except (LakeIndexError, ValueError, TypeError, KeyError):
            continue
        past = (_past_run(newest), *newest.past)
        return tuple(run for run in past if run.run_id != run_id)[:_MOST_PAST]
    return ()


def runs_with(store: Storage, name: str) -> list[str]:
    """Runs whose folder holds a file of this name, the one written last first."""
    files = [one for one in store.list("") if one.path.count("/") == 1 and one.path.endswith(f"/{name}")]
    return [one.path.partition("/")[0] for one in sorted(files, key=lambda one: (-one.modified_ms, one.path))]


def _past_run(report: RunReport) -> PastRun:
    run = report.run
    return PastRun(
        run.run_id,
        report.finished_at,
        run.rows_in,
        run.seconds,
        run.bytes_written,
        run.files_created + run.files_rewritten,
        pairs_kept(run),
        {stage.name: stage.seconds for stage in run.stages},
        run.startup_seconds,
        run.waiting_seconds,
    )


def pairs_kept(run: RunSummary) -> float | None:
    """Of the possible pairs, the share that stages before the exact match left; None if there were none."""
    stages = {stage.name: stage for stage in run.stages}
    lookup = stages.get(Stage.INDEX_LOOKUP)
    if lookup is None or not lookup.pairs_in:
        return None
    last = stages.get(Stage.BLOOM_CHECK, lookup)
    return last.pairs_out / lookup.pairs_in
