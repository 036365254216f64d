"""Our RECORD indexes on tables that real Hudi writes to in between: they catch up with commits, clustering, archiving and cleaning."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakeindex
from tests.interop.hudi_client import HudiServer
from tests.interop.rows import COMPLEX, SIMPLE
from tests.interop.story import Story, completed_writes, instant_files, keeping_story, rows_of

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
