"""Incremental reads where the timeline says when writes were completed: they go by that, as Hudi's do."""

from __future__ import annotations

from pathlib import Path

from lakeindex.api.table import LakeTable
from tests.builders import Row, batch_of, make_table


def three_commits(folder: Path) -> tuple[LakeTable, list[tuple[str, str]]]:
    """A table, and the instant and completion time of each commit; the second completed after the third."""
    table = make_table(folder / "t", hoodie__write__table__version="9")
    for number in range(3):
        table.upsert(batch_of([Row(f"k{number}", f"d{number}", 1, "v")]), batch_id=f"b{number}")
    timeline = folder / "t" / ".hoodie" / "timeline"
    names = sorted(path.name for path in timeline.glob("*_*.commit"))
    (t1, c1), (t2, c2), (t3, c3) = (tuple(name.removesuffix(".commit").split("_")) for name in names)
    late = f"{int(c3) + 5}"
    (timeline / f"{t2}_{c2}.commit").rename(timeline / f"{t2}_{late}.commit")
    return table, [(t1, c1), (t2, late), (t3, c3)]


def keys_since(table: LakeTable, point: str) -> set[object]:
    return set(table.read(since=point, meta=True)["id"].to_pylist())


def test_a_write_that_was_completed_later_is_later(tmp_path: Path) -> None:
    table, (first, second, third) = three_commits(tmp_path)
    assert keys_since(table, first[0]) == {"k1", "k2"}
    assert keys_since(table, third[0]) == {"k1"}, "it began before the third, and was completed after it"
    assert keys_since(table, second[0]) == set()


def test_a_completion_time_may_be_named(tmp_path: Path) -> None:
    table, (first, second, third) = three_commits(tmp_path)
    assert keys_since(table, first[1]) == {"k1", "k2"}
    assert keys_since(table, third[1]) == {"k1"}
    assert keys_since(table, second[1]) == set()
