"""A table with a metadata table, written in turns: Hudi reads the same rows with it and without it after every turn."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakeindex
from lakeindex.commands.metadata.verify import metadata_verify
from tests.interop import ours
from tests.interop.hudi_client import ONLY_FILES, HudiServer, keep_options
from tests.interop.rows import NONPARTITIONED, SIMPLE, Layout, assert_state
from tests.interop.story import Story, metadata_partitions

pytestmark = pytest.mark.interop


def metadata_story(folder: Path, layout: Layout, hudi: HudiServer) -> Story:
    """A story in which Hudi keeps a metadata table with the partition ``files``."""
    options = {**keep_options(hudi.version, hudi.table_version), **ONLY_FILES, **layout.hudi_options()}
    return Story(folder / layout.name, layout, hudi, options)


def statistics_story(folder: Path, layout: Layout, hudi: HudiServer) -> Story:
    """A story in which Hudi keeps a metadata table with statistics: its default in 1.2."""
    options = keep_options(hudi.version, hudi.table_version) | layout.hudi_options()
    for key in ONLY_FILES:
        options.pop(key, None)
    options["hoodie.metadata.index.column.stats.enable"] = "true"
    return Story(folder / layout.name, layout, hudi, options)


def judge_filters(story: Story, what: str) -> None:
    """Each filter finds the same rows whether files are skipped by statistics or not."""
    plain = {"hoodie.metadata.enable": "false", "hoodie.enable.data.skipping": "false"}
    skipping = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
    every = story.hudi.read(story.path, plain)
    filters = []
    for column in ("id", "region", "ts", "whole", "wide", "val", "_hoodie_record_key"):
        values = sorted(one for one in every[column].to_pylist() if one is not None)
        least, middle, most = (
            "'" + one + "'" if isinstance(one, str) else repr(one)
            for one in (values[0], values[len(values) // 2], values[-1])
        )
        filters += [f"{column} = {middle}", f"{column} >= {most}", f"{column} <= {least}"]
    found = story.hudi.counts(story.path, filters, skipping)
    wanted = story.hudi.counts(story.path, filters, plain, together=True)
    assert dict(zip(filters, found, strict=True)) == dict(zip(filters, wanted, strict=True)), what
    assert all(wanted)


def judge(story: Story, what: str) -> None:
    """Hudi with its metadata table and without it, we, and the comparison of the metadata table with the files."""
    found = metadata_verify(str(story.path))
    assert found.ok, (what, found)
    for enabled in ("true", "false"):
        rows = story.hudi.read(story.path, {"hoodie.metadata.enable": enabled})
        assert_state(rows, story.replay, f"{what}: Hudi reads, metadata table {enabled}")
    assert_state(ours.read(story.path), story.replay, f"{what}: we read")


@pytest.mark.parametrize("layout", [SIMPLE, NONPARTITIONED], ids=lambda one: one.name)
@pytest.mark.parametrize("creator", ["we", "Hudi"])
def test_turns(hudi: HudiServer, creator: str, layout: Layout, folder: Path) -> None:
    story = metadata_story(folder, layout, hudi)
    if creator == "we":
        story.we_create()
        story.we_upsert(range(50), 1)
        lakeindex.open_table(str(story.path)).metadata_build()
    else:
        story.hudi_writes("insert", range(50), 1)
        story.our_options = {"hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING"}
    judge(story, "at first")
    story.we_upsert(range(40, 80), 2)
    judge(story, "after our upsert")
    story.hudi_upserts(range(30, 100, 3), 3)
    judge(story, "after Hudi's upsert on top")
    story.we_delete(range(20))
    judge(story, "after our delete")
    for turn in range(4, 9):
        story.we_upsert(range(turn, 120, 5), turn)
    judge(story, "after five more of ours")
    story.hudi_deletes(range(60, 70))
    judge(story, "after Hudi's delete")


@pytest.mark.parametrize("creator", ["we", "Hudi"])
def test_turns_with_statistics(hudi: HudiServer, creator: str, folder: Path) -> None:
    """Hudi skips files and partitions by statistics that we and it wrote, and loses no row by it."""
    story = statistics_story(folder, SIMPLE, hudi)
    if creator == "we":
        story.we_create()
        story.we_upsert(range(50), 1)
        story.hudi_upserts(range(45, 60), 2)
    else:
        story.hudi_writes("insert", range(50), 1)
        story.our_options = {"hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING"}
    assert "column_stats" in metadata_partitions(story.path)
    story.we_upsert(range(40, 80), 3)
    story.we_upsert(range(100, 130), 4)
    judge(story, "after our upserts")
    judge_filters(story, "after our upserts")
    story.hudi_upserts(range(30, 110, 3), 5)
    story.we_delete(range(20))
    judge(story, "after Hudi's upsert and our delete")
    judge_filters(story, "after Hudi's upsert and our delete")
    for turn in range(6, 12):
        story.we_upsert(range(turn, 140, 5), turn)
    assert lakeindex.open_table(str(story.path)).metadata_status().last_compaction is not None
    judge(story, "after a compaction of ours")
    judge_filters(story, "after a compaction of ours")
    story.hudi_deletes(range(60, 70))
    judge(story, "after Hudi's delete")
    judge_filters(story, "after Hudi's delete")
