"""The archive of layout 2: Hudi's is read, ours is written as Hudi writes it, and what a kill leaves is no archive."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from lakeindex.commit.services.archive import LogArchive, LsmArchive, Recorded
from lakeindex.errors import FencedError, LakeIndexError, TableCorruptError, TimelineChangedError
from lakeindex.format.commit_metadata import CommitMetadata
from lakeindex.format.file_names import crc_path
from lakeindex.model import Instant, InstantState
from lakeindex.storage import open_storage
from lakeindex.storage.memory import Call, Fault, MemoryStorage
from lakeindex.table.handle import Table
from lakeindex.timeline import lsm_archive as lsm
from lakeindex.timeline.archived_timeline import load_archived_timeline
from lakeindex.timeline.layout import LAYOUT_2, TimelineLayout
from lakeindex.timeline.lsm_archive import ArchivedInstant
from lakeindex.timeline.timeline import Timeline
from tests.unit.timeline.archives import put_log
from tests.vectors_support import expected_rows, unpack_table

FOLDER = ".hoodie/timeline/history"
LAYOUT = TimelineLayout(LAYOUT_2, ".hoodie/timeline", FOLDER)
VECTOR = "h120_v9_archive"


def time_of(number: int) -> str:
    return f"20260101{number:09d}"


def instants(store: MemoryStorage, *numbers: int) -> list[Instant]:
    """Commits, on the timeline in all their states."""
    found = []
    for number in numbers:
        done = Instant(time_of(number), "commit", InstantState.COMPLETED, time_of(number + 500))
        pending = [Instant(done.time, "commit", state) for state in (InstantState.REQUESTED, InstantState.INFLIGHT)]
        for one in (*pending, done):
            store.write(LAYOUT.path(one), f"content {number}".encode() if one.is_completed else b"")
            found.append(one)
    return found


def record(store: MemoryStorage, *numbers: int) -> str:
    files = instants(store, *numbers)
    archive = LsmArchive(store, FOLDER)
    return archive.record(Timeline.of(LAYOUT, files, store), files, archive.recorded())


def rows_of(store: MemoryStorage) -> list[ArchivedInstant]:
    files = lsm.load_manifest(store, FOLDER).files
    return [row for one in files for row in lsm.parse_rows(store.read(f"{FOLDER}/{one.name}"), one.name)]


def test_what_hudi_archived_and_merged_is_read(tmp_path: Path) -> None:
    folder = unpack_table(VECTOR, tmp_path)
    table = Table.open(open_storage(str(folder)))
    manifest = lsm.load_manifest(table.storage, FOLDER)
    assert {one.level for one in manifest.files} == {0, 1}
    on_timeline = table.load_timeline().completed_write_times
    archived = load_archived_timeline(table.storage, FOLDER)
    assert len(archived.writes) == 11 - len(on_timeline)
    assert not archived.writes & on_timeline
    assert archived.damaged == ()
    rows = table.snapshot().base_files_all()
    stored = [row for file in rows for row in pq.read_table(folder / file.path, partitioning=None).to_pylist()]
    assert {row["_hoodie_record_key"] for row in stored} == {row["_hoodie_record_key"] for row in expected_rows(folder)}


def test_a_file_of_ours_is_as_hudis(tmp_path: Path) -> None:
    history = unpack_table(VECTOR, tmp_path) / FOLDER
    theirs = next(history.glob("*_0.parquet"))
    rows = lsm.parse_rows(theirs.read_bytes(), theirs.name)
    ours = tmp_path / theirs.name
    ours.write_bytes(lsm.format_rows(rows))
    assert pq.read_schema(ours).equals(pq.read_schema(theirs), check_metadata=False)
    assert pq.read_table(ours, partitioning=None).to_pylist() == pq.read_table(theirs, partitioning=None).to_pylist()


def test_a_commit_is_kept_as_its_file_was() -> None:
    store = MemoryStorage()
    path = record(store, 1, 2)
    assert path == f"{FOLDER}/{time_of(1)}_{time_of(2)}_0.parquet"
    assert store.read(f"{FOLDER}/_version_") == b"1"
    assert rows_of(store) == [
        ArchivedInstant(time_of(number), time_of(number + 500), "commit", f"content {number}".encode())
        for number in (1, 2)
    ]
    assert LsmArchive(store, FOLDER).recorded().instants == {(time_of(1), "commit"), (time_of(2), "commit")}


PENDING = (InstantState.REQUESTED, InstantState.INFLIGHT)


@pytest.mark.parametrize(
    ("action", "before", "plan"),
    [
        ("clean", (b"asked", b"begun"), b"asked"),
        ("replacecommit", (b"asked", b"begun"), b"begun"),
        ("replacecommit", (b"asked", b""), b"asked"),
        ("commit", (b"asked", b"begun"), None),
        ("compaction", (b"asked", b""), b"asked"),
        ("rollback", (b"asked", b"begun"), None),
    ],
)
def test_what_hudi_keeps_of_the_files_before(action: str, before: tuple[bytes, bytes], plan: bytes | None) -> None:
    store = MemoryStorage()
    files = [Instant(time_of(1), action, state) for state in PENDING]
    done = "commit" if action == "compaction" else action
    files.append(Instant(time_of(1), done, InstantState.COMPLETED, time_of(2)))
    for one, data in zip(files, (*before, b"done"), strict=True):
        store.write(LAYOUT.path(one), data)
    LsmArchive(store, FOLDER).record(Timeline.of(LAYOUT, files, store), files, Recorded(frozenset(), 0))
    assert rows_of(store) == [ArchivedInstant(time_of(1), time_of(2), done, b"done", plan)]


def test_a_timeline_that_another_archives_at_once_is_noticed() -> None:
    store = MemoryStorage()
    files = instants(store, 1)
    store.delete(LAYOUT.path(files[-1]))
    with pytest.raises(TimelineChangedError, match="another writer archives"):
        LsmArchive(store, FOLDER).record(Timeline.of(LAYOUT, files, store), files, Recorded(frozenset(), 0))


def test_ten_files_become_one_of_the_next_level_and_old_ones_go() -> None:
    store = MemoryStorage()
    archive = LsmArchive(store, FOLDER)
    for number in range(1, 126):
        record(store, number)
        archive.tidy()
        for one in store.list_folder(FOLDER).objects if number in (9, 10) else ():
            if not one.path.endswith(".crc"):
                store.write(crc_path(one.path), b"Hadoop's checksum")
    assert sorted(row.time for row in rows_of(store)) == [time_of(number) for number in range(1, 126)]
    levels = [one.level for one in lsm.load_manifest(store, FOLDER).files]
    assert sorted(levels) == [0] * 5 + [1] * 2 + [2]
    names = {one.path.rpartition("/")[2] for one in store.list_folder(FOLDER).objects}
    assert len(lsm.listed_manifests(names)) <= 10
    assert len(names) < 40
    left = {one[1:].removesuffix(".crc") for one in names if one.endswith(".crc")}
    assert left <= names - {lsm.VERSION_FILE}, "neither of what went nor of what was written anew"
    assert archive.recorded().instants >= {(time_of(number), "commit") for number in range(122, 126)}


def test_tidying_that_was_killed_leaves_no_manifest_of_files_that_are_gone() -> None:
    """At any of its deletions; and the next one takes away what it left."""
    store = MemoryStorage()
    archive = LsmArchive(store, FOLDER)
    for number in range(1, 21):
        record(store, number)
        if number == 10:
            archive.tidy()  # what is merged here goes with the next
    start, at, deletions = store.snapshot(), 0, 0
    while at <= deletions:
        store.restore(start)
        at, deletions = at + 1, 0

        def hook(call: Call, at: int = at) -> Fault | None:
            nonlocal deletions
            deletions += call.name == "delete"
            return Fault.ERROR if call.name == "delete" and deletions >= at else None

        store.hook = hook
        with suppress(LakeIndexError):
            archive.tidy()
        store.hook = None
        names = {one.path.rpartition("/")[2] for one in store.list_folder(FOLDER).objects}
        for manifest in lsm.listed_manifests(names):
            assert {one.name for one in lsm.read_manifest(store, FOLDER, manifest).files} <= names, (at, manifest)
        assert len(rows_of(store)) == 20
    assert at > 10


def test_large_files_are_merged_in_fewer() -> None:
    store = MemoryStorage()
    for number in range(1, 11):
        record(store, number)
    manifest = lsm.load_manifest(store, FOLDER)
    heavy = [lsm.named_file(one.name, 600_000_000) for one in manifest.files]
    store.write(f"{FOLDER}/{lsm.manifest_name(manifest.number)}", lsm.format_manifest(lsm.Manifest(0, tuple(heavy))))
    LsmArchive(store, FOLDER).tidy()
    assert sorted(one.level for one in lsm.load_manifest(store, FOLDER).files) == [0] * 8 + [1]


@pytest.mark.parametrize("left", ["parquet", "torn manifest", "whole manifest"])
def test_what_a_kill_leaves(left: str) -> None:
    store = MemoryStorage()
    record(store, 1)
    before = store.snapshot()
    record(store, 2)
    after = store.snapshot()
    store.restore(before)
    name = f"{FOLDER}/{time_of(2)}_{time_of(2)}_0.parquet"
    store.write(name, after[name][:20] if left == "parquet" else after[name])
    if left != "parquet":
        manifest = after[f"{FOLDER}/manifest_2"]
        store.write(f"{FOLDER}/manifest_2", manifest[:9] if left == "torn manifest" else manifest)
    counts = left == "whole manifest"
    assert (time_of(2) in load_archived_timeline(store, FOLDER).writes) is counts
    record(store, 2)
    record(store, 3)
    assert sorted(row.time for row in rows_of(store)) == [time_of(1), time_of(2), time_of(3)]


def test_an_older_version_put_by_who_stalled_hides_nothing() -> None:
    store = MemoryStorage()
    for number in (1, 2, 3):
        record(store, number)
    store.write(f"{FOLDER}/_version_", b"1")
    assert load_archived_timeline(store, FOLDER).writes == {time_of(1), time_of(2), time_of(3)}
    record(store, 4)
    assert store.read(f"{FOLDER}/_version_") == b"4"
    assert len(rows_of(store)) == 4


@pytest.mark.parametrize(("layout", "kind"), [(LAYOUT, LsmArchive), (TimelineLayout(), LogArchive)])
def test_who_chose_instants_before_another_archived_them_is_told(layout: TimelineLayout, kind: Any) -> None:
    """Else they would be archived twice."""
    store = MemoryStorage()
    first, second = (Instant(time_of(at), "commit", InstantState.COMPLETED, time_of(at + 500)) for at in (1, 2))
    if layout is not LAYOUT:
        first, second = replace(first, completion_time=None), replace(second, completion_time=None)
    for one in (first, second):
        store.write(layout.path(one), layout.encode_commit(CommitMetadata()))
    timeline, archive = Timeline.of(layout, [first, second], store), kind(store, layout.archive_folder)
    seen = archive.recorded()
    archive.record(timeline, [first], archive.recorded())
    with pytest.raises(FencedError, match="by another writer meanwhile"):
        archive.record(timeline, [first, second], seen)


@pytest.mark.parametrize("at", ["manifest_", ".parquet"])
def test_two_who_archive_at_once_are_told(at: str) -> None:
    store = MemoryStorage()
    record(store, 1)

    def other(call: Call) -> Fault | None:
        if call.name == "create" and at in call.path:
            store.hook = None
            record(store, 2, 3)
        return None

    store.hook = other
    with pytest.raises(FencedError, match="by another writer meanwhile"):
        record(store, 4)
    assert {time_of(2), time_of(3)} <= load_archived_timeline(store, FOLDER).writes


@pytest.mark.parametrize("damage", ["manifest", "file", "version", "gone manifest"])
def test_damage_is_told_and_nothing_follows_from_it(damage: str) -> None:
    store = MemoryStorage()
    name = record(store, 1)
    match damage:
        case "manifest":
            store.write(f"{FOLDER}/manifest_1", b'{"files": [{"fileName": "x", "fileLen": 1}]}')
        case "file":
            store.delete(name)
        case "version":
            store.write(f"{FOLDER}/_version_", b"7")
        case "gone manifest":
            store.delete(f"{FOLDER}/manifest_1")
    found = load_archived_timeline(store, FOLDER)
    assert len(found.damaged) == 1
    assert found.knows(time_of(1)) is None
    assert LsmArchive(store, FOLDER).recorded().instants == frozenset()
    with pytest.raises(TableCorruptError):
        record(store, 2)


def test_the_logs_of_before_an_upgrade_count_beside_the_tree() -> None:
    store = MemoryStorage()
    put_log(store, [time_of(1)], rolled_back=[(time_of(3), time_of(2))], folder=FOLDER)
    assert load_archived_timeline(store, FOLDER).writes == {time_of(1)}
    record(store, 5)
    found = load_archived_timeline(store, FOLDER)
    assert found.writes == {time_of(1), time_of(5)}
    assert [found.knows(time_of(number)) for number in range(1, 6)] == [True, False, False, False, True]


def test_an_empty_archive_is_none() -> None:
    store = MemoryStorage()
    assert lsm.load_manifest(store, FOLDER).files == ()
    assert load_archived_timeline(store, FOLDER).knows(time_of(1)) is None
    LsmArchive(store, FOLDER).tidy()


def test_a_flipped_bit_in_a_file_is_damage(tmp_path: Path) -> None:
    data = bytearray(lsm.format_rows([ArchivedInstant(time_of(1), time_of(2), "commit", b"x" * 500)]))
    found = 0
    for at in range(len(data)):
        data[at] ^= 1
        with suppress(TableCorruptError):
            found += lsm.parse_rows(bytes(data), "f")[0].metadata != b"x" * 500
        data[at] ^= 1
    assert not found


def test_without_a_version_no_older_manifest_stands_for_a_damaged_one() -> None:
    """It may be the one that counts; with a version before it, it was never in force."""
    store = MemoryStorage()
    for number in (1, 2):
        store.write(f"{FOLDER}/{lsm.manifest_name(number)}", lsm.format_manifest(lsm.Manifest(number)))
    for said, number in ((b"2", 2), (b"1", 2), (b"", 2)):
        store.write(f"{FOLDER}/{lsm.VERSION_FILE}", said)
        assert lsm.load_manifest(store, FOLDER).number == number
    store.write(f"{FOLDER}/manifest_2", b"{")
    for said in (b"", b"x", b"2"):
        store.write(f"{FOLDER}/{lsm.VERSION_FILE}", said)
        with pytest.raises(TableCorruptError, match="manifest_2"):
            lsm.load_manifest(store, FOLDER)
    store.write(f"{FOLDER}/{lsm.VERSION_FILE}", b"1")
    assert lsm.load_manifest(store, FOLDER).number == 1
