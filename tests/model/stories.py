"""The stories that are explored: who takes part, and what must hold in the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lakeindex.errors import LakeIndexError
from lakeindex.storage.memory import MemoryStorage
from lakeindex.table.commit import begin_write
from lakeindex.table.handle import Table
from lakeindex.table.host import Process
from lakeindex.table.sweep import sweep_strays
from tests.model.exploring import Story
from tests.model.scheduling import START_MS, Actor, ActorStorage, Deviation, ModelClock, Scheduler
from tests.model.world import (
    CONFIG,
    Batch,
    PlainClock,
    Rows,
    check_commit_is_whole,
    check_table,
    initial_objects,
    make_host,
    upsert,
)

JANITOR = Batch("janitor", {"zz": "janitor"})


class PrintedStore(MemoryStorage):
    """A memory store that keeps a fingerprint of its content."""

    def __init__(self) -> None:
        self.fingerprint = 0
        super().__init__("model", now_ms=lambda: START_MS)

    def _put(self, path: str, data: bytes) -> None:
        self._drop(path)
        super()._put(path, data)
        self.fingerprint ^= _print(path, bytes(data))

    def _drop(self, path: str) -> None:
        found = self._objects.get(path)
        if found is not None:
            self.fingerprint ^= _print(path, found[0])
        super()._drop(path)


def _print(path: str, data: bytes) -> int:
    return hash((path, data))


@dataclass(frozen=True)
class Cast:
    """One writer of a story: a batch, under the name of an actor; two of one run id are two attempts of it."""

    name: str
    batch: Batch
    may_crash: bool = True


class WriterStory(Story):
    """Writers of ours, at one table.

    Args:
        groups: rows of the initial file groups.
        cast: the writers.
        gone_is_seen: whether a killed process is known to be gone (same host), or its lease must run out.
        begin: starts a write; a mutant, if the search has to find one.
    """

    def __init__(
        self,
        groups: Sequence[Rows],
        cast: Sequence[Cast],
        *,
        gone_is_seen: bool = True,
        begin: Callable[..., object] = begin_write,
        objects: Mapping[str, bytes] | None = None,
    ) -> None:
        self.groups = groups
        self.cast = cast
        self.gone_is_seen = gone_is_seen
        self.begin = begin
        self.store = PrintedStore()
        self.store.restore(dict(objects) if objects is not None else initial_objects(groups))
        self._actors = self.actors()
        self._scheduler: Scheduler | None = None

    def actors(self) -> list[Actor]:
        return [Actor(one.name, self._script(one), one.may_crash) for one in self.cast]

    def scheduler(self, deviations: tuple[Deviation, ...], visit: object) -> Scheduler:
        self._scheduler = Scheduler(self.store, self._actors, deviations, visit, self._watch)  # type: ignore[arg-type]
        return self._scheduler

    def fingerprint(self) -> object:
        return self.store.fingerprint

    def ending(self) -> object:
        actors = tuple((one.name, one.state, repr(one.result), repr(one.error)) for one in self._actors)
        return self.store.fingerprint, actors, self._require().now_ms

    def judge(self) -> str:
        words = []
        for actor in self._actors:
            error = actor.error
            assert error is None or isinstance(error, LakeIndexError), f"{actor.name} failed: {error!r}"
            words.append(actor.state if error is None else type(error).__name__)
        self.recover()
        self.check()
        return "+".join(words)

    def recover(self) -> None:
        """What an operator's scheduler does: start again whatever did not succeed. And one more run, to tidy up."""
        clock = PlainClock(self._scheduler.now_ms if self._scheduler else START_MS)
        done = {actor.name for actor in self._actors if actor.state == "done"}
        for one in self.cast:
            if one.name not in done and not any(o.batch == one.batch and o.name in done for o in self.cast):
                self._again(one.batch, f"again-{one.name}", clock)
        self._again(JANITOR, "janitor", clock)
        sweep_strays(Table.open(self.store), CONFIG, make_host("sweeper", clock, self._is_gone))

    def check(self) -> None:
        base = {key: value for group in self.groups for key, value in group.items()}
        told = {
            self._cast_of(actor).batch.identity.batch_id: str(actor.result)
            for actor in self._actors
            if actor.state == "done"
        }
        check_table(
            self.store, [*{c.batch.identity.batch_id: c.batch for c in self.cast}.values(), JANITOR], base, told
        )

    def _again(self, batch: Batch, name: str, clock: PlainClock) -> None:
        try:
            upsert(self.store, batch, make_host(name, clock, self._is_gone))
        except LakeIndexError as error:
            raise AssertionError(f"recovery needs a hand: {type(error).__name__}: {error}") from error

    def _script(self, one: Cast) -> Callable[[ActorStorage], object]:
        def run(storage: ActorStorage) -> object:
            clock = ModelClock(lambda: self._require(), lambda: self._actor(one.name))
            host = make_host(one.name, clock, self._is_gone)
            return upsert(storage, one.batch, host, begin=self.begin)  # type: ignore[arg-type]

        return run

    def _is_gone(self, process: Process) -> bool:
        actor = next((one for one in self._actors if one.name == process.started), None)
        return actor is not None and actor.state == "killed" and self.gone_is_seen

    def _watch(self, actor: Actor, name: str, path: str) -> None:
        if name == "create" and path.endswith(".commit"):
            check_commit_is_whole(self.store, path)

    def _require(self) -> Scheduler:
        assert self._scheduler is not None
        return self._scheduler

    def _actor(self, name: str) -> Actor:
        return next(one for one in self._actors if one.name == name)

    def _cast_of(self, actor: Actor) -> Cast:
        return next(one for one in self.cast if one.name == actor.name)


GROUPS: tuple[Rows, ...] = ({"a1": "0", "a2": "0"}, {"b1": "0", "b2": "0"})

OVERLAPPING = (
    Cast("one", Batch("run-1", {"a1": "one", "x": "one"})),
    Cast("two", Batch("run-2", {"a2": "two", "y": "two"})),
)
DISJOINT = (
    Cast("one", Batch("run-1", {"a1": "one"})),
    Cast("two", Batch("run-2", {"b1": "two"})),
)
SAME_NEW_KEY = (
    Cast("one", Batch("run-1", {"n": "one"})),
    Cast("two", Batch("run-2", {"n": "two"})),
)
ZOMBIE = (
    Cast("first", Batch("run-1", {"a1": "one", "x": "one"})),
    Cast("retry", Batch("run-1", {"a1": "one", "x": "one"})),
)
SAME_BATCH = (
    Cast("one", Batch("run-1", {"a1": "one", "x": "one"}, "the batch")),
    Cast("two", Batch("run-2", {"a1": "one", "x": "one"}, "the batch")),
)
