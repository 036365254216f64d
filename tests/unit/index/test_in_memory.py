"""INMEMORY: filled from the files, for one process; and what any store may do wrong without a key being doubled."""

from pathlib import Path

import pyarrow as pa
import pytest

from lakeindex.index.locations import in_memory
from lakeindex.index.locations.stored_index import DELTA_SCHEMA
from lakeindex.storage.memory import Call
from tests.builders import Oracle, Row, batch_of, content_of, counts_of, make_table, rows_of
from tests.meanwhile import OVERTAKES, Meanwhile, MemoryTable

FIRST = [Row("a", "x", 1, "1"), Row("b", "x", 1, "1"), Row("c", "y", 1, "1")]


def test_a_new_process_fills_it_from_the_files(tmp_path: Path):
    table, oracle = make_table(tmp_path / "t", hoodie__index__type="INMEMORY"), Oracle()
    assert counts_of(table.upsert(batch_of(FIRST))) == oracle.apply(FIRST)
    in_memory.forget_all()
    batch = [Row("a", "x", 2, "2"), Row("c", "x", 2, "2"), Row("c", "y", 2, "", deleted=True)]
    assert counts_of(table.upsert(batch_of(batch))) == oracle.apply(batch)
    assert content_of(table) == oracle.content()


@pytest.mark.parametrize("wrong", ["another live group", "no group at all"])
def test_an_entry_that_names_the_wrong_place_is_no_false_insert(tmp_path: Path, wrong: str):
    table, oracle = make_table(tmp_path / "t", hoodie__index__type="INMEMORY"), Oracle()
    options = {"hoodie.parquet.small.file.limit": "0"}
    for batch in (FIRST, [Row("d", "x", 1, "1")], [Row("a", "x", 0, "late: what is stored is read")]):
        assert counts_of(table.upsert(batch_of(batch), options=options)) == oracle.apply(batch)
    groups = {row["_hoodie_record_key"]: str(row["_hoodie_file_name"]).partition("_")[0] for row in rows_of(table)}
    assert groups["d"] != groups["a"]
    (held,) = [one for key, one in in_memory._held.items() if f"{tmp_path.name}/t" in str(key)]
    assert held.view.groups["x", "d"] == groups["d"]
    held.view.groups["x", "d"] = groups["a"] if wrong == "another live group" else "nowhere-0"
    batch = [Row("d", "x", 2, "2"), Row("a", "x", 2, "2"), Row("new", "x", 2, "2")]
    batch.append(Row("c", "y", 2, "2"))  # of a file about which the index is right
    assert counts_of(table.upsert(batch_of(batch))) == oracle.apply(batch)
    assert content_of(table) == oracle.content()


def stored(world: MemoryTable) -> list[tuple[str, str]]:
    return sorted((row["id"], row["v"]) for row in rows_of(world.table))


def test_a_run_that_tells_of_its_commit_late_takes_nothing_away():
    """Another thread of the process overwrites what it has just committed."""
    world = MemoryTable.holding([Row("a", "x", 1, "1")], index="INMEMORY")
    world.upsert([Row("a", "x", 1, "1")])
    commits = len(world.timeline().completed_writes)
    overwritten, released = batch_of([Row("a", "x", 3, "3"), Row("b", "x", 3, "3")]), list[Call]()

    def is_committed(call: Call) -> bool:
        if sum(path.endswith(".commit") for path in world.store.snapshot()) > commits and not released:
            released.extend([call] * (call.name == "write" and "/lock/" in call.path))
            return False
        return bool(released)

    done = world.once(is_committed, lambda: world.table.insert_overwrite(overwritten, options=OVERTAKES))
    world.upsert([Row("a", "x", 2, "2"), Row("b", "x", 2, "2")])
    assert done
    assert stored(world) == [("a", "3"), ("b", "3")]
    world.upsert([Row("a", "x", 4, "4"), Row("b", "x", 4, "4")])
    assert stored(world) == [("a", "4"), ("b", "4")]


@pytest.mark.parametrize("when", ["index: read keys", "index lookup: ask"])
def test_keys_are_looked_for_in_all_files_where_another_thread_made_the_map_another(when: str):
    """It has a snapshot of before, of which it enters what it reads; what came later it forgets."""
    world = MemoryTable.holding([Row("a", "x", 1, "1"), Row("b", "x", 1, "1")], index="INMEMORY")
    for number in ("1", "2"):
        world.upsert([Row("c", "x", 1, number)], hoodie__parquet__small__file__limit="0")

    def forgets() -> None:
        store = in_memory.InMemoryStore(world.store.uri)
        assert store.coverage()
        store.enter(DELTA_SCHEMA.empty_table(), (), list(store.coverage()))

    meanwhile = Meanwhile(when, forgets)
    world.upsert([Row("a", "x", 3, "3"), Row("d", "x", 3, "3")], runner=meanwhile)
    assert meanwhile.done
    assert stored(world) == [("a", "3"), ("b", "1"), ("c", "2"), ("d", "3")]


def test_a_key_in_two_file_groups_stays_unknown_and_one_of_a_group_that_went_is_not_there():
    store = in_memory.InMemoryStore("memory://entered")

    def enter(group: str, keys: list[str], gone: tuple[str, ...] = ()) -> None:
        rows = [{"key": key, "partition": "x", "file_id": group, "change": 3} for key in keys]
        file = in_memory.CoveredFile("x", group, f"{group}_0_1.parquet", len(keys))
        found = pa.Table.from_pylist(rows, schema=DELTA_SCHEMA)
        store.enter(found, [file] if keys else [], [("x", one) for one in gone])

    def answer() -> tuple[list[int], list[str], list[int]]:
        found = store.look_up(pa.array(["both", "one"]), "x")
        return found.rows.tolist(), found.file_id.to_pylist(), found.unknown.tolist()

    enter("g", ["both", "one"])
    enter("h", ["both"])
    assert answer() == ([1], ["g"], [0])
    enter("i", ["other"])  # says nothing of them
    assert answer() == ([1], ["g"], [0])
    enter("i", [], gone=("g",))
    assert answer()[:2] == ([], [])
    enter("h", ["both", "one"])
    assert answer()[0][-1:] == [1]


def test_the_summary_says_what_it_is_and_which_options_change_nothing(tmp_path: Path):
    table = make_table(tmp_path / "t", hoodie__index__type="INMEMORY")
    options = {"hoodie.bloom.index.use.metadata": "true", "hoodie.simple.index.use.caching": "true"}
    notes = table.upsert(batch_of(FIRST), options=options).notes
    assert [any(word in note for note in notes) for word in ("not for production", "use.metadata", "use.caching")] == [
        True
    ] * 3
