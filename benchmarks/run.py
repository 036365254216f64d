"""Run the benchmark: ``python -m benchmarks.run [--workload S_mono ...] [--peer floor ...] [--runs 5]``.

Peers of a workload take turns: round by round each gets a fresh copy of its base table, and the order rotates, so
that a slow moment of the machine hits all alike. As many as fit into memory together take turns in one shift. A
first round per peer warms it and does not count. Every result, of every round, is checked against what the
workload must leave behind.
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from typing import Final

import psutil

from benchmarks import harness, page, report
from benchmarks.measuring import commit, data_files, listing, machine_line, measured, now, restore, written
from benchmarks.peers import GROWTH_PEERS, LIGHT_PEERS, PEERS, shifts
from benchmarks.report import PeerResult, WorkloadResult
from benchmarks.worker import PeerError, PeerProcess
from benchmarks.workloads import DATA, Workload, names, workload

GROWTH: Final = ("G1_tail", "G20_tail")
#: Workloads that show what one kind of row or batch costs.
KINDS: Final = ("wide", "nested", "text", "all", "one", "inserts", "deletes", "parts")
DEFAULT: Final = ("M_mono", "M_uuid", "L_tail", "L_small", "S_mono", *GROWTH, *KINDS)
#: Part of the machine's memory that peers may have together.
_SHARE: Final = 0.85


class Contestant:
    """One peer on one workload: its process, its base table, its result so far."""

    def __init__(self, name: str, wanted: Workload, folder: Path) -> None:
        self.result = PeerResult(wanted.name, name, PEERS[name].title, compression=PEERS[name].compression)
        self._workload = wanted
        self._base = folder / f"{name}-base" / "orders"
        self._work = folder / f"{name}-work" / "orders"
        self._process: PeerProcess | None = None

    def _fail(self, error: PeerError) -> None:
        self.result.fail(error)
        self.close()

    def start(self) -> None:
        """Load the base table, and start the process that upserts: memory that loading took is not in its peak."""
        try:
            self._process = PeerProcess(self.result.peer)
            for folder in (self._base.parent, self._work.parent):
                shutil.rmtree(folder, ignore_errors=True)
            self._work.parent.mkdir(parents=True)
            start = time.perf_counter()
            self._process.load(self._workload, self._work)  # where it is worked on: some tables know their own path
            self.result.load_seconds = time.perf_counter() - start
            self._process.close()
            self._process = PeerProcess(self.result.peer)
        except PeerError as error:
            self._fail(error)
            return
        self._work.parent.rename(self._base.parent)
        self.result.base_files = len(data_files(listing(self._base)))
        self.result.correct = True

    def turn(self, *, counts: bool) -> None:
        if self._process is None:
            return
        restore(self._base.parent, self._work.parent)
        before = listing(self._work)
        try:
            with measured(self._process.pid) as usage:
                self._process.upsert(self._workload, self._work)
            totals = self._process.totals(self._work)
        except PeerError as error:
            self._fail(error)
            return
        result, new = self.result, written(before, listing(self._work))
        if totals != self._workload.truth:
            result.correct = False
            print(f"{result.peer}: {totals}, expected {self._workload.truth}", file=sys.stderr, flush=True)
        print(f"  {result.peer:18} {usage.seconds:8.2f} s{'' if counts else '  (warm-up)'}", flush=True)
        if counts:
            result.add(usage)
            result.data_files, result.data_bytes = new.data_files, new.data_bytes
            result.other_bytes = new.other_bytes

    def close(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None
        for folder in (self._base.parent, self._work.parent):
            shutil.rmtree(folder, ignore_errors=True)


def compare(name: str, peers: list[str], runs: int) -> WorkloadResult:
    print(f"{name}: generating", flush=True)
    wanted = workload(name)
    result = WorkloadResult(
        workload=name,
        base_rows=wanted.base_rows,
        batch_rows=wanted.batch_rows,
        touched_files=wanted.touched_files,
        machine=machine_line(),
        started=now(),
        commit=commit(),
    )
    for shift in shifts(peers, psutil.virtual_memory().total / 2**30 * _SHARE):
        result.peers += _shift(wanted, shift, runs)
    return result


def _shift(wanted: Workload, peers: list[str], runs: int) -> list[PeerResult]:
    contestants = [Contestant(peer, wanted, DATA / "tables" / wanted.name) for peer in peers]
    try:
        for contestant in contestants:
            print(f"{wanted.name}: loading {contestant.result.peer}", flush=True)
            contestant.start()
        for turn in range(runs + 1):
            print(f"{wanted.name}: round {turn} of {runs}", flush=True)
            first = turn % len(contestants)
            for contestant in contestants[first:] + contestants[:first]:
                contestant.turn(counts=turn > 0)
    finally:
        for contestant in contestants:
            contestant.close()
    return [contestant.result for contestant in contestants]


def usual_peers(name: str) -> tuple[str, ...]:
    plain = name.removeprefix("T_").removeprefix("T")
    return GROWTH_PEERS if plain in GROWTH else LIGHT_PEERS if plain in KINDS else tuple(PEERS)


def main() -> int:
    """Entry point; 1 if a peer failed or a result was wrong."""
    about = "lakeindex beside its peers, in one run"
    given = harness.parse("run", about, workloads=names(), default=DEFAULT, peers=PEERS)
    results = []
    for name in given.workloads:
        results.append(compare(name, list(given.peers or usual_peers(name)), given.runs))
        if not given.dry:
            report.save(results[-1])
        print("\n" + report.table(results[-1]) + "\n", flush=True)
    if not given.dry:
        page.update()
    return 0 if all(peer.correct and peer.failed is None for result in results for peer in result.peers) else 1


if __name__ == "__main__":
    raise SystemExit(main())
