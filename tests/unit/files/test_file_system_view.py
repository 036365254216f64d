from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeindex.files.file_system_view import Snapshot, snapshot
from lakeindex.format.instants import parse_instant
from lakeindex.model import BaseFile
from lakeindex.table.handle import Table
from lakeindex.timeline.layout import TimelineLayout
from lakeindex.timeline.timeline import Timeline
from tests.folder_storage import FolderStorage

T1, T2, T3, T4 = (f"2026010100000{n}000" for n in range(1, 5))
G1, G2 = "11111111-0", "22222222-0"


class Made:
    """A table folder made file by file."""

    def __init__(self, root: Path) -> None:
        self.storage = FolderStorage(root)
        self.storage.write(".hoodie/hoodie.properties", b"hoodie.table.name=t\nhoodie.table.version=6\n")

    def commit(self, time: str, *paths: str, replaced: dict[str, list[str]] | None = None) -> None:
        action = "commit" if replaced is None else "replacecommit"
        metadata = {
            "partitionToWriteStats": {"us": [{"fileId": "x", "path": path} for path in paths]},
            "partitionToReplaceFileIds": replaced or {},
        }
        self.storage.write(f".hoodie/{time}.{action}", json.dumps(metadata).encode())

    def file(self, partition: str, group: str, time: str, token: str = "0-0-0") -> BaseFile:
        made = BaseFile(partition, group, time, token, 3)
        self.partition(partition)
        self.storage.write(made.path, b"abc")
        return made

    def partition(self, partition: str, name: str = ".hoodie_partition_metadata") -> None:
        self.storage.write(f"{partition}/{name}" if partition else name, b"partitionDepth=1\ncommitTime=1\n")

    def snapshot(self, as_of: str | None = None) -> Snapshot:
        return snapshot(self.storage, Table.open(self.storage).load_timeline(), as_of)


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path)


def test_the_newest_slice_of_each_group(made: Made) -> None:
    made.commit(T1)
    made.commit(T2)
    first, second = made.file("us", G1, T1), made.file("us", G1, T2)
    other = made.file("us", G2, T1)
    now = made.snapshot()
    assert now.base_files("us") == (second, other)
    assert now.files_of("us").older == (first,)
    assert now.instant_time == T2
    assert made.snapshot(T1).base_files("us") == (first, other)


def test_times_of_14_digits_are_ordered(made: Made) -> None:
    made.commit("20260101000001")
    made.commit("20260101000001500")
    old, _ = made.file("us", G1, "20260101000001"), made.file("us", G1, "20260101000001500")
    assert made.snapshot().base_files("us") == (old,)


def test_a_folder_without_partition_metadata_is_none(made: Made) -> None:
    made.commit(T1)
    made.storage.write(BaseFile("us", G1, T1, "0-0-0").path, b"abc")
    assert made.snapshot().partitions() == ()
    assert made.snapshot().base_files("us") == ()
    made.partition("us", ".hoodie_partition_metadata.parquet")
    assert made.snapshot().partitions() == ("us",)
    assert len(made.snapshot().base_files("us")) == 1


def test_partitions_at_any_depth_and_the_one_without_a_path(made: Made) -> None:
    made.commit(T1)
    for partition in ("", "us", "region=eu/k=1", "2013/01/01", "as ia", "a%2Fb"):
        made.file(partition, G1, T1)
    now = made.snapshot()
    assert now.partitions() == ("", "2013/01/01", "a%2Fb", "as ia", "region=eu/k=1", "us")
    assert [file.partition_path for file in now.base_files_all()] == list(now.partitions())
    assert now.base_files("no/such") == ()


def test_a_table_inside_the_table_is_another_one(made: Made) -> None:
    made.commit(T1)
    mine = made.file("us", G1, T1)
    made.file("us/inner/eu", G2, T1)
    made.storage.write("us/inner/.hoodie/hoodie.properties", b"hoodie.table.name=inner")
    made.storage.write(".hoodie/metadata/files/.hoodie_partition_metadata", b"")
    made.storage.write(f".hoodie/metadata/files/{mine.name}", b"")
    assert made.snapshot().partitions() == ("us",)
    assert made.snapshot().base_files_all() == (mine,)


def test_replaced_groups(made: Made) -> None:
    made.commit(T1)
    made.commit(T2, replaced={"us": [G1]})
    gone, new = made.file("us", G1, T1), made.file("us", G2, T2)
    same_id_elsewhere = made.file("eu", G1, T1)
    now = made.snapshot()
    assert now.base_files_all() == (same_id_elsewhere, new)
    assert now.files_of("us").older == (gone,)
    assert made.snapshot(T1).base_files("us") == (gone,)
    assert made.snapshot(T2).base_files_all() == now.base_files_all(), "as-of includes the instant"


def test_files_of_unfinished_and_unknown_writes(made: Made) -> None:
    made.commit(T2)
    made.storage.write(f".hoodie/{T1}.commit.requested", b"")
    made.storage.write(f".hoodie/{T3}.inflight", b"")
    archived = made.file("us", G1, "20250101000000000")
    unseen = (made.file("us", G1, T1), made.file("us", G1, T3), made.file("us", G1, T4))
    now = made.snapshot()
    assert now.base_files("us") == (archived,)
    assert now.files_of("us").unseen == unseen
    assert made.snapshot("20240101000000000").base_files("us") == ()


@pytest.mark.parametrize("named", ["0-0-0", "1-0-1"])
def test_of_two_attempts_the_committed_one_counts(made: Made, named: str) -> None:
    files = {token: made.file("us", G1, T1, token) for token in ("0-0-0", "1-0-1")}
    made.commit(T1, files[named].path)
    found = made.snapshot().files_of("us")
    assert found.live == (files[named],)
    assert found.doubles == tuple(file for token, file in files.items() if token != named)


def test_of_two_archived_attempts_the_last_by_name_counts(made: Made) -> None:
    made.commit(T2)
    made.file("us", G1, T1, "0-0-0")
    last = made.file("us", G1, T1, "1-0-1")
    assert made.snapshot().base_files("us") == (last,)


def test_an_older_double_is_told_too(made: Made) -> None:
    files = [made.file("us", G1, T1, token) for token in ("0-0-0", "1-0-1")]
    made.commit(T1, files[0].path)
    made.commit(T2)
    newest = made.file("us", G1, T2)
    found = made.snapshot().files_of("us")
    assert (found.live, found.older, found.doubles) == ((newest,), (files[0],), (files[1],))


def test_a_partition_is_listed_once(made: Made) -> None:
    made.commit(T1)
    made.file("us", G1, T1)
    now = made.snapshot()
    made.storage.requests.clear()
    for _ in range(2):
        now.base_files("us")
    assert made.storage.requests == [("list_folder", "us")]
    now = made.snapshot()
    made.storage.requests.clear()
    now.base_files_all()
    now.base_files("us")
    assert made.storage.requests == [("list_folder", ""), ("list", "us")]


def test_many_partitions_are_listed_together(made: Made) -> None:
    made.commit(T1)
    files = tuple(made.file(f"p{n:02d}", G1, T1) for n in range(20))
    assert made.snapshot().base_files_all() == files
    now = made.snapshot()
    now.preload(f"p{n:02d}" for n in range(20))
    made.storage.requests.clear()
    assert now.base_files("p07") == (files[7],)
    assert made.storage.requests == []


@given(
    st.lists(st.tuples(st.sampled_from([G1, G2]), st.integers(1, 6), st.sampled_from("012")), max_size=12, unique=True),
    st.sets(st.integers(1, 6)),
    st.sets(st.integers(1, 6)),
    st.none() | st.integers(0, 7),
)
def test_every_file_is_exactly_one_of_live_older_unseen_double(
    tmp_path_factory: pytest.TempPathFactory,
    slices: list[tuple[str, int, str]],
    completed: set[int],
    pending: set[int],
    as_of: int | None,
) -> None:
    made = Made(tmp_path_factory.mktemp("t"))
    times = {n: f"2026010100000{n}000" for n in range(8)}
    files = [made.file("us", group, times[n], f"{token}-0-0") for group, n, token in slices]
    names = [f"{times[n]}.commit" for n in completed] + [f"{times[n]}.inflight" for n in pending]
    for n in completed:
        made.commit(times[n])
    timeline = Timeline.of(TimelineLayout(), [one for name in names if (one := parse_instant(name)) is not None])
    found = snapshot(made.storage, timeline, None if as_of is None else times[as_of]).files_of("us")
    parts = [*found.live, *found.older, *found.unseen, *found.doubles]
    assert sorted(parts) == sorted(files)
    # the rule of docs/format.md, said once more in other words
    first = min(completed, default=0)
    seen = {
        n for n in times if (n in completed or (n < first and n not in pending)) and (as_of is None or n <= as_of)
    }  # fmt: skip
    newest: dict[str, int] = {}
    for group, n, _ in slices:
        if n in seen:
            newest[group] = max(n, newest.get(group, 0))
    assert {(file.file_id, file.instant_time) for file in found.live} == {(g, times[n]) for g, n in newest.items()}
    assert {file.instant_time for file in found.unseen} == {times[n] for _, n, _ in slices if n not in seen}
