"""A disk that loses what was not synced, and a harness that cuts the power at every storage call.

The model is stricter than a local disk: of what was not synced *any* subset survives, in any version it had since it was
last durable, and bytes that were not synced may be gone, cut short, or zeros. ``sync`` makes a file's bytes durable, and every
entry (created, replaced, deleted) of its folder and of those above it, as :class:`lakeindex.storage.local.LocalStorage` does.
That one syncs the bytes of what it *creates* before they get their name; the model grants this only to Avro and the archive's
manifests, which have readers of Hudi's, to the properties, and to inflight files of replacements, which Hudi begins empty where it
carries a clustering of ours out: our own records, commits and other inflight files are torn in spite of it.

Reusable for any :class:`tests.model.harness.Operation`::

    report = cut_power_everywhere(Operation("upsert", prepare=make_table, run=..., check=...))
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

from lakeindex.errors import LakeIndexError
from lakeindex.storage.memory import Call, MemoryStorage
from tests.model.harness import Operation

_WHOLE = (".properties", ".replacecommit.inflight", ".clustering.inflight")


class PowerLoss(BaseException):
    """The machine is off. No code of ours may catch this: it is no Exception."""


@dataclass
class _Version:
    """What one path was: its bytes, or None where it was not there."""

    data: bytes | None
    synced: bool
    whole: bool = False


class DiskStorage(MemoryStorage):
    """A memory store that remembers what is durable."""

    def __init__(self, name: str = "") -> None:
        self._versions: dict[str, list[_Version]] = {}
        super().__init__(name)

    @classmethod
    def on_machine(cls, name: str) -> DiskStorage:
        """A disk that is found again by ``memory://NAME``."""
        made = cls(name)
        MemoryStorage._named[name] = made
        return made

    def create(self, path: str, data: bytes) -> None:
        super().create(path, data)
        with self._mutex:
            whole = data.startswith((b"Obj\x01", b"#HUDI#")) or path.endswith(_WHOLE) or "/manifest_" in path
            self._versions[path][-1].whole = whole

    def sync(self, paths: Iterable[str]) -> None:
        wanted = list(paths)
        super().sync(wanted)
        with self._mutex:
            for path in wanted:
                if path in self._versions:
                    newest = self._versions[path][-1]
                    newest.synced = True
                    self._versions[path] = [newest]
            self._keep_entries(_above(wanted))

    def sync_folders(self, folders: Iterable[str]) -> None:
        wanted = list(folders)
        super().sync_folders(wanted)
        with self._mutex:
            self._keep_entries(_above(f"{folder}/_" if folder else "_" for folder in wanted))

    def restore(self, objects: dict[str, bytes]) -> None:
        super().restore(objects)
        self._versions.clear()

    def lose(self, survivor: Survivor) -> None:
        """The power was cut: every path becomes what survived of it."""
        kept = self.snapshot()
        for number, (path, versions) in enumerate(sorted(self._versions.items())):
            version = survivor.choose(number, versions)
            data = version.data
            if data is not None and not (version.synced or version.whole):
                data = survivor.torn(number, data)
            if data is None:
                kept.pop(path, None)
            else:
                kept[path] = data
        self.restore(kept)

    def is_durable(self, path: str) -> bool:
        """Whether a power loss now would leave a path as it is."""
        versions = self._versions.get(path)
        return versions is None or (len(versions) == 1 and (versions[0].synced or versions[0].whole))

    def _keep_entries(self, folders: set[str]) -> None:
        for path, versions in list(self._versions.items()):
            if path.rpartition("/")[0] in folders:
                newest = versions[-1]
                if newest.synced or newest.data is None:
                    del self._versions[path]
                else:
                    self._versions[path] = [newest]

    def _put(self, path: str, data: bytes) -> None:
        self._remember(path, _Version(bytes(data), synced=False))
        super()._put(path, data)

    def _drop(self, path: str) -> None:
        if path in self._objects:
            self._remember(path, _Version(None, synced=True))
        super()._drop(path)

    def _remember(self, path: str, version: _Version) -> None:
        if path not in self._versions:
            found = self._objects.get(path)
            self._versions[path] = [_Version(None if found is None else found[0], synced=True)]
        self._versions[path].append(version)


def _above(paths: Iterable[str]) -> set[str]:
    """All folders above some paths, the root included."""
    found: set[str] = set()
    for path in paths:
        parent = path.rpartition("/")[0]
        while parent not in found:
            found.add(parent)
            parent = parent.rpartition("/")[0]
    return found


@dataclass(frozen=True)
class Survivor:
    """What a power loss leaves of what was not synced.

    Attributes:
        name: for messages, and what seeds the choices.
        choose: which of a path's versions survives; the path by its number in order, for its name may hold the time.
        torn: what survives of bytes that were not synced.
    """

    name: str
    choose: Callable[[int, Sequence[_Version]], _Version]
    torn: Callable[[int, bytes], bytes]


def _empty(_: int, data: bytes) -> bytes:
    return b""


def _half(_: int, data: bytes) -> bytes:
    return data[: len(data) // 2]


NOTHING = Survivor("all of it lost", lambda _, versions: versions[0], _empty)
EMPTY = Survivor("entries without bytes", lambda _, versions: versions[-1], _empty)
HALF = Survivor("cut short", lambda _, versions: versions[-1], _half)


def seeded(seed: int) -> Survivor:
    """Any subset, in any version; bytes whole, gone, cut short, or zeros."""

    def choose(number: int, versions: Sequence[_Version]) -> _Version:
        return Random(f"{seed} {number}").choice(versions)

    def torn(number: int, data: bytes) -> bytes:
        random = Random(f"{seed} bytes of {number}")
        return random.choice((data, data, b"", data[: random.randrange(len(data) + 1)], bytes(len(data))))

    return Survivor(f"seed {seed}", choose, torn)


def survivors(seeds: int) -> tuple[Survivor, ...]:
    """The plain cases, and this many seeds."""
    return (NOTHING, EMPTY, HALF, *(seeded(seed) for seed in range(seeds)))


@dataclass
class PowerReport:
    """What the harness did.

    Attributes:
        calls: storage calls of the operation.
        histories: power cuts, each with one set of survivors.
        acknowledged: histories in which the operation had returned before the power was cut.
        failures: what went wrong, one text a history.
    """

    calls: int = 0
    histories: int = 0
    acknowledged: int = 0
    failures: list[str] = field(default_factory=list)

    def kinds(self) -> Counter[str]:
        """Failures by what they say behind the history."""
        return Counter(one.partition("; then ")[2][:160] for one in self.failures)


class Machine:
    """The stores that one power supply feeds; the first is the operation's."""

    def __init__(self, *stores: DiskStorage) -> None:
        self.stores = stores
        self.calls = 0

    def run_until(self, run: Callable[[DiskStorage], object], number: int | None) -> Call | None:
        """Do it, and cut the power before the call of this number; the call, or None if it was through before."""
        self.calls = 0
        cut: list[Call] = []

        def hook(call: Call) -> None:
            self.calls += 1
            if cut or self.calls == number:
                cut.append(call)
                raise PowerLoss

        for store in self.stores:
            store.hook = hook
        told = threading.excepthook
        threading.excepthook = lambda args: None if args.exc_type is PowerLoss else told(args)  # a heartbeat's end
        try:
            run(self.stores[0])
        except PowerLoss:
            pass
        finally:
            threading.excepthook = told
            for store in self.stores:
                store.hook = None
        return cut[0] if cut else None


def cut_power_everywhere(
    operation: Operation,
    *,
    seeds: int = 2,
    every: int = 1,
    first: int = 1,
    after: int = 40,
    machine: Callable[[], Machine] = lambda: Machine(DiskStorage()),
) -> PowerReport:
    """Cut the power before each call, and after the last; keep several subsets of what was not synced; run again; check.

    Args:
        operation: what to do.
        seeds: random subsets beside the plain ones.
        every: only every n-th call.
        first: the first call.
        after: random subsets after the last call, where most is not synced: what is tidied away needs not be.
        machine: makes the stores, anew for each history: caches go by a store's name.

    Raises:
        AssertionError: an invariant does not hold, naming every history.
    """
    report = PowerReport()
    initial = operation.prepare()
    whole = _prepared(machine, initial)
    whole.run_until(operation.run, None)
    report.calls = whole.calls
    operation.check(whole.stores[0])
    for number in (*range(first, report.calls + 1, every), report.calls + 1):
        for survivor in survivors(seeds if number <= report.calls else max(seeds, after)):
            one = _prepared(machine, initial)
            call = one.run_until(operation.run, number)
            report.histories += 1
            report.acknowledged += call is None
            where = "after the last call" if call is None else f"before call {number} ({call.name} {call.path})"
            for store in one.stores:
                store.lose(survivor)
                pass_for_dead(store)
            try:
                if call is not None:
                    operation.run(one.stores[0])
                operation.check(one.stores[0])
            except (LakeIndexError, AssertionError) as error:
                what = f"{type(error).__name__}: {error}"
                report.failures.append(f"{operation.name}: power cut {where}, {survivor.name}; then {what}")
    assert not report.failures, "\n".join([str(report.kinds()), *report.failures[:10]])
    return report


def _prepared(machine: Callable[[], Machine], initial: dict[str, bytes]) -> Machine:
    made = machine()
    for store in made.stores:
        store.hook = None
        store.restore(initial if store is made.stores[0] else {})
    return made


def pass_for_dead(store: MemoryStorage) -> None:
    """Make the processes that locks and attempts name look gone, as they are after a power cut: this one lives on."""
    objects = store.snapshot()
    for path, data in objects.items():
        if "/.lakeindex/lock/" in path or "/attempts/" in path:
            try:
                record = json.loads(data)
            except ValueError:
                continue
            record["process"]["started"] = "before the power cut"
            if "/attempts/" in path:
                record["expires_ms"] = 0  # the stories' hosts see no process; their clocks stand still meanwhile
            objects[path] = json.dumps(record).encode()
    store.restore(objects)
