"""Hudi's table services run over our commits, and we go on afterwards: clean, archive, clustering, savepoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop import ours
from tests.interop.hudi_client import HudiServer
from tests.interop.rows import SIMPLE, assert_state
from tests.interop.story import Story, completed_writes, keeping_story, rows_of

pytestmark = pytest.mark.interop

_CLEAN = {
    "hoodie.clean.automatic": "true",
    "hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS",
    "hoodie.cleaner.fileversions.retained": "1",
}
_ARCHIVE = {
    "hoodie.clean.automatic": "true",
    "hoodie.cleaner.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}
_CLUSTER = {
    "hoodie.clustering.inline": "true",
    "hoodie.clustering.inline.max.commits": "1",
    "hoodie.clustering.plan.strategy.sort.columns": "id",
    "hoodie.clustering.plan.strategy.small.file.limit": "1000000000",
}


@pytest.fixture
def story(hudi: HudiServer, folder: Path) -> Story:
    """Four commits of ours."""
    told = keeping_story(folder, SIMPLE, hudi)
    told.we_create()
    told.we_upsert(range(60), 1)
    for version in (2, 3, 4):
        told.we_upsert(range(version, 60 + version * 5, 4), version)
    return told


def _base_files(story: Story) -> int:
    return len([path for path in story.path.rglob("*.parquet") if ".hoodie" not in path.parts])


def _instants(story: Story, action: str) -> list[Path]:
    return list((story.path / ".hoodie").glob(f"*.{action}"))


def test_cleaning(story: Story) -> None:
    before = _base_files(story)
    story.hudi_upserts(range(10), 5, _CLEAN)
    assert _instants(story, "clean")
    assert _base_files(story) < before
    story.judge("after Hudi cleaned our old files", sound=True)
    story.we_upsert(range(5, 90, 7), 6)
    story.we_delete(range(3))
    story.judge("after our turn on a cleaned table", sound=True)


def test_archiving(story: Story) -> None:
    first = story.instants[0]
    for version in (5, 6):
        story.hudi_upserts(range(10), version, _ARCHIVE)
    assert first not in completed_writes(story.path), "Hudi archived nothing"
    story.judge("after Hudi archived our commits", sound=True)
    story.we_upsert(range(5, 90, 7), 7)
    story.judge("after our turn on an archived timeline", sound=True)
    story.hudi_upserts(range(20, 30), 8, _ARCHIVE)
    story.judge("after Hudi went on archiving")


def test_clustering(story: Story) -> None:
    options = {**story.options, **_CLUSTER, "hoodie.datasource.write.operation": "upsert"}
    before = set(completed_writes(story.path))
    story.hudi.write(story.path, rows_of(range(10), 5), options)
    commit = min(set(completed_writes(story.path)) - before)
    story.note(commit, range(10), 5)
    assert _instants(story, "replacecommit")
    story.judge("after clustering: commit times stay, files change", sound=True)
    last = completed_writes(story.path)[-1]
    instant = story.we_upsert(range(5, 90, 7), 6)
    assert instant > last
    story.we_delete(range(20, 25))
    story.judge("after our turn on clustered files", sound=True)
    story.hudi_upserts(range(30, 100), 7)
    story.judge("after Hudi's turn on our files")


def test_savepoint_keeps_its_files(story: Story) -> None:
    kept = story.instants[1]
    story.hudi.sql(f"call create_savepoint(path => '{story.path}', commit_time => '{kept}')")
    assert _instants(story, "savepoint")
    story.we_upsert(range(5, 90, 7), 5)
    story.hudi_upserts(range(10), 6, _CLEAN)
    story.judge("with a savepoint", sound=True)
    assert_state(story.hudi.as_of(story.path, kept), story.states[kept], "as of the savepoint, after cleaning")
    assert_state(ours.read(story.path, as_of=kept), story.states[kept], "we as of the savepoint, after cleaning")
