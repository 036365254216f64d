"""Hudi at its unmodified defaults: it builds a metadata table, which we keep up, and 1.2 upgrades to version 9 and has statistics.

What is taken away of it, Hudi builds anew, and nothing may be lost.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import lakeindex
from lakeindex.errors import TimelineChangedError
from lakeindex.metadata_upkeep.keeping import check_metadata_table
from lakeindex.operations.metadata import metadata_verify
from lakeindex.options.types import WriteConfig
from lakeindex.storage import open_storage
from lakeindex.table.handle import Table
from tests.interop import ours
from tests.interop.hudi_client import HudiServer
from tests.interop.rows import SIMPLE, assert_state
from tests.interop.story import Story, metadata_partitions, read_with_rust

pytestmark = pytest.mark.interop


def _default_story(folder: Path, hudi: HudiServer) -> Story:
    """Hudi is told the keys and nothing else."""
    return Story(folder / SIMPLE.name, SIMPLE, hudi, SIMPLE.hudi_options())


def _properties(story: Story) -> dict[str, str]:
    lines = (story.path / ".hoodie" / "hoodie.properties").read_text().splitlines()
    pairs = (line.partition("=") for line in lines if not line.startswith("#"))
    return {key: value for key, _, value in pairs}


def _judge(story: Story, what: str) -> None:
    """Every reader, and Hudi once with its metadata table and once without."""
    story.judge(what)
    without = story.hudi.read(story.path, {"hoodie.metadata.enable": "false"})
    assert_state(without, story.replay, f"{what}: Hudi {story.hudi.version} reads without a metadata table")


def _downgrade(story: Story) -> None:
    """Back to version 6, by a procedure instead of Hudi's command line."""
    story.hudi.sql(f"create table upgraded using hudi location '{story.path}'")
    story.hudi.sql("call downgrade_table(table => 'upgraded', to_version => 'SIX')")
    story.hudi.sql("drop table upgraded")
    assert _properties(story)["hoodie.table.version"] == "6"


def _says_nothing(creator: str, hudi: HudiServer) -> dict[str, str]:
    """A table of Hudi 0.15 does not say how it merges; the first of our writes has to."""
    says_nothing = creator == "Hudi" and hudi.version == "0.15.0"
    return {"hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING"} if says_nothing else {}


@pytest.mark.parametrize("creator", ["we", "Hudi"])
def test_turns_with_hudi_at_its_defaults(hudi: HudiServer, creator: str, folder: Path) -> None:
    story = _default_story(folder, hudi)
    if creator == "we":
        story.we_create()
        story.we_upsert(range(60), 1)
    else:
        story.hudi_writes("insert", range(60), 1)
    story.hudi_upserts(range(40, 80), 2)
    _judge(story, "after Hudi's turn at its defaults")
    ours.assert_sound(story.path, "a table that we only read")
    assert metadata_partitions(story.path)

    story.our_options = _says_nothing(creator, hudi)
    story.we_upsert(range(30, 100, 3), 3)
    story.we_delete(range(10, 15))
    _judge(story, "after our turn")
    ours.assert_sound(story.path, "after our turn")
    assert metadata_partitions(story.path)

    story.hudi_upserts([*range(5), *range(95, 110)], 4)
    _judge(story, "after Hudi's second turn at its defaults")
    story.we_upsert(range(0, 120, 5), 5)
    _judge(story, "after our second turn")


def test_a_record_index_that_hudi_builds_is_kept_up_and_can_be_dropped(
    servers: dict[str, HudiServer], folder: Path
) -> None:
    """A stale record index would double keys; what was taken away is built anew by Hudi."""
    index = {"hoodie.metadata.global.record.level.index.enable": "true", "hoodie.metadata.record.index.enable": "true"}
    keyed = index | {"hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX"}
    story = _default_story(folder, servers["1.2.0"])
    story.hudi_writes("insert", range(60), 1, index)
    story.our_options = {"hoodie.index.type": "GLOBAL_BLOOM"}
    story.we_upsert(range(40, 80), 2)
    story.hudi_upserts(range(70, 90), 3, keyed)
    _judge(story, "after Hudi's upsert by the record index")
    done = ours.command("metadata", "drop", story.path, "--partition", "record_index")
    assert done.code == 0, done.text
    assert "record_index" not in metadata_partitions(story.path)
    story.we_upsert(range(30, 100, 3), 4)
    story.hudi_upserts(range(90, 110), 5, keyed)
    assert "record_index" in metadata_partitions(story.path)
    _judge(story, "after Hudi has built the index anew")


def test_hudi_up_and_downgrades_our_table_while_it_is_open(servers: dict[str, HudiServer], folder: Path) -> None:
    """A handle that was opened before is told, and nothing is published into the old timeline; opened again, we go on."""
    story = _default_story(folder, servers["1.2.0"])
    story.we_create()
    story.we_upsert(range(40), 1)
    for turn, version in enumerate(("9", "6"), start=3):
        old = lakeindex.open_table(str(story.path))
        before = Table.open(open_storage(str(story.path)))
        if version == "9":
            story.hudi_upserts(range(30, 60), 2)
        else:
            _downgrade(story)
        assert _properties(story)["hoodie.table.version"] == version
        with pytest.raises(TimelineChangedError, match="was changed from version"):
            before.load_timeline()
        with pytest.raises(TimelineChangedError, match="was changed from version"):
            check_metadata_table(before, WriteConfig())
        assert_state(old.read(meta=True), story.replay, "through a handle that was opened before")
        story.we_upsert(range(20, 70, 2), turn)
        _judge(story, f"after our turn on version {version}")
        ours.assert_sound(story.path, f"version {version}")


def test_a_table_of_1_0_2_is_upgraded_by_1_2_between_our_turns(servers: dict[str, HudiServer], folder: Path) -> None:
    """All at their defaults: a metadata table with statistics that both releases wrote, and we."""
    story = _default_story(folder, servers["1.0.2"])
    story.hudi_writes("insert", range(60), 1)
    assert _properties(story)["hoodie.table.version"] == "8"
    story.we_upsert(range(40, 80), 2)
    story.hudi_upserts(range(30, 50), 3)
    _judge(story, "after turns with 1.0.2")
    story.hudi = servers["1.2.0"]
    for version in (4, 6):
        story.hudi_upserts(range(60 + version, 100), version)
        assert _properties(story)["hoodie.table.version"] == "9"
        story.we_upsert(range(version, 120, 5), version + 1)
        story.we_delete(range(version))
        for enabled in ("true", "false"):
            found = story.hudi.read(story.path, {"hoodie.metadata.enable": enabled})
            assert_state(found, story.replay, f"Hudi 1.2.0 reads, metadata table {enabled}")
        ours.assert_sound(story.path, "after turns with 1.2.0")
        assert metadata_verify(str(story.path)).ok


@pytest.mark.parametrize("option", ["hoodie.write.table.version=6", "hoodie.write.auto.upgrade=false"])
def test_either_option_of_the_message_keeps_version_6(
    servers: dict[str, HudiServer], option: str, folder: Path
) -> None:
    story = _default_story(folder, servers["1.2.0"])
    story.we_create()
    story.we_upsert(range(40), 1)
    key, _, value = option.partition("=")
    story.hudi_upserts(range(30, 60), 2, {key: value})
    assert _properties(story)["hoodie.table.version"] == "6"
    _judge(story, "after Hudi's turn")
    story.we_upsert(range(20, 70, 2), 3)
    _judge(story, "after our turn")


def test_tables_of_version_9_are_read(servers: dict[str, HudiServer], folder: Path) -> None:
    story = _default_story(folder, servers["1.2.0"])
    story.hudi_writes("insert", range(50), 1)
    story.hudi_upserts(range(40, 70), 2)
    story.hudi_deletes(range(10))
    first, second, _ = story.instants
    assert_state(ours.read(story.path), story.replay, "snapshot")
    assert_state(read_with_rust(story.path), story.replay, "hudi-rs snapshot")
    assert_state(ours.read(story.path, as_of=second), story.states[second], "as of the second commit")
    assert_state(ours.read(story.path, since=first), story.replay.since(first), "since the first commit")
    history = ours.command("history", story.path)
    assert history.code == 0
    assert all(instant in history.text for instant in story.instants)
    ours.assert_sound(story.path, "version 9")
