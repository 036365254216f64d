from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakeindex.errors import TableCorruptError, TimelineChangedError
from lakeindex.format.commit_metadata import CommitMetadata, format_commit_metadata
from lakeindex.format.instants import parse_instant
from lakeindex.model import InstantState
from lakeindex.storage.memory import MemoryStorage
from lakeindex.table.handle import Table
from lakeindex.timeline.avro_instants import (
    RequestedReplace,
    RollbackMetadata,
    format_requested_replace,
    format_rollback_metadata,
)
from lakeindex.timeline.layout import TimelineLayout
from lakeindex.timeline.timeline import Timeline
from lakeindex.timeline.verdicts import Outcome, Verdict, decide
from tests.folder_storage import FolderStorage
from tests.unit.timeline.archives import put_log
from tests.vectors_support import unpack_table

T1, T2, T3, T4 = (f"2026010100000{n}000" for n in range(1, 5))


def timeline_of(*names: str) -> Timeline:
    instants = [parse_instant(name) for name in names]
    return Timeline.of(TimelineLayout(), [instant for instant in instants if instant is not None])


def commit(time: str) -> list[str]:
    return [f"{time}.commit.requested", f"{time}.inflight", f"{time}.commit"]


def test_a_completed_file_wins_over_those_beside_it() -> None:
    timeline = timeline_of(*commit(T1), f"{T2}.commit.requested", f"{T2}.inflight", f"{T3}.commit.requested")
    assert [(one.time, one.state) for one in timeline.instants] == [
        (T1, InstantState.COMPLETED),
        (T2, InstantState.INFLIGHT),
        (T3, InstantState.REQUESTED),
    ]
    assert [one.time for one in timeline.pending] == [T2, T3]
    assert (timeline.last_completed_write_time, timeline.max_time) == (T1, T3)


@pytest.mark.parametrize(
    ("pending", "completed"),
    [
        (f"{T1}.clustering.requested", f"{T1}_{T2}.replacecommit"),
        (f"{T1}.compaction.requested", f"{T1}.commit"),
        (f"{T1}.logcompaction.inflight", f"{T1}.deltacommit"),
    ],
)
def test_actions_that_complete_under_another_name(pending: str, completed: str) -> None:
    timeline = timeline_of(pending, completed)
    assert [one.state for one in timeline.instants] == [InstantState.COMPLETED]
    assert timeline_of(pending).pending_writes


def test_what_is_listed_again_is_not_parsed_again() -> None:
    """84 % of an upsert were this, of a table with 2,000 commits."""
    store, layout = MemoryStorage(), TimelineLayout()
    for name in commit(T1):
        store.create(f".hoodie/{name}", b"")
    first, again = Timeline.load(store, layout), Timeline.load(store, layout)
    assert again.listed is first.listed
    assert again.archived is not first.archived  # what is read is read again
    store.create(f".hoodie/{T2}.commit.requested", b"")
    later = Timeline.load(store, layout)
    assert (later.pending_times, again.pending_times) == ({T2}, frozenset())
    assert later.files[0] is first.files[0]


def test_an_empty_timeline() -> None:
    timeline = timeline_of()
    assert (timeline.last_completed_write_time, timeline.max_time, timeline.first_write_time) == (None, None, None)
    assert not timeline.is_visible(T1)


def test_only_writes_make_files_visible() -> None:
    timeline = timeline_of(*commit(T1), f"{T2}.clean", f"{T3}.rollback", f"{T4}.somethingnew")
    assert [one.time for one in timeline.completed] == [T1, T2, T3, T4]
    assert [one.time for one in timeline.completed_writes] == [T1]
    assert not timeline.is_visible(T2)


def test_visibility() -> None:
    timeline = timeline_of(f"{T1}.commit.requested", *commit(T3), f"{T4}.inflight")
    assert timeline.is_visible(T3)
    assert timeline.is_visible(T2), "older than the timeline: archived"
    assert timeline.is_visible("20200101000000")
    assert not timeline.is_visible(T1), "older, but pending"
    assert not timeline.is_visible(T4), "inflight"
    assert not timeline.is_visible("20260101000003500"), "unknown, and not older than the timeline"


def test_what_was_archived_beyond_a_savepoint_is_visible_and_nothing_else() -> None:
    """Between the instants of the timeline only the archive tells what was committed."""
    store = MemoryStorage()
    put_log(store, [T2])
    found = timeline_of(*commit(T1), f"{T1}.savepoint.inflight", f"{T1}.savepoint", *commit(T3))
    timeline = Timeline.of(TimelineLayout(), found.files, store)
    assert timeline.savepoints == {T1}
    assert timeline.first_write_time == T1
    assert timeline.is_visible(T1)
    assert timeline.is_visible(T2)
    assert not timeline.is_visible("20260101000001500"), "neither on the timeline nor in the archive"
    assert not found.is_visible(T2), "no archive"
    assert {one.action for one in timeline.find(T1)} == {"commit", "savepoint"}
    assert timeline.last_completed_write_time == T3
    assert timeline_of(*commit(T1), f"{T1}.savepoint.inflight").savepoints == set(), "half of one keeps nothing"


def test_old_instants_sort_as_the_last_millisecond() -> None:
    timeline = timeline_of(*commit("20260101000001"), *commit("20260101000001500"))
    assert [one.time for one in timeline.completed_writes] == ["20260101000001500", "20260101000001"]
    assert timeline.max_time == "20260101000001"
    twice = timeline_of(*commit("20260101000001"), *commit("20260101000001999"))
    assert [[one.time for one in twice.find(time)] for time in ("20260101000001", "20260101000001999", T4)] == [
        ["20260101000001"],
        ["20260101000001999"],
        [],
    ]


def on_store(*names: str, files: dict[str, bytes] | None = None) -> Timeline:
    store = MemoryStorage()
    for name in names:
        store.write(f".hoodie/{name}", (files or {}).get(name, b""))
    return Timeline.load(store, TimelineLayout())


def test_what_was_rolled_back_is_not_committed_unless_it_was_done_again() -> None:
    """Of what is older than the timeline, and of which there is no archive, a rollback on the timeline tells; one that
    cannot be read says nothing."""
    done = format_rollback_metadata(RollbackMetadata(T4, T1, "commit"))
    cases = {
        "nothing says": (on_store(*commit(T2)), True),
        "rolled back": (on_store(*commit(T2), f"{T4}.rollback", files={f"{T4}.rollback": done}), False),
        "it cannot be read": (on_store(*commit(T2), f"{T4}.rollback", files={f"{T4}.rollback": b"Obj"}), True),
        "done again": (on_store(*commit(T1), *commit(T2), f"{T4}.rollback", files={f"{T4}.rollback": done}), True),
    }
    assert {name: timeline.is_committed(T1) for name, (timeline, _) in cases.items()} == {
        name: is_committed for name, (_, is_committed) in cases.items()
    }
    assert cases["done again"][0].undone.instants == frozenset()


def test_a_verdict_hides_only_what_it_says_was_rolled_back() -> None:
    store = MemoryStorage()
    for name in commit(T3):
        store.write(f".hoodie/{name}", b"")
    for time, outcome in ((T1, Outcome.COMMITTED), (T2, Outcome.ROLLED_BACK)):
        decide(store, Verdict(time, outcome, "token"))
    timeline = Timeline.load(store, TimelineLayout())
    assert [timeline.is_visible(time) for time in (T1, T2)] == [True, False]
    put_log(store, [T1, T4])
    assert not Timeline.load(store, TimelineLayout()).is_visible(T4), "nothing newer than the timeline was archived"


def test_a_group_that_was_replaced_twice_went_the_first_time_and_the_newest_schema_is_what_says_one() -> None:
    """An overwrite of the same file id; a commit may say nothing of columns."""
    said = {T1: ("g", '{"x": 1}'), T2: ("g", '{"x": 2}'), T3: ("other", "")}
    files = {
        f"{time}.replacecommit": format_commit_metadata(
            CommitMetadata({}, "INSERT_OVERWRITE", {"schema": schema}, replaced_file_ids={"p": (group,)})
        )
        for time, (group, schema) in said.items()
    }
    timeline = on_store(*files, files=files)
    assert timeline.storage is not None
    assert timeline.replaced_at(timeline.storage) == {("p", "g"): T1, ("p", "other"): T3}
    assert timeline.replaced_at(timeline.storage, as_of=T2) == {("p", "g"): T1}
    assert timeline.schema_text(timeline.storage) == '{"x": 2}'


def test_a_commit_that_is_damaged_is_not_taken_from_its_verdict() -> None:
    """Only what a power loss left of it is: anything else is damage that somebody should know of."""
    whole = format_commit_metadata(CommitMetadata({}, "UPSERT"))
    timeline = on_store(*commit(T1), files={f"{T1}.commit": b""})
    assert timeline.storage is not None
    decide(timeline.storage, Verdict(T1, Outcome.COMMITTED, "token", commit=whole))
    assert timeline.commit_metadata(timeline.storage, timeline.completed[0]).operation == "UPSERT"
    timeline.storage.write(f".hoodie/{T1}.commit", b"another one's")
    with pytest.raises(TableCorruptError):
        timeline.commit_metadata(timeline.storage, timeline.completed[0])


def test_one_listing_and_no_reading(tmp_path: Path) -> None:
    storage = FolderStorage(unpack_table("h0150_v6_main", tmp_path))
    timeline = Timeline.load(storage, TimelineLayout())
    assert storage.requests == [("list_folder", ".hoodie")]
    assert [one.action for one in timeline.completed_writes] == ["commit"] * 4 + ["replacecommit"]


@pytest.mark.parametrize("name", ["h0150_v6_main", "h120_v6_main", "h120_v8_main", "h120_v9_main"])
def test_metadata_of_every_release(name: str, tmp_path: Path) -> None:
    storage = FolderStorage(unpack_table(name, tmp_path))
    timeline = Table.open(storage).load_timeline()
    found = [timeline.commit_metadata(storage, one) for one in timeline.completed_writes]
    assert [one.operation for one in found] == ["INSERT", "UPSERT", "DELETE", "UPSERT", "CLUSTER"]
    assert [sum(stat.num_inserts for stat in one.stats()) for one in found[:2]] == [300, 40]
    assert len(frozenset(timeline.replaced_at(storage))) == 3
    assert frozenset(timeline.replaced_at(storage, as_of=timeline.completed_writes[-2].time)) == frozenset()
    assert timeline.pending_clustering(storage) == {}
    assert all((one.completion_time is None) == ("_v6_" in name) for one in timeline.completed_writes)


@pytest.mark.parametrize("name", ["h0150_v6_main", "h120_v6_main", "h120_v8_main", "h120_v9_main"])
def test_pending_clustering(name: str, tmp_path: Path) -> None:
    storage = FolderStorage(unpack_table(name, tmp_path))
    timeline = Table.open(storage).load_timeline()
    replaced = frozenset(timeline.replaced_at(storage))
    (completed,) = [path for path in storage.root.glob(".hoodie/**/*.replacecommit") if path.is_file()]
    completed.unlink()
    (completed.parent / "20200101000000000.commit.requested").write_bytes(b"")  # pending too, and older
    timeline = Table.open(storage).load_timeline()
    assert timeline.pending_clustering(storage).keys() == replaced
    assert len(replaced) == 3
    assert frozenset(timeline.replaced_at(storage)) == frozenset()


def test_a_pending_insert_overwrite_blocks_no_group(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path)
    storage.write(".hoodie/hoodie.properties", b"hoodie.table.name=t\nhoodie.table.version=6\n")
    storage.write(f".hoodie/{T1}.replacecommit.requested", format_requested_replace(RequestedReplace()))
    storage.write(f".hoodie/{T2}.replacecommit.requested", b"")
    assert Table.open(storage).load_timeline().pending_clustering(storage) == {}


def test_a_plan_that_went_meanwhile_blocks_nothing(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path)
    assert timeline_of(f"{T1}.replacecommit.inflight").pending_clustering(storage) == {}


@pytest.mark.parametrize("data", [b"", b'{"partitionToWriteStats": {"us": [{"fileId', b"Obj\x01rest", b"\x00" * 20])
def test_a_damaged_commit_is_named(data: bytes, tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path)
    storage.write(f".hoodie/{T1}.replacecommit", data)
    timeline = timeline_of(f"{T1}.replacecommit")
    with pytest.raises(TableCorruptError) as caught:
        frozenset(timeline.replaced_at(storage))
    assert caught.value.culprit == f".hoodie/{T1}.replacecommit"


def test_a_damaged_clustering_plan_is_named(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path)
    storage.write(f".hoodie/{T1}.replacecommit.requested", b"Obj\x01" + b"\xff" * 8)
    with pytest.raises(TableCorruptError) as caught:
        timeline_of(f"{T1}.replacecommit.requested").pending_clustering(storage)
    assert caught.value.culprit == f".hoodie/{T1}.replacecommit.requested"


def test_a_commit_that_went_meanwhile_is_named(tmp_path: Path) -> None:
    timeline = timeline_of(*commit(T1))
    with pytest.raises(TimelineChangedError, match="is gone") as caught:
        timeline.commit_metadata(FolderStorage(tmp_path), timeline.completed_writes[0])
    assert caught.value.culprit == f".hoodie/{T1}.commit"


def test_commit_metadata_of_an_inflight_instant(tmp_path: Path) -> None:
    storage = FolderStorage(unpack_table("h120_v6_inflight", tmp_path))
    timeline = Table.open(storage).load_timeline()
    (pending,) = timeline.pending_writes
    plan = timeline.commit_metadata(storage, pending)
    assert plan.operation == "UPSERT"
    assert sum(stat.num_update_writes for stat in plan.stats()) == 60
    assert json.loads(storage.read(timeline.path(pending)))["operationType"] == "UPSERT"
