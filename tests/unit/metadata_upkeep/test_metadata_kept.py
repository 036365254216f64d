"""The metadata table beside the commit protocol: what follows a commit, a rollback, a zombie."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from lakeindex.commit.recovery import maintaining
from lakeindex.commit.services.archive import archive_table, plan_archiving
from lakeindex.commit.services.clean import clean_table, plan_clean
from lakeindex.commit.services.metadata_service import build_metadata_table, compact_metadata_table
from lakeindex.commit.services.restore import restore_table
from lakeindex.commit.services.rollback import rollback_instant
from lakeindex.errors import MetadataTableError
from lakeindex.format import instants as names
from lakeindex.format.commit_metadata import CommitMetadata
from lakeindex.lock.write_context import WriteContext
from lakeindex.metadata import compaction, delta_commit
from lakeindex.metadata.metadata_changes import change_of_files
from lakeindex.metadata.metadata_table import FILES
from lakeindex.metadata.metadata_view import MetadataView
from lakeindex.metadata_upkeep.keeping import compact_if_due, compact_metadata, metadata_view, sweep_deltas
from lakeindex.model import Instant, InstantState
from lakeindex.storage.memory import Call, Fault
from lakeindex.table.handle import Table
from lakeindex.timeline.avro_instants import (
    OWN_SYNC_MARKER,
    RestorePlan,
    format_clean_plan,
    format_restore_plan,
    parse_clean_plan,
)
from lakeindex.timeline.verdicts import Outcome, Verdict, overrule
from tests.model.world import CONFIG, LAYOUT, check_metadata, file_id, live_rows, timeline_path
from tests.unit.commit.protocol_support import BATCH, OTHER, Batch, KilledError, World
from tests.unit.commit.savepoints import savepoint_bytes


@pytest.fixture
def kept(world: World) -> World:
    """The world's table with a metadata table."""
    build_metadata_table(Table.open(world.store), CONFIG, (FILES,), host=world.host("builder"))
    return world


def context_of(world: World) -> WriteContext:
    return WriteContext(Table.open(world.store), world.host("looker"), CONFIG)


def view_of(world: World) -> MetadataView:
    view = metadata_view(context_of(world))
    assert view is not None
    return view


def test_a_commit_is_listed_when_it_is_there_and_not_before(kept: World) -> None:
    """At the moment when the commit is put its delta commit is complete, and does not count."""
    seen: list[tuple[bool, bool]] = []

    def hook(call: Call) -> Fault | None:
        if call.name == "create" and call.path.endswith(".commit") and "metadata" not in call.path:
            kept.store.hook = None
            time = call.path.rpartition("/")[2][:17]
            view = view_of(kept)
            files = {name for listed in view.listing().files.values() for name in listed}
            seen.append((view.timeline.completed_write(time) is not None, any(time in name for name in files)))
        return None

    kept.store.hook = hook
    kept.upsert(BATCH)
    assert seen == [(True, False)]
    check_metadata(kept.store)


def test_who_finishes_the_commit_of_a_dead_writer_writes_its_delta_commit(kept: World) -> None:
    """It was decided, and the writer was killed before he could say it to the metadata table."""
    killed: list[str] = []

    def hook(call: Call) -> Fault | None:
        if call.path.endswith(".deltacommit.requested") and call.name == "create" and not killed:
            killed.append(call.path.rpartition("/")[2].partition(".")[0])
            raise KilledError
        return None

    kept.store.hook = hook
    with pytest.raises(KilledError):
        kept.upsert(BATCH)
    kept.store.hook = None
    kept.gone.add("writer")
    assert view_of(kept).timeline.find(killed[0]) == ()
    kept.upsert(OTHER, "next")
    assert view_of(kept).timeline.completed_write(killed[0]) is not None
    assert view_of(kept).data.completed_write(killed[0]) is not None
    check_metadata(kept.store)


def test_completion_times_are_in_order(kept: World) -> None:
    """Each delta commit is completed before its commit, and a compaction is later than all that it takes in."""
    for number in range(12):
        kept.upsert(Batch(f"run-{number}", {"a1": str(number)}), f"w{number}")
    view = view_of(kept)
    assert compaction.last_compaction(view.timeline) is not None
    if view.table.layout.has_completion_times:
        ends = {one.time: one.completion_time or "" for one in view.data.completed_writes}
        deltas = [one for one in view.timeline.completed_writes if one.time in ends]
        assert len(deltas) == 12
        assert all((one.completion_time or "") < ends[one.time] for one in deltas)
    check_metadata(kept.store)


def test_ten_delta_commits_are_compacted_and_pending_writes_hold_it_up(kept: World) -> None:
    for number in range(8):  # the first one is that of the building
        kept.upsert(Batch(f"run-{number}", {"a1": str(number)}), f"w{number}")
    assert compaction.last_compaction(view_of(kept).timeline) is None
    kept.put_pending("20270101000000000")
    kept.store.write(f"{view_of(kept).data.layout.folder}/20270101000000000.inflight", b"{}")
    context = context_of(kept)
    assert compact_if_due(context) is None
    for path in kept.store.snapshot():
        if "20270101000000000" in path:
            kept.store.delete(path)
    kept.upsert(Batch("late", {"b1": "late"}))
    assert compaction.last_compaction(view_of(kept).timeline) is not None
    check_metadata(kept.store)


def test_a_compaction_is_due_at_so_many_delta_commits_and_not_before(kept: World) -> None:
    kept.upsert(BATCH)
    kept.upsert(OTHER)
    there = compaction.delta_commits_since(view_of(kept).timeline)
    for most, is_due in ((there + 1, False), (there, True)):
        config = replace(CONFIG, index_max_deltas=most)
        context = WriteContext(Table.open(kept.store), kept.host("compactor"), config)
        assert (compact_if_due(context) is not None) is is_due
    check_metadata(kept.store)


def test_a_delta_commit_that_a_zombie_put_is_taken_back(kept: World) -> None:
    time = kept.upsert(BATCH)
    before = kept.store.snapshot()
    rollback_instant(Table.open(kept.store), time, CONFIG, host=kept.host("operator"))
    after = kept.store.snapshot()
    zombie = {path: data for path, data in before.items() if "/metadata/" in path and path not in after}
    assert zombie
    for path, data in zombie.items():
        kept.store.write(path, data)
    context = context_of(kept)
    assert sweep_deltas(context, context.table.properties) == (time,)
    assert {path for path in kept.store.snapshot() if "/metadata/" in path} == {
        path for path in after if "/metadata/" in path
    }
    kept.upsert(OTHER)
    check_metadata(kept.store)


def test_another_writers_delta_commit_is_left_alone(kept: World) -> None:
    layout = view_of(kept).table.layout
    path = layout.path(Instant("20260201000000000", names.DELTA_COMMIT, InstantState.INFLIGHT))
    kept.store.write(path, b"")
    context = context_of(kept)
    assert sweep_deltas(context, context.table.properties) == ()
    assert path in kept.store.snapshot()


@pytest.mark.parametrize("action", [names.LOG_COMPACTION, names.INDEXING, names.RESTORE])
def test_what_only_hudi_finishes_is_refused_before_anything_is_decided(kept: World, action: str) -> None:
    layout = view_of(kept).table.layout
    kept.store.write(layout.path(Instant("20260201000000000", action, InstantState.INFLIGHT)), b"")
    with pytest.raises(MetadataTableError, match=f"{action} 20260201000000000"):
        kept.upsert(BATCH)
    assert not [path for path in kept.store.snapshot() if "/verdicts/" in path]


def test_a_clean_says_what_is_gone(kept: World) -> None:
    for number in range(4):
        kept.upsert(Batch(f"run-{number}", {"a1": str(number)}), f"w{number}")
    before = sum(len(names) for names in view_of(kept).listing().files.values())
    done = clean_table(Table.open(kept.store), 1, CONFIG, host=kept.host("cleaner"))
    assert done.plan.files
    assert sum(len(names) for names in view_of(kept).listing().files.values()) == before - len(done.plan.files)
    check_metadata(kept.store)


def test_a_clean_takes_nothing_away_for_a_file_that_is_only_named(kept: World) -> None:
    """A newer slice that is lost is still in the metadata table; the one before it is all that there is."""
    for number in range(4):
        kept.upsert(Batch(f"run-{number}", {"a1": str(number)}), f"w{number}")
    table = Table.open(kept.store)
    listed = table.listed_snapshot().files_of("p")
    newest = next(file for file in listed.live if any(old.file_id == file.file_id for old in listed.older))
    kept.store.delete(newest.path)
    before = max(file for file in listed.older if file.file_id == newest.file_id)
    done = clean_table(table, 1, CONFIG, host=kept.host("cleaner"))
    assert done.plan.files
    assert before.path not in {file.path for file in done.plan.files}
    assert before.path in kept.store.snapshot()


def test_a_clean_lists_no_partition_where_nothing_is_old(kept: World) -> None:
    for number in range(2):
        kept.upsert(Batch(f"run-{number}", {"new": str(number)}), f"w{number}")
    listed: list[str] = []

    def hook(call: Call) -> Fault | None:
        if call.name in ("list", "list_folder"):
            listed.append(call.path)
        return None

    kept.store.hook = hook
    plan = plan_clean(Table.open(kept.store), 2)
    kept.store.hook = None
    assert plan.earliest is not None
    assert not plan.files
    assert "p" not in listed
    assert "" not in listed


def killed_clean(kept: World, name: str, path: str) -> str:
    """Four commits, and a cleaner that is killed before a call on such a path; the clean's instant."""
    for number in range(4):
        kept.upsert(Batch(f"run-{number}", {"a1": str(number)}), f"w{number}")

    def hook(call: Call) -> Fault | None:
        if call.name == name and call.path.endswith(path) and "metadata" not in call.path:
            raise KilledError
        return None

    kept.store.hook = hook
    with pytest.raises(KilledError):
        clean_table(Table.open(kept.store), 1, CONFIG, host=kept.host("killed"))
    kept.store.hook = None
    kept.gone.add("killed")
    (left,) = Table.open(kept.store).load_timeline().pending
    return left.time


@pytest.mark.parametrize("how", ["savepointed", "live"])
def test_a_left_clean_tells_of_no_file_that_it_left(kept: World, how: str) -> None:
    """Of what its plan names, one file is needed again by now: it is there, and so it stays listed."""
    time = killed_clean(kept, "delete", ".parquet")
    table = Table.open(kept.store)
    requested = table.load_timeline().path(Instant(time, names.CLEAN, InstantState.REQUESTED))
    plan = parse_clean_plan(kept.store.read(requested), requested)
    (live,) = (one for one in table.snapshot().base_files("p") if one.file_id == file_id(0))
    spared = plan.files["p"][0].rpartition("/")[2]
    if how == "savepointed":
        saved = Instant(view_of(kept).data.completed_writes[0].time, names.SAVEPOINT, InstantState.COMPLETED)
        kept.store.write(table.load_timeline().path(saved), savepoint_bytes({"p": (spared,)}))
    else:  # another writer has taken commits back
        spared = live.name
        files = {"p": (*plan.files["p"], f"{kept.store.uri}/{live.path}")}
        kept.store.write(requested, format_clean_plan(replace(plan, files=files)))
    assert clean_table(Table.open(kept.store), 100, CONFIG, host=kept.host("next")).finished == (time,)
    listed = view_of(kept).listing().files["p"]
    assert f"p/{spared}" in kept.store.snapshot()
    assert spared in listed
    assert len(listed) < 5
    check_metadata(kept.store)


def test_the_metadata_table_is_compacted_beside_nothing_that_is_pending(kept: World) -> None:
    """Its delta commit does not count yet, and no compaction after it would take it in."""
    kept.upsert(BATCH)
    view = view_of(kept)
    layout, before = view.data.layout, kept.store.snapshot()
    time, requested = "20270101000000000", InstantState.REQUESTED
    pending = (names.COMMIT, names.REPLACE_COMMIT, names.ROLLBACK, names.CLEAN, names.RESTORE)
    for action in pending:
        for states in ((requested,), (requested, InstantState.INFLIGHT)):
            kept.store.restore(before)
            for state in states:
                is_plan = (action, state) == (names.RESTORE, requested)
                content = format_restore_plan(RestorePlan("20260101000000000")) if is_plan else b""
                kept.store.write(layout.path(Instant(time, action, state)), content)
            if action in pending[-2:]:  # holds nothing up before its delta commit is there
                delta_commit.write(view, delta_commit.prepare(view, time, change_of_files({"p": {}})), time)
            assert compact_metadata(context_of(kept)) is None, (action, states)
            assert compaction.last_compaction(view_of(kept).timeline) is None
    kept.store.restore(before)
    assert compact_metadata(context_of(kept)) is not None


def test_a_compaction_beside_a_left_clean_loses_nothing_of_it(kept: World) -> None:
    """It had told the metadata table what is gone, and was killed before it was done."""
    time = killed_clean(kept, "create", ".clean")
    compact_metadata_table(Table.open(kept.store), CONFIG, host=kept.host("keeper"))
    kept.upsert(OTHER, "later")
    assert clean_table(Table.open(kept.store), 100, CONFIG, host=kept.host("next")).finished == (time,)
    check_metadata(kept.store)


def test_of_a_restore_that_is_over_the_metadata_table_says_nothing(kept: World) -> None:
    """It had told that all its writes are gone, and was killed: one of them stays, as another writer has built on it."""
    first, second = kept.upsert(BATCH), kept.upsert(OTHER, "two")
    compact_metadata_table(Table.open(kept.store), CONFIG, host=kept.host("keeper"))
    gone = view_of(kept).data.completed_write(second)
    assert gone is not None

    def hook(call: Call) -> Fault | None:
        if (call.name, call.path) == ("delete", LAYOUT.path(gone)):
            raise KilledError
        return None

    kept.store.hook = hook
    with pytest.raises(KilledError):
        restore_table(Table.open(kept.store), first, CONFIG, host=kept.host("killed"))
    kept.store.hook = None
    kept.gone.add("killed")
    data = LAYOUT.encode_commit(CommitMetadata({}, "UPSERT", {}))
    kept.store.write(timeline_path("20350101000000000", InstantState.COMPLETED), data)
    with maintaining(Table.open(kept.store), "looking", CONFIG, host=kept.host("next")) as (context, _):
        assert any("the metadata table was taken away" in note for note in context.notes), context.notes
    assert not Table.open(kept.store).properties.metadata_partitions
    assert live_rows(kept.store)["b1"] == ["two"]


def test_a_restore_of_another_writer_that_began_before_the_metadata_table_was_told_takes_it_away(kept: World) -> None:
    """A compaction has taken in what it takes away, and files by which it could be told may be gone."""
    first, second = kept.upsert(BATCH), kept.upsert(OTHER, "two")
    compact_metadata_table(Table.open(kept.store), CONFIG, host=kept.host("keeper"))
    data = format_restore_plan(RestorePlan(first, ((second, "commit"),))).replace(OWN_SYNC_MARKER, b"another-writer-1")
    for state, content in ((InstantState.REQUESTED, data), (InstantState.INFLIGHT, b"")):
        kept.store.write(LAYOUT.path(Instant("20350101000000000", names.RESTORE, state)), content)
    table = Table.open(kept.store)
    with maintaining(table, "looking", CONFIG, force=True, host=kept.host("next")) as (context, _):
        assert any("the metadata table was taken away" in note for note in context.notes), context.notes
    assert not Table.open(kept.store).properties.metadata_partitions
    assert live_rows(kept.store)["b1"] == ["0"]


def test_archiving_waits_for_a_compaction(kept: World) -> None:
    for number in range(4):
        kept.upsert(Batch(f"run-{number}", {"a1": str(number)}), f"w{number}")
    table = Table.open(kept.store)
    plan = plan_archiving(table, 1)
    assert plan.instants == ()
    assert "the metadata table, which is not compacted so far" in (plan.held_by or "")
    assert compact_metadata_table(table, CONFIG, host=kept.host("keeper")) is not None
    assert compact_metadata_table(table, CONFIG, host=kept.host("keeper")) is None
    done = archive_table(table, 1, CONFIG, host=kept.host("archiver"))
    assert len(done.plan.instants) >= 3
    check_metadata(kept.store)
    kept.upsert(OTHER, "later")
    check_metadata(kept.store)


def test_a_commit_that_hudi_rolled_back_while_it_was_put_leaves_no_delta_commit(kept: World) -> None:
    """The verdict is overruled, and the look back finds the instant gone."""

    def hook(call: Call) -> Fault | None:
        if call.name == "create" and call.path.endswith(".commit") and "metadata" not in call.path:
            kept.store.hook = None
            time = call.path.rpartition("/")[2][:17]
            for path in kept.store.snapshot():
                if path.rpartition("/")[2].startswith(time) and path.endswith((".requested", ".inflight")):
                    kept.store.delete(path) if "metadata" not in path else None
        return None

    kept.store.hook = hook
    kept.upsert(BATCH)  # under another instant
    check_metadata(kept.store)
    kept.upsert(OTHER, "later")
    check_metadata(kept.store)


def test_what_is_taken_back_is_listed_until_its_commit_is_gone_and_no_longer(kept: World) -> None:
    """A compaction has taken it in: a rollback, or a restore, says what goes before it is completed itself."""
    before, time = kept.upsert(BATCH), kept.upsert(OTHER, "two")
    assert compact_metadata(context_of(kept)) is not None
    start = kept.store.snapshot()
    for take_back in (rollback_instant, restore_table):
        kept.store.restore(start)
        seen: list[bool] = []

        def hook(_: Call, seen: list[bool] = seen) -> Fault | None:
            kept.store.hook = None
            view = view_of(kept)
            seen.append(any(time in name for listed in view.listing().files.values() for name in listed))
            assert seen[-1] == (time in view.data.restored().completed_write_times)
            kept.store.hook = hook
            return None

        kept.store.hook = hook
        take_back(Table.open(kept.store), before if take_back is restore_table else time, CONFIG, host=kept.host("o"))
        kept.store.hook = None
        assert seen[0], take_back
        assert not seen[-1], take_back
        check_metadata(kept.store)


def test_a_torn_verdict_of_an_instant_says_nothing_about_its_delta_commit(kept: World) -> None:
    time = kept.upsert(BATCH)
    overrule(kept.store, Verdict(time, Outcome.COMMITTED, "token"))
    context = context_of(kept)
    assert sweep_deltas(context, context.table.properties) == ()
