"""The footer cache in whole runs: what it saves, and that nobody notices when it is gone or damaged."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakeindex.api.table import LakeTable
from lakeindex.errors import OptionError, StorageError
from lakeindex.files import footer_cache
from lakeindex.files.footer_cache import CACHE_FOLDER
from lakeindex.options.parse import parse_options
from lakeindex.run.summary import RunSummary, StageSummary
from lakeindex.tasks.local_runner import LocalRunner
from tests.builders import Row, batch_of, content_of, make_table
from tests.golden import made_once
from tests.meanwhile import Meanwhile

ALONE = "hoodie.bloom.index.use.metadata"
SMALL = {"hoodie.parquet.max.file.size": "2000", "hoodie.copyonwrite.record.size.estimate": "100"}
WIDE = {"hoodie.bloom.index.prune.by.ranges": "false", "hoodie.parquet.small.file.limit": "0"}
ROWS_A_FILE = 20


@pytest.fixture(autouse=True)
def _nothing_remembered() -> Iterator[None]:
    footer_cache._remembered.clear()
    yield
    footer_cache._remembered.clear()


def table_of(folder: Path, files: int) -> LakeTable:
    """A table with so many files, written by one commit."""
    table = written(folder, files)
    footer_cache._remembered.clear()
    return table


@made_once
def written(folder: Path, files: int) -> LakeTable:
    table = make_table(folder / "t")
    rows = [Row(f"k{n:05d}", "x", 1, "v") for n in range(files * ROWS_A_FILE)]
    assert table.upsert(batch_of(rows), options=SMALL).files_created == files
    return table


def look_up(table: LakeTable, ts: int = 2, **options: Any) -> RunSummary:
    """Update every file; all filters are probed with all keys."""
    files = len({p.name.split("_")[0] for p in Path(table.uri).glob("x/*.parquet")})
    rows = [Row(f"k{n * ROWS_A_FILE:05d}", "x", ts, f"u{ts}") for n in range(files)]
    return table.upsert(batch_of(rows), options={**WIDE, **options.pop("options", {})}, **options)


def stage(summary: RunSummary, name: str) -> StageSummary:
    return next(one for one in summary.stages if one.name == name)


def cache_of(table: LakeTable) -> Path:
    return Path(table.uri) / CACHE_FOLDER


@pytest.mark.parametrize("alone", ["true", "false"])
def test_first_look_up_after_a_commit_reads_no_footer(tmp_path: Path, alone: str):
    table = table_of(tmp_path, 8)
    summary = look_up(table, options={ALONE: alone})
    lookup, probed = stage(summary, "index_lookup"), stage(summary, "bloom_check")
    assert (lookup.counters["footers_cached"], lookup.counters["footers_read"]) == (8, 0)
    assert (probed.counters["footers_read"], probed.counters["files_without_filter"]) == (0, 0)
    assert probed.pairs_in == 8 * 8
    assert probed.pairs_out == 8
    assert summary.updates == 8


def test_filters_that_are_too_full_are_counted_and_what_they_let_through_is_expected(tmp_path: Path):
    """20 keys in a filter for 5: of six files each key is in one."""
    full = {"hoodie.bloom.index.filter.type": "SIMPLE", "lakeindex.bloom.sizing": "FIXED"}
    full |= {"hoodie.index.bloom.num_entries": "5", "hoodie.index.bloom.fpp": "0.1"}
    table = make_table(tmp_path / "full")
    table.upsert(batch_of([Row(f"k{n:05d}", "x", 1, "v") for n in range(6 * ROWS_A_FILE)]), options=SMALL | full)
    done, right = look_up(table), stage(look_up(table_of(tmp_path, 6)), "bloom_check").counters
    counted, false = stage(done, "bloom_check").counters, stage(done, "verify_keys").counters["false_positives"]
    assert (counted["files"], counted["filters_saturated"]) == (6, 6)
    assert false > 15
    assert counted["expected_false_positives"] == pytest.approx(false, rel=0.5)
    assert (right["files"], right["filters_saturated"]) == (6, 0)
    assert 0 <= right["expected_false_positives"] < 0.001


def test_requests_of_a_look_up_do_not_grow_with_the_files(tmp_path: Path):
    requests = {}
    for files in (10, 100):
        summary = look_up(table_of(tmp_path / str(files), files), options={ALONE: "true"}, runner=LocalRunner(1))
        requests[files] = [stage(summary, name).requests for name in ("index_lookup", "bloom_check")]
        assert stage(summary, "index_lookup").counters["footers_cached"] == files
    assert requests[100][0] == requests[10][0]
    assert requests[100][1] <= requests[10][1] + 3
    assert sum(requests[100]) < 40


def test_files_the_cache_lacks_are_completed_first(tmp_path: Path):
    table = table_of(tmp_path, 6)
    shutil.rmtree(cache_of(table))
    first = look_up(table, options={ALONE: "true"})
    assert stage(first, "index_lookup").counters["footers_read"] == 6
    assert stage(first, "bloom_check").counters["footers_read"] == 0
    footer_cache._remembered.clear()
    again = look_up(table, 3, options={ALONE: "true"})
    assert stage(again, "index_lookup").counters["footers_read"] == 0


def test_folder_deleted_in_the_middle_changes_no_answer(tmp_path: Path):
    table, twin = table_of(tmp_path / "a", 6), table_of(tmp_path / "b", 6)
    deletes = Meanwhile("bloom check", lambda: shutil.rmtree(cache_of(table)), slots=2)
    summary = look_up(table, options={ALONE: "true"}, runner=deletes)
    other = look_up(twin)
    assert stage(summary, "bloom_check").counters["footers_read"] == 6
    assert (summary.updates, summary.inserts) == (other.updates, other.inserts) == (6, 0)
    assert content_of(table) == content_of(twin)
    footer_cache._remembered.clear()
    assert stage(look_up(table, 3), "bloom_check").counters["footers_read"] == 0


@pytest.mark.parametrize("suffix", [".filters", ".facts.parquet"])
def test_damaged_side_file_is_mended_once(tmp_path: Path, suffix: str):
    table = table_of(tmp_path, 6)
    rows = [Row(f"k{n * ROWS_A_FILE:05d}", "x", 0, "late") for n in range(6)]  # older: nothing is rewritten
    damaged = list(cache_of(table).glob(f"*{suffix}"))
    for path in damaged:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 0xFF
        path.write_bytes(data)
    read = []
    for _ in range(2):
        footer_cache._remembered.clear()
        summary = table.upsert(batch_of(rows), options=WIDE)
        assert (summary.ignored, summary.inserts) == (6, 0)
        read.append(sum(stage(summary, s).counters["footers_read"] for s in ("index_lookup", "bloom_check")))
    assert read[0] > 0
    assert read[1] == 0
    assert suffix == ".filters" or not any(path.exists() for path in damaged), "nobody reads it again"


def test_cache_alone_that_cannot_be_completed_is_an_error(tmp_path: Path):
    table = table_of(tmp_path, 3)
    shutil.rmtree(cache_of(table))
    cache_of(table).write_text("a file where the folder should be")
    with pytest.raises(StorageError, match="footer cache lacks 3 files") as caught:
        look_up(table, options={ALONE: "true"})
    assert ALONE in (caught.value.hint or "")
    summary = look_up(table)  # without the option footers are read
    assert summary.updates == 3
    assert stage(summary, "bloom_check").counters["footers_read"] == 3


def test_cache_off_reads_footers_and_keeps_nothing(tmp_path: Path):
    table = table_of(tmp_path, 3)
    shutil.rmtree(cache_of(table))
    summary = look_up(table, options={"lakeindex.footer.cache": "false"})
    assert stage(summary, "index_lookup").counters["footers_cached"] == 0
    assert stage(summary, "index_lookup").counters["footers_read"] == 3
    assert not cache_of(table).exists()


def test_cache_alone_without_a_cache_is_refused():
    with pytest.raises(OptionError, match="turns it off"):
        parse_options({ALONE: "true", "lakeindex.footer.cache": "false"})


def test_an_index_without_footers_keeps_none(tmp_path: Path):
    table = make_table(tmp_path / "t", hoodie__index__type="SIMPLE")
    summary = table.upsert(batch_of([Row("a", "x", 1, "v")]))
    assert not cache_of(table).exists()
    assert stage(summary, "index_lookup").counters["footers_cached"] == 0
