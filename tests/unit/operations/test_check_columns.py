"""Check finds commits and files that lost a column which another writer had added meanwhile."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from lakeindex.api.table import LakeTable
from lakeindex.format.commit_metadata import SCHEMA_KEY, CommitMetadata, format_commit_metadata
from lakeindex.operations.check_violations import Broken
from lakeindex.storage import open_storage
from lakeindex.table.handle import Table
from lakeindex.write.types.avro_schema import schema_to_avro
from tests.builders import SCHEMA, Row, batch_of, make_table

WIDER = SCHEMA.append(pa.field("extra", pa.string()))


def commit_schema(table: LakeTable, time: str, schema: pa.Schema) -> None:
    """A commit of Hudi's that says which columns the table has."""
    store = open_storage(table.uri)
    commit = CommitMetadata({}, "UPSERT", {SCHEMA_KEY: schema_to_avro(schema, "hoodie.other")})
    store.write(f".hoodie/{time}.commit.requested", b"")
    store.write(f".hoodie/{time}.inflight", b"")
    store.write(f".hoodie/{time}.commit", format_commit_metadata(commit))


def two_commits(folder: Path) -> tuple[LakeTable, list[str]]:
    table = make_table(folder / "t")
    table.upsert(batch_of([Row("a", "x", 1, "1"), Row("b", "y", 1, "1")]), batch_id="first")
    table.upsert(batch_of([Row("a", "x", 2, "2")]), batch_id="second")
    timeline = Table.open(open_storage(table.uri)).load_timeline()
    return table, [one.time for one in timeline.completed_writes]


def test_a_column_that_was_added_before_our_commit_and_is_not_in_it(tmp_path: Path) -> None:
    """What the older lakeindex left: the commit says the columns of when the run was opened, and its files have those."""
    table, (first, second) = two_commits(tmp_path)
    assert table.check().ok
    commit_schema(table, str(int(first) + 1), WIDER)
    found = [(one.kind, one.culprit, one.message) for one in table.check().violations]
    (rewritten,) = (path for path in (tmp_path / "t" / "x").glob("*.parquet") if second in path.name)
    assert found == [
        (
            Broken.COMMIT,
            f".hoodie/{second}.commit",
            f".hoodie/{second}.commit: the commit lost the table's column 'extra'",
        ),
        (
            Broken.FILE,
            f"x/{rewritten.name}",
            f"x/{rewritten.name} lost the column 'extra', which the table had",
        ),
    ]


def test_a_column_that_is_added_later_is_not_missed(tmp_path: Path) -> None:
    table, (_, second) = two_commits(tmp_path)
    commit_schema(table, str(int(second) + 1), WIDER)
    assert table.check().ok
    batch = batch_of([Row("a", "x", 3, "3")]).append_column("extra", pa.array(["new"]))
    table.upsert(batch, batch_id="third")
    assert table.check().ok


def test_a_column_that_hudi_dropped_on_purpose_is_not_missed(tmp_path: Path) -> None:
    table, (first, second) = two_commits(tmp_path)
    commit_schema(table, str(int(first) + 1), WIDER)
    commit_schema(table, str(int(first) + 2), SCHEMA)
    assert int(first) + 2 < int(second)
    assert table.check().ok
