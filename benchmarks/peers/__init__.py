"""The engines that are compared, by name. A peer's libraries are imported in its own process only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from benchmarks.compression import SAID
from benchmarks.peers.base import Peer

_SMALL_GIB: Final = 2.5
_JVM_GIB: Final = 6.0


@dataclass(frozen=True)
class Entry:
    """One line of the comparison.

    Attributes:
        title: what it is called in the tables.
        make: starts it.
        compression: codec and level of what it writes, as its module sets them.
        gib: memory to set aside for it: a driver of 4 GiB and what the JVM takes beside it, or a process without one.
    """

    title: str
    make: Callable[[], Peer]
    gib: float
    compression: str = SAID


def _floor() -> Peer:
    from benchmarks.peers.floor import Floor

    return Floor()


def _delta_rs(*, own: bool) -> Callable[[], Peer]:
    def make() -> Peer:
        from benchmarks.peers.delta import EQUAL, DeltaRs

        return DeltaRs(None if own else EQUAL)

    return make


def _lance() -> Peer:
    from benchmarks.peers.lance import Lance

    return Lance()


def _hudi(kind: str) -> Callable[[], Peer]:
    def make() -> Peer:
        from benchmarks.peers import hudi

        options = {
            "BLOOM": {},
            "VERSION_6": hudi.VERSION_6,
            "SIMPLE": hudi.SIMPLE,
            "BUCKET": hudi.BUCKET,
            "RECORD": hudi.RECORD,
            "OWN": hudi.OWN,
        }
        return hudi.Hudi(options[kind])

    return make


def _delta_spark(*, vectors: bool) -> Callable[[], Peer]:
    def make() -> Peer:
        from benchmarks.peers.delta_spark import DeltaSpark

        return DeltaSpark(vectors=vectors)

    return make


def _iceberg() -> Peer:
    from benchmarks.peers.iceberg_spark import IcebergSpark

    return IcebergSpark()


def _local(*, sync: bool) -> Callable[[], Peer]:
    def make() -> Peer:
        from benchmarks.peers.lakeindex import LakeIndexLocal

        return LakeIndexLocal(sync=sync)

    return make


def _spark() -> Peer:
    from benchmarks.peers.lakeindex import LakeIndexSpark

    return LakeIndexSpark()


#: The first is what the ratios are taken of.
PEERS: Final[dict[str, Entry]] = {
    "floor": Entry("pyarrow floor with Hudi's meta columns", _floor, _SMALL_GIB),
    "lakeindex": Entry("lakeindex, local runner", _local(sync=True), _SMALL_GIB),
    "lakeindex-nosync": Entry("lakeindex, local runner, no sync to disk", _local(sync=False), _SMALL_GIB),
    "delta-rs": Entry("delta-rs MERGE", _delta_rs(own=False), _SMALL_GIB, f"{SAID}, row groups and pages as lakeindex"),
    "delta-rs-own": Entry(
        "delta-rs MERGE, at its own defaults", _delta_rs(own=True), _SMALL_GIB, "its default (snappy)"
    ),
    "lance": Entry("Lance merge_insert, BTREE (merge on read)", _lance, _SMALL_GIB),
    "lakeindex-spark": Entry("lakeindex, Spark runner, session warm", _spark, _JVM_GIB),
    "hudi": Entry("Hudi 1.2.0 BLOOM, its defaults but the codec, session warm", _hudi("BLOOM"), _JVM_GIB),
    "hudi-own": Entry("Hudi 1.2.0 BLOOM, its own codec, session warm", _hudi("OWN"), _JVM_GIB, "its default (gzip)"),
    "hudi-simple": Entry("Hudi 1.2.0 SIMPLE, session warm", _hudi("SIMPLE"), _JVM_GIB),
    "hudi-bucket": Entry("Hudi 1.2.0 BUCKET, session warm", _hudi("BUCKET"), _JVM_GIB),
    "hudi-record": Entry("Hudi 1.2.0 RECORD_INDEX, session warm", _hudi("RECORD"), _JVM_GIB),
    "hudi-v6": Entry("Hudi 1.2.0 BLOOM, table version 6, session warm", _hudi("VERSION_6"), _JVM_GIB),
    "delta-spark": Entry("Delta 3.3.3 MERGE, session warm", _delta_spark(vectors=False), _JVM_GIB),
    "delta-spark-dv": Entry(
        "Delta 3.3.3 MERGE, deletion vectors (merge on read)", _delta_spark(vectors=True), _JVM_GIB
    ),
    "iceberg-spark": Entry("Iceberg 1.12.0 MERGE, copy on write, session warm", _iceberg, _JVM_GIB),
}
#: Without a JVM: what the workloads are run with that show one thing each.
LIGHT_PEERS: Final = ("floor", "lakeindex", "lakeindex-nosync", "delta-rs", "delta-rs-own")
#: What the growth of a table is shown with.
GROWTH_PEERS: Final = ("floor", "lakeindex", "lakeindex-nosync", "delta-rs", "lance", "lakeindex-spark")


def open_peer(name: str) -> Peer:
    """Start a peer in this process."""
    return PEERS[name].make()


def shifts(names: list[str], gib: float) -> Iterator[list[str]]:
    """Peers that fit into memory together, in order; one that does not fit beside another has a shift of its own."""
    shift: list[str] = []
    for name in names:
        if shift and sum(PEERS[one].gib for one in [*shift, name]) > gib:
            yield shift
            shift = []
        shift.append(name)
    if shift:
        yield shift
