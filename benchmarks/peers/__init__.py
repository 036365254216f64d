"""The engines that are compared, by name. A peer's libraries are imported in its own process only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from benchmarks.peers.base import Peer


@dataclass(frozen=True)
class Entry:
    """One line of the comparison."""

    title: str
    make: Callable[[], Peer]


def _floor() -> Peer:
    from benchmarks.peers.floor import Floor

    return Floor()


def _delta() -> Peer:
    from benchmarks.peers.delta import DeltaRs

    return DeltaRs()


def _hudi() -> Peer:
    from benchmarks.peers.hudi import Hudi

    return Hudi(version_6=False)


def _hudi_v6() -> Peer:
    from benchmarks.peers.hudi import Hudi

    return Hudi(version_6=True)


def _local() -> Peer:
    from benchmarks.peers.lakeindex import LakeIndexLocal

    return LakeIndexLocal(sync=True)


def _local_no_sync() -> Peer:
    from benchmarks.peers.lakeindex import LakeIndexLocal

    return LakeIndexLocal(sync=False)


def _spark() -> Peer:
    from benchmarks.peers.lakeindex import LakeIndexSpark

    return LakeIndexSpark()


#: The first is what the ratios are taken of.
PEERS: Final[dict[str, Entry]] = {
    "floor": Entry("pyarrow floor with Hudi's meta columns", _floor),
    "lakeindex": Entry("lakeindex, local runner", _local),
    "lakeindex-nosync": Entry("lakeindex, local runner, no sync to disk", _local_no_sync),
    "lakeindex-spark": Entry("lakeindex, Spark runner, session warm", _spark),
    "delta-rs": Entry("delta-rs MERGE", _delta),
    "hudi": Entry("Hudi 1.2.0 BLOOM, its defaults, session warm", _hudi),
    "hudi-v6": Entry("Hudi 1.2.0 BLOOM, table version 6, session warm", _hudi_v6),
}


def open_peer(name: str) -> Peer:
    """Start a peer in this process."""
    return PEERS[name].make()
