"""Figures: what a peer took in its runs, and what is measured beside the upserts, on disk and as tables."""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.measuring import Usage, commit, machine_line, measured, now

RESULTS: Final = Path(__file__).resolve().parent / "results"
#: Others' CPU, as a part of the peer's own, from which a figure is marked as noisy.
_NOISE: Final = 0.05
NAMES: Final = (
    "bulk_load",
    "operations",
    "cold",
    "footers",
    "objects",
    "metadata",
    "dag",
    "tpch",
    "duckrun",
    "clustering",
    "memory",
)


@dataclass
class Timing:
    """All runs of one thing.

    Attributes:
        facts: what else is worth knowing, ready to be shown.
    """

    workload: str
    peer: str
    title: str
    failed: str | None = None
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    others_cpu_seconds: list[float] = field(default_factory=list)
    peak_bytes: int = 0
    facts: dict[str, str] = field(default_factory=dict)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def noisy(self) -> bool:
        """Whether something else used the machine meanwhile."""
        both = zip(self.cpu_seconds, self.others_cpu_seconds, strict=True)
        return any(others > _NOISE * own for own, others in both)

    @property
    def cells(self) -> list[str]:
        """Median and spread, as all tables show them."""
        shown = f"{'~' if self.noisy else ''}{self.median:.2f}"
        return [shown, f"{min(self.seconds):.2f} - {max(self.seconds):.2f}"]

    def add(self, usage: Usage) -> None:
        """One run that counts."""
        self.seconds.append(round(usage.seconds, 4))
        self.cpu_seconds.append(round(usage.cpu_seconds, 2))
        self.others_cpu_seconds.append(round(usage.others_cpu_seconds, 2))
        self.peak_bytes = max(self.peak_bytes, usage.peak_bytes)
        if usage.encoded_bytes:
            self.facts["MB encoded"] = f"{usage.encoded_bytes / 1e6:.1f}"

    def fail(self, error: BaseException) -> None:
        """Keep why; the others go on."""
        self.failed = (str(error).strip() or type(error).__name__).splitlines()[-1][:300]
        print(f"{self.workload} {self.peer} failed: {error}", file=sys.stderr, flush=True)


@dataclass
class Measurement:
    """One of ``NAMES``."""

    name: str
    machine: str
    started: str
    commit: str
    timings: list[Timing] = field(default_factory=list)

    @classmethod
    def begin(cls, name: str) -> Measurement:
        return cls(name, machine_line(), now(), commit())


def grid(head: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """A table as Markdown."""
    lines = [f"| {' | '.join(map(str, cells))} |" for cells in (head, *rows)]
    return "\n".join([lines[0], f"|{'---|' * len(head)}", *lines[1:]])


def repeat(timing: Timing, runs: int, once: Callable[[], Usage]) -> None:
    """One run that does not count, then ``runs``; an error is the result."""
    in_turns({timing.peer: timing}, runs, lambda _: once())


def in_turns(found: Mapping[str, Timing], runs: int, once: Callable[[str], Usage], *, warm_up: bool = True) -> None:
    """Peers take turns: one run of each that does not count, then ``runs``. An error is the result of its peer."""
    for turn in range(not warm_up, runs + 1):
        for peer, timing in found.items():
            if timing.failed is not None:
                continue
            try:
                usage = once(peer)
            except Exception as error:  # noqa: BLE001 - see above
                timing.fail(error)
                continue
            which = "" if turn else "  (warm-up)"
            print(f"  {timing.workload} {peer:18} {usage.seconds:8.2f} s{which}", flush=True)
            if turn:
                timing.add(usage)


def timed(step: Callable[[], object]) -> Usage:
    """Cost of a step of this process and its children."""
    with measured(os.getpid()) as usage:
        step()
    return usage


def checked(found: int, wanted: int) -> None:
    """Raises: RuntimeError: it is another number of rows."""
    if found != wanted:
        raise RuntimeError(f"{found:,} rows, expected {wanted:,}")


def beside_delta(mine: Mapping[str, Timing]) -> None:
    """Peak memory of each, and time and memory as ratios to delta-rs."""
    other = mine.get("delta-rs")
    for timing in mine.values():
        timing.facts["peak MB"] = f"{timing.peak_bytes / 2**20:.0f}"
        if other is not None and other is not timing and timing.seconds and other.seconds:
            timing.facts["x delta-rs"] = f"{timing.median / other.median:.2f}"
            timing.facts["x its memory"] = f"{timing.peak_bytes / max(other.peak_bytes, 1):.2f}"


def save(measurement: Measurement) -> None:
    """Raw figures; lines of workloads that were not measured this time stay."""
    old = load(measurement.name)
    fresh = {timing.workload for timing in measurement.timings}
    kept = [timing for timing in old.timings if timing.workload not in fresh] if old else []
    whole = {**asdict(measurement), "timings": [asdict(timing) for timing in [*kept, *measurement.timings]]}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{measurement.name}.json").write_text(json.dumps(whole, indent=1) + "\n")


def load(name: str) -> Measurement | None:
    path = RESULTS / f"{name}.json"
    if not path.exists():
        return None
    facts = json.loads(path.read_text())
    return Measurement(**{**facts, "timings": [Timing(**timing) for timing in facts["timings"]]})


def load_all() -> dict[str, Measurement]:
    return {name: found for name in NAMES if (found := load(name)) is not None}


def table(measurement: Measurement) -> str:
    """As Markdown: medians and spread, in the order they were taken."""
    facts = list(dict.fromkeys(key for timing in measurement.timings for key in timing.facts))
    runs = max((len(timing.seconds) for timing in measurement.timings), default=0)
    after = "" if measurement.name in {"memory", "duckrun"} else " after one that does not count"
    head = f"{runs} runs each{after}. {measurement.machine}. {measurement.started}"
    columns = ["with", "what", "median s", "spread s", "CPU s", *facts]
    return f"{head}, commit {measurement.commit}.\n\n" + grid(
        columns, (_cells(timing, facts) for timing in measurement.timings)
    )


def _cells(timing: Timing, facts: list[str]) -> list[str]:
    if timing.failed is not None:
        cells = ["failed", "", "", *("" for _ in facts)]
    else:
        cpu = f"{statistics.median(timing.cpu_seconds):.1f}"
        cells = [*timing.cells, cpu, *(timing.facts.get(key, "") for key in facts)]
    return [timing.workload, timing.title, *cells]
