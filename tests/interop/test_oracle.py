"""The oracle itself: it must notice every kind of damage that the suite is there to find. No JVM."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from tests.interop.rows import COMPLEX, NONPARTITIONED, SIMPLE, Layout, Replay, Row, make_table


def _stored(replay: Replay) -> list[Row]:
    """The rows as a faithful reader would give them."""
    return [
        row
        | {
            "_hoodie_commit_time": replay.written[number],
            "_hoodie_commit_seqno": f"{replay.written[number]}_0_{number}",
            "_hoodie_record_key": replay.layout.record_key(row),
            "_hoodie_partition_path": replay.layout.partition_path(row),
            "_hoodie_file_name": "aaaa-0_0-0-0_1.parquet",
        }
        for number, row in replay.rows.items()
    ]


def _table(rows: list[Row]) -> pa.Table:
    names = [name for name in rows[0] if name.startswith("_hoodie")]
    base = make_table(rows)
    return pa.table({**{n: [row[n] for row in rows] for n in names}, **{n: base[n] for n in base.schema.names}})


@pytest.fixture
def replay() -> Replay:
    state = Replay(SIMPLE)
    state.upsert(range(30), 1, "20260101000000000")
    state.upsert(range(20, 40), 2, "20260102000000000")
    state.delete(range(5))
    return state


def test_a_faithful_table_has_no_difference(replay: Replay) -> None:
    assert replay.differences(_table(list(reversed(_stored(replay))))) == []


def _lose(rows: list[Row]) -> None:
    del rows[3]


def _double(rows: list[Row]) -> None:
    rows.append(dict(rows[3]))


def _resurrect(rows: list[Row]) -> None:
    rows.append(rows[3] | {"id": "k00001"})


def _revert(rows: list[Row]) -> None:
    rows[-1]["val"] = "v1-39"


def _null(rows: list[Row]) -> None:
    rows[3]["money"] = None


def _shift_map(rows: list[Row]) -> None:
    rows[3]["map"] = [("z", 1.0)]


def _touch(rows: list[Row]) -> None:
    rows[0]["_hoodie_commit_time"] = "20260102000000000"


def _misplace(rows: list[Row]) -> None:
    rows[0]["_hoodie_partition_path"] = "mars"


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (_lose, "lost row"),
        (_double, "doubled key"),
        (_resurrect, "should not be there"),
        (_revert, ".val"),
        (_null, ".money"),
        (_shift_map, ".map"),
        (_touch, "_hoodie_commit_time"),
        (_misplace, "_hoodie_partition_path"),
    ],
)
def test_every_damage_is_a_difference(replay: Replay, damage: Callable[[list[Row]], None], says: str) -> None:
    rows = _stored(replay)
    damage(rows)
    assert any(says in problem for problem in replay.differences(_table(rows)))


def test_incremental_view_keeps_what_was_written_later(replay: Replay) -> None:
    assert set(replay.since("20260101000000000").rows) == set(range(20, 40))
    assert set(replay.since("000").rows) == set(range(5, 40))


@pytest.mark.parametrize(
    ("layout", "key", "partition", "generator"),
    [
        (SIMPLE, "k00007", "eu", "SimpleKeyGenerator"),
        (COMPLEX, "id:k00007,k2:2", "region=eu/place=ñ x", "ComplexKeyGenerator"),
        (NONPARTITIONED, "k00007", "", "NonpartitionedKeyGenerator"),
    ],
)
def test_layouts_speak_hudis_language(layout: Layout, key: str, partition: str, generator: str) -> None:
    row: Row = {"id": "k00007", "k2": 2, "region": "eu", "place": "ñ x"}
    assert layout.record_key(row) == key
    assert layout.partition_path(row) == partition
    assert layout.key_generator.endswith("." + generator)


def test_partition_values_are_escaped_as_hive_does() -> None:
    assert COMPLEX.partition_path({"region": "us", "place": "a/b=%c"}) == "region=us/place=a%2Fb%3D%25c"
