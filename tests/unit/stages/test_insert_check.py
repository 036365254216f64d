"""Two writers insert one key: whoever commits second finds out, wherever the first one put it."""

import pytest

from tests.builders import Oracle, Row, content_of, counts_of
from tests.meanwhile import MemoryTable, writes_data

FIRST = [Row("a", "x", 1, "1"), Row("b", "y", 1, "1")]
OURS = [Row("n", "x", 2, "ours")]
NEW_GROUPS = {"hoodie__parquet__small__file__limit": "0"}


def beside(index: str, other: list[Row]) -> tuple[MemoryTable, Oracle]:
    """Our insert, while which another writer commits; both put new keys into new file groups."""
    world = MemoryTable.holding(FIRST, index=index)
    moves = index != "RECORD_INDEX"
    oracle = Oracle(is_global=index.startswith("GLOBAL") or index == "RECORD_INDEX", moves=moves)
    oracle.apply(FIRST)
    done = world.once(writes_data, lambda: world.upsert(other, **NEW_GROUPS))
    summary = world.upsert(OURS, **NEW_GROUPS)
    assert done
    oracle.apply(other)
    assert counts_of(summary) == oracle.apply(OURS)
    assert content_of(world.table) == oracle.content()
    return world, oracle


@pytest.mark.parametrize("index", ["GLOBAL_BLOOM", "GLOBAL_SIMPLE", "RECORD_INDEX"])
def test_a_key_that_was_inserted_into_another_partition_meanwhile_is_found_under_a_global_index(index: str):
    world, _ = beside(index, [Row("n", "y", 1, "theirs")])
    assert len(world.rollbacks()) == 1


@pytest.mark.parametrize("index", ["BLOOM", "SIMPLE"])
@pytest.mark.parametrize("before", [0, 1, 2, 5])
def test_a_key_that_was_inserted_meanwhile_is_found_in_any_row_group(index: str, before: int):
    """Row groups of two rows; ``n`` stands behind so many others."""
    world, _ = beside(index, [*(Row(f"m{n}", "x", 1, "theirs") for n in range(before)), Row("n", "x", 1, "theirs")])
    assert len(world.rollbacks()) == 1


def test_a_key_of_another_partition_is_another_key_where_the_index_is_not_global():
    world, _ = beside("BLOOM", [Row("n", "y", 1, "theirs")])
    assert not world.rollbacks()


def test_other_keys_are_no_conflict():
    world, _ = beside("GLOBAL_BLOOM", [Row("m", "x", 1, "theirs"), Row("o", "x", 1, "theirs")])
    assert not world.rollbacks()
