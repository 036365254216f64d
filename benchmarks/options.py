"""The command line that all measuring modules share."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


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
    """Read the command line.

    Args:
        module: its name.
        about: what it does.
        workloads: names that can be asked for.
        default: those that are taken if none is named.
        peers: names that can be asked for; all, or those that fit the workload, if none is named.
        arguments: the words, if not those of this process.
    """
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
    return Wanted(
        workloads=tuple(given.workload or default),
        peers=tuple(given.peer) if given.peer else None,
        runs=given.runs,
        dry=given.dry,
    )
