"""What all measuring modules share: parts of the benchmark as values, their command line, the fate of their figures."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks import page
from benchmarks.timings import Measurement, Timing

ROOT: Final = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Wanted:
    """What was asked for.

    Attributes:
        dry: print, change neither results nor pages.
    """

    workloads: tuple[str, ...]
    peers: tuple[str, ...] | None
    runs: int
    dry: bool


def parse(
    module: str,
    about: str,
    *,
    workloads: Iterable[str],
    default: Sequence[str],
    peers: Iterable[str],
    arguments: Sequence[str] | None = None,
) -> Wanted:
    """Read the command line: ``arguments``, or the words of this process."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{module}", description=about)
    parser.add_argument(
        "--workload",
        action="append",
        choices=list(workloads),
        metavar="NAME",
        help=f"repeatable; of {', '.join(workloads)}; default: {', '.join(default)}",
    )
    parser.add_argument("--peer", action="append", choices=list(peers), help="repeatable; default: all")
    parser.add_argument("--runs", type=int, default=5, help="runs that count, per peer (default 5)")
    parser.add_argument("--dry", action="store_true", help="print the tables, change neither results nor pages")
    given = parser.parse_args(arguments)
    peers = tuple(given.peer) if given.peer else None
    return Wanted(tuple(given.workload or default), peers, given.runs, given.dry)


@dataclass(frozen=True)
class Part:
    """A part that is measured beside the upserts.

    Attributes:
        usual: peers that are taken if none is named; all, if empty.
        saved_as: of ``timings.NAMES``; by default the module's name.
        on_s3: it works on an S3 server of this machine, which is started if there is none.
        update: makes the pages that show it.
    """

    module: str
    about: str
    workloads: Iterable[str]
    default: Sequence[str]
    peers: Iterable[str]
    measure: Callable[[str, tuple[str, ...], int], list[Timing]]
    usual: tuple[str, ...] = ()
    saved_as: str = ""
    on_s3: bool = False
    update: Callable[[], None] = page.update

    def main(self) -> int:
        """Measure what the command line asks for, print it and, if it is no trial, keep it; 1 if something failed."""
        if self.on_s3 and "LAKEINDEX_S3_ENDPOINT" not in os.environ:
            server = [sys.executable, str(ROOT / "scripts" / "s3_server.py"), "--"]
            again = [sys.executable, "-m", f"benchmarks.{self.module}", *sys.argv[1:]]
            return subprocess.run([*server, *again], check=False).returncode
        given = parse(self.module, self.about, workloads=self.workloads, default=self.default, peers=self.peers)
        done = Measurement.begin(self.saved_as or self.module)
        for name in given.workloads:
            done.timings += self.measure(name, given.peers or self.usual or tuple(self.peers), given.runs)
        return page.publish(done, self.update, dry=given.dry)
