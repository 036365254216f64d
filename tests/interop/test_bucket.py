"""The bucket index, ours and Hudi's, on one table: one file group a bucket whoever writes, and rescaled tables of ours."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeindex
from lakeindex.errors import LakeIndexError
from lakeindex.index.bucket import bucket_of, make_index
from lakeindex.index.bucket_options import BucketLayout
from lakeindex.model import IndexSpec, IndexType
from lakeindex.operations import rewrite_run as rescale_tasks
from lakeindex.operations.rescale import RescaleSummary, migrate_to_buckets, rescale_table, switch_index
from lakeindex.storage import open_storage
from lakeindex.table.handle import Table
from lakeindex.tasks.local_runner import LocalRunner
from tests.interop import ours
from tests.interop.hudi_client import HudiError, HudiServer
from tests.interop.rows import LAYOUTS, SIMPLE, Layout, assert_state, make_row, make_table
from tests.interop.story import (
    Story,
    completed_writes,
    hudi_since,
    instant_files,
    keeping_story,
    rust_as_of,
    rust_since,
)

pytestmark = pytest.mark.interop

_COUNT, _FIELDS = "hoodie.bucket.index.num.buckets", "hoodie.bucket.index.hash.field"
_RULES = "hoodie.bucket.index.partition.expressions"
_MERGE = "hoodie.write.record.merge.mode"
_ARCHIVE = {
    "hoodie.clean.automatic": "true",
    "hoodie.cleaner.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}


def bucket_story(folder: Path, layout: Layout, hudi: HudiServer, count: int = 4) -> Story:
    story = keeping_story(folder, layout, hudi)
    story.options |= {"hoodie.index.type": "BUCKET", _COUNT: str(count), _FIELDS: ",".join(layout.keys)}
    return story


def create(story: Story, count: int = 4) -> None:
    story.we_create({"hoodie.index.type": "BUCKET", _COUNT: str(count)})


def rescale(story: Story, **arguments: object) -> RescaleSummary:
    """Our rescaling; Hudi is told what its summary says."""
    done = rescale_table(str(story.path), LocalRunner(1), **arguments)  # type: ignore[arg-type] # passed through
    assert done.instant is not None
    story.options |= done.hudi_options
    return done


def assert_buckets(story: Story, what: str) -> None:
    """Every key is in the file group of its bucket, and no bucket has two."""
    table = Table.open(open_storage(str(story.path)))
    spec = table.index()
    assert spec is not None
    homes = make_index(spec).homes
    for file in table.snapshot().base_files_all():
        path = story.path / file.path
        homes.check_stored(
            pq.read_table(path, columns=["_hoodie_record_key"]).column(0), (file.partition_path, file.file_id)
        )
    for partition in table.snapshot().partitions():
        buckets = [bucket_of(file.file_id) for file in table.snapshot().base_files(partition)]
        assert len(set(buckets)) == len(buckets), f"{what}: {partition} has {buckets}"


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_hudi_upserts_into_our_buckets_and_back(hudi: HudiServer, layout: Layout, folder: Path) -> None:
    story = bucket_story(folder, layout, hudi)
    create(story)
    story.we_upsert(range(60), 1)
    story.hudi_upserts([*range(40, 60), *range(60, 120)], 2)
    assert_buckets(story, "after Hudi's upsert")
    story.judge("after Hudi's upsert")
    story.we_upsert([*range(100, 120), *range(120, 150)], 3)
    story.we_delete([*range(5), 130, 999])
    assert_buckets(story, "after our second turn")
    story.judge("after our second turn", sound=True)
    story.hudi_upserts(range(0, 170, 3), 4)
    assert_buckets(story, "after Hudi's second turn")
    story.judge("after Hudi's second turn", sound=True)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_we_upsert_into_hudis_buckets(hudi: HudiServer, layout: Layout, folder: Path) -> None:
    story = bucket_story(folder, layout, hudi)
    story.hudi_upserts(range(60), 1)
    first = {"hoodie.index.type": "BUCKET"} | ({_MERGE: "EVENT_TIME_ORDERING"} if hudi.version == "0.15.0" else {})
    story.our_options = {**first, _COUNT: "256"}
    with pytest.raises(LakeIndexError, match="does not belong with 256 buckets") as caught:
        story.we_upsert(range(50, 90), 2)
    assert caught.value.hint is not None
    assert f"{_COUNT}=4 " in caught.value.hint, "the count that the table was written with is named"
    story.our_options = {**first, "hoodie.index.type": "BLOOM"}
    with pytest.raises(LakeIndexError, match=r"cannot be BLOOM: the file groups of table .* are buckets"):
        story.we_upsert(range(50, 90), 2)
    story.our_options = {key: text for key, text in first.items() if key == _MERGE}
    story.we_upsert(range(50, 90), 2)
    assert_buckets(story, "after our upsert, which named no index")
    story.our_options = {}
    story.judge("after our upsert", sound=True)
    story.hudi_upserts(range(80, 110), 3)
    story.we_upsert(range(100, 130), 4)
    assert_buckets(story, "after two more turns")
    story.judge("after two more turns", sound=True)


@pytest.mark.parametrize("count", [8, 3])
def test_hudi_reads_and_upserts_into_what_we_rescaled(hudi: HudiServer, count: int, folder: Path) -> None:
    story = bucket_story(folder, SIMPLE, hudi)
    create(story)
    story.we_upsert(range(60), 1)
    story.hudi_upserts(range(50, 90), 2)
    before = story.instants[-1]
    done = rescale(story, buckets=count)
    assert done.rows == 90
    assert_buckets(story, "rescaled")
    story.judge("rescaled: rows keep their commit times", sound=True)
    assert_state(story.hudi.as_of(story.path, before), story.states[before], "Hudi as of before the rescaling")
    assert_state(rust_as_of(story.path, before), story.states[before], "hudi-rs as of before the rescaling")
    assert_state(ours.read(story.path, as_of=before), story.states[before], "we as of before the rescaling")
    story.hudi_upserts([*range(30), *range(90, 130)], 3)
    assert_buckets(story, "after Hudi's upsert")
    story.judge("after Hudi's upsert with the new count", sound=True)
    story.we_upsert([*range(20, 40), *range(120, 150)], 4)
    assert_buckets(story, "after our upsert")
    story.judge("after our upsert with the new count", sound=True)
    expected = story.replay.since(before)
    assert_state(hudi_since(story.hudi, story, before), expected, "Hudi since before the rescaling")
    assert_state(rust_since(story.path, before), expected, "hudi-rs since before the rescaling")


def test_an_incremental_read_over_a_rescaling_gives_no_old_row(hudi: HudiServer, folder: Path) -> None:
    story = bucket_story(folder, SIMPLE, hudi)
    create(story)
    first = story.we_upsert(range(60), 1)
    story.we_upsert(range(50, 70), 2)
    rescale(story, buckets=2)
    assert_state(hudi_since(story.hudi, story, first), story.replay.since(first), "Hudi since the first commit")
    last = completed_writes(story.path)[-2]
    assert hudi_since(story.hudi, story, last).num_rows == 0


def upsert_with_rules(story: Story, numbers: list[int], version: int) -> None:
    """Hudi 1.2 keeps its rules in a plain HashMap that its task threads fill at once: a first write may die of that."""
    for _ in range(5):
        try:
            story.hudi_upserts(numbers, version)
        except HudiError as error:
            if "ConcurrentModificationException" not in str(error):
                raise
        else:
            return
    raise AssertionError("Hudi did not get over it")


def test_one_partition_with_a_count_of_its_own(servers: dict[str, HudiServer], folder: Path) -> None:
    """Rules by partition are Hudi 1.1's; its regular expression is found as ours says."""
    story = bucket_story(folder, SIMPLE, servers["1.2.0"])
    create(story)
    story.we_upsert(range(90), 1)
    done = rescale(story, partitions={"as ia": 7})
    assert story.options[_RULES] == done.hudi_options[_RULES]
    upsert_with_rules(story, [*range(60, 90), *range(90, 200)], 2)
    assert_buckets(story, "after Hudi's upsert")
    story.judge("after Hudi's upsert", sound=True)
    story.we_upsert(range(150, 260), 3)
    assert_buckets(story, "after our upsert")
    story.judge("after our upsert", sound=True)


def test_counts_by_partition_that_hudi_notes_bind_us(servers: dict[str, HudiServer], folder: Path) -> None:
    """Hudi 1.1 and later write by what their procedure noted, though the options say one count for all."""
    story = bucket_story(folder, SIMPLE, servers["1.2.0"])
    story.hudi_upserts(range(0, 60, 3), 1)  # region us alone
    name = f"noted_{folder.name}"
    story.hudi.sql(f"create table {name} using hudi location '{story.path}'")
    story.hudi.sql(
        f"call partition_bucket_index_manager(table => '{name}', overwrite => 'eu,8', bucket_number => 4, "
        "dry_run => false)"
    )
    story.hudi.sql(f"drop table {name}")
    story.our_options = {"hoodie.index.type": "BUCKET"}
    story.we_upsert(range(60), 2)
    spec = Table.open(open_storage(str(story.path))).index()
    assert spec is not None
    assert (spec.option(_COUNT), spec.option(_RULES)) == ("4", "eu,8")
    upsert_with_rules(story, [*range(30, 90)], 3)
    assert_buckets(story, "after Hudi's upsert")
    story.judge("after Hudi's upsert", sound=True)


def test_hudi_cleans_and_archives_a_rescaling(hudi: HudiServer, folder: Path) -> None:
    story = bucket_story(folder, SIMPLE, hudi)
    create(story)
    story.we_upsert(range(60), 1)
    story.we_upsert(range(50, 70), 2)
    done = rescale(story, buckets=2)
    replaced = {path.name for path in story.path.rglob("0000000[23]-*.parquet")}
    for version in range(3, 8):
        story.hudi_upserts(range(version, 90, 4), version, _ARCHIVE)
    assert done.instant not in completed_writes(story.path), "Hudi archived nothing"
    assert replaced
    assert not replaced & {path.name for path in story.path.rglob("*.parquet")}, "Hudi cleaned nothing"
    story.judge("archived", sound=True)
    story.we_upsert(range(80, 120), 9)
    assert_buckets(story, "after our turn: the count in force is still the new one")
    story.judge("after our turn", sound=True)
    rescale(story, buckets=5)
    story.hudi_upserts(range(0, 140, 5), 10, _ARCHIVE)
    assert_buckets(story, "after a second rescaling")
    story.judge("after a second rescaling", sound=True)


def test_hudi_rolls_back_a_rescaling_that_died(hudi: HudiServer, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    story = bucket_story(folder, SIMPLE, hudi)
    create(story)
    story.we_upsert(range(60), 1)
    real = rescale_tasks._build
    built: list[str] = []

    def dies(task: rescale_tasks.BuildTask) -> rescale_tasks.BuiltFile:
        if len(built) == 3:
            raise KeyboardInterrupt
        done = real(task)
        built.append(done.file.name)
        return done

    with monkeypatch.context() as patched:
        patched.setattr(rescale_tasks, "_build", dies)
        with pytest.raises(KeyboardInterrupt):
            rescale_table(str(story.path), LocalRunner(1), buckets=8)
    assert instant_files(story.path, "*.replacecommit.inflight")
    story.judge("with our rescaling pending")
    story.hudi_upserts(range(40, 80), 2)
    assert not instant_files(story.path, "*.replacecommit*"), "Hudi left it pending"
    assert not set(built) & {path.name for path in story.path.rglob("*.parquet")}
    assert_buckets(story, "after Hudi rolled it back: the old count is in force")
    story.judge("after Hudi rolled it back", sound=True)
    rescale(story, buckets=8)
    story.hudi_upserts(range(70, 100), 3)
    assert_buckets(story, "rescaled after all")
    story.judge("rescaled after all", sound=True)


def test_hudi_upserts_into_a_table_we_migrated_to_buckets(hudi: HudiServer, folder: Path) -> None:
    story = bucket_story(folder, SIMPLE, hudi)
    story.options["hoodie.index.type"] = "BLOOM"
    story.we_create()
    story.we_upsert(range(60), 1)
    story.hudi_upserts(range(50, 90), 2)
    done = migrate_to_buckets(str(story.path), BucketLayout(4), LocalRunner(1))
    story.options |= {"hoodie.index.type": "BUCKET", **done.hudi_options}
    assert_buckets(story, "migrated")
    story.judge("migrated", sound=True)
    story.hudi_upserts(range(70, 130), 3)
    story.we_upsert(range(100, 150), 4)
    assert_buckets(story, "after both wrote")
    story.judge("after both wrote", sound=True)


def test_hudi_passes_over_a_change_of_the_index_that_rewrites_nothing(hudi: HudiServer, folder: Path) -> None:
    story = bucket_story(folder, SIMPLE, hudi)
    create(story)
    rescale(story, buckets=2)  # there is no file yet
    story.hudi_upserts(range(60), 1)
    assert_buckets(story, "filled by Hudi")
    story.we_upsert(range(50, 90), 2)
    before = story.instants[-1]
    table = Table.open(open_storage(str(story.path)))
    switch_index(table, table.snapshot(), IndexSpec(IndexType.BLOOM))
    story.judge("switched", sound=True)
    assert hudi_since(story.hudi, story, before).num_rows == 0
    story.options["hoodie.index.type"] = "BLOOM"
    for version in range(3, 7):
        story.hudi_upserts(range(version, 120, 4), version, _ARCHIVE)
    story.we_upsert(range(100, 140), 8)
    story.judge("archived", sound=True)


def colon_rows(numbers: range, version: int) -> pa.Table:
    """Rows whose keys the two releases put into different buckets."""
    return make_table({**make_row(number, version), "id": f"a:{number}"} for number in numbers)


def test_keys_with_a_colon_follow_the_release_that_wrote_them(servers: dict[str, HudiServer], folder: Path) -> None:
    for version in ("0.15.0", "1.0.2", "1.2.0"):
        server = servers[version]
        story = bucket_story(folder / version, SIMPLE, server)
        options = {**story.options, "hoodie.datasource.write.operation": "upsert"}
        server.write(story.path, colon_rows(range(40), 1), options, mode="overwrite")
        table = lakeindex.open_table(str(story.path))
        first = {"hoodie.index.type": "BUCKET", _COUNT: "4", _MERGE: "EVENT_TIME_ORDERING"}
        done = table.upsert(colon_rows(range(30, 60), 2), options=first)
        assert (done.updates, done.inserts) == (10, 20)
        spec = Table.open(open_storage(str(story.path))).index()
        assert spec is not None
        assert spec.option("lakeindex.bucket.key.rule") == ("0.15" if version == "0.15.0" else "1.x")
        server.write(story.path, colon_rows(range(50, 80), 3), options)
        read = server.read(story.path)
        assert sorted(read.column("id").to_pylist()) == sorted(f"a:{number}" for number in range(80))
        other = servers["1.2.0" if version == "0.15.0" else "0.15.0"]
        guest = bucket_story(folder / version, SIMPLE, other)
        other.write(
            story.path, colon_rows(range(70, 90), 4), {**guest.options, "hoodie.datasource.write.operation": "upsert"}
        )
        with pytest.raises(LakeIndexError, match=r"key 'a:\d+' is stored in bucket \d") as caught:
            table.upsert(colon_rows(range(90), 5))
        assert re.fullmatch(r"a:\d+", caught.value.culprit or "")


@pytest.mark.parametrize("gone", [(999,), (3, 999, 1001), (999, 1000, 1001, 1002, 1003, 1004)])
def test_deletes_of_keys_that_are_not_there_break_no_count(
    hudi: HudiServer, gone: tuple[int, ...], folder: Path
) -> None:
    """Hudi finds the bucket of a key, not the key: the statistics of its delete are about what it looked at."""
    story = bucket_story(folder, SIMPLE, hudi)
    create(story)
    story.we_upsert(range(60), 1)
    story.hudi_deletes(gone)
    story.judge("after Hudi's delete", sound=True)
    story.we_upsert(range(50, 70), 2)
    story.judge("after our upsert", sound=True)
