"""Hudi and lakeindex write one table at once under Hudi's lock, each in a process of its own, against a dictionary.

``python -m tests.interop.beside_hudi COMMITS [SEED] [RELEASE] [--metadata] [--s3]`` runs until each side has committed half of them
and prints the figures. ``--s3``: under the storage lock, in the bucket ``interop`` of the server of ``AWS_ENDPOINT_URL``; Spark then needs
hadoop-aws and its settings. The order of the commits is that of their completion times, which are taken under the lock: the dictionary is
what their batches give in this order. A batch updates keys of partitions that both write to, or of one that only its own
writer writes to, inserts keys that only its writer inserts, and every seventh deletes some.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

import lakeindex
from lakeindex.errors import ConflictError
from lakeindex.storage import open_storage
from lakeindex.table.handle import Table
from scripts.interop_env import BUNDLES
from tests.interop.hudi_client import HudiError, HudiServer

SCHEMA: Final = pa.schema(
    [pa.field("id", pa.string(), nullable=False), ("part", pa.string()), ("n", pa.int64()), ("by", pa.string())]
)
SHARED: Final = ("a", "b")
OWN: Final = {"ours": "c", "hudi": "d"}
PROVIDER: Final = "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"
LOCK: Final = {"hoodie.write.lock.provider": PROVIDER, "hoodie.write.lock.filesystem.expire": "5"}
STORAGE_LOCK: Final = {"hoodie.write.lock.provider": PROVIDER.replace("FileSystem", "Storage")}
OPTIMISTIC: Final = {
    **LOCK,
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    "hoodie.write.lock.client.num_retries": "300",
    "hoodie.write.lock.client.wait_time_ms_between_retry": "100",
    "hoodie.write.lock.wait_time_ms": "1000",
}
WRITES: Final = {
    "hoodie.table.name": "beside",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
    "hoodie.write.record.merge.mode": "COMMIT_TIME_ORDERING",
    "hoodie.index.type": "BLOOM",
}
ENDPOINT: Final = "interop.s3.endpoint"
_TRIES: Final = 60
_KEYS: Final = 40
_CONFLICT: Final = re.compile("ConflictException|ConcurrentModificationException")

Row = tuple[str, int, str]
"""Partition, number of the batch, writer."""


@dataclass
class Batch:
    """One batch: rows by key, or keys that are deleted."""

    rows: dict[str, Row]
    deletes: bool = False

    def table(self) -> pa.Table:
        return pa.Table.from_pylist(
            [{"id": key, "part": part, "n": n, "by": by} for key, (part, n, by) in self.rows.items()], SCHEMA
        )

    def apply(self, state: dict[str, Row]) -> None:
        for key, row in self.rows.items():
            if self.deletes:
                state.pop(key, None)
            else:
                state[key] = row


@dataclass
class Writer:
    """One side: makes batches, notes which were committed and how often it had to try."""

    name: str
    commits: int
    seed: int
    committed: list[Batch] = field(default_factory=list)
    tries: Counter[str] = field(default_factory=Counter)
    error: BaseException | None = None
    took: float = 0.0
    slower: Writer | None = None

    def keep_pace(self, done: int) -> None:
        """Who is quicker commits once for each commit of the other, at any moment of it."""
        other = self.slower
        if other is None:
            return
        while other.error is None and len(other.committed) < min(done, other.commits):
            time.sleep(0.05)
        time.sleep(random.Random(f"{self.seed} {done}").random() * other.took)

    def batches(self) -> list[Batch]:
        chosen = random.Random(f"{self.name} {self.seed}")
        inserted: list[tuple[str, str]] = []
        found = []
        for n in range(1, self.commits + 1):
            own = chosen.random() < 0.3
            parts = (OWN[self.name],) if own else SHARED
            old = [(f"k{part}{number:03d}", part) for part in parts for number in range(_KEYS)]
            keys = chosen.sample(old + [one for one in inserted if one[1] in parts], 8)
            deletes = n % 7 == 0
            if not deletes:
                fresh = [(f"{self.name}{n:04d}-{number}", chosen.choice(parts)) for number in range(4)]
                inserted += fresh
                keys += fresh
            found.append(Batch({key: (part, n, self.name) for key, part in keys}, deletes))
        return found


def _options(table_version: int, *, metadata: bool) -> dict[str, str]:
    keep = {"hoodie.write.table.version": str(table_version), "hoodie.write.auto.upgrade": "false"}
    small = {f"hoodie.{one}.shuffle.parallelism": "2" for one in ("upsert", "insert", "delete")}
    return {
        **WRITES, **OPTIMISTIC, **small, **(keep if table_version > 6 else {}),
        "hoodie.metadata.enable": str(metadata).lower(), "hoodie.embed.timeline.server": "false",
        "hoodie.keep.min.commits": "1000", "hoodie.keep.max.commits": "1100",  # the dictionary needs the timeline
    }  # fmt: skip


@dataclass(frozen=True)
class Race:
    """A table, and both ways to write to it."""

    hudi: HudiServer
    path: Path | str
    metadata: bool
    lock: Mapping[str, str]

    def hudi_writes(self, batch: Batch, mode: str = "append") -> None:
        operation = "delete" if batch.deletes else "upsert"
        options = {**_options(self.hudi.table_version, metadata=self.metadata), **self.lock}
        options["hoodie.datasource.write.operation"] = operation
        self.hudi.write(self.path, batch.table(), options, mode=mode)

    def we_write(self, batch: Batch) -> None:
        table = lakeindex.open_table(str(self.path))
        write = table.delete if batch.deletes else table.upsert
        lock = {key: text for key, text in self.lock.items() if key != ENDPOINT}
        write(batch.table(), options={**lock, "hoodie.index.type": "BLOOM", "lakeindex.conflict.retries": "50"})

    def run(self, *sides: Writer) -> None:
        """Both at once, each in a thread that waits for its process."""
        writes = {"ours": self.we_write, "hudi": self.hudi_writes}

        def one(side: Writer) -> None:
            try:
                for number, batch in enumerate(side.batches()):
                    side.keep_pace(number)
                    _until_committed(side, batch, writes[side.name])
            except BaseException as error:  # noqa: BLE001 - told by the thread that waits
                side.error = error

        threads = [threading.Thread(target=one, args=(side,)) for side in sides]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for side in sides:
            if side.error is not None:
                raise side.error

    def readers(self) -> dict[str, pa.Table]:
        found = {"lakeindex": lakeindex.open_table(str(self.path)).read(meta=True)}
        for on in (False, True)[: 1 + self.metadata]:
            word = "Hudi with the metadata table" if on else "Hudi"
            found[word] = self.hudi.read(self.path, {"hoodie.metadata.enable": str(on).lower()})
        return found


def race(
    hudi: HudiServer,
    path: Path | str,
    commits: int,
    seed: int = 7,
    *,
    metadata: bool = False,
    lock: Mapping[str, str] = LOCK,
) -> dict[str, Any]:
    """Let both write until each has committed half; the figures, with what each reader finds beside the dictionary."""
    table = Race(hudi, path, metadata, lock)
    state = {f"k{part}{n:03d}": (part, 0, "base") for part in (*SHARED, *OWN.values()) for n in range(_KEYS)}
    table.hudi_writes(Batch(dict(state)), mode="overwrite")
    known = set(_writes(path))
    theirs = Writer("hudi", commits - commits // 2, seed)
    ours = Writer("ours", commits // 2, seed, slower=theirs)
    started = time.monotonic()
    table.run(ours, theirs)
    seconds = round(time.monotonic() - started)
    queues = {side.name: iter(side.committed) for side in (ours, theirs)}
    order = [by for instant, by in _writes(path).items() if instant not in known]
    for by in order:
        next(queues[by]).apply(state)
    assert all(next(queue, None) is None for queue in queues.values()), "a commit is not on the timeline"
    return {
        "commits": len(order),
        "seconds": seconds,
        "changes of the writer": sum(a != b for a, b in itertools.pairwise(order)),
        "tries of Hudi": dict(theirs.tries),
        "tries of lakeindex": dict(ours.tries),
        "rows": len(state),
        **{name: _compared(rows, state) for name, rows in table.readers().items()},
    }


def _until_committed(side: Writer, batch: Batch, write: Any) -> None:
    for _ in range(_TRIES):
        started = time.monotonic()
        try:
            write(batch)
        except (ConflictError, HudiError) as error:
            what = type(error).__name__ if isinstance(error, ConflictError) else "conflict"
            if what == "conflict" and not _CONFLICT.search(str(error)):
                raise
            side.tries[what] += 1
        else:
            side.took = time.monotonic() - started
            side.committed.append(batch)
            side.tries["committed"] += 1
            return
    raise AssertionError(f"{side.name} could not commit a batch in {_TRIES} tries: {side.tries}")


def _writes(path: Path | str) -> dict[str, str]:
    """The completed writes in the order in which they were completed, and whose each is; archived ones are kept off."""
    timeline = Table.open(open_storage(str(path))).load_timeline()
    found = sorted(timeline.completed_writes, key=lambda one: one.completion_time or one.time)
    told = {}
    for one in found:
        extra = timeline.commit_metadata(open_storage(str(path)), one).extra_metadata
        told[one.time] = "ours" if "lakeindex.batch_id" in extra else "hudi"
    return told


def _compared(rows: pa.Table, state: dict[str, Row]) -> dict[str, int]:
    found = [(one["id"], (one["part"], one["n"], one["by"])) for one in rows.select(SCHEMA.names).to_pylist()]
    times = Counter(key for key, _ in found)
    told = dict(found)
    return {
        "lost": len(state.keys() - told.keys()),
        "doubled": sum(count > 1 for count in times.values()),
        "odd": len(told.keys() - state.keys()),
        "wrong": sum(told[key] != row for key, row in state.items() if key in told),
    }


RIGHT: Final = {"lost": 0, "doubled": 0, "odd": 0, "wrong": 0}


def main() -> int:
    """Entry point; 0 if nothing was lost or doubled."""
    numbers = [int(one) for one in sys.argv[1:] if one.isdecimal()]
    commits, seed = (*numbers, 200, 7)[0], (*numbers[1:], 7)[0]
    on_s3 = os.environ.get("AWS_ENDPOINT_URL") if "--s3" in sys.argv else None
    with tempfile.TemporaryDirectory() as folder:
        release = next((one for one in sys.argv[1:] if one in BUNDLES), "1.2.0")
        hudi = HudiServer(release, Path(folder) / "hudi").writing(BUNDLES[release].default)
        path, lock = f"{folder}/table", LOCK
        if on_s3 is not None:
            hudi.compile(Path(__file__).with_name("S3StorageLockClient.java"))
            path, lock = "s3a://interop/table", {**STORAGE_LOCK, ENDPOINT: on_s3}
        try:
            figures = race(hudi, path, commits, seed, metadata="--metadata" in sys.argv, lock=lock)
        finally:
            hudi.close()
    print(json.dumps(figures, indent=1))  # noqa: T201 - the answer
    return 0 if all(figures[one] == RIGHT for one in figures if one.startswith(("lakeindex", "Hudi"))) else 1


if __name__ == "__main__":
    raise SystemExit(main())
