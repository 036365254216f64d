"""Rolling back: what Hudi finds afterwards, and what is refused."""

from pathlib import Path

import pytest

from lakeindex.commit.run_records import claim_foreign
from lakeindex.commit.services.rollback import rollback_instant
from lakeindex.errors import LakeIndexError, PendingInstantError, TableUnsupportedError, UsageError
from lakeindex.options.types import WriteConfig
from lakeindex.storage import open_storage
from lakeindex.storage.memory import Call, Fault
from lakeindex.table.handle import Table
from lakeindex.timeline.avro_instants import (
    OWN_SYNC_MARKER,
    RollbackPlan,
    format_rollback_plan,
    parse_rollback_metadata,
    parse_rollback_plan,
)
from tests.model.world import CONFIG, file_id, live_rows
from tests.unit.commit.protocol_support import BATCH, FIRST, OTHER, KilledError, World
from tests.vectors_support import unpack_table

PENDING = "20260101000000777"


def roll_back(world: World, time: str, **options: bool) -> object:
    return rollback_instant(Table.open(world.store), time, CONFIG, host=world.host("operator"), **options)


def test_our_plans_are_told_from_hudis() -> None:
    assert OWN_SYNC_MARKER in format_rollback_plan(RollbackPlan("1", "commit"))


def test_a_committed_batch_is_undone_and_may_be_committed_again(world: World) -> None:
    before = live_rows(world.store)
    instant = world.upsert(BATCH)
    done = roll_back(world, instant)
    assert live_rows(world.store) == before
    assert done.instant == instant
    assert len(done.files) == 2
    assert not [name for name in world.names() if name.startswith(f"{instant}.")]
    assert world.upsert(BATCH, "again") > instant
    assert live_rows(world.store)["x"] == ["one"]


def test_the_three_files_that_hudi_expects(world: World) -> None:
    instant = world.upsert(BATCH)
    files = sorted(path for path in world.store.snapshot() if path.endswith(f"_{instant}.parquet"))
    own = roll_back(world, instant).rollback_instant
    plan = parse_rollback_plan(world.store.read(f".hoodie/{own}.rollback.requested"), "plan")
    assert (plan.instant_time, plan.action) == (instant, "commit")
    assert sorted(plan.files["p"]) == [f"{world.store.uri}/{path}" for path in files]
    assert world.store.read(f".hoodie/{own}.rollback.inflight") == b""
    metadata = parse_rollback_metadata(world.store.read(f".hoodie/{own}.rollback"), "metadata")
    assert (metadata.start_time, metadata.instant_time, metadata.deleted) == (own, instant, plan.files)


def test_a_commit_goes_before_what_was_before_it(world: World) -> None:
    """A kill in between leaves a pending instant of which Hudi has a file, never one that was not asked for."""
    instant = world.upsert(BATCH)
    gone: list[str] = []

    def hook(call: Call) -> None:
        if call.name == "delete" and call.path.startswith(f".hoodie/{instant}"):
            gone.append(call.path.removeprefix(f".hoodie/{instant}."))

    world.store.hook = hook
    roll_back(world, instant)
    assert [one for one in gone if not one.endswith(".crc")] == ["commit", "inflight", "commit.requested"]


def test_only_the_newest_may_go(world: World) -> None:
    first = world.upsert(BATCH)
    second = world.upsert(OTHER, "two")
    with pytest.raises(UsageError, match=second):
        roll_back(world, first)
    roll_back(world, second)
    roll_back(world, first)
    roll_back(world, FIRST)
    assert live_rows(world.store) == {}


def test_what_a_killed_writer_had_decided_stands_on_it(world: World) -> None:
    """The commit is completed by the rollback itself, so that its target is the newest no more."""
    first = world.upsert(BATCH)
    pending = world.decide(OTHER)
    with pytest.raises(UsageError, match=f"{first} is not the newest: {pending.time} was built on it"):
        roll_back(world, first)
    assert live_rows(world.store)["b1"] == ["two"]


def test_a_savepoint_keeps_its_commit(world: World) -> None:
    instant = world.upsert(BATCH)
    world.store.write(f".hoodie/{instant}.savepoint", b"x")
    with pytest.raises(TableUnsupportedError, match="savepointed"):
        roll_back(world, instant)


@pytest.mark.parametrize("time", ["20300101000000000", "x", ""])
def test_an_instant_that_is_not_there(world: World, time: str) -> None:
    with pytest.raises(UsageError, match="no write"):
        roll_back(world, time)


@pytest.mark.parametrize("claimed", [False, True])
def test_a_pending_one_only_if_it_is_dead_or_forced(world: World, claimed: bool) -> None:
    """Also where somebody who forced it was killed: his claim says nothing of the writer."""
    marked = f"{file_id(5)}_0-0-0_{PENDING}.parquet"
    unmarked = f"{file_id(6)}_0-0-0_{PENDING}.parquet"
    world.put_pending(PENDING, marked=marked)
    world.store.write(f"elsewhere/deep/{unmarked}", b"{}")
    if claimed:
        claim_foreign(world.store, world.host("killed"), PENDING)
    with pytest.raises(PendingInstantError, match=PENDING):
        roll_back(world, PENDING)
    assert roll_back(world, PENDING, force=True).files == (f"elsewhere/deep/{unmarked}", f"p/{marked}")
    assert world.store.list(".hoodie/.temp") == []


def test_a_missing_marker_of_a_deleted_file_is_no_error(world: World) -> None:
    world.put_pending(PENDING)
    name = f"{file_id(5)}_0-0-0_{PENDING}.parquet"
    world.store.write(f".hoodie/.temp/{PENDING}/p/{name}.marker.CREATE", b"")
    assert roll_back(world, PENDING, force=True).files == (f"p/{name}",), "a listing may be older than the marker"


def test_our_own_run_that_lives_is_protected(world: World) -> None:
    from tests.unit.commit.test_commit import Written, begin

    written = Written(world, begin(world, name="alive"))
    with pytest.raises(PendingInstantError):
        roll_back(world, written.plan.instant)
    world.gone.add("alive")
    roll_back(world, written.plan.instant)
    with pytest.raises(LakeIndexError):
        written.publish()


def test_a_plan_of_a_rollback_that_was_cut_short_names_no_instant(world: World) -> None:
    """It is in nobody's way: not in that of a write, nor of another rollback, nor of the same one by its own plan."""
    pending = "20200101000000000"
    for data in (b"", b"Obj"):
        instant = world.upsert(BATCH)
        world.store.write(f".hoodie/{pending}.rollback.requested", data)
        timeline = Table.open(world.store).load_timeline()
        assert timeline.pending_rollbacks(world.store) == []
        assert instant in timeline.completed_write_times
        assert roll_back(world, world.upsert(OTHER, "two")).rollback_instant != pending
        assert roll_back(world, instant).rollback_instant != pending


def test_a_commit_after_a_rollback_is_not_taken_for_archived(world: World) -> None:
    """The first commit of a table, rolled back: later its instant is older than the timeline."""
    world.store.restore({path: data for path, data in world.store.snapshot().items() if FIRST not in path})
    instant = world.upsert(BATCH)
    roll_back(world, instant)
    world.upsert(OTHER, "two")
    assert world.upsert(BATCH, "again") > instant


def test_files_of_commits_that_nothing_names_any_more_keep_the_last_commit(world: World) -> None:
    """Somebody has deleted the archive: the files are seen as long as a commit is there after which they are older."""
    instant = world.upsert(BATCH)
    for name in world.names():
        if name.startswith(FIRST):
            world.store.delete(f".hoodie/{name}")
    with pytest.raises(TableUnsupportedError, match="last commit on the timeline"):
        roll_back(world, instant)
    assert live_rows(world.store)["b1"] == ["0"]


def test_an_instant_of_14_digits_is_behind_those_of_its_second_where_it_is_the_last(world: World) -> None:
    instant, short = world.upsert(BATCH), FIRST[:14]
    files = {path.replace(instant, short): data for path, data in world.store.snapshot().items()}
    text = {
        path: data.replace(instant.encode(), short.encode()) for path, data in files.items() if "parquet" not in path
    }
    world.store.restore(
        {path: data for path, data in (files | text).items() if not path.startswith(f".hoodie/{FIRST}")}
    )
    with pytest.raises(TableUnsupportedError, match="last commit on the timeline"):
        roll_back(world, short)


def test_a_table_of_hudi_with_a_dead_instant(tmp_path: Path) -> None:
    """Hudi 1.2's third commit, killed before it completed; its markers are gone, its files are found by listing."""
    storage = open_storage(str(unpack_table("h120_v6_inflight", tmp_path)))
    table = Table.open(storage)
    pending = table.load_timeline().pending_writes[0]
    dead = [one.path for one in storage.list() if one.path.endswith(f"_{pending.time}.parquet")]
    before = table.snapshot().base_files_all()
    done = rollback_instant(table, pending.time, WriteConfig(), force=True)
    assert sorted(done.files) == sorted(dead)
    assert len(dead) == 3
    assert table.snapshot().base_files_all() == before
    assert table.load_timeline().pending == ()
    plan = parse_rollback_plan(storage.read(f".hoodie/{done.rollback_instant}.rollback.requested"), "plan")
    assert all(
        url.startswith("file:/") and not url.startswith("file://") for urls in plan.files.values() for url in urls
    )
    assert set(plan.files) == {"as ia", "eu", "us"}


@pytest.mark.parametrize(("marked", "action"), [(True, "commit"), (False, "commit"), (False, "replacecommit")])
def test_a_rollback_that_is_taken_up_again_names_what_the_first_try_deleted(
    world: World, marked: bool, action: str
) -> None:
    """Also a file that no marker names: Hudi's metadata table goes by what the rollback says."""
    name = f"{file_id(5)}_0-0-0_{PENDING}.parquet"
    world.put_pending(PENDING, marked=name if marked else None)
    if action != "commit":
        for old, new in (("commit.requested", f"{action}.requested"), ("inflight", f"{action}.inflight")):
            world.store.write(f".hoodie/{PENDING}.{new}", world.store.read(f".hoodie/{PENDING}.{old}"))
            world.store.delete(f".hoodie/{PENDING}.{old}")
    world.store.write(f"p/{name}", b"{}")

    def killed(call: Call) -> Fault | None:
        if call.path.endswith(".rollback"):
            raise KilledError
        return None

    world.store.hook = killed
    with pytest.raises(KilledError):
        roll_back(world, PENDING, force=True)
    world.store.hook = None
    assert f"p/{name}" not in world.store.snapshot()
    world.gone.add("operator")
    world.upsert(BATCH)
    (done,) = [path for path in world.store.snapshot() if path.endswith(".rollback")]
    said = parse_rollback_metadata(world.store.read(done), done)
    assert (said.instant_time, said.action) == (PENDING, action)
    assert [url.rpartition("/")[2] for url in said.deleted["p"]] == [name]
