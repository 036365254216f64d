from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakeindex.errors import TableCorruptError
from lakeindex.format.commit_metadata import (
    CommitMetadata,
    Json,
    PlannedUpdate,
    WriteStat,
    cure_of_damage,
    format_commit_metadata,
    inflight_plan,
    metadata_to_json,
    parse_commit_metadata,
)
from tests.vectors_support import table_names, unpack_table

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
COUNTS = st.integers(0, 2**40)
LEAVES: st.SearchStrategy[Json] = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | TEXTS
UNKNOWN = st.dictionaries(
    TEXTS.map(lambda text: f"x{text}"),
    st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2)),
    max_size=2,
)
STATS = st.builds(
    WriteStat,
    file_id=TEXTS,
    path=st.none() | TEXTS.map(lambda text: f"p/x{text}.parquet".replace("..", "")),
    partition_path=st.none() | TEXTS,
    prev_commit=st.none() | TEXTS,
    num_writes=COUNTS,
    num_deletes=COUNTS,
    num_update_writes=COUNTS,
    num_inserts=COUNTS,
    total_write_bytes=COUNTS,
    total_write_errors=COUNTS,
    file_size_bytes=COUNTS,
    min_event_time=st.none() | COUNTS,
    max_event_time=st.none() | COUNTS,
    prev_base_file=st.none() | TEXTS,
    extra=UNKNOWN,
)
COMMITS = st.builds(
    CommitMetadata,
    write_stats=st.dictionaries(TEXTS, st.lists(STATS, max_size=3).map(tuple), max_size=3),
    operation=st.none() | st.sampled_from(["UPSERT", "DELETE", "CLUSTER"]),
    extra_metadata=st.dictionaries(TEXTS, st.none() | TEXTS, max_size=2),
    compacted=st.booleans(),
    replaced_file_ids=st.dictionaries(TEXTS, st.lists(TEXTS, max_size=2).map(tuple), max_size=2),
    extra=UNKNOWN,
)
FIELDS_OF_015 = {
    "fileId", "path", "cdcStats", "prevCommit", "numWrites", "numDeletes", "numUpdateWrites", "numInserts",
    "totalWriteBytes", "totalWriteErrors", "tempPath", "partitionPath", "totalLogRecords", "totalLogFilesCompacted",
    "totalLogSizeCompacted", "totalUpdatedRecordsCompacted", "totalLogBlocks", "totalCorruptLogBlock",
    "totalRollbackBlocks", "fileSizeInBytes", "minEventTime", "maxEventTime", "runtimeStats",
}  # fmt: skip


@given(COMMITS)
def test_the_text_is_indented_as_by_json(metadata: CommitMetadata) -> None:
    whole = json.dumps(metadata_to_json(metadata), indent=2, ensure_ascii=False)
    assert format_commit_metadata(metadata) == whole.encode("utf-8", "surrogatepass")


@given(COMMITS)
@example(CommitMetadata(extra_metadata={"x": "\ud800"}))  # half of a character, as Java may have cut a text
def test_parse_undoes_format(metadata: CommitMetadata) -> None:
    assert parse_commit_metadata(format_commit_metadata(metadata), "c") == metadata


@pytest.mark.parametrize("name", [name for name in table_names() if "_v6_" in name])
def test_hudis_commits_lose_nothing(name: str, tmp_path: Path) -> None:
    """What Hudi wrote, read and written again, is the same JSON (0.15's empty maps and our constants apart)."""
    folder = unpack_table(name, tmp_path) / ".hoodie"
    files = [*folder.glob("*.commit"), *folder.glob("*.replacecommit")]
    assert files
    for file in files:
        theirs = json.loads(file.read_bytes())
        ours = json.loads(format_commit_metadata(parse_commit_metadata(file.read_bytes(), file.name)))
        assert {key: value for key, value in theirs.items() if key != "partitionToWriteStats"} == {
            key: value for key, value in ours.items() if key != "partitionToWriteStats"
        }
        for partition, stats in theirs["partitionToWriteStats"].items():
            for theirs_one, ours_one in zip(stats, ours["partitionToWriteStats"][partition], strict=True):
                assert theirs_one.items() <= {"prevBaseFile": None, **ours_one}.items()


def test_a_stat_has_every_field_that_0_15_writes() -> None:
    stat = WriteStat("f-0", "us/f-0_0-0-0_1.parquet", "us", num_writes=3, num_inserts=3)
    written = json.loads(format_commit_metadata(CommitMetadata({"us": (stat,)}, "UPSERT", {"schema": "{}"})))
    assert set(written["partitionToWriteStats"]["us"][0]) == FIELDS_OF_015
    assert written["partitionToWriteStats"]["us"][0]["prevCommit"] == "null"
    assert written["extraMetadata"] == {"schema": "{}"}
    assert written["compacted"] is False
    assert "partitionToReplaceFileIds" not in written


def test_replaced_groups_and_schema() -> None:
    data = {"partitionToReplaceFileIds": {"us": ["a", "b"], "": ["c"]}, "extraMetadata": {"schema": "{}"}}
    metadata = parse_commit_metadata(json.dumps(data).encode(), "c")
    assert metadata.replaced() == {("us", "a"), ("us", "b"), ("", "c")}
    assert metadata.schema_text == "{}"
    assert CommitMetadata(extra_metadata={"schema": ""}).schema_text is None


def test_nulls_count_as_absent() -> None:
    data = (
        b'{"partitionToWriteStats": null, "extraMetadata": null, "partitionToReplaceFileIds": null, "compacted": null}'
    )
    assert parse_commit_metadata(data, "c") == CommitMetadata()


def test_the_inflight_plan_has_inserts_first() -> None:
    update = PlannedUpdate("f-0", "20260101000000000", 7)
    plan = inflight_plan("UPSERT", {"us": 3}, {"eu": [update], "us": [update]})
    assert plan.operation == "UPSERT"
    assert [stat.num_inserts for stat in plan.write_stats["us"]] == [3, 0]
    assert [(s.file_id, s.prev_commit, s.num_update_writes) for s in plan.write_stats["eu"]] == [
        ("", "null", 0),
        ("f-0", "20260101000000000", 7),
    ]
    assert all(stat.path is None and stat.partition_path is None for stat in plan.stats())


@pytest.mark.parametrize(
    "data",
    [
        b"", b" \n", b"{", b'{"partitionToWriteStats": {"us": [{"fileId": "x"', b"[]", b"null", b"\xff\xfe{}",
        b'{"partitionToWriteStats": []}', b'{"partitionToWriteStats": {"us": {}}}',
        b'{"partitionToWriteStats": {"us": [3]}}', b'{"partitionToWriteStats": {"us": [{"numWrites": "3"}]}}',
        b'{"partitionToWriteStats": {"us": [{"numWrites": true}]}}',
        b'{"partitionToWriteStats": {"us": [{"path": 3}]}}',
        b'{"partitionToWriteStats": {"us": [{"path": "../../etc/x.parquet"}]}}',
        b'{"partitionToWriteStats": {"us": [{"path": "/etc/x.parquet"}]}}',
        b'{"operationType": 3}', b'{"extraMetadata": {"schema": 3}}',
        b'{"partitionToReplaceFileIds": {"us": [null]}}', b"[" * 100_000,
    ],
)  # fmt: skip
def test_damage_is_named(data: bytes) -> None:
    with pytest.raises(TableCorruptError) as caught:
        parse_commit_metadata(data, ".hoodie/1.commit")
    assert caught.value.culprit == ".hoodie/1.commit"
    assert ".hoodie/1.commit" in str(caught.value)


def test_only_a_completed_commit_can_be_rolled_back_for_its_damage() -> None:
    time, folder = "20260101000000000", ".hoodie/timeline/"
    for name in (f"{time}.commit", f"{folder}{time}_{time}.commit"):
        assert cure_of_damage(name).endswith(f"or roll the commit back: `lakeindex rollback TABLE {time}`")
    for name in (f"{time}.inflight", f"{time}.replacecommit", f"{folder}{time}_{time}.clean", "other"):
        assert "rollback" not in cure_of_damage(name)


@given(st.binary(max_size=40))
def test_any_bytes_parse_or_are_refused(data: bytes) -> None:
    with contextlib.suppress(TableCorruptError):
        parse_commit_metadata(data, "c")
