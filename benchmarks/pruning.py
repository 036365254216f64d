"""Micro-benchmark of the three pruners: which one should prune when.

One chunk of sorted keys against the ranges of many files. ``growing``: each file has its own stretch of the keys, and
the chunk's keys come from the newest twentieth (a feed of events). ``random``: every file spans nearly all keys.
The three must agree; that is asserted here too.
"""

from __future__ import annotations

import json
import statistics
import time
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from benchmarks import report
from lakeindex.index.key_ranges import KeyRange, Pruner, prune

_RUNS: Final = 5
_SPACE: Final = 10**9
_FILE: Final = "pruning.json"


@dataclass(frozen=True)
class Case:
    """A chunk and files to prune."""

    keys: str
    rows: int
    files: int


@dataclass(frozen=True)
class Timing:
    """Median milliseconds of each pruner on a case, and the keys x files that are left."""

    case: Case
    pairs: int
    milliseconds: dict[Pruner, float]


def _cases(*, quick: bool) -> list[Case]:
    sizes = [(1_000, 40)] if quick else [(1_000, 40), (25_000, 40), (250_000, 40), (250_000, 1_000), (25_000, 10_000)]
    return [Case(keys, rows, files) for keys in ("growing", "random") for rows, files in sizes]


def _key(number: int) -> str:
    return f"k{number:012d}"


def _inputs(case: Case) -> tuple[pa.Array, list[KeyRange]]:
    rng = np.random.default_rng(5)
    if case.keys == "growing":
        numbers = rng.integers(_SPACE - _SPACE // 20, _SPACE, case.rows)
        step = _SPACE // case.files
        ranges = [KeyRange(_key(i * step), _key((i + 1) * step - 1)) for i in range(case.files)]
    else:
        numbers = rng.integers(0, _SPACE, case.rows)
        edges = rng.integers(0, _SPACE // 1000, (case.files, 2))
        ranges = [KeyRange(_key(int(low)), _key(_SPACE - int(high))) for low, high in edges]
    return pa.array([_key(int(number)) for number in np.sort(numbers)]), ranges


def _measure(case: Case) -> Timing:
    keys, ranges = _inputs(case)
    milliseconds: dict[Pruner, float] = {}
    answers = []
    for pruner in Pruner:
        times = []
        answer = prune(keys, ranges, pruner)  # loads what is compiled; not timed
        for _ in range(_RUNS):
            start = time.perf_counter()
            answer = prune(keys, ranges, pruner)
            times.append(time.perf_counter() - start)
            if times[-1] > 1:
                break
        milliseconds[pruner] = statistics.median(times) * 1000
        answers.append(answer)
    for other in answers[1:]:
        assert np.array_equal(answers[0].from_row, other.from_row), case
        assert np.array_equal(answers[0].to_row, other.to_row), case
    return Timing(case, answers[0].pairs, milliseconds)


def measure(*, quick: bool) -> list[Timing]:
    """All cases; ``quick`` only shows that it works."""
    return [_measure(case) for case in _cases(quick=quick)]


def save(timings: list[Timing]) -> None:
    """Keep them beside the other results."""
    report.RESULTS.mkdir(exist_ok=True)
    (report.RESULTS / _FILE).write_text(json.dumps([asdict(timing) for timing in timings], indent=1) + "\n")


def load() -> list[Timing]:
    """What was kept; nothing if nothing was."""
    path = report.RESULTS / _FILE
    if not path.exists():
        return []
    return [
        Timing(Case(**one["case"]), one["pairs"], {Pruner(name): ms for name, ms in one["milliseconds"].items()})
        for one in json.loads(path.read_text())
    ]


def section(timings: list[Timing]) -> str:
    """The timings as Markdown."""
    lines = [
        "**Range pruning**: one chunk of sorted keys against the key ranges of many files, median milliseconds.",
        "",
        "| keys | rows | files | keys x files left | slices | tree | list |",
        "|---|---|---|---|---|---|---|",
    ]
    for timing in timings:
        times = " | ".join(f"{timing.milliseconds[pruner]:.2f}" for pruner in Pruner)
        case = timing.case
        lines.append(f"| {case.keys} | {case.rows:,} | {case.files:,} | {timing.pairs:,} | {times} |")
    return "\n".join(lines)
