"""What is checked before publishing: each row of the batch has one fate, and the files hold what the look-up says.

A bug is stood in for by a checkpoint that says something else, whole and with the right digests.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from lakeindex.conductor.upsert import run_stage
from lakeindex.errors import InvariantError
from lakeindex.model import Operation
from lakeindex.pipeline import Stage
from lakeindex.run.spec import RunSpec, run_folder
from lakeindex.table.handle import Table
from lakeindex.tasks.local_runner import LocalRunner
from tests.builders import Row, batch_of, content_of, make_table

OLD = [Row(key, "x", 5, "old") for key in "abcdef"]
NEW = [Row("a", "x", 6, "new"), Row("b", "x", 4, "late"), Row("g", "x", 6, "new"), Row("c", "x", 7, "", deleted=True)]
BEFORE = (Stage.STAGE_INPUT, Stage.INDEX_LOOKUP, Stage.BLOOM_CHECK, Stage.VERIFY_KEYS)


@pytest.fixture
def spec(tmp_path: Path) -> RunSpec:
    """A run that has done all but the merge."""
    table = make_table(tmp_path / "t")
    table.upsert(batch_of(OLD), runner=LocalRunner(1))
    pq.write_table(batch_of(NEW), tmp_path / "new.parquet")
    inputs = (str(tmp_path / "new.parquet"),)
    made = RunSpec(str(tmp_path / "t"), str(tmp_path / "runs"), "run", "batch", Operation.UPSERT, inputs, ())
    for stage in BEFORE:
        run_stage(stage, made, LocalRunner(1))
    return made


def refused(spec: RunSpec, what: str) -> None:
    before = _state(spec)
    with pytest.raises(InvariantError, match=what):
        run_stage(Stage.MERGE_WRITE, spec, LocalRunner(1))
    assert _state(spec) == before


def _state(spec: RunSpec) -> tuple[object, object]:
    from lakeindex.api.table import LakeTable
    from lakeindex.storage import open_storage

    table = Table.open(open_storage(spec.table_uri))
    return content_of(LakeTable(spec.table_uri)), table.load_timeline().completed_write_times


def test_untouched_checkpoints_are_published(spec: RunSpec) -> None:
    before = _state(spec)
    run_stage(Stage.MERGE_WRITE, spec, LocalRunner(1))
    assert _state(spec) != before


@pytest.mark.parametrize("counter", ["rows_in", "combined", "quarantined"])
def test_a_row_without_a_fate_or_with_two(spec: RunSpec, counter: str) -> None:
    folder = run_folder(spec)
    manifest = folder.require_manifest(Stage.STAGE_INPUT)
    folder.write_manifest(replace(manifest, counters={**manifest.counters, counter: manifest.counters[counter] + 1}))
    refused(spec, "rows came in")


@pytest.mark.parametrize(
    ("fewer", "more", "what"),
    [("ignored", "updates", "updated"), ("updates", "deletes", "updated|removed"), ("deletes", "ignored", "removed")],
)
def test_files_that_hold_other_rows_than_were_looked_up(spec: RunSpec, fewer: str, more: str, what: str) -> None:
    folder = run_folder(spec)
    manifest = folder.require_manifest(Stage.VERIFY_KEYS)
    (part,) = manifest.parts("found")
    found = folder.read_table(part)
    assert pc.sum(found[fewer]).as_py() == 1
    for name, change in ((fewer, -1), (more, 1)):
        counts = found[name].to_pylist()
        counts[0] += change
        column = pa.array(counts, found.schema.field(name).type)
        found = found.set_column(found.column_names.index(name), found.schema.field(name), column)
    other = folder.write_table("verify_keys/tampered/found.parquet", found)
    folder.write_manifest(replace(manifest, tables={**manifest.tables, "found": (other,)}))
    refused(spec, what)
