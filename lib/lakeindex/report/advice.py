"""What stands out in a run, and what to do about it: a sentence each."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from lakeindex.pipeline import Stage
from lakeindex.report.run_report import RunReport
from lakeindex.run.summary import StageSummary

_USELESS: Final = 0.8
_MANY_COPIED: Final = 100
_SKEWED: Final = 4.0
_NOTICEABLE_SECONDS: Final = 1.0
_SLOWER: Final = 2.0
_ENOUGH_RUNS: Final = 3
_SHARE: Final = 0.1
_FEW_FILES: Final = 10
_SMALL_BIN_BYTES: Final = 8 * 2**20


def advise(report: RunReport) -> RunReport:
    """The same report with its advice."""
    return replace(report, advice=tuple(_sentences(report)))


def _sentences(report: RunReport) -> Iterator[str]:
    stages = {stage.name: stage for stage in report.run.stages}
    yield from _of_rows(report)
    yield from _of_ranges(report, stages)
    yield from _of_filters(report, stages)
    yield from _of_writing(report)
    for stage in report.run.stages:
        yield from _of_skew(stage)
    yield from _of_past(report)


def _of_rows(report: RunReport) -> Iterator[str]:
    run = report.run
    if run.quarantined:
        yield f"{run.quarantined:,} bad rows were quarantined: look at the quarantine files of this run."
    if run.rows_in and run.combined > _SHARE * run.rows_in:
        yield (
            f"{run.combined / run.rows_in:.0%} of the rows were older duplicates in the batch itself: "
            "the source sends them more than once."
        )
    if run.rows_in and run.ignored > _SHARE * run.rows_in:
        yield (
            f"{run.ignored / run.rows_in:.0%} of the rows were ignored: "
            "older than the stored row, or deletes of keys that are not stored."
        )


def _of_ranges(report: RunReport, stages: dict[str, StageSummary]) -> Iterator[str]:
    lookup = stages.get(Stage.INDEX_LOOKUP)
    if report.ranges is None or lookup is None or not lookup.pairs_in:
        return
    kept = lookup.pairs_out / lookup.pairs_in
    if report.ranges.files > 1 and report.ranges.files_per_key > 1 and kept > _USELESS:
        yield (
            f"Ranges kept {kept:.0%} of the pairs: keys look random. "
            "Use keys that grow with time, or BUCKET or RECORD_INDEX, which need no ranges."
        )
    if report.ranges.without_range:
        yield (
            f"{report.ranges.without_range:,} of {report.ranges.files:,} files have no key range and are candidates "
            "for every key: an upsert that rewrites them adds it."
        )


def _of_filters(report: RunReport, stages: dict[str, StageSummary]) -> Iterator[str]:
    bloom, false = stages.get(Stage.BLOOM_CHECK), report.false_positives
    if bloom is None or false is None:
        return
    full = int(bloom.counters.get("filters_saturated", 0))
    if full:
        yield (
            f"{full:,} filters are too full and let through more than 1 % of the keys that are not in their file: "
            "an upsert that rewrites their files sizes them for their rows."
        )
    without = int(bloom.counters.get("files_without_filter", 0))
    if without:
        yield f"{without:,} files have no filter that can be used: each of their keys was looked up."
    if false.observed > 10 * false.expected + 10:
        yield (
            f"{false.observed:,} false positives, {false.expected:,.1f} expected: "
            "run `lakeindex check`, a filter may be damaged."
        )


def _of_writing(report: RunReport) -> Iterator[str]:
    run = report.run
    changed = run.inserts + run.updates + run.deletes + run.moved
    if changed and run.files_rewritten > 1 and run.rows_copied > _MANY_COPIED * changed:
        yield (
            f"Each changed row rewrote {run.rows_copied // changed:,} others: the batch is spread over "
            f"{run.files_rewritten:,} files. Larger batches, or partitions that follow the updates, cost less."
        )
    in_scope = sum(one.in_scope for one in report.sizes)
    small = sum(
        one.in_scope for one in report.sizes if one.below_bytes is not None and one.below_bytes <= _SMALL_BIN_BYTES
    )
    if in_scope >= _FEW_FILES and small > in_scope / 2:
        yield (
            f"{small:,} of {in_scope:,} files are below 8 MiB: each of them adds to the cost of a look-up. "
            "Raise hoodie.parquet.small.file.limit, or let Hudi cluster the table."
        )


def _of_skew(stage: StageSummary) -> Iterator[str]:
    slowest, median = stage.slowest_task_seconds, stage.median_task_seconds
    if stage.tasks > 1 and slowest > _NOTICEABLE_SECONDS and slowest > _SKEWED * max(median, 0.01):
        yield f"{stage.name}: one of {stage.tasks:,} tasks took {slowest:.1f} s, half of them less than {median:.1f} s."


def _of_past(report: RunReport) -> Iterator[str]:
    run = report.run
    if len(report.past) < _ENOUGH_RUNS:
        return
    usual = statistics.median(one.seconds for one in report.past)
    if run.seconds > _NOTICEABLE_SECONDS and run.seconds > _SLOWER * usual:
        grown = {
            stage.name: stage.seconds - statistics.median(one.stage_seconds.get(stage.name, 0.0) for one in report.past)
            for stage in run.stages
        }
        most = max(grown, key=lambda name: grown[name])
        yield (
            f"{run.seconds:.1f} s, {run.seconds / usual:.1f} times the median of the last {len(report.past)} runs; "
            f"{most} grew most, by {grown[most]:.1f} s."
        )
