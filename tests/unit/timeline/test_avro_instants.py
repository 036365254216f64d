from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lakeindex.errors import TableCorruptError
from lakeindex.timeline.avro_instants import (
    CleanMetadata,
    CleanPlan,
    ClusteringGroup,
    ClusteringSlice,
    RequestedReplace,
    RestorePlan,
    RollbackMetadata,
    RollbackPlan,
    avro_record,
    format_avro,
    format_clean_metadata,
    format_clean_plan,
    format_requested_replace,
    format_rollback_metadata,
    format_rollback_plan,
    parse_avro_commit_metadata,
    parse_clean_metadata,
    parse_clean_plan,
    parse_requested_replace,
    parse_restore_plan,
    parse_rollback_metadata,
    parse_rollback_plan,
    parse_savepoint,
)
from lakeindex.timeline.avro_schemas import CLEANER_PLAN, REQUESTED_REPLACE, RESTORE_PLAN, ROLLBACK_PLAN
from tests.unit.commit.savepoints import SCHEMA
from tests.vectors_support import unpack_table

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
FILES = st.dictionaries(TEXTS, st.lists(TEXTS, min_size=1, max_size=3).map(tuple), max_size=3)
INSTANTS = st.lists(st.text("0123456789", min_size=1), max_size=3).map(tuple)
PARSERS = [
    parse_rollback_plan, parse_rollback_metadata, parse_clean_plan, parse_clean_metadata, parse_savepoint,
    parse_avro_commit_metadata, parse_requested_replace,
]  # fmt: skip


@given(st.builds(RollbackPlan, TEXTS, TEXTS, FILES))
def test_rollback_plan(plan: RollbackPlan) -> None:
    assert parse_rollback_plan(format_rollback_plan(plan), "p") == plan


@given(st.builds(RollbackMetadata, TEXTS, TEXTS, TEXTS, FILES, FILES, st.integers(0, 2**40)))
def test_rollback_metadata(metadata: RollbackMetadata) -> None:
    assert parse_rollback_metadata(format_rollback_metadata(metadata), "p") == metadata


@given(st.builds(CleanPlan, TEXTS, FILES, st.none() | st.tuples(TEXTS, TEXTS), TEXTS, INSTANTS))
def test_clean_plan(plan: CleanPlan) -> None:
    assert parse_clean_plan(format_clean_plan(plan), "p") == plan


@given(
    st.builds(CleanMetadata, TEXTS, st.none() | TEXTS, TEXTS, FILES, TEXTS, st.integers(0, 2**40), INSTANTS)
    .map(lambda made: made if made.deleted else replace(made, policy=None))
    .map(lambda made: made if made.policy is not None else replace(made, deleted={}))
)
def test_clean_metadata(metadata: CleanMetadata) -> None:
    """The policy is said with each partition."""
    assert parse_clean_metadata(format_clean_metadata(metadata), "p") == metadata


@given(
    st.builds(
        RequestedReplace,
        st.none() | TEXTS,
        st.lists(
            st.builds(
                ClusteringGroup,
                st.lists(st.builds(ClusteringSlice, TEXTS, TEXTS, TEXTS), max_size=3).map(tuple),
                st.integers(1, 9),
            ),
            max_size=3,
        ).map(tuple),
    )
)
def test_requested_replace(requested: RequestedReplace) -> None:
    assert parse_requested_replace(format_requested_replace(requested), "p") == requested


def test_equal_values_are_equal_bytes() -> None:
    plan = RollbackPlan("20260101000000000", "commit", {"us": ("file:/t/us/a.parquet",)})
    assert format_rollback_plan(plan) == format_rollback_plan(plan)


def schema_of(data: bytes) -> Any:
    return without_docs(fastavro.reader(io.BytesIO(data)).writer_schema)


def without_docs(node: Any) -> Any:
    """A schema without docs, and without the note that a text is a java.lang.String in places Hudi has none."""
    if isinstance(node, dict):
        return {key: without_docs(value) for key, value in node.items() if key not in ("doc", "namespace")}
    return [without_docs(one) for one in node] if isinstance(node, list) else node


@pytest.mark.parametrize("name", ["h120_v6_rolledback", "h0150_v6_rolledback"])
def test_our_rollback_files_have_hudis_schemas(name: str, tmp_path: Path) -> None:
    folder = unpack_table(name, tmp_path) / ".hoodie"
    (requested,) = folder.glob("*.rollback.requested")
    (completed,) = folder.glob("*.rollback")
    assert schema_of(format_rollback_plan(RollbackPlan("1", "commit"))) == schema_of(requested.read_bytes())
    assert schema_of(format_rollback_metadata(RollbackMetadata("1", "1", "commit"))) == schema_of(
        completed.read_bytes()
    )
    plan = parse_rollback_plan(requested.read_bytes(), requested.name)
    metadata = parse_rollback_metadata(completed.read_bytes(), completed.name)
    assert (plan.instant_time, plan.action, plan.files) == (metadata.instant_time, "commit", {})
    assert metadata.start_time == completed.name.partition(".")[0]


@pytest.mark.parametrize("name", ["h0150_v6_main", "h120_v6_main", "h120_v8_main", "h120_v9_main"])
def test_clustering_plans_of_hudi(name: str, tmp_path: Path) -> None:
    folder = unpack_table(name, tmp_path) / ".hoodie"
    (requested,) = [*folder.glob("*.replacecommit.requested"), *folder.glob("timeline/*.clustering.requested")]
    plan = parse_requested_replace(requested.read_bytes(), requested.name)
    assert plan.operation == "CLUSTER"
    assert {partition for partition, _ in plan.input_groups} == {"us", "eu", "as ia"}
    if name != "h0150_v6_main":  # 1.2 has a field more
        return
    assert schema_of(format_requested_replace(plan)) == schema_of(requested.read_bytes())


def test_cleans_of_hudi(tmp_path: Path) -> None:
    folder = unpack_table("h0150_v6_clean", tmp_path) / ".hoodie"
    for completed in folder.glob("*.clean"):
        metadata = parse_clean_metadata(completed.read_bytes(), completed.name)
        plan = parse_clean_plan(completed.with_suffix(".clean.requested").read_bytes(), "plan")
        assert metadata.policy == plan.policy == "KEEP_LATEST_FILE_VERSIONS"
        planned = {part: tuple(path.rpartition("/")[2] for path in files) for part, files in plan.files.items()}
        assert planned == metadata.deleted
        assert set(planned) == {"us", "eu", "as ia"}
        requested = completed.with_suffix(".clean.requested").read_bytes()
        assert schema_of(format_clean_plan(plan)) == schema_of(requested)
        assert schema_of(format_clean_metadata(metadata)) == schema_of(completed.read_bytes())


def test_savepoint_as_hudi_writes_it() -> None:
    out = io.BytesIO()
    fastavro.writer(
        out,
        SCHEMA,
        [
            {
                "savepointedBy": "me",
                "savepointedAt": 7,
                "comments": "why",
                "partitionMetadata": {"us": {"partitionPath": "us", "savepointDataFile": ["a.parquet"]}},
            }
        ],
    )
    savepoint = parse_savepoint(out.getvalue(), "s")
    assert (savepoint.user, savepoint.made_ms, savepoint.comments) == ("me", 7, "why")
    assert savepoint.files == {"us": ("a.parquet",)}


@pytest.mark.parametrize("name", ["h120_v8_main", "h120_v9_main"])
def test_commits_of_versions_8_and_9(name: str, tmp_path: Path) -> None:
    folder = unpack_table(name, tmp_path) / ".hoodie" / "timeline"
    operations = {}
    for file in sorted([*folder.glob("*_*.commit"), *folder.glob("*_*.replacecommit")]):
        metadata = parse_avro_commit_metadata(file.read_bytes(), file.name)
        assert metadata.schema_text is not None
        assert all(stat.path and stat.num_writes and stat.file_size_bytes for stat in metadata.stats())
        operations[file.name] = (metadata.operation, sum(stat.num_writes for stat in metadata.stats()))
    assert [operation for operation, _ in operations.values()] == ["INSERT", "UPSERT", "DELETE", "UPSERT", "CLUSTER"]
    assert [rows for _, rows in operations.values()] == [300, 340, 310, 310, 310]


def test_deleted_files_are_counted_not_their_partitions() -> None:
    files = {"p": ("a", "b"), "q": ("c",)}
    for data in (
        format_rollback_metadata(RollbackMetadata("2", "1", "commit", files)),
        format_clean_metadata(CleanMetadata("2", "KEEP", "1", files)),
    ):
        assert avro_record(data, "x")["totalFilesDeleted"] == 3


def test_what_other_releases_leave_out_or_write_otherwise() -> None:
    """Fields that may be null in Hudi's schemas; of a clean, names instead of paths."""
    instant = {"commitTime": "1", "action": "commit"}
    rollback = {"instantToRollback": instant, "RollbackRequests": None, "version": 1}
    assert parse_rollback_plan(format_avro(ROLLBACK_PLAN, rollback), "x") == RollbackPlan("1", "commit")
    restore = {"instantsToRollback": [instant], "version": 1, "savepointToRestoreTimestamp": None}
    assert parse_restore_plan(format_avro(RESTORE_PLAN, restore), "x") == RestorePlan("", (("1", "commit"),))
    clean = {
        "earliestInstantToRetain": None,
        "lastCompletedCommitTimestamp": "",
        "policy": "KEEP",
        "filesToBeDeletedPerPartition": {"p": ["a", "b"]},
        "version": 1,
        "filePathsToBeDeletedPerPartition": None,
        "partitionsToBeDeleted": None,
        "extraMetadata": None,
    }
    assert parse_clean_plan(format_avro(CLEANER_PLAN, clean), "x") == CleanPlan("KEEP", {"p": ("a", "b")})
    plan = {"inputGroups": None, "strategy": None, "extraMetadata": None, "version": 1, "preserveHoodieMetadata": None}
    requested = {"operationType": "CLUSTER", "clusteringPlan": plan, "extraMetadata": None, "version": 1}
    assert parse_requested_replace(format_avro(REQUESTED_REPLACE, requested), "x") == RequestedReplace("CLUSTER")


def test_an_empty_requested_replace_is_an_old_insert_overwrite() -> None:
    assert parse_requested_replace(b"", "p") == RequestedReplace()


@pytest.mark.parametrize("parse", PARSERS)
def test_damage_is_named(parse: Any, tmp_path: Path) -> None:
    whole = format_rollback_plan(RollbackPlan("20260101000000000", "commit", {"us": ("a",)}))
    other = io.BytesIO()
    fastavro.writer(other, {"type": "record", "name": "x", "fields": []}, [{}])
    number = io.BytesIO()
    fastavro.writer(number, "long", [3])
    empty = io.BytesIO()
    fastavro.writer(empty, {"type": "record", "name": "x", "fields": []}, [])
    damaged = [
        whole[: len(whole) - 30],
        whole[:3],
        b"{}",
        number.getvalue(),
        empty.getvalue(),
        b"Obj\x01" + b"\xff" * 9,
    ]
    if parse is not parse_avro_commit_metadata:
        damaged.append(other.getvalue())
    if parse is not parse_requested_replace:
        damaged.append(b"")
    for data in damaged:
        with pytest.raises(TableCorruptError) as caught:
            parse(data, ".hoodie/1.x")
        assert caught.value.culprit == ".hoodie/1.x"


@given(st.integers(0, 600), st.integers(0, 255))
def test_a_flipped_byte_never_escapes_as_another_error(at: int, value: int) -> None:
    data = bytearray(format_rollback_plan(RollbackPlan("20260101000000000", "commit", {"us": ("a", "b")})))
    data[at % len(data)] = value
    with contextlib.suppress(TableCorruptError):
        parse_rollback_plan(bytes(data), "p")
