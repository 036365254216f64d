"""A table with a metadata table, written in turns: Hudi reads the same rows with it and without it after every turn."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pytest

import lakeindex
from lakeindex.metadata.column_stats import FIELD
from lakeindex.metadata.content_records import read_new_files, statistics_of_partitions
from lakeindex.metadata.metadata_table import PARTITION_STATS
from lakeindex.metadata.metadata_view import MetadataView
from lakeindex.operations.metadata import metadata_verify
from lakeindex.storage import open_storage
from lakeindex.table.handle import Table
from lakeindex.table.properties import metadata_table_of
from tests.builders import make_table
from tests.interop import ours
from tests.interop.hudi_client import ONLY_FILES, HudiServer, keep_options
from tests.interop.rows import NONPARTITIONED, SIMPLE, Layout, assert_state
from tests.interop.story import Story, completed_writes, metadata_partitions, rows_of

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


def judge_partitions(story: Story, what: str) -> None:
    """After a commit of ours that touches them all, ranges of partitions are those of all footers: as narrow, and tight."""
    table = Table.open(open_storage(str(story.path)))
    metadata = metadata_table_of(table.storage, table.properties)
    if metadata is None or PARTITION_STATS not in metadata.partitions:
        return
    view, sizes = MetadataView.load(metadata, table.load_timeline()), defaultdict[str, dict[str, int]](dict)
    for file in table.listed_snapshot().base_files_all():
        sizes[file.partition_path][file.name] = file.size_bytes
    wanted = statistics_of_partitions(metadata, read_new_files(metadata, sizes)).puts
    found = {key: one for part in view.slices(PARTITION_STATS) for key, one in view.records(part).items()}
    assert found.keys() == wanted.keys(), what
    for key, record in wanted.items():
        ours, anew = found[key][FIELD], record[FIELD]
        if anew["minValue"] is not None:  # Hudi says zero of columns without a value
            known = anew.keys() & ours.keys() if story.hudi.release < (1, 1) else anew.keys()
            assert {name: ours[name] for name in known} == {name: anew[name] for name in known}, what
            assert anew.keys() - known <= {"valueType"}, "what 1.0 compacts has no type of the value"
    assert len(wanted) > len(sizes)


def judge(story: Story, what: str) -> None:
    """Hudi with its metadata table and without it, we, and the comparison of the metadata table with the files."""
    found = metadata_verify(str(story.path))
    assert found.ok, (what, found)
    for enabled in ("true", "false"):
        rows = story.hudi.read(story.path, {"hoodie.metadata.enable": enabled})
        assert_state(rows, story.replay, f"{what}: Hudi reads, metadata table {enabled}")
    assert_state(ours.read(story.path), story.replay, f"{what}: we read")


INDEXES = {
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
}
PARTITIONED = INDEXES | {
    "hoodie.metadata.record.index.enable": "false",
    "hoodie.metadata.global.record.level.index.enable": "false",
    "hoodie.metadata.record.level.index.enable": "true",
}
BY_FILTERS = {"hoodie.index.type": "BLOOM", "hoodie.bloom.index.use.metadata": "true"}


def by_record_index(hudi: HudiServer, partitioned: bool = False) -> dict[str, str]:
    """Hudi looks keys up in the record index, and nowhere else."""
    if hudi.version == "0.15.0":  # without its server it sends a view of the table to its tasks, and cannot
        return {"hoodie.index.type": "RECORD_INDEX", "hoodie.embed.timeline.server": "true"}
    if hudi.release < (1, 1):
        return {"hoodie.index.type": "RECORD_INDEX"}
    return {"hoodie.index.type": "RECORD_LEVEL_INDEX" if partitioned else "GLOBAL_RECORD_LEVEL_INDEX"}


def judge_keys(story: Story, what: str) -> None:
    """As :func:`judge`; a key that the record index had lost would be stored twice by now."""
    judge(story, what)
    assert len(set(story.hudi.read(story.path)["id"].to_pylist())) == len(story.replay.rows), what


@pytest.mark.parametrize("kind", ["global", "partitioned", "nonpartitioned"])
@pytest.mark.parametrize("creator", ["we", "Hudi"])
def test_turns_with_every_partition(hudi: HudiServer, creator: str, kind: str, folder: Path) -> None:
    """Hudi finds the keys of our commits by the record index alone, and by the filters in the metadata table."""
    if kind == "partitioned" and (hudi.table_version == 6 or hudi.release < (1, 1)):
        pytest.skip("Hudi 1.1 and later know partitioned record indexes, on tables of versions 8 and 9")
    layout = NONPARTITIONED if kind == "nonpartitioned" else SIMPLE
    # 1.2 fails at its own second write into a table with a partitioned record index and statistics of partitions
    story = (metadata_story if kind == "partitioned" else statistics_story)(folder, layout, hudi)
    indexes = PARTITIONED if kind == "partitioned" else INDEXES
    keyed = indexes | by_record_index(hudi, kind == "partitioned")
    if creator == "we":
        story.we_create({"hoodie.index.type": "RECORD_LEVEL_INDEX" if kind == "partitioned" else "GLOBAL_BLOOM"})
        story.we_upsert(range(50), 1)
        wanted = ["files", "bloom_filters", "record_index"]
        wanted += ["column_stats"] if kind != "partitioned" else []
        wanted += ["partition_stats"] if hudi.table_version > 6 and kind == "global" else []
        assert set(lakeindex.open_table(str(story.path)).metadata_build(wanted).built) == set(wanted)
    else:
        story.hudi_writes("insert", range(50), 1, indexes)
        story.hudi_upserts(range(45, 60), 2, indexes)
        story.our_options = {"hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING"}
        story.our_options["hoodie.index.type"] = "BLOOM" if kind == "partitioned" else "GLOBAL_BLOOM"
    assert {"record_index", "bloom_filters"} <= set(metadata_partitions(story.path).split(","))
    story.we_upsert(range(40, 80), 3)
    judge_keys(story, "after our upsert")
    story.hudi_upserts(range(30, 100, 3), 4, keyed)
    judge_keys(story, "after Hudi's upsert by record index")
    story.we_delete(range(20))
    story.hudi_upserts([*range(15, 25), *range(95, 110)], 5, indexes | BY_FILTERS)
    judge_keys(story, "after our delete, and Hudi's upsert by filters")
    for turn in range(6, 13):
        story.we_upsert(range(turn, 140, 5), turn)
    assert lakeindex.open_table(str(story.path)).metadata_status().last_compaction is not None
    judge_keys(story, "after a compaction of ours")
    story.hudi_upserts(range(0, 160, 7), 13, keyed)
    story.hudi_deletes(range(60, 70), keyed)
    story.hudi_upserts(range(55, 75), 14, {**keyed, "hoodie.metadata.compact.max.delta.commits": "1"})
    story.we_upsert(range(50, 170), 15)
    story.hudi_upserts(range(165, 180), 16, keyed)
    judge_keys(story, "after a compaction of Hudi's")
    judge_filters(story, "after a compaction of Hudi's")


def test_our_archiving_of_the_metadata_tables_own_timeline(hudi: HudiServer, folder: Path) -> None:
    """What we archived of it nobody misses: Hudi reads by the metadata table, upserts, deletes and compacts it."""
    story = metadata_story(folder, SIMPLE, hudi)
    story.hudi_writes("insert", range(50), 1)
    story.our_options = {"hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING"}
    own = story.path / ".hoodie" / "metadata" / ".hoodie"
    timeline = own if hudi.table_version == 6 else own / "timeline"
    table = lakeindex.open_table(str(story.path))
    for turn in range(2, 36):
        story.we_upsert(range(turn, turn + 3), turn)
    few = {"hoodie.cleaner.commits.retained": "1", "hoodie.keep.min.commits": "2"}
    table.maintain(["metadata", "archive"], options=few)
    before = {one.name for one in timeline.iterdir()}
    table.maintain(["metadata"], options=few)
    gone = before - {one.name for one in timeline.iterdir()}
    assert len([name for name in gone if name.endswith(".deltacommit")]) >= 8, gone
    judge(story, "after our archiving")
    story.hudi_upserts(range(10, 100, 9), 41)
    judge(story, "after our archiving, and Hudi's upsert")
    story.hudi_upserts(range(55, 75), 42, {"hoodie.metadata.compact.max.delta.commits": "1"})
    story.we_upsert(range(50, 70), 43)
    table.maintain(["metadata", "archive"], options=few)
    story.hudi_deletes(range(30, 35))
    judge(story, "after Hudi's compaction and delete")


@pytest.mark.parametrize("first", ["we", "Hudi"])
def test_a_table_is_created_with_its_metadata_table(hudi: HudiServer, first: str, folder: Path) -> None:
    """Whoever writes the first rows finds it as Hudi would have made it."""
    story = statistics_story(folder, SIMPLE, hudi)
    story.we_create(metadata=None if hudi.table_version > 6 else True)
    more = {"column_stats", "partition_stats"} if hudi.table_version > 6 else set()
    assert set(metadata_partitions(story.path).split(",")) == {"files", *more}
    if first == "we":
        story.we_upsert(range(40), 1)
    story.hudi_upserts(range(30, 60), 2)
    judge(story, "after Hudi's upsert")
    story.we_upsert(range(20, 80), 3)
    judge(story, "at the end")
    judge_filters(story, "at the end")


@pytest.mark.parametrize("layout", [SIMPLE, NONPARTITIONED], ids=lambda one: one.name)
@pytest.mark.parametrize("creator", ["we", "Hudi"])
def test_turns(hudi: HudiServer, creator: str, layout: Layout, folder: Path) -> None:
    story = metadata_story(folder, layout, hudi)
    if creator == "we":
        story.we_create()
        story.we_upsert(range(50), 1)
        lakeindex.open_table(str(story.path)).metadata_build(["files"])
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
    judge_partitions(story, "after our upserts")
    story.hudi_upserts(range(30, 110, 3), 5)
    story.we_delete(range(20))
    judge_partitions(story, "after Hudi's upsert and our delete")
    judge(story, "after Hudi's upsert and our delete")
    judge_filters(story, "after Hudi's upsert and our delete")
    for turn in range(6, 12):
        story.we_upsert(range(turn, 140, 5), turn)
    assert lakeindex.open_table(str(story.path)).metadata_status().last_compaction is not None
    judge(story, "after a compaction of ours")
    judge_filters(story, "after a compaction of ours")
    judge_partitions(story, "after a compaction of ours")
    story.hudi_deletes(range(60, 70))
    judge(story, "after Hudi's delete")
    judge_filters(story, "after Hudi's delete")


def test_a_created_table_with_a_partitioned_record_index(hudi: HudiServer, folder: Path) -> None:
    """With what ``create --metadata`` makes beside it, Hudi writes more than once; with statistics it would not."""
    if hudi.table_version == 6 or hudi.release < (1, 1):
        pytest.skip("Hudi 1.1 and later know partitioned record indexes, on tables of versions 8 and 9")
    story = metadata_story(folder, SIMPLE, hudi)
    story.we_create({"hoodie.index.type": "RECORD_LEVEL_INDEX"}, metadata=True)
    assert set(metadata_partitions(story.path).split(",")) == {"files", "record_index"}
    story.we_upsert(range(40), 1)
    keyed = PARTITIONED | by_record_index(hudi, partitioned=True)
    story.hudi_upserts(range(30, 60), 2, keyed)
    story.hudi_upserts(range(50, 70), 3, keyed)
    story.we_upsert(range(20, 80), 4)
    judge_keys(story, "at the end")


WITH_SKIPPING = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}


def test_a_long_text_hides_nothing(servers: dict[str, HudiServer], folder: Path) -> None:
    """Parquet keeps no bounds of texts of more than 4 kB; Hudi's own records of them hide their rows."""
    hudi = servers["1.2.0"].writing(9)
    schema = pa.schema([("id", pa.string()), ("day", pa.string()), ("ts", pa.int64()), ("v", pa.string())])
    table = make_table(folder / "t", schema=schema, hoodie__write__table__version="9")
    table.metadata_build(["files", "column_stats", "partition_stats"])
    days = list("abc")
    table.upsert(pa.table([days, days, [1, 1, 1], ["x", "y" * 5000, "z"]], schema=schema))
    filters = {"id >= 'a'": 3, "ts = 1": 3, "v >= 'y'": 2, "v = 'x'": 1, "v is not null": 3, "v is null": 0}
    found = hudi.counts(folder / "t", list(filters), WITH_SKIPPING)
    assert dict(zip(filters, found, strict=True)) == filters


def test_a_partition_that_our_rollback_brings_back_is_found(hudi: HudiServer, folder: Path) -> None:
    """Of a delete_partition of Hudi's that a compaction has taken in: with the partition its statistics were gone."""
    story = statistics_story(folder, SIMPLE, hudi)
    story.hudi_writes("insert", range(50), 1)
    partition = min(ours.read(story.path)["_hoodie_partition_path"].to_pylist())
    told = {
        "hoodie.datasource.write.operation": "delete_partition",
        "hoodie.datasource.write.partitions.to.delete": partition,
    }
    hudi.write(story.path, rows_of([0], 2), {**story.options, **told}, mode="append")
    table = lakeindex.open_table(str(story.path))
    table.maintain(["metadata"], options={"hoodie.metadata.compact.max.delta.commits": "1"})
    table.rollback(completed_writes(story.path)[-1])
    judge(story, "after our rollback of Hudi's delete_partition")
    judge_filters(story, "after our rollback of Hudi's delete_partition")
