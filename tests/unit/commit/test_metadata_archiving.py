"""The metadata table's own timeline is archived: it stays short for years, and nothing that anybody needs of it goes."""

from __future__ import annotations

from functools import cache

import pytest

from lakeindex.commit.services.archive import archive_table
from lakeindex.commit.services.clean import clean_table
from lakeindex.commit.services.metadata_service import (
    KEPT_WRITES,
    archive_metadata_table,
    build_metadata_table,
    compact_metadata_table,
    plan_metadata_archiving,
)
from lakeindex.commit.services.rollback import rollback_instant
from lakeindex.errors import MetadataTableError
from lakeindex.format import instants as names
from lakeindex.format.instants import comparable
from lakeindex.lock.write_context import WriteContext
from lakeindex.metadata import compaction
from lakeindex.metadata.metadata_table import FILES, METADATA_ROOT
from lakeindex.metadata.metadata_view import MetadataView
from lakeindex.metadata.slices import instants_of_files
from lakeindex.metadata_upkeep.keeping import metadata_view, sweep_deltas
from lakeindex.model import Instant, InstantState
from lakeindex.table.handle import Table
from lakeindex.timeline.timeline import Timeline
from tests.model.world import CONFIG, PlainClock, check_metadata, live_rows
from tests.unit.commit.protocol_support import OTHER, Batch, World


@pytest.fixture
def kept(world: World) -> World:
    """The world's table with a metadata table."""
    build_metadata_table(Table.open(world.store), CONFIG, (FILES,), host=world.host("builder"))
    return world


def view_of(world: World) -> MetadataView:
    view = metadata_view(WriteContext(Table.open(world.store), world.host("looker"), CONFIG))
    assert view is not None
    return view


def commits(world: World, numbers: range) -> list[str]:
    return [world.upsert(Batch(f"run-{number}", {"a1": str(number)}), f"w{number}") for number in numbers]


def archive(world: World) -> tuple[Instant, ...]:
    return archive_metadata_table(Table.open(world.store), CONFIG, host=world.host("keeper"))


def maintain(world: World, keep: int = 3) -> tuple[Instant, ...]:
    """The steps that concern the timelines, in their order."""
    table, host = Table.open(world.store), world.host("keeper")
    clean_table(table, 2, CONFIG, host=host)
    compact_metadata_table(table, CONFIG, host=host)
    gone = archive(world)
    archive_table(table, keep, CONFIG, host=host)
    return gone


@cache
def grown_objects() -> tuple[dict[str, bytes], int]:
    world = World()
    build_metadata_table(Table.open(world.store), CONFIG, (FILES,), host=world.host("builder"))
    for begin in range(0, 48, 16):
        commits(world, range(begin, begin + 16))
        table, host = Table.open(world.store), world.host("keeper")
        compact_metadata_table(table, CONFIG, host=host)
        archive_table(table, 3, CONFIG, host=host)
    return world.store.snapshot(), world.clock.now_ms()


@pytest.fixture
def grown() -> World:
    """A table whose own timeline is short, whereas that of its metadata table was never archived."""
    objects, now_ms = grown_objects()
    world = World(clock=PlainClock(now_ms))
    world.store.restore(objects)
    return world


def moved(view: MetadataView, **changed: Timeline) -> MetadataView:
    """The same metadata table with another timeline beside it."""
    return MetadataView(view.table, changed.get("timeline", view.timeline), changed.get("data", view.data))


def with_instants(timeline: Timeline, *more: Instant) -> Timeline:
    return Timeline.of(timeline.layout, [*timeline.files, *more], timeline.storage)


def test_a_table_that_only_we_write_keeps_few_files_and_all_its_rows(kept: World) -> None:
    counts, sizes = [], []
    for begin in range(0, 120, 15):
        commits(kept, range(begin, begin + 15))
        gone = maintain(kept)
        counts.append(len(gone))
        folder = view_of(kept).table.layout.folder
        sizes.append(len([path for path in kept.store.snapshot() if path.startswith(f"{METADATA_ROOT}/")]))
        assert len(kept.store.list_folder(folder).objects) < 3 * 60
    assert sum(map(bool, counts)) >= 4
    assert max(sizes[4:]) <= max(sizes[:4]) + 20
    check_metadata(kept.store)
    assert live_rows(kept.store)["a1"] == ["119"]
    newest = commits(kept, range(200, 201))[0]
    compact_metadata_table(Table.open(kept.store), CONFIG, host=kept.host("keeper"))
    rollback_instant(Table.open(kept.store), newest, CONFIG, host=kept.host("operator"))
    check_metadata(kept.store)
    assert live_rows(kept.store)["a1"] == ["119"]
    kept.upsert(OTHER, "later")
    check_metadata(kept.store)


def test_what_went_is_in_the_archive_and_no_file_bears_its_name(grown: World) -> None:
    view = view_of(grown)
    planned = plan_metadata_archiving(view)
    assert archive(grown) == planned
    after = view_of(grown)
    times = {one.time for one in planned}
    assert len(planned) >= 10
    assert {one.time for one in planned if one.action in names.WRITE_ACTIONS} <= after.timeline.archived.writes
    assert not after.timeline.archived.damaged
    assert not times & {one.time for one in after.timeline.files}
    assert not times & instants_of_files(after.table)
    assert compaction.last_compaction(after.timeline) == compaction.last_compaction(view.timeline)
    assert compaction.delta_commits_since(after.timeline) == compaction.delta_commits_since(view.timeline)
    assert after.untold_writes() == ()
    assert len(after.timeline.completed_writes) >= KEPT_WRITES
    assert archive(grown) == ()
    check_metadata(grown.store)


def test_the_slices_before_the_newest_keep_their_instants(grown: World) -> None:
    """Else readers who hold them would believe none of their logs."""
    view = view_of(grown)
    compactions = [one.time for one in view.timeline.completed_writes if one.action == names.COMMIT]
    # The last three compactions are long past: none but they hold anything up.
    old = [one for one in view.timeline.files if one.time not in compactions[3:]]
    going = plan_metadata_archiving(moved(view, timeline=Timeline.of(view.timeline.layout, old, grown.store)))
    assert going
    assert all((one.completion_time or one.time) < compactions[1] for one in going)
    one_left = [one for one in view.timeline.files if one.time not in compactions[1:]]
    single = moved(view, timeline=Timeline.of(view.timeline.layout, one_left, grown.store))
    assert plan_metadata_archiving(single) == ()


def test_what_is_on_the_tables_own_timeline_stays(kept: World) -> None:
    """Its rollback has to find its delta commit, to tell whether it is in base files."""
    times = commits(kept, range(60))
    compact_metadata_table(Table.open(kept.store), CONFIG, host=kept.host("keeper"))
    assert archive(kept) == ()
    archive_table(Table.open(kept.store), 30, CONFIG, host=kept.host("archiver"))
    gone = {one.time for one in archive(kept)}
    assert gone
    assert not gone & {one.time for one in view_of(kept).data.completed_writes}
    first = view_of(kept).data.completed_writes[0].time
    assert all(comparable(one) < comparable(first) for one in gone)
    for time in reversed(times[-2:]):
        rollback_instant(Table.open(kept.store), time, CONFIG, host=kept.host("operator"))
        check_metadata(kept.store)


@pytest.mark.parametrize("where", ["data", "timeline"])
def test_nothing_from_a_pending_instant_on_goes(grown: World, where: str) -> None:
    view = view_of(grown)
    going = plan_metadata_archiving(view)
    middle = going[12]
    action = {"data": names.CLEAN, "timeline": names.INDEXING}[where]
    pending = Instant(f"{middle.time[:17]}", action, InstantState.INFLIGHT)
    found = plan_metadata_archiving(moved(view, **{where: with_instants(getattr(view, where), pending)}))
    assert found
    assert all(comparable(one.time) < comparable(middle.time) for one in found)


def test_old_cleans_and_rollbacks_of_the_table_hold_nothing_up(grown: World) -> None:
    view = view_of(grown)
    going = plan_metadata_archiving(view)
    end = f"{int(going[0].time[:17]) + 1}" if view.table.layout.has_completion_times else None
    old = [Instant("20251231000000001", one, InstantState.COMPLETED, end) for one in (names.CLEAN, names.ROLLBACK)]
    assert plan_metadata_archiving(moved(view, data=with_instants(view.data, *old))) == going


def test_a_write_that_it_was_not_told_of_is_seen_after_archiving_too(grown: World) -> None:
    """Whoever believed a metadata table that lacks a commit would lose its rows."""
    view = view_of(grown)
    time = plan_metadata_archiving(view)[20].time[: names.TIME_DIGITS]
    untold = Timeline.of(view.table.layout, [one for one in view.timeline.files if one.time != time], grown.store)
    late = Instant(time, names.COMMIT, InstantState.INFLIGHT)
    pending = moved(view, timeline=untold, data=with_instants(view.data, late))
    gone = {one.time for one in plan_metadata_archiving(pending)}
    assert len(gone) >= 10
    left = Timeline.of(view.table.layout, [one for one in untold.files if one.time not in gone], grown.store)
    end = f"{int(view.data.max_time or '') + 1}" if view.table.layout.has_completion_times else None
    done = with_instants(view.data, Instant(time, names.COMMIT, InstantState.COMPLETED, end))
    assert moved(view, timeline=untold, data=done).untold_writes() == (time,)
    assert moved(view, timeline=left, data=done).untold_writes() == (time,)


def test_a_metadata_table_that_lacks_a_commit_is_not_archived(grown: World) -> None:
    view = view_of(grown)
    newest = view.data.completed_writes[-1]
    for one in view.timeline.files:
        if one.time == newest.time:
            grown.store.delete(view.timeline.path(one))
    before = grown.store.snapshot()
    with pytest.raises(MetadataTableError, match=newest.time):
        archive(grown)
    assert {path for path in grown.store.snapshot() if METADATA_ROOT in path} == {
        path for path in before if METADATA_ROOT in path
    }


def test_a_rolled_back_instant_that_is_older_than_all_is_not_believed(kept: World) -> None:
    """A zombie puts its delta commit anew after what is younger was archived: it is taken back, and counts for nothing."""
    time = commits(kept, range(1))[0]
    before = kept.store.snapshot()
    rollback_instant(Table.open(kept.store), time, CONFIG, host=kept.host("operator"))
    after = kept.store.snapshot()
    zombie = {path: data for path, data in before.items() if f"{METADATA_ROOT}/" in path and path not in after}
    assert zombie
    for begin in range(100, 164, 16):
        commits(kept, range(begin, begin + 16))
        maintain(kept)
    assert not view_of(kept).is_believed(time)
    for path, data in zombie.items():
        kept.store.write(path, data)
    assert not view_of(kept).is_believed(time)
    check = view_of(kept)
    assert not [name for listed in check.listing().files.values() for name in listed if time in name]
    context = WriteContext(Table.open(kept.store), kept.host("sweeper"), CONFIG)
    assert sweep_deltas(context, context.table.properties) == (time,)
    check_metadata(kept.store)


def test_what_a_zombie_began_anew_of_an_archived_delta_commit_goes(kept: World) -> None:
    """The archive names it as completed. It would be older than every compaction, and hold each of them up."""
    commits(kept, range(1))
    time, before = view_of(kept).data.completed_writes[-1].time, kept.store.snapshot()
    for begin in range(100, 180, 16):
        commits(kept, range(begin, begin + 16))
        maintain(kept)
    assert time in view_of(kept).timeline.archived.writes
    layout = view_of(kept).table.layout
    states = (InstantState.REQUESTED, InstantState.INFLIGHT)
    zombie = [layout.path(Instant(time, names.DELTA_COMMIT, state)) for state in states]
    for path in zombie:
        kept.store.write(path, before[path])
    living = [layout.path(Instant("20270101000000000", names.DELTA_COMMIT, state)) for state in states]
    for path in living:
        kept.store.write(path, b"")
    context = WriteContext(Table.open(kept.store), kept.host("sweeper"), CONFIG)
    assert sweep_deltas(context, context.table.properties) == (time,)
    assert not kept.store.snapshot().keys() & set(zombie)
    assert kept.store.snapshot().keys() >= set(living), "nothing says that it was completed"
    for path in living:
        kept.store.delete(path)
    for path in zombie:
        kept.store.write(path, before[path])
    commits(kept, range(200, 216))
    maintain(kept)
    assert not kept.store.snapshot().keys() & set(zombie)
    check_metadata(kept.store)


def test_what_no_archive_names_stays(kept: World) -> None:
    """That a pending delta commit is older than all others proves nothing."""
    path = view_of(kept).table.layout.path(Instant("20200101000000000", names.DELTA_COMMIT, InstantState.INFLIGHT))
    kept.store.write(path, b"")
    context = WriteContext(Table.open(kept.store), kept.host("sweeper"), CONFIG)
    assert sweep_deltas(context, context.table.properties) == ()
    assert path in kept.store.snapshot()
