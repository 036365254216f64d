"""Real Hudi 0.15 and lakeindex upsert into one table by turns, both with the index HBASE and the same HBase table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from scripts import interop_env
from tests.builders import Oracle, Row, batch_of, content_of, counts_of
from tests.hbase.conftest import Bench
from tests.hbase.test_upserts import assert_follows, places
from tests.interop.hudi_client import HudiServer, in_zone, keep_options

pytestmark = pytest.mark.hbase


@pytest.fixture(scope="module")
def hudi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HudiServer]:
    """Hudi 0.15, the last line of releases but 1.0 that has the index HBASE."""
    interop_env.make()
    running = HudiServer("0.15.0", tmp_path_factory.mktemp("hudi"))
    with in_zone():
        yield running
    running.close()


def options_of(bench: Bench, index: str = "HBASE") -> dict[str, str]:
    """What a user of Hudi gives for this table and this HBase."""
    return {
        **keep_options("0.15.0"),
        "hoodie.table.name": "table",
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "day",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.index.type": index,
        "hoodie.index.hbase.zkquorum": bench.server.host,
        "hoodie.index.hbase.zkport": str(bench.server.zookeeper_port),
        "hoodie.index.hbase.zknode.path": "/hbase",
        "hoodie.index.hbase.table": bench.name,
        "hoodie.hbase.index.update.partition.path": "true",
    }


def hudi_batch(rows: list[Row]) -> pa.Table:
    """Rows without the delete mark, which would become a column of the table."""
    return batch_of(rows).drop_columns(["_hoodie_is_deleted"])


class Turns:
    """A table, both writers, and a dictionary that is told of everything."""

    def __init__(self, bench: Bench, hudi: HudiServer) -> None:
        self.bench, self.hudi, self.table = bench, hudi, bench.table()
        self.oracle = Oracle(is_global=True)

    def ours(self, rows: list[Row], **more: str) -> None:
        expected = self.oracle.apply(rows)
        summary = self.table.upsert(batch_of(rows), options=self.bench.options(**more))
        assert counts_of(summary) == expected
        assert content_of(self.table) == self.oracle.content()

    def theirs(self, rows: list[Row], index: str = "HBASE") -> None:
        self.oracle.apply(rows)
        self.hudi.write(Path(self.table.uri), hudi_batch(rows), options_of(self.bench, index))
        assert content_of(self.table) == self.oracle.content()


def rows_from(start: int, stop: int, day: str, ts: int) -> list[Row]:
    return [Row(f"k{n:04d}é", day, ts, f"v{ts}") for n in range(start, stop)]


def test_both_upsert_by_turns_through_one_hbase_table(bench: Bench, hudi: HudiServer) -> None:
    turns = Turns(bench, hudi)
    turns.ours(rows_from(0, 40, "x", 1))
    turns.theirs([*rows_from(0, 10, "x", 2), *rows_from(10, 15, "y", 2), *rows_from(40, 50, "y", 2)])  # u, move, i
    assert_follows(bench, turns.table)  # Hudi wrote it
    turns.ours([*rows_from(5, 12, "x", 3), *rows_from(45, 60, "x", 3), *[Row("k0000é", "x", 3, "", deleted=True)]])
    assert_follows(bench, turns.table)
    turns.theirs([*rows_from(0, 60, "z", 4)])  # one is new, all others move
    assert_follows(bench, turns.table)
    turns.ours(rows_from(0, 70, "z", 5))
    assert_follows(bench, turns.table)
    assert turns.table.check().ok


def test_what_hudi_wrote_with_another_index_is_caught_up(bench: Bench, hudi: HudiServer) -> None:
    turns = Turns(bench, hudi)
    turns.ours(rows_from(0, 30, "x", 1))
    turns.theirs([*rows_from(0, 5, "x", 2), *rows_from(30, 40, "y", 2)], "GLOBAL_BLOOM")  # HBase is not told
    turns.ours([*rows_from(3, 8, "x", 3), *rows_from(35, 45, "y", 3)])
    assert_follows(bench, turns.table)


def test_hudi_finds_what_was_built(bench: Bench, hudi: HudiServer) -> None:
    turns = Turns(bench, hudi)
    turns.ours(rows_from(0, 30, "x", 1))
    turns.ours(rows_from(20, 30, "y", 2))
    turns.table.index_drop(options=bench.options())
    turns.table.index_build(options=bench.options())
    assert_follows(bench, turns.table)
    turns.theirs([*rows_from(0, 25, "x", 3), *rows_from(30, 32, "x", 3)])
    assert_follows(bench, turns.table)
    turns.ours(rows_from(0, 35, "y", 4))


def test_a_commit_of_hudi_that_is_rolled_back_is_no_location(bench: Bench, hudi: HudiServer) -> None:
    turns = Turns(bench, hudi)
    turns.ours(rows_from(0, 10, "x", 1))
    before = turns.oracle.content()
    turns.theirs([*rows_from(0, 5, "y", 2), *rows_from(10, 15, "y", 2)])
    instant = max(entry.instant for entry in turns.table.history())
    name = f"rolled_{bench.name}"
    with hudi.settings({"hoodie.metadata.enable": "false"}):
        hudi.sql(f"create table {name} using hudi location '{turns.table.uri}'")
        hudi.sql(f"call rollback_to_instant(table => '{name}', instant_time => '{instant}')")
    assert content_of(turns.table) == before
    assert "k0012é" in bench.held()  # Hudi's default leaves what it had put
    assert bench.held()["k0002é"].place != places(turns.table)["k0002é"]
    turns.oracle = Oracle(is_global=True)
    turns.oracle.apply(rows_from(0, 10, "x", 1))
    turns.ours(rows_from(0, 20, "x", 3))
    assert turns.table.check().ok
