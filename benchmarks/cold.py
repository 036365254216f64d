"""Whole commands from a cold start: ``python -m benchmarks.cold [--workload L_small] [--peer help] [--runs 5]``.

What a person or a cron job waits for: the interpreter, the imports, the work. Compiled kernels are cached on disk by
the run that does not count. Where the imports' time goes comes from ``-X importtime``.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Final

from benchmarks import options, page, timings
from benchmarks.measuring import Usage, restore
from benchmarks.peers.lakeindex import LakeIndexLocal
from benchmarks.timings import Measurement, Timing
from benchmarks.workloads import DATA, Workload, names, workload

_RUN: Final = "from lakeindex.cli import main; main()"
PEERS: Final = {
    "python": "python -c pass",
    "help": "lakeindex --help",
    "upsert": "lakeindex upsert",
}
_SHOWN: Final = 6
_LINE: Final = re.compile(r"import time:\s+(\d+) \|\s+(\d+) \| +(\S+)")


def import_times(text: str) -> dict[str, float]:
    """Milliseconds by top-level package, slowest first, of what ``-X importtime`` printed."""
    spent: Counter[str] = Counter()
    for own, _, module in _LINE.findall(text):
        spent[module.partition(".")[0]] += int(own)
    return {package: micros / 1000 for package, micros in spent.most_common()}


def _summary(times: dict[str, float]) -> str:
    top = ", ".join(f"{package} {ms:.0f}" for package, ms in list(times.items())[:_SHOWN])
    return f"{sum(times.values()):.0f}: {top}"


class Cold:
    """The commands, on a table that lakeindex loaded."""

    def __init__(self, wanted: Workload, folder: Path) -> None:
        self._wanted, self._folder = wanted, folder
        self._base, self._work = folder / "base" / "orders", folder / "work" / "orders"

    def load(self) -> None:
        """Make the base table."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._base.parent.mkdir(parents=True)
        LakeIndexLocal(sync=True).load(self._wanted, self._base)

    def command(self, peer: str, *flags: str) -> list[str]:
        """The words of one."""
        if peer == "python":
            return [sys.executable, *flags, "-c", "pass"]
        words = ["--help"] if peer == "help" else ["upsert", str(self._work), str(self._wanted.batch)]
        return [sys.executable, *flags, "-c", _RUN, *words]

    def once(self, peer: str) -> Usage:
        """One run, on a fresh copy if it writes."""
        self._fresh(peer)
        return timings.timed(lambda: subprocess.run(self.command(peer), check=True, capture_output=True))

    def imports(self, peer: str) -> dict[str, float]:
        """Where the time of its imports goes."""
        self._fresh(peer)
        done = subprocess.run(self.command(peer, "-X", "importtime"), check=True, capture_output=True, text=True)
        return import_times(done.stderr)

    def _fresh(self, peer: str) -> None:
        if peer == "upsert":
            restore(self._base.parent, self._work.parent)

    def close(self) -> None:
        """Remove the tables."""
        shutil.rmtree(self._folder, ignore_errors=True)


def measure(wanted: Workload, peers: tuple[str, ...], runs: int) -> list[Timing]:
    """All commands."""
    cold = Cold(wanted, DATA / "tables" / "cold")
    found = []
    try:
        cold.load()
        for peer in peers:
            title = PEERS[peer] + (f", {wanted.batch_rows:,} rows" if peer == "upsert" else "")
            timing = Timing(wanted.name, peer, title)
            timings.repeat(timing, runs, lambda peer=peer: cold.once(peer))  # type: ignore[misc]
            if timing.failed is None:
                timing.facts["imports, ms"] = _summary(cold.imports(peer))
            found.append(timing)
    finally:
        cold.close()
    return found


def main() -> int:
    """Entry point; 1 if a command failed."""
    about = "whole commands from a cold start"
    given = options.parse("cold", about, workloads=names(), default=["L_small"], peers=PEERS)
    done = Measurement.begin("cold")
    for name in given.workloads:
        done.timings += measure(workload(name), given.peers or tuple(PEERS), given.runs)
    return page.publish(done, dry=given.dry)


if __name__ == "__main__":
    raise SystemExit(main())
