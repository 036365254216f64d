"""The stories that are explored: who takes part, and what must hold in the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from msgspec.structs import replace

from lakeindex.commit.services.archive import archive_table
from lakeindex.commit.services.clean import clean_table
from lakeindex.commit.services.restore import plan_restore, restore_table
from lakeindex.commit.services.rollback import rollback_instant
from lakeindex.commit.write_session import begin_write
from lakeindex.errors import LakeIndexError
from lakeindex.format.instants import parse_instant
from lakeindex.format.java_properties import format_properties, parse_properties
from lakeindex.options.clustering_options import ClusteringOptions, ClusteringUpdates
from lakeindex.storage.memory import MemoryStorage
from lakeindex.storage.port import Storage
from lakeindex.table.handle import Table
from lakeindex.table.host import Host, Process
from lakeindex.timeline.avro_instants import parse_rollback_plan
from tests.model.buckets import Rescale, bucket_groups, check_buckets, group_id
from tests.model.buckets import write as write_buckets
from tests.model.exploring import Story
from tests.model.hudi_writer import HudiError, hudi_upsert
from tests.model.parquet_world import Placed, named, new_name, parquet_objects, upserting
from tests.model.scheduling import START_MS, Actor, ActorStorage, Deviation, ModelClock, Scheduler
from tests.model.world import (
    CONFIG,
    PROPERTIES,
    Batch,
    Cluster,
    Overwrite,
    PlainClock,
    Rows,
    archived_instants,
    check_commit_is_whole,
    check_table,
    completed_at,
    initial_objects,
    live_rows,
    make_host,
    sweep_strays,
    upsert,
)

JANITOR = Batch("janitor", {"zz": "janitor"})


class PrintedStore(MemoryStorage):
    """A memory store that keeps a fingerprint of its content, and in which order writes were completed.

    Attributes:
        fingerprint: of all objects.
        completed: instants of the commits that stand, the one that appeared first in front.
    """

    def __init__(self) -> None:
        self.fingerprint = 0
        self.completed: tuple[str, ...] = ()
        super().__init__("model", now_ms=lambda: START_MS)

    def _put(self, path: str, data: bytes) -> None:
        before = self.completed
        self._drop(path)
        super()._put(path, data)
        self.fingerprint ^= _print(path, bytes(data))
        time = _completed_by(path)
        if time is not None:
            self.completed = before if time in before else (*before, time)

    def _drop(self, path: str) -> None:
        found = self._objects.get(path)
        if found is not None:
            self.fingerprint ^= _print(path, found[0])
            time = _completed_by(path)
            self.completed = tuple(one for one in self.completed if one != time)
        super()._drop(path)


def _completed_by(path: str) -> str | None:
    """The instant that a file of the timeline completes."""
    found = parse_instant(path.rpartition("/")[2])
    return None if found is None or completed_at([path], found.time) is None else found.time


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
        write: does one attempt of a batch.
        invariant: what must hold in the end beside the invariants of all tables.
    """

    def __init__(
        self,
        groups: Sequence[Rows],
        cast: Sequence[Cast],
        *,
        gone_is_seen: bool = True,
        begin: Callable[..., object] = begin_write,
        objects: Mapping[str, bytes] | None = None,
        write: Callable[..., str] = upsert,
        invariant: Callable[[MemoryStorage], None] = lambda _: None,
    ) -> None:
        self.write = write
        self.invariant = invariant
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
        return self.store.fingerprint, self.store.completed

    def ending(self) -> object:
        actors = tuple((one.name, one.state, repr(one.result), repr(one.error)) for one in self._actors)
        return self.store.fingerprint, self.store.completed, actors, self._require().now_ms

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
        if not self.gone_is_seen:
            clock.sleep(2 * CONFIG.lock_lease_seconds)  # with grace: until then nobody may take what the killed left
        self._again(JANITOR, "janitor", clock)
        sweep_strays(Table.open(self.store), CONFIG, make_host("sweeper", clock, self._is_gone))

    def check(self) -> None:
        base = {key: value for group in self.groups for key, value in group.items()}
        by_name = {actor.name: actor for actor in self._actors}
        told = {
            one.batch.identity.batch_id: str(by_name[one.name].result)
            for one in self.cast
            if by_name[one.name].state == "done"
        }
        batches = [*{one.batch.identity.batch_id: one.batch for one in self.cast}.values(), JANITOR]
        check_table(self.store, batches, base, told, self.foreign_rows(), order=self.store.completed)
        self.invariant(self.store)

    def foreign_rows(self) -> list[Rows]:
        """What writers that are none of ours have committed."""
        return []

    def _again(self, batch: Batch, name: str, clock: PlainClock) -> None:
        try:
            self.write(self.store, batch, make_host(name, clock, self._is_gone))
        except LakeIndexError as error:
            raise AssertionError(f"recovery needs a hand: {type(error).__name__}: {error}") from error

    def _script(self, one: Cast) -> Callable[[ActorStorage], object]:
        def run(storage: ActorStorage) -> object:
            clock = ModelClock(self._require, lambda: self._actor(one.name))
            host = make_host(one.name, clock, self._is_gone)
            return self.write(storage, one.batch, host, begin=self.begin)

        return run

    def _is_gone(self, process: Process) -> bool:
        actor = next((one for one in self._actors if one.name == process.started), None)
        return actor is not None and actor.state == "killed" and self.gone_is_seen

    def _watch(self, actor: Actor, name: str, path: str) -> None:
        if name == "create" and path.endswith((".commit", ".replacecommit")):
            check_commit_is_whole(self.store, path)

    def _require(self) -> Scheduler:
        assert self._scheduler is not None
        return self._scheduler

    def _actor(self, name: str) -> Actor:
        return next(one for one in self._actors if one.name == name)


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
    Cast("one", Placed("run-1", {"n": "one"}, partition="p")),
    Cast("two", Placed("run-2", {"k1": "two", "k2": "two", "n": "two"}, partition="q")),
)
SAME_ROW = (
    Cast("one", Batch("run-1", {"a1": "one"})),
    Cast("two", Batch("run-2", {"a1": "two"})),
)
ZOMBIE = (
    Cast("first", Batch("run-1", {"a1": "one", "x": "one"})),
    Cast("retry", Batch("run-1", {"a1": "one", "x": "one"})),
)
SAME_BATCH = (
    Cast("one", Batch("run-1", {"a1": "one", "x": "one"}, "the batch")),
    Cast("two", Batch("run-2", {"a1": "one", "x": "one"}, "the batch")),
)

CLUSTER = Cast("cluster", Cluster("run-c", {}))
CLUSTERED_AND_UPSERTED = (CLUSTER, Cast("upsert", Batch("run-1", {"a1": "one"})))
CLUSTERED_AND_INSERTED = (CLUSTER, Cast("insert", Batch("run-1", {"n": "one"})))
CLUSTERED_TWICE = (CLUSTER, Cast("again", CLUSTER.batch))
ALLOWING = replace(CONFIG, areas=(ClusteringOptions(updates=ClusteringUpdates.ALLOW),))

BUCKET_ROWS: Rows = {"a1": "0", "a2": "0", "b1": "0", "b2": "0"}
BUCKET_GROUPS = bucket_groups(BUCKET_ROWS)
RESCALE = Cast("rescale", Rescale("run-r", {}, count=3))
RESCALE_AND_UPSERT = (RESCALE, Cast("upsert", Batch("run-1", {"a1": "one"})))
RESCALE_AND_INSERT = (Cast("insert", Batch("run-1", {"n": "one", "m": "one"})), RESCALE)
INTO_A_NEW_BUCKET = (RESCALE, Cast("insert", Batch("run-1", {"k": "one"})))
TWO_RESCALES = (RESCALE, Cast("other", Rescale("run-s", {}, count=1)))
RESCALED_TWICE = (RESCALE, Cast("again", RESCALE.batch))
OVERWRITE = Cast("overwrite", Overwrite("run-o", {"a1": "over", "n": "over"}))
EMPTIED = Cast("emptied", Overwrite("run-e", {}))
OVERWRITTEN_AND_UPSERTED = (OVERWRITE, Cast("upsert", Batch("run-1", {"a2": "one"})))
UPSERTED_AND_OVERWRITTEN = (Cast("insert", Batch("run-1", {"n": "one", "m": "one"})), OVERWRITE)
TWO_OVERWRITES = (OVERWRITE, Cast("other", Overwrite("run-p", {"a2": "other"})))
RESCALED_AND_OVERWRITTEN = (RESCALE, OVERWRITE)
EMPTIED_AND_INSERTED = (EMPTIED, Cast("insert", Batch("run-1", {"k": "one"})))


def bucket_story(cast: Sequence[Cast], groups: Sequence[Rows] = BUCKET_GROUPS, **options: object) -> WriterStory:
    """Writers at a bucket table, of which at least one replaces its file groups."""
    objects = initial_objects(groups, group_id)
    return WriterStory(groups, cast, objects=objects, write=write_buckets, invariant=check_buckets, **options)  # type: ignore[arg-type]


HUDI_ROWS: Rows = {"a2": "hudi", "h": "hudi"}


def parquet_story(cast: Sequence[Cast], **options: object) -> WriterStory:
    """Writers at a table of real base files, whose new keys are looked for by the library's own code."""
    name = new_name()
    story = WriterStory(GROUPS, cast, objects=parquet_objects(GROUPS), write=upserting(f"memory://{name}"), **options)  # type: ignore[arg-type]
    named(story.store, name)
    return story


class HudiStory(WriterStory):
    """One writer of ours, and one Hudi writer at its defaults.

    One window is left, and told from a defect by how it comes about: Hudi read the timeline while our instant was pending,
    and began to roll it back only after our commit had been put *and* looked after.
    """

    def __init__(self, groups: Sequence[Rows], one: Cast, *, hudi_first: bool = False, **options: object) -> None:
        self.one = one
        self.hudi_first = hudi_first
        self.window = False
        super().__init__(groups, [one], **options)  # type: ignore[arg-type]

    def actors(self) -> list[Actor]:
        hudi = Actor("hudi", lambda storage: hudi_upsert(storage, HUDI_ROWS, START_MS))
        return [hudi, *super().actors()] if self.hudi_first else [*super().actors(), hudi]

    def judge(self) -> str:
        for actor in self._actors:
            known = (LakeIndexError, HudiError) if actor.name == "hudi" else LakeIndexError
            assert actor.error is None or isinstance(actor.error, known), f"{actor.name} failed: {actor.error!r}"
        word = "+".join(a.state if a.error is None else type(a.error).__name__ for a in self._actors)
        try:
            self.recover()
            self.check()
        except AssertionError:
            if not self.window:
                raise
            return "window"
        return word

    def fingerprint(self) -> object:
        return super().fingerprint(), self.window

    def ending(self) -> object:
        return super().ending(), self.window

    def recover(self) -> None:
        clock = PlainClock(self._require().now_ms + 3 * 3_600_000)
        ours, hudi = self._actor(self.one.name), self._actor("hudi")
        if ours.state != "done":
            self._again(self.one.batch, "again", clock)
        self._again(JANITOR, "janitor", clock)
        if hudi.state != "done":
            hudi.result = hudi_upsert(self.store, HUDI_ROWS, clock.now_ms())
        sweep_strays(Table.open(self.store), CONFIG, make_host("sweeper", clock, self._is_gone))

    def foreign_rows(self) -> list[Rows]:
        return [HUDI_ROWS]

    def _watch(self, actor: Actor, name: str, path: str) -> None:
        # No check of the moment here: while Hudi rolls us back, our commit may show until it is withdrawn.
        if actor.name == "hudi" and name == "create" and path.endswith(".rollback.requested"):
            plan = parse_rollback_plan(self.store.snapshot()[path], path)
            self.window |= completed_at(self.store.snapshot(), plan.instant_time) is not None


class ChangedTableStory(WriterStory):
    """A Hudi writer changes the table's properties (upgrades it, builds a metadata table) while we write.

    We must not decide on a commit in a publish that began after the change.
    """

    def __init__(self, key: str, value: str) -> None:
        self.key, self.value = key, value
        self.changed = False
        self.changed_before_lock = False
        super().__init__(GROUPS, [OVERLAPPING[0]])

    def actors(self) -> list[Actor]:
        return [*super().actors(), Actor("hudi", self._change, may_crash=False)]

    def recover(self) -> None:
        """Nothing: the table is refused from now on."""

    def check(self) -> None:
        self.store.write(".hoodie/hoodie.properties", format_properties(PROPERTIES))  # to read it again
        committed = [path for path in self.store.snapshot() if path.endswith(".commit")]
        if self._actors[0].state == "done":
            assert len(committed) == 2, "reported, and not committed"
        live = live_rows(self.store)
        assert not [key for key, values in live.items() if len(values) > 1], "doubled keys"

    def fingerprint(self) -> object:
        return super().fingerprint(), self.changed, self.changed_before_lock

    def ending(self) -> object:
        return super().ending(), self.changed_before_lock

    def _change(self, storage: ActorStorage) -> None:
        path = ".hoodie/hoodie.properties"
        entries = parse_properties(storage.read(path), path)
        storage.write(path, format_properties({**entries, self.key: self.value}))

    def _watch(self, actor: Actor, name: str, path: str) -> None:
        super()._watch(actor, name, path)
        if name == "write" and path == ".hoodie/hoodie.properties":
            self.changed = True
        elif name == "create" and "/lock/" in path:
            self.changed_before_lock = self.changed
        elif name == "create" and "/verdicts/" in path and self.changed_before_lock:
            raise AssertionError("a commit was decided on a table that must not be written to")


@cache
def with_history() -> dict[str, bytes]:
    """The two file groups after three more commits, of which each rewrote the first group."""
    store = MemoryStorage()
    store.restore(initial_objects(GROUPS))
    for batch in HISTORY:
        upsert(store, batch, make_host("before", PlainClock(START_MS), lambda _: False))
    return store.snapshot()


HISTORY = tuple(Batch(f"h{number}", {"a1": str(number)}) for number in range(3))
Service = Callable[[Storage, Host], object]


def cleaning(storage: Storage, host: Host) -> object:
    """A clean that keeps as little as can be."""
    return clean_table(Table.open(storage), 1, CONFIG, host=host)


def archiving(storage: Storage, host: Host) -> object:
    """Archiving that keeps as little as can be."""
    return archive_table(Table.open(storage), 1, CONFIG, host=host)


class ServiceStory(WriterStory):
    """Table services at a table with a history, beside each other or beside a writer."""

    def __init__(self, services: Mapping[str, Service], cast: Sequence[Cast] = (), **options: object) -> None:
        self.services = services
        super().__init__(GROUPS, cast, objects=with_history(), **options)  # type: ignore[arg-type] # options of its own

    def actors(self) -> list[Actor]:
        return [*super().actors(), *(Actor(name, self._serve(name)) for name in self.services)]

    def recover(self) -> None:
        super().recover()
        clock = PlainClock(self._require().now_ms + 3_600_000)
        for name, service in self.services.items():
            service(self.store, make_host(f"again-{name}", clock, self._is_gone))

    def check(self) -> None:
        """Nothing pending, no row lost or doubled; the newest batches count, whatever is archived."""
        assert not Table.open(self.store).load_timeline().pending
        rows = {key: value for group in self.groups for key, value in group.items()}
        for batch in (*HISTORY, *(one.batch for one in self.cast), JANITOR):
            rows |= batch.rows
        assert live_rows(self.store) == {key: [value] for key, value in rows.items()}
        entries = self.in_archive()
        assert len(entries) == len(set(entries)), f"archived twice: {entries}"

    def in_archive(self) -> list[object]:
        """Completed instants in the archive."""
        return archived_instants(self.store)

    def _serve(self, name: str) -> Callable[[ActorStorage], object]:
        def run(storage: ActorStorage) -> object:
            clock = ModelClock(self._require, lambda: self._actor(name))
            return self.services[name](storage, make_host(name, clock, self._is_gone))

        return run


def rolling_back(storage: Storage, host: Host) -> object:
    """A person takes the newest commit back, and then the one before it."""
    table = Table.open(storage)
    for _ in range(2):
        rollback_instant(table, table.load_timeline().completed_writes[-1].time, CONFIG, host=host)
    return None


class UndoneStory(ServiceStory):
    """Somebody takes commits back while the table is cleaned: nothing that comes back to life may be deleted."""

    def recover(self) -> None:
        clock = PlainClock(self._require().now_ms + 3_600_000)
        cleaning(self.store, make_host("again", clock, self._is_gone))

    def check(self) -> None:
        assert not Table.open(self.store).load_timeline().pending
        rows = live_rows(self.store)
        counts = {key: len(values) for key, values in rows.items()}
        assert counts == dict.fromkeys(("a1", "a2", "b1", "b2"), 1), f"lost or doubled: {counts}"
        newest = Table.open(self.store).load_timeline().completed_writes[-1]
        live = {file.instant_time for file in Table.open(self.store).snapshot().base_files_all()}
        assert newest.time in live, f"the file of {newest.time} was cleaned away"


def rolling_one_back(storage: Storage, host: Host) -> object:
    """A person takes the newest commit back."""
    table = Table.open(storage)
    return rollback_instant(table, table.load_timeline().completed_writes[-1].time, CONFIG, host=host)


def restoring(storage: Storage, host: Host) -> object:
    """A person takes the table back to its second commit."""
    table = Table.open(storage)
    to = table.load_timeline().completed_writes[1].time
    return restore_table(table, to, CONFIG, expected=plan_restore(table, to), host=host)


class TakenBackStory(ServiceStory):
    """Somebody takes the newest commit back beside a writer: either nothing was built on it, or it stays.

    Rows are what the commits on the timeline say in their order, the last one winning: a row of a commit that was taken back,
    kept in a file that was built on it, is wrong, and so is a missing one of a commit that stands.
    """

    def actors(self) -> list[Actor]:
        writers = len(self.cast)
        found = super().actors()
        return [*found[writers:], *found[:writers]]  # who takes back comes first: one stall lets a writer overtake

    def recover(self) -> None:
        WriterStory.recover(self)

    def check(self) -> None:
        table = Table.open(self.store)
        timeline = table.load_timeline()
        assert not timeline.pending
        batches = {one.identity.batch_id: one for one in (*HISTORY, JANITOR, *(one.batch for one in self.cast))}
        rows = {key: value for group in self.groups for key, value in group.items()}
        for instant in timeline.completed_writes[1:]:
            metadata = timeline.commit_metadata(self.store, instant)
            rows |= batches[str(metadata.extra_metadata["lakeindex.batch_id"])].rows
        assert live_rows(self.store) == {key: [value] for key, value in rows.items()}
        claims = [path for path in self.store.snapshot() if "/.lakeindex/instants/" in path]
        assert not claims, f"claims left: {claims}"
