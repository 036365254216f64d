"""Whole commands from a cold start: ``python -m benchmarks.cold [--workload thousand] [--peer help] [--runs 5]``.

A person or a cron job waits for the interpreter, the imports and the work. The commands run in an environment
(:func:`benchmarks.environment.make_cold`) that has delta-rs and what the library needs, but neither pandas nor
coverage, which pyarrow imports if they are installed. The run that does not count compiles modules and fills caches.
``-X importtime`` gives the time of the imports.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from benchmarks import environment, timings
from benchmarks.harness import Part
from benchmarks.measuring import Usage, restore
from benchmarks.peers.base import hudi_totals
from benchmarks.peers.delta import DeltaRs
from benchmarks.peers.lakeindex import LakeIndexLocal
from benchmarks.timings import Timing
from benchmarks.workloads import DATA, Totals, Workload, names, workload

_SCRIPTS: Final = Path(__file__).with_name("scripts")


@dataclass(frozen=True)
class Command:
    """One that is timed.

    Attributes:
        words: what is run, behind the interpreter, with ``{bin}``, ``{table}``, ``{delta}``, ``{batch}``, ``{key}``.
        writes: it upserts the batch.
    """

    title: str
    words: tuple[str, ...]
    writes: bool = False


_OURS: Final = "{bin}/lakeindex"
PEERS: Final = {
    "python": Command("python -c pass", ("-c", "pass")),
    "help": Command("lakeindex --help", (_OURS, "--help")),
    "upsert": Command("lakeindex upsert", (_OURS, "upsert", "{table}", "{batch}"), writes=True),
    "delta-rs": Command(
        "a script: MERGE of delta-rs", (str(_SCRIPTS / "upsert_with_delta.py"), "{delta}", "{batch}"), writes=True
    ),
    "script": Command(
        "a script: open_table, upsert", (str(_SCRIPTS / "upsert_with_lakeindex.py"), "{table}", "{batch}"), writes=True
    ),
    "history": Command("lakeindex history", (_OURS, "history", "{table}")),
    "inspect": Command("lakeindex inspect", (_OURS, "inspect", "{table}")),
    "get": Command("lakeindex get, one key", (_OURS, "get", "{table}", "{key}")),
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
    """The commands, on tables that lakeindex and delta-rs loaded."""

    def __init__(self, wanted: Workload, folder: Path) -> None:
        self._wanted, self._folder = wanted, folder
        self._bin = environment.make_cold()
        self._env = {name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "COV"))}
        self._tables = {"table": folder / "work" / "orders", "delta": folder / "work" / "delta"}
        self._batch = pq.read_table(wanted.batch, columns=["id"])

    def load(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._tables["table"].parent.mkdir(parents=True)
        LakeIndexLocal(sync=True).load(self._wanted, self._tables["table"])
        DeltaRs(None).load(self._wanted, self._tables["delta"])
        self._tables["table"].parent.rename(self._folder / "base")

    def once(self, peer: str) -> Usage:
        """One run, on a fresh copy if it writes; what it left is checked."""
        self._fresh(PEERS[peer])
        usage = timings.timed(lambda: self._run(peer))
        if PEERS[peer].writes:
            found = self._totals(peer)
            if found != self._wanted.truth:
                raise RuntimeError(f"{found}, expected {self._wanted.truth}")
        return usage

    def imports(self, peer: str) -> dict[str, float]:
        """Where the time of its imports goes."""
        self._fresh(PEERS[peer])
        return import_times(self._run(peer, "-X", "importtime").stderr)

    def _run(self, peer: str, *flags: str) -> subprocess.CompletedProcess[str]:
        places = {name: str(path) for name, path in self._tables.items()}
        places |= {"bin": str(self._bin), "batch": str(self._wanted.batch), "key": self._batch["id"][0].as_py()}
        words = [word.format(**places) for word in PEERS[peer].words]
        command = [str(self._bin / "python"), *flags, *words]
        done = subprocess.run(command, env=self._env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.strip() or f"{peer} ended with {done.returncode}")
        return done

    def _fresh(self, command: Command) -> None:
        if command.writes or not self._tables["table"].exists():
            restore(self._folder / "base", self._tables["table"].parent)

    def _totals(self, peer: str) -> Totals:
        return DeltaRs(None).totals(self._tables["delta"]) if peer == "delta-rs" else hudi_totals(self._tables["table"])

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def measure(name: str, peers: tuple[str, ...], runs: int) -> list[Timing]:
    wanted = workload(name)
    cold = Cold(wanted, DATA / "tables" / "cold")
    rows = f", {wanted.batch_rows:,} rows"
    found = {peer: Timing(wanted.name, peer, PEERS[peer].title + rows * PEERS[peer].writes) for peer in peers}
    try:
        cold.load()
        timings.in_turns(found, runs, cold.once)
        for peer, timing in found.items():
            if timing.failed is None:
                timing.facts["imports, ms"] = _summary(cold.imports(peer))
    finally:
        cold.close()
    return list(found.values())


PART: Final = Part("cold", "whole commands from a cold start", names(), ["thousand"], PEERS, measure)

if __name__ == "__main__":
    raise SystemExit(PART.main())
