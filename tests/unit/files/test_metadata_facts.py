"""Key ranges and filters from the metadata table, in whole look-ups: what is said for sure is taken, the rest read."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pybase64
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from lakeindex.api.table import LakeTable
from lakeindex.bloom.filter import HEADER
from lakeindex.files import footer_cache
from lakeindex.files.footer_cache import CACHE_FOLDER
from lakeindex.files.key_columns import read_record_keys
from lakeindex.files.metadata_facts import stored_ranges
from lakeindex.metadata.metadata_records import Record
from lakeindex.metadata.metadata_table import COLUMN_STATS
from lakeindex.model import BaseFile
from lakeindex.report.contents import RunReport
from lakeindex.report.terminal import show_report
from lakeindex.run.summary import RunSummary
from lakeindex.storage import open_storage
from lakeindex.table.handle import Table
from tests.builders import Oracle, Row, batch_of, content_of, make_table
from tests.golden import made_once
from tests.told_tables import as_it_is, tell
from tests.vectors_support import table_names, unpack_table

USE = {"hoodie.bloom.index.use.metadata": "true", "hoodie.parquet.small.file.limit": "0"}
SMALL = {"hoodie.parquet.max.file.size": "2000", "hoodie.copyonwrite.record.size.estimate": "100"}
FIELD = "ColumnStatsMetadata"
FILES = 6
ROWS_A_FILE = 20
TEXT = "org.apache.hudi.avro.model.StringWrapper"


@pytest.fixture(autouse=True)
def _nothing_remembered() -> Iterator[None]:
    footer_cache._remembered.clear()
    yield
    footer_cache._remembered.clear()


def rows(numbers: list[int], ts: int) -> list[Row]:
    return [Row(f"k{number:05d}", "x", ts, f"v{ts}") for number in numbers]


def table_of(folder: Path) -> tuple[LakeTable, Oracle]:
    """A table of six files, of which nothing is cached."""
    table, oracle = written(folder)
    forget(table)
    return table, oracle


@made_once
def written(folder: Path) -> tuple[LakeTable, Oracle]:
    table, oracle = make_table(folder / "t"), Oracle()
    first = rows(list(range(FILES * ROWS_A_FILE)), 1)
    assert table.upsert(batch_of(first), options=SMALL).files_created == FILES
    oracle.apply(first)
    return table, oracle


def forget(table: LakeTable) -> None:
    shutil.rmtree(Path(table.uri) / CACHE_FOLDER)
    footer_cache._remembered.clear()


def counters(summary: RunSummary, name: str) -> dict[str, Any]:
    return dict(next(one for one in summary.stages if one.name == name).counters)


def one_key_a_file(ts: int = 2) -> list[Row]:
    return rows([number * ROWS_A_FILE + 7 for number in range(FILES)], ts)


def test_ranges_of_hudis_tables_are_those_of_their_keys(tmp_path: Path) -> None:
    """Of every file that Hudi's statistics name; no key is outside."""
    seen = 0
    for name in table_names():
        table = Table.open(open_storage(str(unpack_table(name, tmp_path))))
        timeline = table.load_timeline()
        view = table.metadata_view(timeline)
        if view is None or COLUMN_STATS not in view.table.partitions:
            continue
        files = table.snapshot().base_files_all()
        for path, found in stored_ranges(view, files).items():
            keys = read_record_keys(table.storage, next(one for one in files if one.path == path))
            ends = pc.min_max(keys).as_py()
            assert (found.min_key, found.max_key, found.rows) == (ends["min"], ends["max"], len(keys))
            seen += 1
    assert seen >= 3


def test_no_footer_is_read_for_ranges_that_the_metadata_table_has(tmp_path: Path) -> None:
    table, oracle = table_of(tmp_path)
    tell(table)
    batch = rows([0, 1], 2)  # both in the first file
    summary = table.upsert(batch_of(batch), options=USE)
    oracle.apply(batch)
    lookup, probed = counters(summary, "index_lookup"), counters(summary, "bloom_check")
    assert (lookup["ranges_from_metadata"], lookup["footers_read"], lookup["footers_cached"]) == (FILES, 0, 0)
    assert lookup["partitions_named"] == 1
    assert probed["footers_read"] == 1, "of the one file that is in range, for its filter"
    assert content_of(table) == oracle.content()


def test_filters_come_from_the_metadata_table_too(tmp_path: Path) -> None:
    """Not one footer is read; what has no filter there, or one that cannot be used, has its footer read."""
    table, oracle = table_of(tmp_path)
    odd: dict[str, str] = {}

    def filters(file: BaseFile, record: dict[str, Any]) -> Record | None:
        how = ("missing", "deleted", "damaged", "of few keys")[len(odd)] if len(odd) < 4 else "right"
        odd.setdefault(file.path, how)
        found = record["BloomFilterMetadata"]
        changed = {
            "missing": None,
            "deleted": {**found, "isDeleted": True},
            "damaged": {**found, "bloomFilter": b"not base64 \xff"},
            "of few keys": {**found, "bloomFilter": empty_filter(found["bloomFilter"])},
            "right": found,
        }[how]
        return None if changed is None else {**record, "BloomFilterMetadata": changed}

    tell(table, as_it_is, filters)
    batch = one_key_a_file()
    summary = table.upsert(batch_of(batch), options=USE)
    oracle.apply(batch)
    lookup, probed = counters(summary, "index_lookup"), counters(summary, "bloom_check")
    assert (lookup["ranges_from_metadata"], lookup["footers_read"]) == (FILES, 0)
    assert (probed["filters_from_metadata"], probed["footers_read"]) == (FILES - 4, 4)
    assert (summary.updates, summary.inserts) == (FILES, 0)
    assert content_of(table) == oracle.content()


def empty_filter(text: bytes) -> bytes:
    """A filter of the same size that holds no key."""
    raw = pybase64.b64decode(text)
    return pybase64.b64encode(raw[: HEADER.size] + bytes(len(raw) - HEADER.size))


def test_a_whole_look_up_reads_no_footer(tmp_path: Path) -> None:
    table, oracle = table_of(tmp_path)
    tell(table, as_it_is, as_it_is)
    batch = rows([0, 1, 45, 500], 2)
    summary = table.upsert(batch_of(batch), options=USE, checkpoints=str(tmp_path / "runs"))
    oracle.apply(batch)
    assert content_of(table) == oracle.content()
    assert counters(summary, "bloom_check")["footers_read"] == 0
    report = json.loads((tmp_path / "runs" / summary.run_id / "report.json").read_text())
    said = {"partitions": 1, "ranges": FILES, "files_pruned": FILES - 2, "filters": 2, "keys": 0}
    assert report["metadata"] == {**said, "requests_saved": 1 + FILES}
    console = Console(file=StringIO(), width=200)
    show_report(console, RunReport.from_json(json.dumps(report)))
    assert f"key ranges of {FILES} files, {FILES - 2} of them skipped; 2 filters" in console.file.getvalue()


def test_without_the_option_footers_are_read(tmp_path: Path) -> None:
    table, _ = table_of(tmp_path)
    tell(table)
    lookup = counters(table.upsert(batch_of(one_key_a_file())), "index_lookup")
    assert (lookup["ranges_from_metadata"], lookup["footers_read"]) == (0, FILES)
    forget(table)
    told = {**USE, "hoodie.metadata.enable": "false"}
    lookup = counters(table.upsert(batch_of(one_key_a_file(3)), options=told), "index_lookup")
    assert (lookup["ranges_from_metadata"], lookup["partitions_named"]) == (0, 0)


def test_what_is_cached_is_not_asked_for(tmp_path: Path) -> None:
    table, _ = table_of(tmp_path)
    table.upsert(batch_of(one_key_a_file()))
    tell(table)
    lookup = counters(table.upsert(batch_of(one_key_a_file(3)), options=USE), "index_lookup")
    assert (lookup["ranges_from_metadata"], lookup["footers_cached"]) == (0, FILES)


def test_get_opens_no_file_whose_range_is_told_to_be_elsewhere(tmp_path: Path) -> None:
    table, _ = table_of(tmp_path)
    tell(table)
    told = table.get(["k00003"], options=USE).report
    assert (told.rows, told.files_opened) == (1, 1)
    assert table.get(["k00003"]).report.files_opened == FILES


ODD = {
    "missing": lambda record: None,
    "deleted": lambda record: {**record, FIELD: {**record[FIELD], "isDeleted": True}},
    "no ends": lambda record: {**record, FIELD: {**record[FIELD], "minValue": None, "maxValue": None}},
    "one end": lambda record: {**record, FIELD: {**record[FIELD], "maxValue": None}},
    "keys without statistics": lambda record: {**record, FIELD: {**record[FIELD], "nullCount": 1}},
    "unknown nulls": lambda record: {**record, FIELD: {**record[FIELD], "nullCount": None}},
    "no count of rows": lambda record: {**record, FIELD: {**record[FIELD], "valueCount": None}},
    "of another file": lambda record: {**record, FIELD: {**record[FIELD], "fileName": "other.parquet"}},
    "of another column": lambda record: {**record, FIELD: {**record[FIELD], "columnName": "id"}},
    "reversed": lambda record: (
        {**record, FIELD: {**record[FIELD], "minValue": record[FIELD]["maxValue"]}}
        | {FIELD: {**record[FIELD], "minValue": record[FIELD]["maxValue"], "maxValue": record[FIELD]["minValue"]}}
    ),
    "numbers": lambda record: {
        **record,
        FIELD: {
            **record[FIELD],
            "minValue": ("org.apache.hudi.avro.model.LongWrapper", {"value": 1}),
            "maxValue": ("org.apache.hudi.avro.model.LongWrapper", {"value": 2}),
        },
    },
}


@pytest.mark.parametrize("what", ODD)
def test_what_is_not_said_for_sure_prunes_nothing(tmp_path: Path, what: str) -> None:
    """The footer of that file alone is read."""
    table, oracle = table_of(tmp_path)
    odd: list[str] = []

    def told(file: BaseFile, record: dict[str, Any]) -> Record | None:
        if not odd:
            odd.append(file.path)
        return ODD[what](record) if file.path == odd[0] else record

    tell(table, told)
    summary = table.upsert(batch_of(one_key_a_file()), options=USE)
    oracle.apply(one_key_a_file())
    lookup = counters(summary, "index_lookup")
    assert (lookup["ranges_from_metadata"], lookup["footers_read"]) == (FILES - 1, 1)
    assert content_of(table) == oracle.content()


@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_whatever_is_missing_or_cut_off_every_key_is_found(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    """Bounds that were cut off are wider; some files have none."""
    chance = random.Random(seed)
    table, oracle = table_of(tmp_path_factory.mktemp("t"))

    def told(_: BaseFile, record: dict[str, Any]) -> Record | None:
        stats = record[FIELD]
        low, high = stats["minValue"][1]["value"], stats["maxValue"][1]["value"]
        if chance.random() < 0.3:
            return None
        if chance.random() < 0.5:
            low = low[: chance.randint(0, len(low))]
        if chance.random() < 0.5:
            high = high[:2] + chr(ord(high[2]) + 1)
        return {**record, FIELD: {**stats, "minValue": (TEXT, {"value": low}), "maxValue": (TEXT, {"value": high})}}

    tell(table, told)
    for ts in (2, 3):
        batch = rows(sorted(chance.sample(range(FILES * ROWS_A_FILE + 20), 30)), ts)
        table.upsert(batch_of(batch), options=USE)
        oracle.apply(batch)
    assert content_of(table) == oracle.content()


def test_the_helper_tells_what_is_right(tmp_path: Path) -> None:
    table, _ = table_of(tmp_path)
    tell(table, as_it_is)
    opened = Table.open(open_storage(table.uri))
    view = opened.metadata_view(opened.load_timeline())
    assert view is not None
    found = stored_ranges(view, opened.snapshot().base_files_all())
    assert sorted((one.min_key, one.max_key, one.rows) for one in found.values()) == [
        (f"k{number * ROWS_A_FILE:05d}", f"k{(number + 1) * ROWS_A_FILE - 1:05d}", ROWS_A_FILE)
        for number in range(FILES)
    ]
