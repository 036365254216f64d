"""Tables whose rows do not store their keys (hoodie.populate.meta.fields=false), written by us and both releases in turns."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lakeindex.api.table import LakeTable
from tests.interop.hudi_client import HudiError, HudiServer
from tests.interop.rows import COMPLEX, META, NONPARTITIONED, SIMPLE, Layout, assert_state
from tests.interop.story import Story, keeping_story

pytestmark = pytest.mark.interop

_OPTION = "hoodie.populate.meta.fields"
_BUCKETS = {"hoodie.bucket.index.num.buckets": "3"}
_FORMS: dict[str, tuple[Layout, dict[str, str], bool]] = {
    "SIMPLE": (SIMPLE, {}, True),
    "GLOBAL_SIMPLE": (NONPARTITIONED, {}, False),
    "BUCKET": (COMPLEX, _BUCKETS, False),
}
"""Index type -> layout, options of both sides, whether there is a metadata table."""


@pytest.fixture(params=_FORMS)
def story(hudi: HudiServer, folder: Path, request: pytest.FixtureRequest) -> Story:
    if hudi.table_version not in (6, 9):
        pytest.skip("a base file of version 8 is one of version 9")
    layout, more, metadata = _FORMS[request.param]
    told = keeping_story(folder, layout, hudi)
    told.options |= {_OPTION: "false", "hoodie.index.type": request.param, **more}
    if more:
        told.options["hoodie.bucket.index.hash.field"] = ",".join(layout.keys)
    if metadata:
        told.options |= {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"}
    return told


def _create(story: Story) -> None:
    kind = story.options["hoodie.index.type"]
    _, more, metadata = _FORMS[kind]
    story.we_create({_OPTION: "false", "hoodie.index.type": kind, **more}, metadata=metadata)


def _judge(story: Story, what: str) -> None:
    """Hudi, we and DuckDB read what the dictionary says, and the table is sound."""
    table = LakeTable(str(story.path))
    assert_state(story.hudi.read(story.path), story.replay, f"{what}: Hudi", meta=False)
    assert_state(table.read(meta=False), story.replay, f"{what}: lakeindex", meta=False)
    duck = {row[0]: row[1] for row in table.scan(columns=["id", "val"]).to_duckdb().fetchall()}
    assert duck == {row["id"]: row["val"] for row in story.replay.rows.values()}, what
    assert table.check().violations == (), what


def test_we_create_and_all_write_in_turns(story: Story) -> None:
    _create(story)
    story.we_upsert(range(60), 1)
    story.we_upsert(range(50, 70), 2)
    _judge(story, "after our upserts")
    file = story.path / LakeTable(str(story.path)).files()[0].path
    assert all(pq.read_table(file, columns=[name], partitioning=None).column(0).null_count for name in META)
    story.hudi_upserts(range(40, 90, 3), 3)
    story.hudi_deletes(range(5))
    story.we_upsert(range(0, 100, 4), 4)
    story.we_upsert(range(1, 60, 7), 5)
    story.we_delete(range(10, 15))
    _judge(story, "after our turn on Hudi's files")
    story.hudi_upserts(range(0, 120, 5), 6)
    _judge(story, "after Hudi's turn on ours")


@pytest.mark.parametrize("story", ["SIMPLE", "BUCKET"], indirect=True)
def test_hudi_creates_and_we_bind_what_its_files_show(story: Story) -> None:
    story.hudi_writes("insert", range(60), 1)
    story.our_options = {"hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING"}
    kind = story.options["hoodie.index.type"]
    story.we_upsert(range(40, 90, 3), 3)
    assert LakeTable(str(story.path)).inspect().index_type == kind
    story.hudi_upserts(range(0, 100, 4), 4)
    story.we_upsert(range(0, 120, 5), 5)
    _judge(story, "after both")


def test_hudi_finds_nothing_by_filters_and_reads_nothing_incrementally(hudi: HudiServer, folder: Path) -> None:
    story = keeping_story(folder, SIMPLE, hudi)
    story.options |= {_OPTION: "false", "hoodie.index.type": "BLOOM"}
    story.hudi_writes("upsert", range(20), 1)
    with pytest.raises(HudiError, match="bloom filter"):
        story.hudi_upserts(range(10), 2)
    with pytest.raises(HudiError, match="not supported when meta fields are disabled"):
        hudi.since(story.path, "20200101000000000")
