"""A deterministic scheduler: real code of several actors, interleaved at their storage calls.

Every actor runs in a thread of its own, and only the one that holds the baton runs. Before each storage call the scheduler
decides what happens next. By default the actor goes on; a *deviation* at a step does something else:

* ``switch``: another actor gets the baton (until it ends or sleeps);
* ``stall``: another actor gets it, and this one stands still until that one has ended, whatever time passes;
* ``crash``: this actor is killed before the call;
* ``lost``: the call is done, and its answer is lost.

A history is a set of deviations, so that it can be played again; see :mod:`tests.model.exploring` for the search.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from lakeindex.storage.memory import Fault, MemoryStorage
from lakeindex.storage.port import Listing, ObjectMeta, Pieces

_T = TypeVar("_T")
WRITES = frozenset({"create", "write", "delete"})
START_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z


class Killed(BaseException):
    """The actor's process is gone."""


@dataclass(frozen=True, order=True, slots=True)
class Deviation:
    """Something else than going on, at one step."""

    step: int
    kind: str
    target: str = ""


class ActorStorage:
    """An actor's way to the store: every call is a step of the scheduler, and what it answers is remembered."""

    def __init__(self, scheduler: Scheduler, actor: Actor) -> None:
        self._scheduler = scheduler
        self._actor = actor
        self._store = scheduler.store

    @property
    def uri(self) -> str:
        return self._store.uri

    def list(self, prefix: str = "") -> list[ObjectMeta]:
        return self._call("list", prefix, lambda: self._store.list(prefix))

    def list_folder(self, prefix: str = "") -> Listing:
        return self._call("list_folder", prefix, lambda: self._store.list_folder(prefix))

    def head(self, path: str) -> ObjectMeta:
        return self._call("head", path, lambda: self._store.head(path))

    def read(self, path: str) -> bytes:
        return self._call("read", path, lambda: self._store.read(path))

    def read_range(self, path: str, start: int, length: int) -> bytes:
        return self._call("read_range", path, lambda: self._store.read_range(path, start, length))

    def create(self, path: str, data: bytes) -> None:
        self._call("create", path, lambda: self._store.create(path, data))

    def write(self, path: str, data: bytes | Pieces) -> None:
        self._call("write", path, lambda: self._store.write(path, data))

    def replace(self, path: str, data: bytes, etag: str) -> str:
        return self._call("replace", path, lambda: self._store.replace(path, data, etag))

    def delete(self, path: str) -> None:
        self._call("delete", path, lambda: self._store.delete(path))

    def sync(self, paths: Iterable[str]) -> None:
        """Not a step: it changes nothing that anybody else can see."""

    def _call(self, name: str, path: str, do: Callable[[], _T]) -> _T:
        fault = self._scheduler.step(self._actor, name, path)
        self._store.hook = (lambda _: fault) if fault is not None else None
        try:
            answer = do()
        except Exception as error:
            self._actor.saw(name, path, type(error).__name__)
            raise
        finally:
            self._store.hook = None
        self._actor.saw(name, path, _digest(answer))
        self._scheduler.done(self._actor, name, path)
        return answer


def _digest(answer: object) -> str:
    if isinstance(answer, bytes):
        return str(zlib.crc32(answer))
    if isinstance(answer, Listing):
        return f"{answer.folders}{[(one.path, one.size_bytes) for one in answer.objects]}"
    if isinstance(answer, list):
        return str([(one.path, one.size_bytes) for one in answer])
    if isinstance(answer, ObjectMeta):
        return str(answer.size_bytes)
    return ""


@dataclass(eq=False)
class Actor:
    """One process of the story.

    Attributes:
        name: its name; also its process number's stand-in.
        script: what it does; it gets its storage.
        may_crash: whether the explorer may kill it.
    """

    name: str
    script: Callable[[ActorStorage], object]
    may_crash: bool = True
    state: str = "ready"
    wake_ms: int = 0
    frozen_by: str = ""
    result: object = None
    error: BaseException | None = None
    seen: int = 0
    baton: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def saw(self, name: str, path: str, what: str) -> None:
        """Fold an answer into what the actor knows."""
        self.seen = zlib.crc32(f"{name}|{path}|{what}".encode(), self.seen)

    @property
    def is_over(self) -> bool:
        return self.state in ("done", "failed", "killed")


Visit = Callable[["Scheduler", Actor, str, str], bool]
"""Called at each step before the decision; False prunes the rest of the history."""


class Scheduler:
    """Plays one history.

    Args:
        store: the shared store; a fresh copy of the initial state.
        actors: who takes part, in order of precedence.
        deviations: what is not as usual.
        visit: is asked at every step.
        watch: is called after every call.
    """

    def __init__(
        self,
        store: MemoryStorage,
        actors: list[Actor],
        deviations: Iterable[Deviation] = (),
        visit: Visit | None = None,
        watch: Callable[[Actor, str, str], None] | None = None,
    ) -> None:
        self.store = store
        self.actors = {actor.name: actor for actor in actors}
        self.steps = 0
        self.now_ms = START_MS
        self.pruned = False
        self.trace: list[tuple[str, str, str]] = []
        self.failure: BaseException | None = None
        self._deviations = {one.step: one for one in deviations}
        self._visit = visit
        self._watch = watch
        self._over = threading.Semaphore(0)

    def run(self) -> None:
        """Play to the end."""
        threads = [threading.Thread(target=self._live, args=(actor,), daemon=True) for actor in self.actors.values()]
        for thread in threads:
            thread.start()
        self._pass_on(None)
        self._over.acquire()
        for thread in threads:
            thread.join()
        if self.failure is not None:
            raise self.failure

    def step(self, actor: Actor, name: str, path: str) -> Fault | None:
        """Before a call: decide what happens. Runs in the actor's thread."""
        if actor.state == "killed" or self.pruned:
            raise Killed
        deviation = self._deviations.get(self.steps)
        if deviation is not None and deviation.kind in ("switch", "stall"):
            self.steps += 1
            actor.frozen_by = deviation.target if deviation.kind == "stall" else ""
            self._hand_over(actor, self.actors[deviation.target])
            return self.step(actor, name, path)
        if self._visit is not None and not self._visit(self, actor, name, path):
            self.pruned = True
            raise Killed
        self.steps += 1
        self.trace.append((actor.name, name, path))
        if deviation is not None and deviation.kind == "crash":
            actor.state = "killed"
            raise Killed
        return Fault.DONE_BUT_FAILED if deviation is not None and deviation.kind == "lost" else None

    def done(self, actor: Actor, name: str, path: str) -> None:
        """After a call."""
        if self._watch is not None:
            try:
                self._watch(actor, name, path)
            except AssertionError as error:
                self.failure = self.failure or error

    def sleep(self, actor: Actor, seconds: float) -> None:
        """The actor sleeps; the others go on."""
        if actor.state == "killed" or self.pruned:
            raise Killed
        actor.state = "sleeping"
        actor.wake_ms = self.now_ms + max(int(seconds * 1000), 1)
        self._pass_on(actor)
        actor.baton.acquire()
        if self.pruned:
            raise Killed
        actor.state = "ready"

    def _live(self, actor: Actor) -> None:
        actor.baton.acquire()
        try:
            if not self.pruned:
                actor.result = actor.script(ActorStorage(self, actor))
            actor.state = "done"
        except Killed:
            actor.state = "killed"
        except Exception as error:  # noqa: BLE001 - whatever an actor's code raises is part of the history
            actor.error = error
            actor.state = "failed"
        self._pass_on(actor)

    def _hand_over(self, actor: Actor, target: Actor) -> None:
        self._wake(target)
        actor.baton.acquire()

    def _pass_on(self, leaving: Actor | None) -> None:
        """Give the baton to the next: a ready one first, else the sleeper that wakes first, and time passes."""
        if leaving is not None and leaving.is_over:
            for one in self.actors.values():
                if one.frozen_by == leaving.name:
                    one.frozen_by = ""
        waiting = [one for one in self.actors.values() if not one.is_over and (not one.frozen_by or self.pruned)]
        if not waiting:
            waiting = [one for one in self.actors.values() if not one.is_over]
        if not waiting:
            self._over.release()
            return
        ready = [one for one in waiting if one.state == "ready"]
        chosen = ready[0] if ready else min(waiting, key=lambda one: one.wake_ms)
        chosen.frozen_by = ""
        self._wake(chosen)

    def _wake(self, target: Actor) -> None:
        if target.state == "sleeping":
            self.now_ms = max(self.now_ms, target.wake_ms)
        target.baton.release()


class ModelClock:
    """The history's time: it stands still but for sleeping."""

    def __init__(self, scheduler: Callable[[], Scheduler], actor: Callable[[], Actor]) -> None:
        self._scheduler = scheduler
        self._actor = actor

    def now_ms(self) -> int:
        return self._scheduler().now_ms

    def sleep(self, seconds: float) -> None:
        self._scheduler().sleep(self._actor(), seconds)
