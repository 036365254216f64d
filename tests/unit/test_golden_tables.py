"""Tables that tests copy: each copy is a table of its own."""

from pathlib import Path

from lakeindex.api.table import LakeTable
from tests.builders import Row, batch_of, make_table, rows_of
from tests.golden import made_once
from tests.meanwhile import MemoryTable


def values(table: LakeTable) -> list[object]:
    return sorted(str(row["v"]) for row in rows_of(table))


def test_a_table_is_made_once_and_no_copy_knows_of_another(tmp_path: Path) -> None:
    asked: list[str] = []

    @made_once
    def build(folder: Path, v: str) -> tuple[LakeTable, list[str]]:
        asked.append(v)
        table = make_table(folder / "t")
        table.upsert(batch_of([Row("a", "x", 1, v)]))
        return table, [v]

    (one, said), (other, _) = build(tmp_path / "one", "old"), build(tmp_path / "other", "old")
    said.append("more")
    one.upsert(batch_of([Row("a", "x", 2, "new"), Row("b", "x", 2, "new")]))
    third, again = build(tmp_path / "third", "old")
    assert [values(table) for table in (one, other, third)] == [["new", "new"], ["old"], ["old"]]
    assert again == ["old"]
    assert Path(third.uri) == tmp_path / "third" / "t"
    assert third.upsert(batch_of([Row("a", "x", 3, "3")])).updates == 1
    assert all(table.check().ok for table in (one, other, third))
    assert values(build(tmp_path / "w", "w")[0]) == ["w"]
    assert asked == ["old", "w"]


def test_so_it_is_in_memory() -> None:
    first = [Row("a", "x", 1, "old")]
    one, other = MemoryTable.holding(first), MemoryTable.holding(first)
    one.upsert([Row("a", "x", 2, "new")])
    assert (values(one.table), values(other.table)) == (["new"], ["old"])
    assert values(MemoryTable.holding(first, index="SIMPLE").table) == ["old"]
    assert other.table.check().ok
