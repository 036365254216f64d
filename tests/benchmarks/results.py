"""Small made-up results."""

from __future__ import annotations

from benchmarks.report import PeerResult, WorkloadResult
from benchmarks.timings import Measurement, Timing


def peer(name: str, seconds: float, mb: int = 100, runs: int = 5) -> PeerResult:
    """A right result without noise."""
    took = [seconds] * runs
    return PeerResult("", name, name, None, took, took, [0.0] * runs, mb << 20, {}, True, 1.0, 40, 12, 10, 1)


def result(workload: str, *peers: PeerResult, rows: int = 1000) -> WorkloadResult:
    """All peers on one workload."""
    return WorkloadResult(workload, rows, 10, 12, "a machine", "today", "abc", list(peers))


def measurement(name: str, workload: str, *, mb: int = 0, **seconds: float) -> Measurement:
    """Peers by name; ``_`` stands for a hyphen."""
    timings = [
        Timing(workload, one.replace("_", "-"), one, None, [took] * 5, [took] * 5, [0.0] * 5, mb * 10**6, {"fact": one})
        for one, took in seconds.items()
    ]
    return Measurement(name, "a machine", "today", "abc", timings)


def small_result() -> WorkloadResult:
    """One right, one wrong and noisy, one that failed."""
    floor = PeerResult(
        "S_mono", "floor", "the floor", None, [2.0, 1.0, 4.0], [2.0] * 3, [0.0] * 3, 2**30, {}, True, 1.0, 40
    )
    other = PeerResult("S_mono", "other", "the other", None, [6.0, 5.0, 9.0], [2.0] * 3, [0.0, 1.0, 0.0], 2**30)
    broken = PeerResult("S_mono", "broken", "the broken", "it broke")
    return WorkloadResult("S_mono", 1000, 10, 12, "a machine", "today", "abc", [floor, other, broken])
