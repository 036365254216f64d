"""Our RECORD indexes on tables that real Hudi writes to in between: they catch up with commits, clustering, archiving and cleaning.
And Hudi's own indexes in the metadata table, by which we look up.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import lakeindex
from lakeindex.errors import IndexNotBuiltError
from lakeindex.files import footer_cache
from lakeindex.files.footer_cache import CACHE_FOLDER
from tests.interop.hudi_client import HudiServer
from tests.interop.rows import COMPLEX, SIMPLE
from tests.interop.story import Story, completed_writes, instant_files, keeping_story, metadata_partitions, rows_of
from tests.interop.test_metadata_table import (
    BY_FILTERS,
    INDEXES,
    PARTITIONED,
    by_record_index,
    judge_keys,
    statistics_story,
)

pytestmark = pytest.mark.interop

_COMPACT = "hoodie.metadata.compact.max.delta.commits"
_CLUSTER = {
    "hoodie.clustering.inline": "true",
    "hoodie.clustering.inline.max.commits": "1",
    "hoodie.clustering.plan.strategy.sort.columns": "id",
    "hoodie.clustering.plan.strategy.small.file.limit": "1000000000",
}
_ARCHIVE = {
    "hoodie.clean.automatic": "true",
    "hoodie.cleaner.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}


def indexed_story(folder: Path, hudi: HudiServer, index: str) -> Story:
    """A table of ours with 60 rows under a RECORD index, which Hudi looks up with a kind of its own."""
    is_global = index == "RECORD_INDEX"
    told = keeping_story(folder, SIMPLE if is_global else COMPLEX, hudi)
    told.options |= {"hoodie.index.type": "GLOBAL_SIMPLE" if is_global else "SIMPLE"}
    told.we_create({"hoodie.index.type": index})
    told.we_upsert(range(60), 1)
    return told


def assert_index_right(story: Story, what: str) -> None:
    """Every entry is that of a stored key; nothing is left to be caught up."""
    found = lakeindex.open_table(str(story.path)).index_verify()
    assert found.ok, f"{what}: {found}"
    assert (found.rows, found.entries, found.files_behind) == (len(story.replay.rows),) * 2 + (0,), f"{what}: {found}"


@pytest.mark.parametrize("index", ["RECORD_INDEX", "RECORD_LEVEL_INDEX"])
def test_it_catches_up_with_hudis_commits_and_clusterings(hudi: HudiServer, folder: Path, index: str) -> None:
    story = indexed_story(folder, hudi, index)
    story.hudi_upserts(range(40, 90), 2)
    story.hudi_deletes(range(5))
    assert lakeindex.open_table(str(story.path)).index_status().files_behind > 0
    story.we_upsert(range(100), 3)  # inserts exactly what is not there: the summary is compared with the replay
    assert_index_right(story, "after Hudi's upsert and delete")

    before = set(completed_writes(story.path))
    options = {**story.options, **_CLUSTER, "hoodie.datasource.write.operation": "upsert"}
    story.hudi.write(story.path, rows_of(range(95, 120), 4), options)
    story.note(min(set(completed_writes(story.path)) - before), range(95, 120), 4)
    assert instant_files(story.path, "*.replacecommit")
    story.our_options = {_COMPACT: "1"}
    story.we_upsert(range(130), 5)
    assert_index_right(story, "after Hudi's clustering, and a compaction")
    story.judge("after clustering and our turn", sound=True)
    story.hudi_upserts(range(120, 140), 6)
    story.we_upsert(range(150), 7)
    assert_index_right(story, "at the end")
    story.judge("at the end", sound=True)


def test_it_stands_while_hudi_archives_and_cleans(hudi: HudiServer, folder: Path) -> None:
    story = indexed_story(folder, hudi, "RECORD_INDEX")
    first = story.instants[0]
    story.we_upsert(range(55, 70), 2)
    for version in (3, 4, 5, 6):
        story.hudi_upserts(range(version, 75, 3), version, _ARCHIVE)
    assert first not in completed_writes(story.path), "Hudi archived nothing"
    story.we_upsert(range(80), 7)
    assert_index_right(story, "after Hudi archived the commits of our deltas")
    story.judge("after archiving", sound=True)


@pytest.mark.parametrize("kind", ["RECORD_INDEX", "RECORD_LEVEL_INDEX", "BLOOM"])
def test_hudis_indexes_answer_for_us(hudi: HudiServer, folder: Path, kind: str) -> None:
    """Hudi makes record index, filters and statistics; we look up by them alone, and Hudi on top of what we write."""
    partitioned = kind == "RECORD_LEVEL_INDEX"
    if partitioned and hudi.release < (1, 1):
        pytest.skip("Hudi 1.1 and later make partitioned record indexes")
    story = statistics_story(folder, SIMPLE, hudi)
    indexes = PARTITIONED if partitioned else INDEXES
    keyed = indexes | (BY_FILTERS if kind == "BLOOM" else by_record_index(hudi, partitioned))
    if (
        partitioned
    ):  # without its server, Hudi 1.2 sends a view of the metadata table to its tasks that they cannot read
        keyed |= {"hoodie.embed.timeline.server": "true"}
    story.hudi_writes("insert", range(50), 1, indexes)
    story.our_options = {"hoodie.index.type": kind, "hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING"}
    if kind == "BLOOM":
        story.our_options |= {"hoodie.bloom.index.use.metadata": "true"}
    table = lakeindex.open_table(str(story.path))
    for turn in range(2, 8, 2):
        numbers = range(turn * 7, turn * 7 + 60)
        forget_footers(story.path)
        story.we_upsert(numbers, turn)
        judge_keys(story, f"after our upsert {turn}")
        story.hudi_upserts(range(turn, 110, 5), turn + 1, keyed)
        story.we_delete(range(turn * 3, turn * 3 + 4))
        judge_keys(story, f"after Hudi's upsert and our delete {turn}")
    forget_footers(story.path)
    late = sorted(story.replay.rows)[::3]
    found = table.upsert(rows_of(late, 0), options=story.our_options)
    assert found.ignored == len(late)
    counters = next(one for one in found.stages if one.name == "index_lookup").counters
    if kind == "BLOOM":
        assert counters["ranges_from_metadata"] == counters["files"] > 0
        assert sum(one.counters.get("footers_read", 0) for one in found.stages) == 0
        return
    assert counters["keys_asked_of_metadata"] == len(late)
    assert table.index_status().kept_in == "metadata table"
    table.metadata_drop(["record_index"])
    table.index_build()
    story.our_options.pop("hoodie.index.type")
    story.we_upsert(range(90, 130), 9)
    assert_index_right(story, "after the metadata table's index went")


@pytest.mark.parametrize("how", ["clustered by a procedure", "clustered by a writer", "cleaned"])
def test_a_record_index_that_hudi_1_0_drops_stops_us_until_it_is_built(
    servers: dict[str, HudiServer], folder: Path, how: str
) -> None:
    """Who writes to a table, or serves it, and does not say that it has a record index takes it off, whole and without a
    word: the procedures of 1.0.2 always (apache/hudi#13996). Our next write says so, and not a key is stored twice."""
    hudi = servers["1.0.2"].writing(8)
    story = statistics_story(folder, SIMPLE, hudi)
    told = {"hoodie.metadata.record.index.enable": "true"}
    keyed = told | {"hoodie.index.type": "RECORD_INDEX"}
    story.hudi_writes("insert", range(60), 1, told)
    table = lakeindex.open_table(str(story.path))
    story.our_options = {"hoodie.index.type": "RECORD_INDEX"}
    story.we_upsert(range(40, 80), 2)
    story.hudi_upserts(range(70, 90), 3, keyed)
    assert table.index_status().kept_in == "metadata table"
    if how == "cleaned":
        hudi.sql(f"create table dropped using hudi location '{story.path}'")
        hudi.sql("call run_clean(table => 'dropped', retain_commits => 1)")
        hudi.sql("drop table dropped")
    elif how == "clustered by a procedure":
        hudi.sql(f"call run_clustering(path => '{story.path}', op => 'scheduleAndExecute')")
    else:
        before = set(completed_writes(story.path))
        untold = {**story.options, **_CLUSTER, "hoodie.index.type": "GLOBAL_SIMPLE"}
        hudi.write(story.path, rows_of(range(30, 50), 4), {**untold, "hoodie.datasource.write.operation": "upsert"})
        story.note(min(set(completed_writes(story.path)) - before), range(30, 50), 4)
    assert "record_index" not in metadata_partitions(story.path)
    assert not (story.path / ".hoodie/metadata/record_index").exists()
    story.judge("after the record index went", sound=True)
    for write in (table.upsert, table.delete):
        with pytest.raises(IndexNotBuiltError, match="RECORD_INDEX of table plain is not built"):
            write(rows_of(range(60, 120), 5))
    story.judge("after our refusals")
    if how == "cleaned":
        table.index_build()
    else:
        table.metadata_build(["record_index"])
    assert table.index_status().kept_in == ("lakeindex" if how == "cleaned" else "metadata table")
    story.we_upsert(range(60, 122), 6)
    story.we_delete(range(10))
    story.hudi_upserts(range(5, 127, 5), 7, keyed)
    judge_keys(story, "after it was made anew")
    story.we_upsert(range(0, 127, 3), 8)
    judge_keys(story, "after our turn")


def forget_footers(table: Path) -> None:
    """No footer is cached."""
    shutil.rmtree(table / CACHE_FOLDER, ignore_errors=True)
    footer_cache._remembered.clear()
