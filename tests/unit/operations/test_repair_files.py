"""Repair of base files: footers as they were, lost files from older slices, and the loss told where there is one."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeindex.api.table import LakeTable
from lakeindex.commit.written_slices import WrittenSlice
from lakeindex.errors import (
    PendingInstantError,
    TableCorruptError,
    TableUnsupportedError,
    UsageError,
    WriteConflictError,
)
from lakeindex.format.commit_metadata import WriteStat
from lakeindex.format.file_names import parse_base_path
from lakeindex.model import Instant, InstantState
from lakeindex.operations import repair as repairing
from lakeindex.operations import repair_files
from lakeindex.operations.repair import RepairSummary
from lakeindex.operations.repair_files import NewSlices, footer_found
from lakeindex.parquet.stamps import digest_in
from lakeindex.storage import open_storage
from lakeindex.table.handle import Table
from lakeindex.tasks.local_runner import LocalRunner
from lakeindex.write.base_file import RECORD_KEY
from tests.builders import SCHEMA, Row, as_hudis, batch_of, content_of, make_table
from tests.golden import made_once
from tests.scheduling import some_of
from tests.stored_indexes import inserted
from tests.told_tables import Shards, edit_record_index
from tests.unit.commit.protocol_support import KilledError
from tests.unit.operations.test_check_columns import WIDER, commit_schema
from tests.unit.operations.test_repair import FIRST, SECOND, is_whole, live_of, root, table_of_two, told

pytestmark = pytest.mark.usefixtures("time_leaps")
VERSIONS = ("6", "8", "9")
INDEXES = ("BLOOM", "GLOBAL_SIMPLE", "BUCKET", "RECORD_INDEX", "INMEMORY", "SIMPLE")


def kept_of(done: RepairSummary) -> Path:
    return Path(str(done.kept).removeprefix("file://"))


def adds_up(done: RepairSummary, table: LakeTable) -> None:
    assert done.rows_before - done.rows_gone + done.rows_back - done.rows_doubled == done.rows_after == table.count()


@pytest.mark.parametrize("damage", ["a bit", "a byte", "the end", "the magic", "the length"])
def test_a_footer_is_as_it_was(tmp_path: Path, damage: str) -> None:
    """Found by its checksum; rows and pages agree; the file is the same bytes again, and nothing else changes."""
    table = table_of_two(tmp_path, "9", ("files", "record_index"), "RECORD_INDEX")
    file = live_of(table, "x")
    whole = file.read_bytes()
    data = bytearray(whole)
    length = int.from_bytes(whole[-8:-4], "little")
    if damage in ("a bit", "a byte"):
        at = len(whole) - 8 - random.Random(7).randrange(1, length)
        data[at] ^= 16 if damage == "a bit" else 0x5B
    else:
        for at in {"the end": range(8), "the magic": range(4, 8), "the length": range(2)}[damage]:
            data[len(whole) - 8 + at] ^= 0xA5
    file.write_bytes(bytes(data))
    assert not table.check().ok
    history = len(table.history())
    planned = table.repair()
    assert [kind for kind, _ in told(planned.mends)] == ["footer"], (planned.mends, planned.unmended)
    done = table.repair(apply=True)
    assert file.read_bytes() == whole
    assert (kept_of(done) / file.relative_to(root(table))).read_bytes() == bytes(data)
    assert len(table.history()) == history
    assert (done.rows_gone, done.rows_back) == (0, 0)
    is_whole(table)


def test_of_two_footers_that_agree_none_is_taken(tmp_path: Path) -> None:
    """Two bytes of a long footer that make the same of its checksum; the pages know of neither."""
    apart, one, other = 145_212, 248, 169
    path = "x/f-0_0-0-0_20260101000000000.parquet"
    file = tmp_path / path
    file.parent.mkdir()
    rows = pa.table({RECORD_KEY: ["a", "b"]})
    with pq.ParquetWriter(file, rows.schema, write_page_checksum=True, store_schema=False) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata({"text": "A" * (apart + 50)})
    whole = file.read_bytes()
    listed = parse_base_path(path, len(whole))
    assert listed is not None
    stat = WriteStat("f-0", path, "x", num_writes=2, file_size_bytes=len(whole))
    written = WrittenSlice(
        listed, stat, Instant("20260101000000000", "commit", InstantState.COMPLETED), digest_in(whole)
    )
    first = whole.index(b"A" * apart)
    for at, value, wanted in (
        (first + 10, one, None),
        (first + 10 + apart, other, None),
        (first + 10, other, whole),
    ):
        bad = bytearray(whole)
        bad[at] ^= value
        file.write_bytes(bad)
        assert footer_found(open_storage(str(tmp_path)), listed, written) == wanted, (at, value)


def test_a_footer_is_not_taken_that_something_speaks_against(tmp_path: Path) -> None:
    """Or nothing but its own checksum for: pages without one cannot agree."""
    path = "x/f-0_0-0-0_20260101000000000.parquet"
    file = tmp_path / path
    file.parent.mkdir()
    for has_checksums, count, more in ((True, 2, 0), (False, 2, 0), (True, 3, 0), (True, 2, 1)):
        rows = pa.table({RECORD_KEY: ["a", "b"]})
        with pq.ParquetWriter(file, rows.schema, write_page_checksum=has_checksums, store_schema=False) as writer:
            writer.write_table(rows)
            writer.add_key_value_metadata({"text": "A" * 50})
        whole = file.read_bytes()
        listed = parse_base_path(path, len(whole))
        assert listed is not None
        stat = WriteStat("f-0", path, "x", num_writes=count, file_size_bytes=len(whole) + more)
        instant = Instant("20260101000000000", "commit", InstantState.COMPLETED)
        bad = bytearray(whole)
        bad[whole.index(b"A" * 50) + 10] ^= 1
        file.write_bytes(bad)
        found = footer_found(open_storage(str(tmp_path)), listed, WrittenSlice(listed, stat, instant, digest_in(whole)))
        assert found == (whole if (has_checksums, count, more) == (True, 2, 0) else None)


@pytest.mark.parametrize(
    ("version", "index", "names"),
    [
        *some_of(
            [(VERSIONS[n % 3], index, ()) for n, index in enumerate(INDEXES)],
            lambda case: case[1] in ("BUCKET", "INMEMORY"),
            pytest.mark.slow,
        ),
        ("6", "BLOOM", ("files", "column_stats", "bloom_filters")),
        ("8", "RECORD_INDEX", ("files", "record_index")),
        ("9", "RECORD_INDEX", ("files", "column_stats", "partition_stats", "record_index")),
        ("9", "GLOBAL_BLOOM", ("files", "record_index")),
    ],
)
@pytest.mark.few(3)
def test_a_lost_file_comes_from_the_older_slice(
    tmp_path: Path, version: str, index: str, names: tuple[str, ...]
) -> None:
    """What the newest commit did there is lost: the batch is named, and sent again it makes the table what it was."""
    table = table_of_two(tmp_path, version, names, index)
    content = content_of(table)
    file = live_of(table, "x")
    file.unlink()
    planned = table.repair()
    wanted = ["metadata", "file"] if names else ["file"]
    assert [kind for kind, _ in told(planned.mends)] == wanted, planned.unmended
    (lost,) = planned.files
    assert (lost.lost, lost.rows, lost.kept, lost.back) == (True, 3, 0, 2)
    assert [(one.batch_id, one.inserts, one.updates, one.deletes) for one in lost.writes] == [("two", 1, 1, 0)]
    assert (lost.keys_lost, lost.keys) == ((1, ("g",)) if "record_index" in names else (None, ()))
    done = table.repair(apply=True)
    assert done.instant == table.history()[0].instant
    adds_up(done, table)
    if "record_index" in names:
        assert pq.read_table(kept_of(done) / "lost-keys.parquet").column("key").to_pylist() == ["g"]
    report = table.check()
    assert report.ok, report.violations
    if names:
        assert table.metadata_verify().ok
        assert set(table.properties["hoodie.table.metadata.partitions"].split(",")) == set(names)
    again = table.upsert(batch_of(SECOND), batch_id="two", force=True)
    assert again.inserts == 1, "a key that was lost is a new one to every index"
    assert content_of(table) == content
    is_whole(table)


@pytest.mark.parametrize("is_live", [True, False])
@pytest.mark.parametrize(
    ("version", "left", "names"),
    [
        ("6", 0, ("files", "column_stats", "bloom_filters")),
        ("9", 1500, ("files", "column_stats", "partition_stats")),
    ],
)
def test_statistics_are_built_beside_a_slice_that_was_cut_off(
    tmp_path: Path, version: str, left: int, names: tuple[str, ...], is_live: bool
) -> None:
    """Another slice took its place, before or in the repair: readers of the past look into a file without statistics."""
    table = table_of_two(tmp_path, version, names)
    file = live_of(table, "x")
    if not is_live:
        table.upsert(batch_of([Row("a", "x", 3, "3")]))
    file.write_bytes(file.read_bytes()[:left])
    done = table.repair(apply=True)
    assert done.ok, done.unmended
    assert table.metadata_verify().ok
    assert set(table.properties["hoodie.table.metadata.partitions"].split(",")) == set(names)
    table.upsert(batch_of([Row("a", "x", 4, "4")]))
    assert [row["v"] for row in table.scan(where="ts = 4").to_arrow().to_pylist()] == ["4"]
    table.clean(1)
    assert table.metadata_verify().ok
    is_whole(table)
    file = live_of(table, "x")
    file.write_bytes(file.read_bytes()[:left])
    table.metadata_drop()
    with pytest.raises(TableCorruptError, match=f"the footer of x/{file.name} cannot be read"):  # it is live
        table.metadata_build(list(names))


def test_the_whole_loss_is_told_where_no_older_slice_is_left(tmp_path: Path) -> None:
    for version, index, names in (
        ("6", "BLOOM", ()),
        ("9", "RECORD_INDEX", ("files", "record_index")),
        ("8", "BUCKET", ()),
    ):
        table = table_of_two(tmp_path / version, version, names, index)
        table.upsert(batch_of([Row("b", "y", 3, "later")]), batch_id="three")
        table.clean(1)
        live_of(table, "x").unlink()
        (lost,) = table.repair().files
        assert (lost.rows, lost.kept, lost.older, lost.back) == (3, 0, None, 0)
        assert [one.batch_id for one in lost.writes] == ["one", "two"]
        if names:
            assert (lost.keys_lost, lost.keys) == (3, ("a", "d", "g"))
        done = table.repair(apply=True)
        adds_up(done, table)
        (told_of,) = (one for one in table.history() if one.instant == done.instant)
        assert (told_of.inserts, told_of.deletes) == (0, 3)
        assert table.count() == 5
        assert sorted(table.read(meta=False)["day"].unique().to_pylist()) == ["y", "z"]
        assert table.check().ok
        assert table.upsert(batch_of(FIRST[:1]), batch_id="one more").inserts == 1
        is_whole(table)


def test_rows_that_live_elsewhere_or_were_deleted_do_not_come_back(tmp_path: Path) -> None:
    """The older slice has a key that moved since, and one that was deleted: of that one only the record index knows."""
    for names in ((), ("files", "record_index")):
        table = make_table(
            tmp_path / f"t{len(names)}", hoodie__index__type="GLOBAL_BLOOM", hoodie__write__table__version="9"
        )
        table.upsert(
            batch_of([Row("a", "x", 1, "a"), Row("b", "x", 1, "b"), Row("c", "x", 1, "c"), Row("d", "y", 1, "d")])
        )
        if names:
            table.metadata_build(list(names))
        table.upsert(batch_of([Row("b", "y", 2, "moved"), Row("c", "x", 2, None, deleted=True)]))
        live_of(table, "x").unlink()
        done = table.repair(apply=True)
        adds_up(done, table)
        assert done.rows_doubled == 0, "the older slice shows a key that has moved until the new one is there"
        assert {row["id"] for row in table.read(meta=False).to_pylist()} == (
            {"a", "b", "d"} if names else {"a", "b", "c", "d"}
        )
        (told_of,) = (one for one in table.history() if one.instant == done.instant)
        assert (told_of.inserts, told_of.deletes) == (0 if names else 1, 0), "of the lost file, as its commit says"
        assert table.check().ok


@made_once
def table_of_moved(folder: Path) -> tuple[LakeTable, str, str, str]:
    """A table whose key ``m`` has moved from x to y; the files of x before and after that, and that of y."""
    table = make_table(folder / "t", hoodie__index__type="GLOBAL_BLOOM", hoodie__write__table__version="9")
    options = {"lakeindex.parquet.row.group.rows": "2"}
    old = [Row(f"{day}{n}", day, 1, "old") for day in "xy" for n in range(4)]
    table.upsert(batch_of([Row("m", "x", 1, "old"), *old]), options=options)
    before = live_of(table, "x")
    table.upsert(batch_of([Row("m", "y", 2, "new")]), options=options)
    return table, before.name, live_of(table, "x").name, live_of(table, "y").name


def test_of_several_broken_files_each_key_comes_back_once(tmp_path: Path) -> None:
    """A key that was in several of them is of the newest slice that has it: what can be read, or mended, or an older one."""
    for case, had in (  # of x and y: rows that can be read of the file, rows of the older slice
        ("y can be read in part", [(0, 4), (3, 2)]),
        ("y gets its footer again", [(0, 4)]),
        ("y stays as it is", [(0, 4)]),
        ("y stays as it is, and of the row only its key can be read", [(0, 4)]),
        ("y is cut off", [(0, 5), (0, 4)]),
        ("y comes from the slice in which it was", [(0, 4), (0, 5)]),
    ):
        table, before, x, y = table_of_moved(tmp_path / case)
        of_x, of_y = root(table) / "x" / x, root(table) / "y" / y
        if case == "y comes from the slice in which it was":
            table.upsert(batch_of([Row("y0", "y", 3, "newer")]))
            live_of(table, "y").unlink()
        elif case == "y gets its footer again":
            data = bytearray(of_y.read_bytes())
            data[-60] ^= 16
            of_y.write_bytes(data)
        elif case == "y is cut off":
            of_y.write_bytes(of_y.read_bytes()[:-700])
        else:
            if case.startswith("y stays as it is"):
                table.upsert(batch_of([Row("n", "y", 1, "n")]), options={"hoodie.parquet.small.file.limit": "0"})
                table.cluster(["y"], schedule=True, runner=LocalRunner(1))
            spoil(of_y, 2 if "of the row" in case else 0)
        of_x.unlink()
        files = table.repair().files
        assert [(one.kept, one.back) for one in files] == had, case
        assert files[0].older == f"x/{before}", case
        if case in ("y gets its footer again", "y comes from the slice in which it was"):
            adds_up(table.repair(apply=True), table)
            assert [row["day"] for row in table.read(meta=False).to_pylist() if row["id"] == "m"] == ["y"], case
            is_whole(table)


def test_of_two_broken_slices_of_a_file_group_the_newest_gets_a_new_one(tmp_path: Path) -> None:
    """Its file group is written once: of the slice before both, or of the older one, if that gets its footer again."""
    for case, stands_in in (("page", 0), ("footer", 1)):
        table = make_table(tmp_path / case / "t", hoodie__write__table__version="8")
        slices = []
        for turn in range(3):
            table.upsert(batch_of([Row("a", "x", turn, str(turn)), Row("b", "x", turn, str(turn))]))
            slices.append(live_of(table, "x"))
        if case == "page":
            spoil(slices[1], 0)
        else:
            data = bytearray(slices[1].read_bytes())
            data[-60] ^= 16
            slices[1].write_bytes(data)
        slices[2].unlink()
        done = table.repair(apply=True)
        adds_up(done, table)
        (file,) = done.files
        assert (file.path, file.older, file.back) == (f"x/{slices[2].name}", f"x/{slices[stands_in].name}", 2), case
        assert len(set(slices[0].parent.glob(f"*_{done.instant}.parquet"))) == 1
        assert [row["ts"] for row in table.read(meta=False).to_pylist()] == [stands_in] * 2
        is_whole(table)


def test_the_newest_of_older_slices_stands_in_and_no_stray(tmp_path: Path) -> None:
    """A file of the same file group, of a commit that does not name it, is newer than that slice, and nobody's."""
    for version in ("6", "9"):
        table = table_of_two(tmp_path / version, version)
        older = live_of(table, "x")
        table.upsert(batch_of([Row("z", "z", 1, "elsewhere")]), batch_id="elsewhere")
        between = table.history()[0].instant
        table.upsert(batch_of([Row("a", "x", 3, "lost"), Row("h", "x", 3, "lost")]), batch_id="three")
        live_of(table, "x").unlink()
        oldest = min((root(table) / "x").glob("*.parquet"), key=lambda one: one.stem.rpartition("_")[2])
        assert oldest != older
        stray = oldest.with_name(f"{older.stem.partition('_')[0]}_0-0-0_{between}.parquet")
        shutil.copy(oldest, stray)
        (lost,) = table.repair().files
        assert lost.older == str(older.relative_to(root(table)))
        assert [one.batch_id for one in lost.writes] == ["three"]
        done = table.repair(apply=True)
        assert not stray.exists()
        adds_up(done, table)
        assert {row["id"]: row["ts"] for row in table.read(meta=False).to_pylist() if row["day"] == "x"} == {
            "a": 1,
            "d": 2,
            "g": 2,
        }
        is_whole(table)


@made_once
def table_of_groups(folder: Path, index: str = "BLOOM") -> LakeTable:
    """One file of three row groups."""
    table = make_table(folder / "t", hoodie__write__table__version="9", hoodie__index__type=index)
    rows = [Row(f"k{n:03d}", "x", 1, f"v{n}") for n in range(300)]
    options = {"lakeindex.parquet.row.group.rows": "100"}
    table.upsert(batch_of(rows[:150]), batch_id="one", options=options)
    table.upsert(batch_of(rows), batch_id="two", options=options)
    return table


def spoil(file: Path, group: int, column: str = "v") -> None:
    """Flip bits in the last page of a column of a row group."""
    metadata = pq.ParquetFile(file).metadata
    number = next(n for n in range(metadata.num_columns) if metadata.schema.column(n).path == column)
    chunk = metadata.row_group(group).column(number)
    data = bytearray(file.read_bytes())
    data[chunk.data_page_offset + chunk.total_compressed_size // 2] ^= 0xFF
    file.write_bytes(bytes(data))


def test_of_older_slices_too_what_can_be_read_is_had_again(tmp_path: Path) -> None:
    """Where the newest of them is damaged: the rest comes from the one before, if there is one."""
    for cleaned in (False, True):
        table = table_of_groups(tmp_path / str(cleaned))
        second = live_of(table, "x")
        (first,) = set(second.parent.glob("*.parquet")) - {second}
        gone = set(pq.ParquetFile(second).read_row_group(0, [RECORD_KEY]).column(0).to_pylist())
        table.upsert(batch_of([Row("k000", "x", 2, "third")]), options={"lakeindex.parquet.row.group.rows": "100"})
        if cleaned:
            table.clean(1)
        assert first.exists() is not cleaned
        spoil(second, 0)
        live_of(table, "x").unlink()
        done = table.repair(apply=True)
        adds_up(done, table)
        keys = {f"k{n:03d}" for n in range(300)} - (gone if cleaned else set())
        (lost,) = done.files
        assert (lost.older, lost.back) == (f"x/{(second if cleaned else first).name}", len(keys))
        assert lost.writes[0].batch_id == ("one" if cleaned else "two")
        assert {row["id"]: row["v"] for row in table.read(meta=False).to_pylist()} == {
            key: f"v{int(key[1:])}" for key in keys
        }
        is_whole(table)


def test_a_partition_that_no_reader_finds_is_looked_into_before_a_file_is_given_up(tmp_path: Path) -> None:
    """Its files count once its metadata is there: a key that moved into it does not come back, an older slice stands in,
    and what is damaged there is mended, too."""
    table, before, _, of_y = table_of_moved(tmp_path / "moved")
    live_of(table, "x").unlink()
    data = bytearray((root(table) / "y" / of_y).read_bytes())
    data[-60] ^= 16
    (root(table) / "y" / of_y).write_bytes(data)
    (root(table) / "y/.hoodie_partition_metadata").unlink()
    done = table.repair(apply=True)
    assert [kind for kind, _ in told(done.mends)] == ["partition", "footer", "file"]
    assert [(one.kept, one.back, one.older) for one in done.files] == [(0, 4, f"x/{before}")]
    adds_up(done, table)
    assert [row["day"] for row in table.read(meta=False).to_pylist() if row["id"] == "m"] == ["y"]
    is_whole(table)

    table = table_of_two(tmp_path / "older", "8")
    older = min((root(table) / "x").glob("*.parquet"), key=lambda one: one.stem.rpartition("_")[2])
    live_of(table, "x").unlink()
    (root(table) / "x/.hoodie_partition_metadata").unlink()
    planned = table.repair(only=["file"])
    assert not planned.files
    assert any("no reader finds its partition" in one.why for one in planned.unmended)
    done = table.repair(apply=True)
    assert [kind for kind, _ in told(done.mends)] == ["partition", "file"]
    assert [(one.back, one.older) for one in done.files] == [(2, str(older.relative_to(root(table))))]
    adds_up(done, table)
    is_whole(table)


@made_once
def table_with_record_index(folder: Path) -> LakeTable:
    """From x, ``b`` has moved to y, ``c`` is deleted, and ``n`` is new."""
    table = make_table(folder / "t", hoodie__index__type="GLOBAL_BLOOM", hoodie__write__table__version="9")
    table.upsert(batch_of([Row(key, "x" if key < "d" else "y", 1, "first") for key in "abcd"]), batch_id="one")
    table.metadata_build(["files", "record_index"])
    later = [Row("b", "y", 2, "moved"), Row("c", "x", 2, None, deleted=True), Row("n", "x", 2, "new")]
    table.upsert(batch_of(later), batch_id="two")
    return table


def test_what_the_record_index_said_outlives_a_repair_that_is_cut_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is taken away first; what it said of lost files is asked of what is kept, which maintenance leaves alone."""

    def dies(*_: object) -> None:
        raise KilledError

    for case in ("at once", "behind maintenance", "behind another write", "and another file is lost"):
        table = table_with_record_index(tmp_path / case)
        live_of(table, "x").unlink()
        with monkeypatch.context() as killed:
            killed.setattr(NewSlices, "publish", dies)
            with pytest.raises(KilledError):
                table.repair(apply=True)
        assert "hoodie.table.metadata.partitions" not in table.properties
        wanted = {("x", "n")}
        if case == "behind maintenance":
            (root(table) / "y/.hoodie_partition_metadata").write_bytes(b"junk")
            (step,) = table.maintain(["repair"]).steps
            assert step.counts["partition"] == 1
        elif case == "behind another write":
            table.upsert(batch_of([Row("z", "z", 5, "z")]))
        elif case == "and another file is lost":
            live_of(table, "y").unlink()
            wanted |= {("y", "b")}
        done = table.repair(apply=True)
        adds_up(done, table)
        assert {key for one in done.files for key in one.keys} == {key for _, key in wanted}, case
        lost = pq.read_table(kept_of(done) / "lost-keys.parquet").to_pylist()
        assert {(one["file"][0], one["key"]) for one in lost} == wanted, case
        assert "c" not in {row["id"] for row in table.read(meta=False).to_pylist()}, case
        assert table.metadata_verify().ok
        is_whole(table)


def test_keys_that_are_lost_are_told_beside_those_of_a_repair_that_was_cut_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_with_record_index(tmp_path)

    def dies(*_: object, **__: object) -> None:
        raise KilledError

    for day in "xy":
        live_of(table, day).unlink()
        with monkeypatch.context() as killed:
            killed.setattr(repairing, "build_metadata_table", dies)
            with pytest.raises(KilledError):
                table.repair(apply=True)
    done = table.repair(apply=True)
    lost = pq.read_table(kept_of(done) / "lost-keys.parquet").to_pylist()
    assert [(one["file"][0], one["key"]) for one in lost] == [("x", "n"), ("y", "b")]


def test_damage_to_a_column_that_the_table_has_no_more_is_no_loss(tmp_path: Path) -> None:
    """Rows of the file itself, not the older ones of the slice before."""
    table = make_table(tmp_path / "t", schema=WIDER, hoodie__write__table__version="6")
    wide = batch_of([Row("a", "x", 1, "old"), Row("b", "x", 1, "old")]).append_column("extra", pa.array(["p", "q"]))
    table.upsert(wide)
    table.upsert(wide.set_column(2, "ts", pa.array([2, 2])).set_column(3, "v", pa.array(["new", "new"])))
    commit_schema(table, str(int(table.history()[0].instant) + 1), SCHEMA)
    spoil(live_of(table, "x"), 0, "extra")
    assert not table.check().ok
    done = table.repair(apply=True)
    adds_up(done, table)
    assert [(one.kept, one.back, one.older) for one in done.files] == [(2, 0, None)]
    assert table.read(meta=False).column("v").to_pylist() == ["new", "new"]
    is_whole(table)


def test_a_record_index_that_was_not_told_or_has_holes_is_no_evidence(tmp_path: Path) -> None:
    """That a key is not in it does not say then that its row was deleted: what the older slice has comes back."""

    def as_of_who_keeps_no_metadata_table(table: LakeTable) -> None:
        properties = root(table) / ".hoodie/hoodie.properties"
        text = properties.read_text()
        lines = [line for line in text.splitlines() if not line.startswith("hoodie.table.metadata.partitions=")]
        properties.write_text("\n".join(lines) + "\n")
        for n in range(2):
            LakeTable(table.uri).upsert(batch_of([Row("u", "x", 3 + n, "untold")]))
        properties.write_text(text)

    def with_a_hole(table: LakeTable) -> None:
        table.upsert(batch_of([Row("u", "x", 3, "told"), Row("d", "y", 3, "told")]))
        table.upsert(batch_of([Row("a", "x", 3, "told")]))
        table.maintain(["metadata"])

        def lose(shards: Shards, _: str) -> None:
            for entries in shards.values():
                for key in (b"u", b"d"):
                    entries.pop(key, None)

        edit_record_index(table, lose)

    for case, happens in (("untold", as_of_who_keeps_no_metadata_table), ("holes", with_a_hole)):
        table = table_with_record_index(tmp_path / case)
        happens(table)
        live_of(table, "x").unlink()
        done = table.repair(apply=True)
        adds_up(done, table)
        assert {row["id"] for row in table.read(meta=False).to_pylist()} == set("abdnu"), case
        assert [(one.back, one.keys_lost) for one in done.files] == [(3, None)], case
        assert table.metadata_verify().ok
        is_whole(table)


@pytest.mark.parametrize("meanwhile", ["the file is put back", "another repair was first"])
def test_a_file_group_that_has_a_file_again_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    """Its one file was lost when it was looked at; a new slice without rows would hide what is there since."""
    table = table_of_two(tmp_path, "9")
    table.upsert(batch_of([Row("w", "w", 1, "alone")]))
    lost = live_of(table, "w")
    copy = lost.read_bytes()
    lost.unlink()
    real, happened = repair_files._built, list[int]()

    def built(*args: Any) -> Any:
        if not happened:
            happened.append(1)
            if meanwhile == "the file is put back":
                lost.write_bytes(copy)
            else:
                table.upsert(batch_of([Row("z", "z", 5, "elsewhere")]))
                assert table.repair(apply=True).instant
                table.upsert(batch_of([Row("w", "w", 1, "alone")]))
        return real(*args)

    monkeypatch.setattr(repair_files, "_built", built)
    with pytest.raises(WriteConflictError, match="was lost, and is back, or something newer"):
        table.repair(apply=True)
    assert happened
    assert [row["v"] for row in table.read(meta=False).to_pylist() if row["id"] == "w"] == ["alone"]
    assert table.repair(apply=True).ok
    is_whole(table)


def test_what_came_since_the_check_does_not_give_way_to_an_older_slice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lost file was put back, and its file group written to: the plan is made of what was found before."""
    table = table_of_two(tmp_path, "9")
    lost = live_of(table, "x")
    copy = lost.read_bytes()
    lost.unlink()
    real = repairing.check_table

    def check(*args: Any, **how: Any) -> Any:
        report = real(*args, **how)
        if not lost.exists():
            lost.write_bytes(copy)
            table.upsert(batch_of([Row("a", "x", 7, "newest")]))
        return report

    monkeypatch.setattr(repairing, "check_table", check)
    done = table.repair(apply=True)
    assert (done.mends, done.files, done.unmended) == ((), (), ())
    assert [row["v"] for row in table.read(meta=False).to_pylist() if row["id"] == "a"] == ["newest"]
    is_whole(table)


def test_who_asks_for_files_alone_gets_a_record_index_that_is_right_of_them(tmp_path: Path) -> None:
    table = table_with_record_index(tmp_path)
    live_of(table, "x").unlink()
    done = table.repair(only=["file"], apply=True)
    assert [kind for kind, _ in told(done.mends)] == ["metadata", "file"]
    assert table.metadata_verify().ok
    assert table.upsert(batch_of([Row("b", "y", 3, "again")])).updates == 1
    is_whole(table)


def test_a_key_that_another_writer_inserts_meanwhile_does_not_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was deleted, and without a record index the older slice brings it back: not beside the row that is new, which is in
    another partition if keys are unique in the table.
    """
    options = {"lakeindex.parquet.row.group.rows": "100", "hoodie.parquet.small.file.limit": "0"}
    for index, when, day in (("BLOOM", "salvaged", "x"), ("BLOOM", "_built", "x"), ("GLOBAL_SIMPLE", "_built", "y")):
        table = table_of_groups(tmp_path / f"{index}{when}", index)
        table.upsert(batch_of([Row("k299", "x", 2, None, deleted=True)]), options=options)
        spoil(live_of(table, "x"), 0)
        real, done_before = getattr(repair_files, when), []

        def other(
            *args: Any, real: Any = real, table: LakeTable = table, done: list[int] = done_before, day: str = day
        ) -> Any:
            if not done:
                done.append(table.upsert(batch_of([Row("k299", day, 3, "new")]), options=options).inserts)
            return real(*args)

        with monkeypatch.context() as patched:
            patched.setattr(repair_files, when, other)
            done = table.repair(apply=True)
        assert done_before == [1]
        assert (done.rows_gone, done.rows_back) == (100, 100)
        assert [row["v"] for row in table.read(meta=False).to_pylist() if row["id"] == "k299"] == ["new"]
        assert table.count() == 300
        is_whole(table)


def test_what_can_still_be_read_of_a_damaged_file_is_kept(tmp_path: Path) -> None:
    table = table_of_groups(tmp_path)
    file = live_of(table, "x")
    groups = pq.ParquetFile(file).metadata.num_row_groups
    assert groups > 1
    spoil(file, 0)
    bad = file.read_bytes()
    planned = table.repair()
    (lost,) = planned.files
    assert not lost.lost
    assert lost.kept > 0
    assert lost.kept + lost.back == 300
    done = table.repair(apply=True)
    adds_up(done, table)
    assert (kept_of(done) / file.relative_to(root(table))).read_bytes() == bad
    assert {row["id"]: row["v"] for row in table.read(meta=False).to_pylist()} == {
        f"k{n:03d}": f"v{n}" for n in range(300)
    }
    is_whole(table)


def test_a_file_that_is_cut_off_is_as_good_as_lost(tmp_path: Path) -> None:
    table = table_of_two(tmp_path, "6", ("files",))
    file = live_of(table, "y")
    file.write_bytes(file.read_bytes()[:-700])
    planned = table.repair()
    assert ("file", str(file.relative_to(root(table)))) in told(planned.mends)
    done = table.repair(apply=True)
    adds_up(done, table)
    assert table.metadata_verify().ok
    is_whole(table)


def test_the_record_index_follows_where_the_metadata_table_is_right_of_files(tmp_path: Path) -> None:
    """Of a file that is there, and has the size that it had, the metadata table says nothing wrong: its keys may be lost."""
    table = table_of_two(tmp_path, "9", ("files", "record_index"), "RECORD_INDEX")
    file = live_of(table, "x")
    data = bytearray(file.read_bytes())
    data[-300:-9] = bytes(291)
    file.write_bytes(bytes(data))
    done = table.repair(apply=True)
    assert [kind for kind, _ in told(done.mends)] == ["metadata", "file"]
    assert (done.files[0].lost, done.files[0].keys) == (False, ("g",))
    assert table.metadata_verify().ok
    assert table.upsert(batch_of([Row("g", "x", 9, "again")]), batch_id="again").inserts == 1
    is_whole(table)


def test_a_damaged_file_of_another_writer(tmp_path: Path) -> None:
    """How its keys are spelled was never compared with our own: that is done with what can be read."""
    for is_bound in (True, False):
        table = table_of_two(tmp_path / str(is_bound), "6")
        inserted(table, [Row("n", "x", 3, "n")])
        file = max((root(table) / "x").glob("*.parquet"), key=lambda one: one.stat().st_mtime_ns)
        data = bytearray(file.read_bytes())
        data[-300:-9] = bytes(291)
        file.write_bytes(bytes(data))
        if not is_bound:
            as_hudis(table)
        done = table.repair(apply=True)
        assert [kind for kind, _ in told(done.mends)] == ["file"], done.unmended
        adds_up(done, table)
        table.upsert(batch_of([Row("n", "x", 3, "n")]), options={"hoodie.index.type": "BLOOM"})
        assert table.check().ok


def test_a_lost_file_whose_commit_was_archived(tmp_path: Path) -> None:
    """Nobody but the metadata table knows of it: to build that anew would hide the loss."""
    table = make_table(tmp_path / "t", hoodie__write__table__version="9")
    table.upsert(batch_of(FIRST), batch_id="one")
    table.metadata_build(["files"])
    table.upsert(batch_of([Row("a", "x", 2, "newer")]), batch_id="two")
    for n in range(4):
        table.upsert(batch_of([Row("z", "z", n, "again")]), batch_id=f"z{n}")
    table.clean(1)
    table.maintain(["metadata"])
    assert table.archive(1, options={"hoodie.cleaner.commits.retained": "1"}).instants
    live_of(table, "x").unlink()
    planned = table.repair()
    assert [kind for kind, _ in told(planned.mends)] == ["metadata", "file"]
    assert planned.files[0].rows is None
    done = table.repair(apply=True)
    adds_up(done, table)
    is_whole(table)


@pytest.mark.parametrize("version", some_of(["6", "9"], {"9"}.__contains__, pytest.mark.slow))
@pytest.mark.parametrize("cleans", [True, False])
def test_states_with_a_lost_file_whose_commit_was_archived_are_refused(
    tmp_path: Path, version: str, cleans: bool
) -> None:
    """By what is there the file group was not there then, or had older rows; the commit of the repair knows better."""
    table = make_table(tmp_path / "t", hoodie__write__table__version=version)
    table.upsert(batch_of(FIRST))
    table.metadata_build(["files"])
    table.upsert(batch_of([Row("a", "x", 2, "newer")]))
    for n in range(4):
        table.upsert(batch_of([Row("z", "z", n, "again")]))
    if cleans:
        table.clean(1)
    table.maintain(["metadata"])
    assert table.archive(1, options={"hoodie.cleaner.commits.retained": "1"}).instants
    then = max(one.instant for one in table.history() if one.operation)
    before, lost = content_of(table), live_of(table, "x")
    copy = lost.read_bytes()
    assert table.read(meta=False, as_of=then).num_rows == len(before)
    lost.unlink()
    done = table.repair(apply=True)
    after = content_of(table)
    assert after != before
    group = f"x/{lost.name[:36]}"
    with pytest.raises(UsageError, match=f"{group}.* was cleaned away"):
        table.read(meta=False, as_of=then)
    with pytest.raises((UsageError, TableCorruptError), match=group):
        table.changes(since=then).to_arrow()
    with pytest.raises(TableUnsupportedError, match=f"what {group}.* is gone"):
        table.restore(then)
    with pytest.raises(TableUnsupportedError, match=group):
        table.rollback(str(done.instant))
    assert content_of(table) == after
    is_whole(table)
    table.metadata_drop()  # which does not know the file that comes back
    lost.write_bytes(copy)
    table.restore(then)
    assert content_of(table) == before


@made_once
def table_of_archived(folder: Path, version: str) -> LakeTable:
    """Only its metadata table says what is in w, and what is the newest file of x."""
    table = make_table(folder / "t", hoodie__write__table__version=version, hoodie__index__type="GLOBAL_BLOOM")
    table.upsert(batch_of([Row("w", "w", 1, "alone"), *FIRST]))
    table.metadata_build(["files", "record_index"])
    for n in range(4):
        table.upsert(batch_of([Row("a", "x", 2 + n, "newer")] if n < 2 else [Row("z", "z", n, "again")]))
    table.clean(1)
    table.maintain(["metadata"])
    assert table.archive(1, options={"hoodie.cleaner.commits.retained": "1"}).instants
    return table


@pytest.mark.parametrize("version", some_of(["6", "9"], {"9"}.__contains__, pytest.mark.slow))
@pytest.mark.parametrize("case", ["alone", "and the index is damaged", "and the repair is cut short"])
def test_a_partition_that_only_the_metadata_table_names_is_one_again(
    tmp_path: Path, version: str, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files are there, so that none of them is lost; a metadata table that is built anew would hide them for good."""
    table = table_of_archived(tmp_path, version)
    content = content_of(table)
    (root(table) / "w/.hoodie_partition_metadata").unlink()
    if case != "alone":
        for file in (root(table) / ".hoodie/metadata/record_index").glob("*.hfile"):
            file.write_bytes(b"xx" + file.read_bytes()[2:])
    wanted = [("partition", "w/.hoodie_partition_metadata")]
    assert wanted[0] in [(one.kind.value, one.culprit) for one in table.check().violations]
    if case != "alone":
        alone = table.repair(only=["metadata", "footer"], apply=True)
        assert (alone.mends, alone.ok, content_of(table)) == ((), False, content)
        assert any("w/.hoodie_partition_metadata is lost" in one.why for one in alone.unmended)
    else:
        copy = live_of(table, "x").read_bytes()
        live_of(table, "x").unlink()
        alone = table.repair(only=["file"], apply=True)
        assert (alone.mends, alone.ok) == ((), False)
        assert any("no reader finds partition w" in one.why for one in alone.unmended)
        (root(table) / alone.unmended[0].culprit).write_bytes(copy)
    if case == "and the repair is cut short":

        def dies(*_: object) -> None:
            raise KilledError

        with monkeypatch.context() as killed:
            killed.setattr(repairing._Repair, "_mend", dies)
            with pytest.raises(KilledError):
                table.repair(apply=True)
        assert "hoodie.table.metadata.partitions" not in table.properties
        table.upsert(batch_of([Row("q", "z", 9, "later")]))
        content |= {("z", "q", "z", 9, "later")}
    done = table.repair(apply=True)
    assert [kind for kind, _ in told(done.mends)] == (["partition"] if case == "alone" else ["metadata", "partition"])
    assert not done.files
    adds_up(done, table)
    assert content_of(table) == content
    assert table.metadata_verify().ok
    is_whole(table)


@pytest.mark.parametrize("version", ["6", "9"])
def test_a_metadata_table_is_not_built_anew_where_it_alone_knows_of_a_loss(tmp_path: Path, version: str) -> None:
    table = table_of_archived(tmp_path, version)
    lost = live_of(table, "x")
    lost.unlink()
    assert any("`lakeindex repair TABLE`: the file may be lost" in one.hint for one in table.check().violations)
    alone = table.repair(only=["metadata"], apply=True)
    assert (alone.mends, alone.ok) == ((), False)
    (left,) = alone.unmended
    assert f"x/{lost.name} is lost" in left.why
    with pytest.raises(TableCorruptError, match="is missing"):
        table.read(meta=False)
    both = table.repair(only=["metadata", "file"], apply=True)
    assert [one.path for one in both.files] == [f"x/{lost.name}"]
    is_whole(table)


def test_a_file_group_of_a_pending_clustering_is_left(tmp_path: Path) -> None:
    table = table_of_two(tmp_path, "9")
    table.upsert(batch_of([Row("n", "x", 1, "n")]), options={"hoodie.parquet.small.file.limit": "0"})
    done = table.cluster(["x"], schedule=True, runner=LocalRunner(1))
    snapshot = Table.open(open_storage(table.uri)).listed_snapshot()
    lost = snapshot.base_files("x")[0]
    (root(table) / lost.path).unlink()
    planned = table.repair()
    assert ("file", lost.path) not in told(planned.mends)
    (left,) = (one for one in planned.unmended if one.culprit == lost.path)
    assert str(done.instant) in left.why


def test_a_table_is_not_taken_back_to_a_commit_whose_file_is_lost(tmp_path: Path) -> None:
    """By the commit of the repair its file group came from the older slice, or from nothing: it was the lost file's."""
    for case, older in (("older", True), ("none", False)):
        table = table_of_two(tmp_path / case, "9")
        if not older:
            table.upsert(batch_of([Row("w", "w", 1, "alone")]), batch_id="three")
        lost = live_of(table, "x" if older else "w")
        copy = lost.read_bytes()
        to = table.history()[0].instant
        lost.unlink()
        done = table.repair(apply=True)
        content = content_of(table)
        name = f"{lost.parent.name}/{lost.name[:36]}"
        for act in (table.restore, table.savepoint_create):
            with pytest.raises(TableUnsupportedError, match=f"what {name}.* is gone"):
                act(to)
        with pytest.raises(TableUnsupportedError, match=f"what file group {name}.* was"):
            table.rollback(str(done.instant))
        assert content_of(table) == content
        assert table.history()[0].instant == done.instant
        lost.write_bytes(copy)
        assert [one.instant for one in table.restore(to).commits] == [done.instant]
        assert table.check().ok


def test_a_savepoint_of_a_table_of_which_something_is_lost_is_refused(tmp_path: Path) -> None:
    """It would name an older slice, or no file of a partition that is found again later: a clean would take the rest."""
    for case, hides in (("file", False), ("partition", True)):
        table = table_of_two(tmp_path / case, "8" if hides else "6")
        table.upsert(batch_of([Row("w", "w", 1, "alone")]), batch_id="three")
        table.delete_partitions(["w"])
        lost = root(table) / "x/.hoodie_partition_metadata" if hides else live_of(table, "x")
        data = lost.read_bytes()
        lost.unlink()
        with pytest.raises(TableUnsupportedError, match=r"what x/.* is gone") as no:
            table.savepoint_create()
        assert "lakeindex check TABLE" in str(no.value.hint)
        if hides:
            lost.write_bytes(data)
        table.repair(apply=True)
        assert table.savepoint_create().savepoint.files == 3
        content = content_of(table)
        to = table.history()[0].instant
        for n in range(3):
            table.upsert(batch_of([Row("a", "x", 5 + n, "later")]))
        table.clean(1)
        table.restore(to)
        assert content_of(table) == content


def test_a_living_writer_is_waited_for(tmp_path: Path) -> None:
    """Another kind of writer in flight: nothing is published beside it."""
    table = table_of_two(tmp_path, "6")
    file = live_of(table, "x")
    file.unlink()
    pending = str(int(table.history()[0].instant) + 1)
    for name in (f"{pending}.commit.requested", f"{pending}.inflight"):
        (root(table) / ".hoodie" / name).touch()
    before = content_of(table)
    with pytest.raises(PendingInstantError):
        table.repair(apply=True)
    assert content_of(table) == before
    assert not table.repair(apply=True, force=True).unmended
    is_whole(table)
