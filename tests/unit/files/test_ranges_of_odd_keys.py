"""Key ranges from the footer to the look-up and back, with keys that encodings and orders treat differently."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeindex.api.table import LakeTable
from lakeindex.files.footers import read_footer
from lakeindex.storage import open_storage
from lakeindex.table.handle import Table
from tests.builders import Row, batch_of, make_table, rows_of

ODD = [
    "é",
    "ÿ",
    "Ā",
    "中",
    "\ud7ff",
    "\ue000",
    "\uffff",
    "\U00010000",
    "\U0001f600",
    "\U0010ffff",
    "\x01",
    "\x7f",
    "\x80",
    " ",
    "%",
]
"""Ends of what one, two, three and four bytes of UTF-8 hold, and both sides of where Java's order leaves that of the bytes."""
GROUPS = [
    ["a", "b", "z"],
    *([f"{left}{number}" for number in range(3)] for left in ODD[::2]),
    [f"{left}{right}" for left, right in itertools.pairwise(ODD)],
    ["k" * 400 + one for one in ODD],
]
"""Keys of one batch each, and so of one file each."""
ALL = sorted({key for keys in GROUPS for key in keys})


def java(text: str) -> list[int]:
    """``String.compareTo`` as a sort key: UTF-16 units."""
    units = text.encode("utf-16-be")
    return [int.from_bytes(units[place : place + 2]) for place in range(0, len(units), 2)]


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A table with a file a group, by index."""
    folder = tmp_path_factory.mktemp("originals")
    return {index: Path(files_of_groups(folder / index, index).uri) for index in ("BLOOM", "GLOBAL_BLOOM")}


@pytest.fixture
def copied(originals: dict[str, Path], tmp_path: Path) -> Callable[[str], LakeTable]:
    """A copy of one of them."""

    def copy(index: str) -> LakeTable:
        return LakeTable(str(shutil.copytree(originals[index], tmp_path / "t")))

    return copy


def files_of_groups(folder: Path, index: str) -> LakeTable:
    table = make_table(folder / "t", hoodie__index__type=index)
    for number, keys in enumerate(GROUPS):
        fresh = sorted(set(keys) - {key for earlier in GROUPS[:number] for key in earlier})
        table.upsert(
            batch_of([Row(key, "x", 1, "old") for key in fresh]), options={"hoodie.parquet.small.file.limit": "0"}
        )
    return table


@pytest.mark.parametrize(
    ("index", "options"),
    [
        ("BLOOM", {}),
        ("GLOBAL_BLOOM", {}),
        ("BLOOM", {"lakeindex.footer.cache": "false"}),
        ("BLOOM", {"hoodie.bloom.index.use.treebased.filter": "true"}),
    ],
)
def test_every_stored_key_is_found_again(
    copied: Callable[[str], LakeTable], index: str, options: dict[str, str]
) -> None:
    table = copied(index)
    one_by_one = table.upsert(batch_of([Row(GROUPS[4][0], "x", 2, "one")]), options=options)
    assert (one_by_one.updates, one_by_one.inserts) == (1, 0)
    summary = table.upsert(batch_of([Row(key, "x", 3, "new") for key in ALL]), options=options)
    assert (summary.updates, summary.inserts) == (len(ALL), 0)
    assert {(row["id"], row["v"]) for row in rows_of(table)} == {(key, "new") for key in ALL}
    assert len(rows_of(table)) == len(ALL)
    got = table.get(ALL)
    assert got.missing == ()
    assert got.rows.num_rows == len(ALL)
    assert table.check().ok


def test_ranges_are_the_ends_in_javas_order(copied: Callable[[str], LakeTable]) -> None:
    table = copied("BLOOM")
    store = open_storage(table.uri)
    files = Table.open(store).snapshot().base_files_all()
    assert len(files) == len(GROUPS)
    for file in files:
        keys = pq.read_table(Path(table.uri) / file.path).column("_hoodie_record_key").to_pylist()
        footer = read_footer(store, file)
        assert footer.problem is None
        assert (footer.min_key, footer.max_key) == (min(keys, key=java), max(keys, key=java))
        entries = pq.read_metadata(Path(table.uri) / file.path).metadata
        assert entries[b"hoodie_min_record_key"].decode() == min(keys, key=java)
        assert entries[b"hoodie_max_record_key"].decode() == max(keys, key=java)


def test_a_rewritten_file_has_a_range_of_old_and_new_keys(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    for key in ODD[::3]:
        table.upsert(batch_of([Row(key, "x", 1, "v")]))
    store = open_storage(table.uri)
    (file,) = Table.open(store).snapshot().base_files_all()
    footer = read_footer(store, file)
    assert (footer.min_key, footer.max_key) == (min(ODD[::3], key=java), max(ODD[::3], key=java))


def test_ranges_leave_out_what_they_can(tmp_path: Path) -> None:
    """Files whose ranges have no key from U+E000 up are looked into only for keys between their ends."""
    table = make_table(tmp_path / "t")
    groups = [["é0", "é9"], ["中0", "中9"], ["ÿ0", "ÿ9"], ["a0", "a9"]]
    for keys in groups:
        table.upsert(
            batch_of([Row(key, "x", 1, "v") for key in keys]), options={"hoodie.parquet.small.file.limit": "0"}
        )
    batch = batch_of(
        [Row(f"{keys[0][0]}5", "x", 1, "v") for keys in groups]
        + [Row("中\U0001f600", "x", 1, "v"), Row("b", "x", 1, "v")]
    )
    summary = table.upsert(batch, options={"hoodie.parquet.small.file.limit": "0"})
    assert summary.inserts == 6
    lookup = next(stage for stage in summary.stages if stage.name == "index_lookup")
    assert lookup.pairs_out == 4, "each key in its own file's range, the last two in none"
    assert pa.types.is_string(table.read(meta=True).schema.field("_hoodie_record_key").type)
