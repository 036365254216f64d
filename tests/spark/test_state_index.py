"""The STATE index on a real state store: it follows the timeline, whoever dies when."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import GroupedData, SparkSession

if not hasattr(GroupedData, "transformWithState"):
    pytest.skip("this PySpark has no keyed state of rows: docs/versions.md", allow_module_level=True)

from lakeindex.errors import IndexNotBuiltError, StorageError, UsageError
from lakeindex.index.locations.state_engine import StateSettings
from lakeindex.operations.table_services import rollback_table
from lakeindex.runners.keyed_state import KeyedState
from lakeindex.runners.spark import SparkRunner
from lakeindex.runners.spark_session import spark_session
from lakeindex.storage import StoreOptions, using
from tests.builders import Oracle, Row, batch_of, content_of, counts_of, make_table

pytestmark = [pytest.mark.spark, pytest.mark.slow]  # the contract plays STATE on Spark's own tester
STATE = ".hoodie/.lakeindex/index/state"
FEW = {"lakeindex.state.partitions": "2"}


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    made = spark_session("local[2]", "lakeindex tests")
    yield made
    made.stop()


class DyingState(KeyedState):
    """A state whose engine dies before it has taken anything in."""

    def run(self) -> None:
        raise StorageError("the executor is gone")


class DyingRunner(SparkRunner):
    """A runner that loses its engine when state is to be written."""

    def keyed_state(self, folder: str, settings: StateSettings) -> KeyedState:
        return DyingState(self.session, folder, settings)


def record_of(folder: Path) -> dict[str, Any]:
    (path,) = (folder / STATE).glob("state-*.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def listed(session: SparkSession, folder: Path) -> dict[str, tuple[str, str | None]]:
    """What another job reads: the newest entry of each key."""
    state = (
        session.read.format("statestore").option("stateVarName", "entries").load(f"{record_of(folder)['folder']}/state")
    )
    entries = sorted(state.select("list_element.*").collect(), key=lambda e: e.seq)
    newest = {e.key: (e.partition, e.file_id) for e in entries}
    return {key: at for key, at in newest.items() if at[1] is not None}


def entries_of(item: bytes) -> pa.Table:
    return pa.table(
        {
            "bucket": pa.array([0], pa.int32()),
            "key": [f"{len(item)}"],
            "partition": ["x"],
            "file_id": ["f"],
            "seq": pa.array([1], pa.int64()),
        }
    )


def test_no_secret_is_in_a_file_of_sparks_however_many_tasks_there_are(session: SparkSession, tmp_path: Path):
    state = SparkRunner(session).keyed_state(str(tmp_path / "state"), StateSettings(2))
    with using(StoreOptions.of({"aws_secret_access_key": "a-secret-of-ours"})):
        state.feed(1, entries_of, [os.urandom(700_000), os.urandom(700_001)])
    fed = session.read.option("recursiveFileLookup", "true").parquet(str(tmp_path / "state/in")).collect()
    assert {row.key for row in fed} == {"700000", "700001"}
    files = [path for path in Path(session.sparkContext._temp_dir).rglob("*") if path.is_file()]
    assert files, "what is too large for a function is broadcast, by way of a file"
    assert not [path for path in files if b"a-secret-of-ours" in path.read_bytes()]


def test_state_follows_the_timeline_through_deaths_and_rollbacks(session: SparkSession, tmp_path: Path):
    folder, runner = tmp_path / "t", SparkRunner(session)
    table, oracle = make_table(folder, hoodie__index__type="STATE"), Oracle(is_global=True)

    def upsert(batch: list[Row], by: SparkRunner = runner) -> str:
        summary = table.upsert(batch_of(batch), runner=by, options=FEW)
        assert counts_of(summary) == oracle.apply(batch)
        assert content_of(table) == oracle.content()
        assert summary.instant is not None
        return summary.instant

    upsert([Row("a", "x", 1, "1"), Row("b", "x", 1, "1"), Row("c\U0001f600", "y", 1, "1")])
    first = listed(session, folder)
    assert {key: at[0] for key, at in first.items()} == {"a": "x", "b": "x", "c\U0001f600": "y"}

    # The engine dies after the commit: the commit stands, the state is behind, and the next look-up makes that good.
    upsert([Row("a", "y", 2, "2"), Row("b", "x", 2, "2", deleted=True), Row("d", "x", 2, "2")], DyingRunner(session))
    assert listed(session, folder) == first
    before = record_of(folder)
    kept = dict(oracle.rows)
    last = upsert([Row("d", "y", 3, "3"), Row("b", "y", 3, "3"), Row("a", "y", 3, "3")])
    assert {key: at[0] for key, at in listed(session, folder).items()} == {k[0]: p for k, (p, _) in oracle.rows.items()}
    assert len(record_of(folder)["applied"]) == len(before["applied"]) + 2

    # A rollback takes a commit out from under the state: files that it does not cover are read again.
    rollback_table(table.uri, last)
    oracle.rows = kept
    assert content_of(table) == oracle.content()
    upsert([Row("d", "x", 4, "4"), Row("b", "x", 4, "4"), Row("a", "x", 4, "4")])

    # A state that is lost is an error, never an empty one.
    for one in (folder / STATE).glob("state-*.json"):
        one.unlink()
    with pytest.raises(IndexNotBuiltError, match="lakeindex index build"):
        table.upsert(batch_of([Row("a", "x", 5, "5")]), runner=runner, options=FEW)


def test_keys_that_were_forgotten_are_looked_for_in_the_files(session: SparkSession, tmp_path: Path):
    runner, oracle = SparkRunner(session), Oracle(is_global=False)
    table = make_table(
        tmp_path / "t", hoodie__index__type="STATE", index__state__ttl="0.00001", index__global__enabled="false"
    )
    for batch in (
        [Row("a", "x", 1, "1"), Row("a", "y", 1, "1"), Row("b", "x", 1, "1")],
        [Row("a", "x", 2, "2"), Row("b", "y", 2, "2"), Row("b", "x", 2, "2", deleted=True)],
        [Row("a", "x", 3, "3"), Row("a", "y", 3, "3"), Row("b", "x", 3, "3")],
    ):
        summary = table.upsert(batch_of(batch), runner=runner, options=FEW)
        assert counts_of(summary) == oracle.apply(batch)
        assert content_of(table) == oracle.content()
    assert summary.stages[1].counters["keys_unknown"] >= 2


def test_the_local_runner_has_no_state_store(tmp_path: Path):
    table = make_table(tmp_path / "t", hoodie__index__type="STATE")
    with pytest.raises(UsageError, match="--runner spark") as caught:
        table.upsert(batch_of([Row("a", "x", 1, "1")]))
    assert caught.value.exit_code == 2
    assert content_of(table) == set()
