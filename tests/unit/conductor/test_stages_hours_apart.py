"""A run whose stages are jobs of a DAG: hours pass between them, in which others write, and do what they do to a table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from lakeindex.api.table import LakeTable
from lakeindex.conductor.upsert import run_stage
from lakeindex.errors import InputError
from lakeindex.model import Operation
from lakeindex.pipeline import Stage
from lakeindex.run.checkpoints import RunFolder
from lakeindex.run.spec import RunSpec
from lakeindex.run.summary import RunSummary
from lakeindex.stages.bloom_check import basis_of_candidates
from lakeindex.storage import open_storage
from lakeindex.tasks.local_runner import LocalRunner
from tests.builders import Oracle, Row, batch_of, content_of, make_table
from tests.scheduling import some_of

STORED = [Row("a", "x", 1, "old"), Row("b", "x", 1, "old"), Row("c", "y", 1, "old")]
BATCH = [Row("a", "x", 2, "new"), Row("n", "x", 2, "n"), Row("n", "y", 3, "n"), Row("b", "x", 2, None, deleted=True)]


def begun(folder: Path, index: str) -> tuple[LakeTable, RunSpec]:
    table = make_table(folder / "t", hoodie__index__type=index)
    table.upsert(batch_of(STORED))
    pq.write_table(batch_of(BATCH), folder / "in.parquet")
    return table, RunSpec(table.uri, str(folder / "runs"), "r", "b", Operation.UPSERT, (str(folder / "in.parquet"),))


def played(spec: RunSpec, before: Stage, meanwhile: Callable[[], object]) -> RunSummary:
    """All jobs that the run's DAG has: which ones, its operators read from what the first has left."""
    folder = RunFolder(open_storage(spec.checkpoints_uri), spec.run_id)
    done = None
    for stage in Stage:
        if stage is before:
            meanwhile()
        staged = folder.read_manifest(Stage.STAGE_INPUT)
        if stage is Stage.BLOOM_CHECK and staged is not None and "BLOOM" not in staged.facts["index_type"]:
            continue
        done = run_stage(stage, spec, LocalRunner(1))
    assert isinstance(done, RunSummary)
    return done


SWITCHES = [
    ("SIMPLE", "GLOBAL_SIMPLE"),
    ("BLOOM", "GLOBAL_BLOOM"),
    ("GLOBAL_SIMPLE", "BLOOM"),
    ("SIMPLE", "BUCKET"),
    ("GLOBAL_SIMPLE", "SIMPLE"),
    ("SIMPLE", "BLOOM"),
    ("BLOOM", "SIMPLE"),
    ("GLOBAL_BLOOM", "BUCKET"),
]


@pytest.mark.parametrize(
    ("index", "to"),
    some_of(SWITCHES, SWITCHES[:4].__contains__, pytest.mark.slow),
)
@pytest.mark.parametrize("before", list(Stage)[1:])
@pytest.mark.few(5)
def test_the_index_may_become_another_between_any_two_stages(
    tmp_path: Path, index: str, to: str, before: Stage
) -> None:
    """A batch that was staged with keys that are unique in a partition is another one where they are in the table."""
    table, spec = begun(tmp_path, index)
    done = played(spec, before, lambda: table.index_migrate(to))
    oracle = Oracle(is_global=to.startswith("GLOBAL"))
    oracle.apply(STORED)
    counts = oracle.apply(BATCH)
    assert content_of(table) == oracle.content()
    assert {name: done.fates.get(name, 0) for name in counts} == counts
    assert table.check().ok


def test_a_stage_that_is_needed_no_more_says_that_it_is_over_and_is_done_if_it_is_needed_again(tmp_path: Path) -> None:
    """A DAG takes a job that leaves nothing for one that failed."""
    table, spec = begun(tmp_path, "BLOOM")
    for stage in (Stage.STAGE_INPUT, Stage.INDEX_LOOKUP):
        run_stage(stage, spec, LocalRunner(1))
    table.index_migrate("SIMPLE")
    run_stage(Stage.BLOOM_CHECK, spec, LocalRunner(1))
    assert list(Path(spec.checkpoints_uri).rglob("bloom_check.json"))
    table.index_migrate("BLOOM")
    for stage in (Stage.VERIFY_KEYS, Stage.MERGE_WRITE):
        run_stage(stage, spec, LocalRunner(1))
    oracle = Oracle(is_global=False)
    oracle.apply(STORED)
    oracle.apply(BATCH)
    assert content_of(table) == oracle.content()
    assert table.check().ok


def cleaned(table: LakeTable) -> list[Row]:
    """Others update all rows, and a clean deletes the files that the run may have looked in; the rows they wrote."""
    rows = [Row(row.id, row.day, 5, "theirs") for row in STORED]
    for _ in range(3):
        table.upsert(batch_of(rows))
    table.maintain(["clean"], options={"hoodie.cleaner.commits.retained": "1"})
    return rows


def rolled_back(table: LakeTable) -> list[Row]:
    table.rollback(table.history()[0].instant)
    return []


@pytest.mark.parametrize(
    "index", some_of(["SIMPLE", "BLOOM", "GLOBAL_SIMPLE", "BUCKET"], {"BLOOM", "BUCKET"}.__contains__, pytest.mark.slow)
)
@pytest.mark.parametrize("meanwhile", [cleaned, rolled_back])
@pytest.mark.parametrize("before", list(Stage)[1:])
@pytest.mark.few(8)
def test_files_that_a_job_has_looked_in_may_be_gone_when_the_next_one_begins(
    tmp_path: Path, index: str, meanwhile: Callable[[LakeTable], list[Row]], before: Stage
) -> None:
    table, spec = begun(tmp_path, index)
    table.upsert(batch_of(STORED))
    theirs: list[Row] = []
    done = played(spec, before, lambda: theirs.extend(meanwhile(table)))
    oracle = Oracle(is_global=index.startswith("GLOBAL"))
    oracle.apply(STORED)
    oracle.apply(theirs)
    counts = oracle.apply(BATCH)
    assert content_of(table) == oracle.content()
    assert {name: done.fates.get(name, 0) for name in counts} == counts
    assert table.check().ok


def test_a_batch_that_has_to_be_staged_anew_and_is_gone_ends_the_run(tmp_path: Path) -> None:
    table, spec = begun(tmp_path, "GLOBAL_SIMPLE")
    (path,) = spec.inputs

    def meanwhile() -> None:
        table.index_migrate("SIMPLE")
        Path(path).unlink()

    before = content_of(table)
    with pytest.raises(InputError, match="no input at"):
        played(spec, Stage.MERGE_WRITE, meanwhile)
    assert content_of(table) == before


def test_a_batch_that_is_committed_needs_no_input_whatever_the_table_is_now(tmp_path: Path) -> None:
    """Airflow may try the last job again, which had committed and was killed then."""
    table, spec = begun(tmp_path, "GLOBAL_SIMPLE")
    done = played(spec, Stage.MERGE_WRITE, lambda: None)
    table.index_migrate("SIMPLE")
    Path(spec.inputs[0]).unlink()
    again = run_stage(Stage.MERGE_WRITE, spec, LocalRunner(1))
    assert isinstance(again, RunSummary)
    assert (again.noop, again.instant, again.fates) == (True, done.instant, done.fates)


def test_a_table_of_spark_s_that_has_to_be_staged_anew_says_where_to_begin(tmp_path: Path) -> None:
    """Its rows are files in the run's folder by then, and all jobs are given its name."""
    table, spec = begun(tmp_path, "GLOBAL_SIMPLE")
    run_stage(Stage.STAGE_INPUT, spec, LocalRunner(1))
    table.index_migrate("SIMPLE")
    before = content_of(table)
    with pytest.raises(InputError, match=r"'table:feed' is a table of Spark's.*from its first stage"):
        run_stage(Stage.INDEX_LOOKUP, replace(spec, inputs=("table:feed",)), LocalRunner(1))
    assert content_of(table) == before


@pytest.mark.parametrize("cleared", [Stage.STAGE_INPUT, Stage.INDEX_LOOKUP])
def test_a_job_goes_on_from_no_checkpoint_that_is_of_another_try_than_the_one_before_it(
    tmp_path: Path, cleared: Stage
) -> None:
    """Somebody clears one task of a DAG without those behind it, when the input has come again, or the table has moved."""
    table, spec = begun(tmp_path, "BLOOM")
    spec = replace(spec, options=(("lakeindex.chunk.rows", "1"),))
    folder, oracle = RunFolder(open_storage(spec.checkpoints_uri), spec.run_id), Oracle(is_global=False)
    oracle.apply(STORED)
    batch = BATCH
    for stage in (Stage.STAGE_INPUT, Stage.INDEX_LOOKUP, Stage.BLOOM_CHECK):
        run_stage(stage, spec, LocalRunner(1))
    if cleared is Stage.STAGE_INPUT:
        batch = BATCH[:1]
        pq.write_table(batch_of(batch), spec.inputs[0])
    else:
        theirs = [Row("c", "y", 5, "theirs"), Row("z", "x", 1, "theirs")]
        table.upsert(batch_of(theirs), options={"hoodie.parquet.small.file.limit": "0"})
        oracle.apply(theirs)
    run_stage(cleared, spec, LocalRunner(1))
    run_stage(Stage.VERIFY_KEYS, spec, LocalRunner(1))
    made = [folder.require_manifest(stage) for stage in (Stage.STAGE_INPUT, Stage.INDEX_LOOKUP, Stage.BLOOM_CHECK)]
    assert made[1].facts["staged"] == made[0].digest
    assert made[2].basis == basis_of_candidates(made[1])
    run_stage(Stage.MERGE_WRITE, spec, LocalRunner(1))
    oracle.apply(batch)
    assert content_of(table) == oracle.content()
