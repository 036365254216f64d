"""The engines that are compared, by name. A peer's libraries are imported in its own process only."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from benchmarks.compression import SAID
from benchmarks.peers.base import Peer

_SMALL_GIB: Final = 2.5
_JVM_GIB: Final = 6.0


@dataclass(frozen=True)
class Entry:
    """One line of the comparison.

    Attributes:
        gib: memory to set aside for it: a driver of 4 GiB and what the JVM takes beside it, or a process without one.
        starts: module of this package, and class, that starts it.
        arguments: of the class; a text is a constant of the module.
        compression: codec and level of what it writes, as its module sets them.
    """

    title: str
    gib: float
    starts: str
    arguments: Mapping[str, str | bool | None] = field(default_factory=dict)
    compression: str = SAID

    def make(self) -> Peer:
        name, _, kind = self.starts.partition(":")
        module = importlib.import_module(f"benchmarks.peers.{name}")
        given = {key: getattr(module, one) if isinstance(one, str) else one for key, one in self.arguments.items()}
        peer: Peer = getattr(module, kind)(**given)
        return peer


def _hudi(title: str, constant: str, compression: str = SAID) -> Entry:
    return Entry(f"Hudi 1.2.0 {title}, session warm", _JVM_GIB, "hudi:Hudi", {"options": constant}, compression)


_OURS: Final = "lakeindex:LakeIndexLocal"
_DELTA: Final = "delta_spark:DeltaSpark"
#: The first is what the ratios are taken of.
PEERS: Final[dict[str, Entry]] = {
    "floor": Entry("pyarrow floor with Hudi's meta columns", _SMALL_GIB, "floor:Floor"),
    "lakeindex": Entry("lakeindex, local runner", _SMALL_GIB, _OURS, {"sync": True}),
    "lakeindex-nosync": Entry("lakeindex, local runner, no sync to disk", _SMALL_GIB, _OURS, {"sync": False}),
    "delta-rs": Entry(
        "delta-rs MERGE", _SMALL_GIB, "delta:DeltaRs", {"writer": "EQUAL"}, f"{SAID}, row groups and pages as lakeindex"
    ),
    "delta-rs-own": Entry(
        "delta-rs MERGE, at its own defaults", _SMALL_GIB, "delta:DeltaRs", {"writer": None}, "its default (snappy)"
    ),
    "lance": Entry("Lance merge_insert, BTREE (merge on read)", _SMALL_GIB, "lance:Lance"),
    "lakeindex-spark": Entry("lakeindex, Spark runner, session warm", _JVM_GIB, "lakeindex:LakeIndexSpark"),
    "hudi": _hudi("BLOOM, its defaults but the codec", "BLOOM"),
    "hudi-own": _hudi("BLOOM, its own codec", "OWN", "its default (gzip)"),
    "hudi-simple": _hudi("SIMPLE", "SIMPLE"),
    "hudi-bucket": _hudi("BUCKET", "BUCKET"),
    "hudi-record": _hudi("RECORD_INDEX", "RECORD"),
    "hudi-v6": _hudi("BLOOM, table version 6", "VERSION_6"),
    "delta-spark": Entry("Delta 3.3.3 MERGE, session warm", _JVM_GIB, _DELTA, {"vectors": False}),
    "delta-spark-dv": Entry("Delta 3.3.3 MERGE, deletion vectors (merge on read)", _JVM_GIB, _DELTA, {"vectors": True}),
    "iceberg-spark": Entry("Iceberg 1.12.0 MERGE, copy on write, session warm", _JVM_GIB, "iceberg_spark:IcebergSpark"),
}
#: Without a JVM: what the workloads are run with that show one thing each.
LIGHT_PEERS: Final = ("floor", "lakeindex", "lakeindex-nosync", "delta-rs", "delta-rs-own")
#: What the growth of a table is shown with.
GROWTH_PEERS: Final = ("floor", "lakeindex", "lakeindex-nosync", "delta-rs", "lance", "lakeindex-spark")


def open_peer(name: str) -> Peer:
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
