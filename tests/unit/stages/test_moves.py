"""A key arrives with another partition: under a global index the row moves, or stays where it is."""

import pytest

from tests.builders import Oracle, Row, content_of, counts_of
from tests.meanwhile import MemoryTable

MOVES = {
    "GLOBAL_BLOOM": "hoodie__bloom__index__update__partition__path",
    "GLOBAL_SIMPLE": "hoodie__simple__index__update__partition__path",
    "RECORD_INDEX": "hoodie__record__index__update__partition__path",
}
FIRST = [Row("a", "x", 1, "1"), Row("b", "x", 1, "1"), Row("c", "y", 1, "1")]
BATCHES = {
    "one row": [Row("a", "y", 2, "2")],
    "all rows of a file": [Row("a", "y", 2, "2"), Row("b", "y", 2, "2")],
    "into a new partition": [Row("c", "z", 2, "2")],
    "beside an update": [Row("a", "y", 2, "2"), Row("b", "x", 2, "2"), Row("c", "y", 2, "2")],
    "beside an insert": [Row("a", "y", 2, "2"), Row("n", "y", 2, "2"), Row("m", "x", 2, "2")],
    "crosswise": [Row("a", "y", 2, "2"), Row("c", "x", 2, "2")],
    "too late": [Row("a", "y", 0, "late")],
    "a delete": [Row("a", "y", 2, "", deleted=True)],
    "a delete of nothing": [Row("n", "y", 2, "", deleted=True), Row("a", "y", 2, "2")],
}


@pytest.mark.parametrize("moves", [True, False])
@pytest.mark.parametrize("index", MOVES)
@pytest.mark.parametrize("batch", BATCHES)
def test_every_row_is_where_it_belongs_once(index: str, batch: str, moves: bool):
    world, oracle = MemoryTable(index), Oracle(is_global=True, moves=moves)
    option = {MOVES[index]: str(moves).lower()}
    for rows in (FIRST, BATCHES[batch], BATCHES[batch][:1]):
        assert counts_of(world.upsert(rows, **option)) == oracle.apply(rows)
        assert content_of(world.table) == oracle.content()


@pytest.mark.parametrize("index", ["BLOOM", "SIMPLE", "RECORD_LEVEL_INDEX", "BUCKET"])
def test_a_key_of_another_partition_is_another_key(index: str):
    world, oracle = MemoryTable(index), Oracle()
    for rows in (FIRST, BATCHES["beside an update"], BATCHES["a delete"]):
        assert counts_of(world.upsert(rows)) == oracle.apply(rows)
        assert content_of(world.table) == oracle.content()
