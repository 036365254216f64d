"""A key arrives with another partition: under a global index the row moves, or stays where it is."""

import pytest

from tests.builders import Oracle, Row, content_of, counts_of
from tests.meanwhile import MemoryTable

MOVES = {
    "GLOBAL_BLOOM": "hoodie__bloom__index__update__partition__path",
    "GLOBAL_SIMPLE": "hoodie__simple__index__update__partition__path",
    "RECORD_INDEX": "hoodie__record__index__update__partition__path",
}
BATCHES = [
    [Row("a", "x", 1, "1"), Row("b", "x", 1, "1"), Row("c", "y", 1, "1"), Row("d", "y", 1, "1")],
    [Row("a", "y", 2, "one row")],
    [Row("a", "x", 3, "back"), Row("b", "y", 3, "beside an update"), Row("c", "y", 3, "v")],
    [Row("a", "y", 4, "all rows of a file")],
    [Row("c", "z", 5, "into a new partition"), Row("n", "z", 5, "beside an insert"), Row("m", "x", 5, "v")],
    [Row("m", "y", 6, "crosswise"), Row("b", "x", 6, "v")],
    [Row("m", "z", 0, "too late"), Row("q", "y", 7, "", deleted=True)],
    [Row("a", "x", 8, "", deleted=True), Row("n", "y", 8, "v")],
]


@pytest.mark.parametrize("moves", [True, False])
@pytest.mark.parametrize("index", MOVES)
@pytest.mark.few(3)
def test_every_row_is_where_it_belongs_once(index: str, moves: bool):
    world, oracle = MemoryTable(index), Oracle(is_global=True, moves=moves)
    for rows in BATCHES:
        assert counts_of(world.upsert(rows, **{MOVES[index]: str(moves).lower()})) == oracle.apply(rows)
        assert content_of(world.table) == oracle.content()


@pytest.mark.parametrize("index", ["BLOOM", "SIMPLE", "RECORD_LEVEL_INDEX", "BUCKET"])
def test_a_key_of_another_partition_is_another_key(index: str):
    world, oracle = MemoryTable(index), Oracle()
    for rows in (*BATCHES[:3], BATCHES[-1]):
        assert counts_of(world.upsert(rows)) == oracle.apply(rows)
        assert content_of(world.table) == oracle.content()
