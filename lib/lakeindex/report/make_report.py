"""A run's report, made from what its stages left in the run folder, kept there, and found by the folder's place."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

import pyarrow as pa
from msgspec.structs import replace

from lakeindex.errors import LakeIndexError, ObjectNotFoundError, UsageError, noted
from lakeindex.format.file_names import METADATA_FOLDER
from lakeindex.frozen import Frozen
from lakeindex.options.types import ReportFormat
from lakeindex.pipeline import SUMMARY_FILE, Stage, default_checkpoints
from lakeindex.report.contents import (
    SMALL_FILE_BYTES,
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
from lakeindex.run.run_folders import is_run_of, roster_of
from lakeindex.run.spec import RunSpec
from lakeindex.run.summary import OUTSIDE, STARTUP, WAITING, RunSummary, StageSummary
from lakeindex.storage.paths import absolute
from lakeindex.storage.port import Storage
from lakeindex.tasks.stores import storage_at

REPORT_FILE: Final = "report.json"
PAGE_FILE: Final = "report.html"
_MIB: Final = 2**20
_SIZES: Final = (_MIB, 8 * _MIB, 32 * _MIB, 64 * _MIB, 128 * _MIB)
_MOST_RANGES: Final = 120
_MOST_FILES: Final = 10
_MOST_PAST: Final = 10
_USELESS: Final = 0.8
_MANY_COPIED: Final = 100
_SKEWED: Final = 4.0
_NOTICEABLE_SECONDS: Final = 1.0
_SLOWER: Final = 2.0
_ENOUGH_RUNS: Final = 3
_SHARE: Final = 0.1
_FEW_FILES: Final = 10
_MANY_WRONG: Final = 100
_WRONG_SHARE: Final = 0.01
_MOSTLY: Final = 0.5
_WAITED_SHARE: Final = 0.2


class Finding(Frozen):
    """Something that stands out, as full sentences."""

    what: str
    cause: str
    cure: str

    @property
    def text(self) -> str:
        """As the report has it: a line each."""
        return f"{self.what}\nCause: {self.cause}\nWhat to do: {self.cure}"


def advise(report: RunReport) -> RunReport:
    return replace(report, advice=tuple(finding.text for finding in findings(report)))


def findings(report: RunReport) -> Iterator[Finding]:
    stages = {stage.name: stage for stage in report.run.stages}
    yield from _of_rows(report)
    yield from _of_ranges(report, stages)
    yield from _of_filters(report, stages)
    yield from _of_writing(report)
    yield from _of_other_writers(report)
    yield from _of_time(report)
    for stage in report.run.stages:
        yield from _of_skew(stage)
    yield from _of_past(report)


def _of_rows(report: RunReport) -> Iterator[Finding]:
    run = report.run
    if run.quarantined:
        yield Finding(
            f"{run.quarantined:,} bad rows were quarantined.",
            "They have no key, partition path or ordering value, or a value that does not fit its column.",
            "Look at the quarantine files in the folder of this run: each row stands there with its reason.",
        )
    if run.rows_in and run.combined > _SHARE * run.rows_in:
        yield Finding(
            f"{run.combined / run.rows_in:.0%} of the rows were older duplicates in the batch itself.",
            "The source sends a key more than once, as a feed of changes does, or the key columns do not name one row.",
            "Nothing if the source is a feed of changes; else look at the keys that come twice.",
        )
    if run.rows_in and run.ignored > _SHARE * run.rows_in:
        unmet = f" {run.unmet:,} rows do not meet a condition of the write." if run.unmet else ""
        yield Finding(
            f"{run.ignored / run.rows_in:.0%} of the rows were ignored.",
            f"They are older than the stored row, or deletes of keys that are not stored.{unmet}",
            "Nothing if a batch was sent again or came late; else look whether the ordering column grows with every "
            "change of a row.",
        )


def _of_ranges(report: RunReport, stages: dict[str, StageSummary]) -> Iterator[Finding]:
    lookup = stages.get(Stage.INDEX_LOOKUP)
    if report.ranges is None or lookup is None or not lookup.pairs_in:
        return
    kept = lookup.pairs_out / lookup.pairs_in
    if report.ranges.files > 1 and report.ranges.files_per_key > 1 and kept > _USELESS:
        yield Finding(
            f"Ranges kept {kept:.0%} of the pairs: {report.ranges.files_per_key:,.1f} files were candidates for a key.",
            "Keys look random, as UUIDs and hashes do: every file holds keys from the whole width.",
            "Use keys that grow with time (UUID version 7, a date before the id), or BUCKET or RECORD_INDEX, which "
            "need no ranges: `lakeindex advise` says what they would cost.",
        )
    if report.ranges.without_range:
        yield Finding(
            f"{report.ranges.without_range:,} of {report.ranges.files:,} files have no key range and are candidates "
            "for every key.",
            "Another writer left the range out of their footers.",
            "An upsert that rewrites them adds it; a clustering of the table rewrites all of them.",
        )


def _of_filters(report: RunReport, stages: dict[str, StageSummary]) -> Iterator[Finding]:
    bloom, false = stages.get(Stage.BLOOM_CHECK), report.false_positives
    if bloom is None or false is None:
        return
    full = int(bloom.counters.get("filters_saturated", 0))
    if full:
        yield Finding(
            f"{full:,} filters are too full and let through more than 1 % of the keys that are not in their file.",
            "They were sized for fewer rows than their files have (hoodie.index.bloom.num_entries of who wrote them).",
            "An upsert that rewrites their files sizes them for their rows, unless lakeindex.bloom.sizing is fixed.",
        )
    without = int(bloom.counters.get("files_without_filter", 0))
    if without:
        yield Finding(
            f"{without:,} files have no filter that can be used: each of their keys was looked up.",
            "Another writer wrote them without filters, or with filters of a kind that is not known.",
            "An upsert that rewrites them adds a filter; a clustering of the table rewrites all of them.",
        )
    if false.observed > 10 * false.expected + 10:
        yield Finding(
            f"{false.observed:,} false positives, {false.expected:,.1f} expected.",
            "A filter may be damaged, or was made of other keys than those in its file.",
            "Run `lakeindex check`: it compares filters with keys.",
        )
    elif not full and false.observed > max(_MANY_WRONG, _WRONG_SHARE * false.probed):
        yield Finding(
            f"{false.observed:,} of {false.probed:,} pairs were false positives: their files were read in vain.",
            "The filters were made to let so many through (hoodie.index.bloom.fpp of who wrote them).",
            "Lower hoodie.index.bloom.fpp: files that are rewritten from now on get larger and stricter filters.",
        )


def _of_writing(report: RunReport) -> Iterator[Finding]:
    run = report.run
    changed = run.inserts + run.updates + run.deletes + run.moved
    if changed and run.files_rewritten > 1 and run.rows_copied > _MANY_COPIED * changed:
        yield Finding(
            f"Each changed row rewrote {run.rows_copied // changed:,} others.",
            f"The batch is spread over {run.files_rewritten:,} files, and a file is rewritten as a whole.",
            "Collect changes into larger batches, partition by what changes together, or lower "
            "hoodie.parquet.max.file.size.",
        )
    in_scope = sum(one.in_scope for one in report.sizes)
    small = sum(
        one.in_scope for one in report.sizes if one.below_bytes is not None and one.below_bytes <= SMALL_FILE_BYTES
    )
    if in_scope >= _FEW_FILES and small > in_scope / 2:
        yield Finding(
            f"{small:,} of {in_scope:,} files are below 8 MiB: each of them adds to the cost of a look-up.",
            "Many small inserts were not put into existing files, or there are more partitions than the rows fill.",
            "Raise hoodie.parquet.small.file.limit, let Hudi cluster the table, or partition a new one less finely: "
            "`lakeindex create --partition day:month`.",
        )


def _of_other_writers(report: RunReport) -> Iterator[Finding]:
    run = report.run
    if run.retries:
        lost = "One attempt at the merge was" if run.retries == 1 else f"{run.retries:,} attempts at the merge were"
        yield Finding(
            f"{lost} lost to other writers.",
            "They committed changes of the same files while this run worked.",
            "Let writers of the same partitions run one after the other (in Airflow max_active_runs=1, or a pool of "
            "one slot), or give them partitions of their own.",
        )
    waited = run.waiting_seconds
    if waited > _NOTICEABLE_SECONDS and waited > _WAITED_SHARE * run.seconds:
        most = max(run.stages, key=lambda stage: stage.waiting_seconds, default=None)
        if most is None or most.name == Stage.MERGE_WRITE:
            cause = "Other writers were at the table: they held its lock, or it was their turn."
            cure = "Start writers of one table one after the other, or let them change different files."
        else:
            cause = f"Most was in {most.name}: tasks waited for memory, a free slot, or the rate of an outside index."
            cure = "Raise lakeindex.memory, give the run more executors, or look what else the machine does."
        yield Finding(f"{waited:.1f} of {run.seconds:.1f} s were waiting.", cause, cure)


def _of_time(report: RunReport) -> Iterator[Finding]:
    run = report.run
    if run.startup_seconds <= max(_NOTICEABLE_SECONDS, _MOSTLY * run.seconds):
        return
    began = sum(stage.startup_seconds > _NOTICEABLE_SECONDS for stage in run.stages)
    what = f"{run.startup_seconds:.1f} of {run.seconds:.1f} s were start-up."
    small = "For a small batch that is most of the time."
    if began <= 1:
        yield Finding(
            what,
            f"Before a process works it loads the library, and with the Spark runner Spark. {small}",
            "Collect small batches into fewer runs, or upsert from a process that stays.",
        )
        return
    yield Finding(
        what,
        "Before a process works it loads the library, and a spark-submit Java and Spark; "
        f"{began} stages of this run began so. {small}",
        "Run all stages as one job (`execution: single`), which starts once. Collect small batches into fewer runs, or "
        "upsert from a process that stays; for spark-submits make a class archive.",
    )


_SKEW: Final = {
    Stage.STAGE_INPUT: (
        "One input file or key has most of the rows.",
        "Deliver files of like size, or look for a key that is sent again and again.",
    ),
    Stage.INDEX_LOOKUP: (
        "One partition has most of the files, or one shard most of the keys.",
        "Cluster its small files, or partition the table more finely.",
    ),
    Stage.BLOOM_CHECK: (
        "One chunk of the batch falls into most of the filters.",
        "Keys that grow with time keep ranges narrow; a lower lakeindex.chunk.rows divides the work.",
    ),
    Stage.VERIFY_KEYS: (
        "One file is much larger than the others, or was slow to read.",
        "A lower hoodie.parquet.max.file.size divides it at the next rewrite; if it is small, look at the storage.",
    ),
    Stage.MERGE_WRITE: (
        "One file has most of the changed rows, or is much larger than the others: see the files that took longest.",
        "A lower hoodie.parquet.max.file.size divides new files; finer partitions spread the changes.",
    ),
}
"""Why one task of a stage takes longest, and what to do."""


def _of_skew(stage: StageSummary) -> Iterator[Finding]:
    slowest, median = stage.slowest_task_seconds, stage.median_task_seconds
    if stage.tasks > 1 and slowest > _NOTICEABLE_SECONDS and slowest > _SKEWED * max(median, 0.01):
        yield Finding(
            f"{stage.name}: one of {stage.tasks:,} tasks took {slowest:.1f} s, half of them less than {median:.1f} s.",
            *_SKEW[Stage(stage.name)],
        )


def _of_past(report: RunReport) -> Iterator[Finding]:
    run = report.run
    if len(report.past) < _ENOUGH_RUNS:
        return
    import statistics

    usual = statistics.median(one.seconds for one in report.past)
    if run.seconds <= max(_NOTICEABLE_SECONDS, _SLOWER * usual):
        return
    before = [{**one.stage_seconds, STARTUP: one.startup_seconds, WAITING: one.waiting_seconds} for one in report.past]
    now = {stage.name: stage.seconds for stage in run.stages} | run.beside_stages
    grown = {
        name: seconds - statistics.median(one.get(name, 0.0) for one in before)
        for name, seconds in now.items()
        if name != OUTSIDE
    }
    most = max(grown, key=lambda name: grown[name])
    rows = statistics.median(one.rows_in for one in report.past)
    if rows and run.rows_in > _SLOWER * rows:
        cause = f"The batch has {run.rows_in / rows:.1f} times the rows."
        cure = "Nothing if batches of this size are meant."
    else:
        cause = "The batch is no larger than usual: it touches other files, or the machine or the storage was busy."
        cure = "Compare both runs: `lakeindex compare RUN OTHER` names every figure that changed."
    yield Finding(
        f"{run.seconds:.1f} s, {run.seconds / usual:.1f} times the median of the last {len(report.past)} runs; "
        f"{most} grew most, by {grown[most]:.1f} s.",
        cause,
        cure,
    )


def build_report(checkpoints_uri: str, run_id: str, table: str, run: RunSummary | None = None) -> RunReport:
    """The report of a finished run.

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


_SUFFIX = ".lakeindex"


def keep_report(spec: RunSpec, run: RunSummary, default: ReportFormat) -> tuple[str, ...]:
    """Write ``report.json`` and, if ``lakeindex.report`` asks for it, ``report.html`` into the
    folder of a finished run.

    Args:
        default: what is written if the option is not given.

    Returns:
        Notes on what went wrong, if anything did: the batch is committed, and a report is no
        reason to call that a failure.
    """
    wanted = spec.config.report or default
    if wanted is ReportFormat.NONE:
        return ()

    def keep() -> None:
        report = build_report(spec.checkpoints_uri, spec.run_id, spec.table_uri, run)
        store = storage_at(spec.checkpoints_uri)
        if wanted is ReportFormat.HTML:
            from lakeindex.report.page import render_page

            store.write(f"{spec.run_id}/{PAGE_FILE}", render_page(report).encode())
        store.write(f"{spec.run_id}/{REPORT_FILE}", report.to_json().encode())

    return noted("the run's report could not be written", keep)


def find_report(run: str, checkpoints: str | None = None) -> RunReport:
    """The report of a run, as it was left, or made from what the run left.

    Args:
        run: a run's folder, ``TABLE.lakeindex/RUN``; a table, whose newest finished run is meant; or the root of run
            folders, ``TABLE.lakeindex``, likewise.
        checkpoints: root of the run folders of a table; by default ``<table>.lakeindex`` beside it.

    Raises:
        UsageError: there is no finished run.
    """
    place = absolute(run)
    root, _, name = place.rpartition("/")
    at_run, table = f"{name}/{SUMMARY_FILE}", None
    if not root or not any(one.path == at_run for one in storage_at(root).list_folder(name).objects):
        table = place if METADATA_FOLDER in storage_at(place).list_folder().folders else None
        root = place if table is None else absolute(checkpoints or default_checkpoints(place))
        name = _newest(root, table)
    try:
        return RunReport.from_json(storage_at(root).read(f"{name}/{REPORT_FILE}"))
    except (ObjectNotFoundError, ValueError, TypeError, KeyError):
        return build_report(root, name, table or root.removesuffix(_SUFFIX))


def _newest(root: str, table: str | None) -> str:
    store = storage_at(root)
    for name in runs_with(store, SUMMARY_FILE):
        if table is None or is_run_of(store, name, table):
            return name
    if table is not None:
        raise UsageError(
            f"there is no finished run of table {table} in {root}",
            culprit=root,
            hint="run folders are kept for some time, there or where --checkpoints said; name their root, or a run's "
            "folder; `lakeindex report TABLE --history` shows every commit",
        )
    raise UsageError(
        f"{root!r} is neither a table nor the folder of a finished run, and contains none",
        culprit=root,
        hint="name TABLE, a run's folder, as TABLE.lakeindex/RUN, or the root of run folders, TABLE.lakeindex",
    )
