"""The feed of changes: what a dictionary says of two points in time, whatever lies between."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakeindex.api.table import LakeTable
from lakeindex.errors import UsageError
from lakeindex.format.instants import RESTORE, ROLLBACK
from lakeindex.model import Instant, InstantState
from lakeindex.operations.changes import ChangesRequest, plan_changes
from lakeindex.operations.table_states import newest_completed, newest_point
from lakeindex.storage import open_storage
from lakeindex.table.handle import Table
from lakeindex.timeline.layout import TimelineLayout
from lakeindex.timeline.timeline import Timeline
from tests.builders import SCHEMA, Row, batch_of, make_table
from tests.stored_indexes import inserted
from tests.unit.operations.tables import read_rows
from tests.vectors_support import table_names, unpack_table

State = dict[Any, tuple[dict[str, Any], str]]


def state(uri: str, as_of: str | None, is_global: bool) -> State:
    """Rows by key, with the commit that wrote each."""
    found: State = {}
    rows = read_rows(uri, as_of=as_of).to_pylist() if as_of is not None else []
    for row in rows:
        key = row["_hoodie_record_key"]
        identity = key if is_global else (row["_hoodie_partition_path"], key)
        plain = {name: value for name, value in row.items() if not name.startswith("_hoodie_")}
        found[identity] = (plain, row["_hoodie_commit_time"])
    return found


def expected(before: State, after: State) -> Counter[str]:
    """The net changes, as texts."""
    found: Counter[str] = Counter()
    for key in before.keys() | after.keys():
        old, new = before.get(key), after.get(key)
        if old is None and new is not None:
            found[f"insert {new[0]} {new[1]}"] += 1
        elif new is None and old is not None:
            found[f"delete {old[0]}"] += 1
        elif old is not None and new is not None and old[1] != new[1]:
            found[f"update_preimage {old[0]} {new[1]}"] += 1
            found[f"update_postimage {new[0]} {new[1]}"] += 1
    return found


def told(table: LakeTable, since: str | None, until: str | None) -> Counter[str]:
    found: Counter[str] = Counter()
    for row in table.changes(since=since, until=until).to_arrow().to_pylist():
        kind, instant = row.pop("_change_type"), row.pop("_commit_instant")
        assert instant.isdigit()
        found[f"{kind} {row}" + ("" if kind == "delete" else f" {instant}")] += 1
    return found


def check_all_pairs(table: LakeTable, instants: list[str], is_global: bool) -> None:
    states = {one: state(table.uri, one, is_global) for one in instants}
    states[None] = {}
    for since, until in itertools.combinations([None, *instants], 2):
        assert told(table, since, until) == expected(states[since], states[until]), (since, until)
    for one in instants:
        assert not told(table, one, one)


OPTIONS = {
    "hoodie.parquet.max.file.size": "3000",
    "hoodie.copyonwrite.record.size.estimate": "300",
    "lakeindex.parquet.row.group.rows": "4",
}
ROWS = st.builds(
    Row,
    st.sampled_from([f"k{n}" for n in range(12)]),
    st.sampled_from(["d1", "d2"]),
    st.integers(1, 5),
    st.sampled_from(["x", "y"]),
    st.booleans(),
)


@settings(deadline=None, max_examples=12, suppress_health_check=list(HealthCheck))
@given(
    batches=st.lists(st.lists(ROWS, min_size=1, max_size=12), min_size=2, max_size=4),
    kind=st.sampled_from(["BLOOM", "GLOBAL_BLOOM", "RECORD_INDEX", "BUCKET"]),
    version=st.sampled_from(["6", "9"]),
)
def test_changes_are_those_of_the_dictionary(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[Row]], kind: str, version: str
):
    options = {"hoodie__index__type": kind, "hoodie__write__table__version": version}
    if kind == "BUCKET":
        options["hoodie__bucket__index__num__buckets"] = "2"
    table = make_table(tmp_path_factory.mktemp("feed") / "t", ordering=None, **options)
    for batch in batches:
        table.upsert(batch_of(batch), options=OPTIONS)
    instants = sorted(one.instant for one in table.history() if one.operation == "UPSERT")
    check_all_pairs(table, instants, kind in ("GLOBAL_BLOOM", "RECORD_INDEX"))


def test_a_row_that_moves_to_another_partition_is_an_update(tmp_path: Path):
    table = make_table(tmp_path / "t", hoodie__index__type="GLOBAL_BLOOM")
    table.upsert(batch_of([Row("a", "d1", 1, "x"), Row("b", "d1", 1, "x")]))
    first = table.history()[0].instant
    table.upsert(batch_of([Row("a", "d2", 2, "y")]))
    second = table.history()[0].instant
    found = {(row["_change_type"], row["day"], row["_commit_instant"]) for row in rows(table, since=first)}
    assert found == {("update_preimage", "d1", second), ("update_postimage", "d2", second)}


def rows(table: LakeTable, **points: Any) -> list[dict[str, Any]]:
    return table.changes(**points).to_arrow().to_pylist()


def test_a_rescale_changes_no_row(tmp_path: Path):
    options = {"hoodie__index__type": "BUCKET", "hoodie__bucket__index__num__buckets": "2"}
    table = make_table(tmp_path / "t", **options)
    table.upsert(batch_of([Row(f"k{n}", "d", 1, "x") for n in range(40)]))
    first = table.history()[0].instant
    from tests.cli_support import lakeindex as command

    done = command("rescale", table.uri, "--buckets", "4")
    assert done.exit_code == 0, done.stderr
    assert rows(table, since=first) == []
    table.upsert(batch_of([Row("k3", "d", 2, "y")]))
    assert sorted(row["_change_type"] for row in rows(table, since=first)) == ["update_postimage", "update_preimage"]


@pytest.mark.parametrize("name", [name for name in table_names() if name.startswith("h")])
@pytest.mark.few(6)
def test_feeds_of_hudis_tables(name: str, tmp_path: Path):
    folder = unpack_table(name, tmp_path)
    table = LakeTable(str(folder))
    instants = []
    for one in Table.open(open_storage(str(folder))).load_timeline().completed_write_times:
        try:
            read_rows(str(folder), as_of=one)
        except UsageError:  # cleaned away
            continue
        instants.append(one)
    check_all_pairs(table, sorted(instants), is_global=False)


def test_the_next_feed_begins_where_this_one_ended(tmp_path: Path):
    table = make_table(tmp_path / "t")
    table.upsert(batch_of([Row("a", "d", 1, "x")]))
    first = table.changes()
    table.upsert(batch_of([Row("b", "d", 1, "x")]))
    assert [row["id"] for row in first.to_arrow().to_pylist()] == ["a"]
    second = table.changes(since=first.until)
    assert [row["id"] for row in second.to_batches().read_all().to_pylist()] == ["b"]
    assert table.changes(since=second.until).to_arrow().num_rows == 0
    assert pa.table(second).num_rows == 1
    assert second.to_pandas()["_change_type"].tolist() == ["insert"]


def test_an_empty_table_has_no_changes(tmp_path: Path):
    empty = make_table(tmp_path / "t").changes()
    assert (empty.since, empty.until, empty.to_arrow().num_rows) == (None, None, 0)


def test_columns_are_a_choice(tmp_path: Path):
    table = make_table(tmp_path / "t")
    table.upsert(batch_of([Row("a", "d", 1, "x")]))
    assert table.changes(columns=["v", "id"]).to_arrow().column_names == ["v", "id", "_change_type", "_commit_instant"]
    assert table.changes(meta=True).to_arrow().column_names[:2] == ["_hoodie_commit_time", "_hoodie_commit_seqno"]
    with pytest.raises(UsageError, match="no column 'nope'"):
        table.changes(columns=["nope"]).to_batches()


def test_columns_that_are_called_like_those_of_a_change_are_left_out(tmp_path: Path):
    for name in ("_change_type", "_commit_instant"):
        table = make_table(
            tmp_path / name, schema=pa.schema([*SCHEMA, (name, pa.string())]), hoodie__index__type="SIMPLE"
        )
        table.upsert(batch_of([Row("a", "x", 1, "1")]).append_column(name, pa.array(["insert"])))
        with pytest.raises(UsageError, match=f"has a column '{name}'") as refused:
            table.changes().to_arrow()
        assert refused.value.hint == "leave it out: name the other columns (columns=[...], --columns)"
        told = table.changes(columns=["id"]).to_arrow().to_pylist()
        assert [(row["id"], row["_change_type"]) for row in told] == [("a", "insert")]


def test_a_point_whose_files_were_cleaned_away_names_the_earliest_that_can_be(tmp_path: Path):
    table = make_table(tmp_path / "t")
    for ts in range(1, 7):
        table.upsert(batch_of([Row("a", "d", ts, "x")]))
    instants = sorted(one.instant for one in table.history())
    assert table.clean(keep_commits=2).files
    with pytest.raises(UsageError, match="cleaned away") as caught:
        table.changes(since=instants[0]).to_batches()
    earliest = str(caught.value.hint).rpartition(" ")[2]
    assert earliest in instants
    assert {row["_change_type"] for row in rows(table, since=earliest)} == {"update_preimage", "update_postimage"}
    before = instants[instants.index(earliest) - 1]
    with pytest.raises(UsageError, match="cleaned away"):
        table.changes(since=before).to_batches()


def test_a_point_of_archived_commits_names_the_earliest_that_can_be(tmp_path: Path):
    table = make_table(tmp_path / "t")
    for ts in range(1, 9):
        table.upsert(batch_of([Row("a", "d", ts, "x")]))
    oldest = table.history()[-1].instant
    table.clean(keep_commits=2)
    table.archive(keep_commits=4, options={"hoodie.cleaner.commits.retained": "2"})
    assert table.history()[-1].instant > oldest
    with pytest.raises(UsageError, match="were archived") as caught:
        table.changes(since=oldest)
    earliest = str(caught.value.hint).rpartition(" ")[2]
    assert len(rows(table, since=earliest)) == 2


def test_points_in_the_wrong_order_are_refused(tmp_path: Path):
    table = make_table(tmp_path / "t")
    table.upsert(batch_of([Row("a", "d", 1, "x")]))
    table.upsert(batch_of([Row("a", "d", 2, "x")]))
    second, first = (one.instant for one in table.history())
    with pytest.raises(UsageError, match="is before since"):
        table.changes(since=second, until=first)


def test_what_happened_to_each_row_is_dated_by_the_commit_that_did_it(tmp_path: Path):
    """In several row groups of a file whose rows are in no order; of rows that are replaced; of others behind that."""
    table = make_table(tmp_path / "t", hoodie__index__type="SIMPLE")
    table.upsert(batch_of([Row("z", "d2", 1, "x")]))
    inserted(table, [Row(key, "d1", 1, "x") for key in "hcagfbed"])
    first = table.history()[0].instant
    options = {"lakeindex.parquet.row.group.rows": "3"}
    commits = {key: table.upsert(batch_of([Row(key, "d1", 2, "y")]), options=options).instant for key in "hea"}
    found = {(row["id"], row["_change_type"]): row["_commit_instant"] for row in rows(table, since=first)}
    kinds = ("update_preimage", "update_postimage")
    assert found == {(key, kind): commits[key] for key in commits for kind in kinds}
    before = table.history()[0].instant
    later = {key: table.upsert(batch_of([Row(key, "d1", 3, "z")]), options=options).instant for key in "hea"}
    found = {(row["id"], row["_change_type"]): row["_commit_instant"] for row in rows(table, since=before)}
    assert found == {(key, kind): later[key] for key in later for kind in kinds}, "of several row groups"
    before = table.history()[0].instant
    gone = table.delete_partitions(["d1"]).instant
    table.upsert(batch_of([Row("z", "d2", 3, "y")]))
    found = {(row["id"], row["_change_type"]): row["_commit_instant"] for row in rows(table, since=before)}
    assert {key: at for key, at in found.items() if key[0] != "z"} == {(key, "delete"): gone for key in "abcdefgh"}


def test_partitions_and_keys_that_join_to_one_text_are_two(tmp_path: Path):
    table = make_table(tmp_path / "t")
    table.upsert(batch_of([Row("1k", "d", 1, "x"), Row("a", "d", 1, "x"), Row("a", "d1", 1, "x")]))
    first = table.history()[0].instant
    table.delete(batch_of([Row("1k", "d", 1, None)]).select(["id", "day"]))
    table.upsert(batch_of([Row("k", "d1", 1, "y")]))
    assert sorted((row["_change_type"], row["id"]) for row in rows(table, since=first)) == [
        ("delete", "1k"),
        ("insert", "k"),
    ]


def test_the_write_that_was_completed_last_is_the_newest():
    """Not the one that began last; where nobody says when, their instants tell."""
    times = {"20260101000000001": "20260101000000009", "20260101000000002": "20260101000000003"}
    for ends, newest in ((times, min(times)), (dict.fromkeys(times), max(times))):
        done = [Instant(time, "commit", InstantState.COMPLETED, end) for time, end in ends.items()]
        assert newest_completed(Timeline.of(TimelineLayout(), done)) == newest
    assert newest_completed(Timeline.of(TimelineLayout(), [])) is None


@pytest.mark.parametrize("undo", [ROLLBACK, RESTORE])
def test_what_was_taken_back_since_is_the_newest_point_unless_a_write_began_before_it(undo: str):
    """That one would not be after the point, where instants decide."""
    times = [f"2026010100000000{number}" for number in range(5)]
    done = [Instant(times[1], "commit", InstantState.COMPLETED), Instant(times[3], undo, InstantState.COMPLETED)]
    for pending, newest in ((None, times[3]), (times[2], times[1]), (times[4], times[3])):
        left = [] if pending is None else [Instant(pending, "commit", InstantState.INFLIGHT)]
        assert newest_point(Timeline.of(TimelineLayout(), [*done, *left])) == newest
    earlier = Instant(times[0], undo, InstantState.COMPLETED)
    assert newest_point(Timeline.of(TimelineLayout(), [done[0], earlier])) == times[1]


def stored(table: LakeTable) -> list[tuple[object, ...]]:
    return sorted((row["day"], row["id"], row["ts"]) for row in table.read(meta=False).to_pylist())


def doubled(folder: Path, *, within: bool = False) -> tuple[LakeTable, LakeTable, str]:
    """``a`` twice in x, in one commit or in one file group each; a copy of the table by its feed, and the point of it."""
    table, copy = make_table(folder / "t"), make_table(folder / "copy")
    first = [Row("b", "x", 1, "x")] if within else [Row("a", "x", 1, "x"), Row("b", "x", 1, "x")]
    table.upsert(batch_of(first))
    again = [Row("a", "x", 5, "y")]
    inserted(
        table, [Row("a", "x", 1, "x"), *again, Row("c", "x", 1, "x")] if within else [*again, Row("c", "x", 1, "x")]
    )
    copy.apply(table.changes())
    assert stored(copy) == [("x", "a", 5), ("x", "b", 1), ("x", "c", 1)]
    return table, copy, table.history()[0].instant


def test_a_key_that_is_stored_twice_is_not_gone_when_another_row_of_its_file_changes(tmp_path: Path):
    table, copy, since = doubled(tmp_path, within=True)
    table.upsert(batch_of([Row("c", "x", 9, "z")]))
    assert {row["id"] for row in rows(table, since=since)} == {"c"}
    copy.apply(table.changes(since=since))
    assert stored(copy) == [("x", "a", 5), ("x", "b", 1), ("x", "c", 9)]


@pytest.mark.parametrize("within", [True, False])
def test_a_key_that_is_stored_twice_has_what_is_left_when_one_copy_goes(tmp_path: Path, within: bool):
    """In its file, or in a file group that the commit does not touch."""
    table, copy, since = doubled(tmp_path, within=within)
    table.repair_keys(keep="ordering", apply=True)
    copy.apply(table.changes(since=since))
    assert stored(copy) == stored(table)
    table, copy, since = doubled(tmp_path / "oldest", within=within)
    table.repair_keys(keep="oldest", apply=True)
    assert {row["id"] for row in rows(table, since=since)} == {"a"}
    copy.apply(table.changes(since=since))
    assert stored(copy) == stored(table)
    table, copy, since = doubled(tmp_path / "condition", within=within)
    table.upsert(batch_of([Row("a", "x", 9, "")]), delete_if="old.v = 'y'", update_if="FALSE")
    copy.apply(table.changes(since=since))
    assert stored(copy) == stored(table) == [("x", "a", 1), ("x", "b", 1), ("x", "c", 1)]


def test_a_key_of_which_all_copies_go_and_one_comes_again_is_not_gone(tmp_path: Path):
    """It comes back into the file group of one of them; from the other it is gone. One that does not come back is."""
    table, copy, since = doubled(tmp_path)
    table.delete(batch_of([Row("a", "x", 0, None), Row("b", "x", 0, None)]).select(["id", "day"]))
    table.upsert(batch_of([Row("a", "x", 9, "z")]))
    found = {(row["id"], row["_change_type"]) for row in rows(table, since=since)}
    assert found == {("a", "update_preimage"), ("a", "update_postimage"), ("b", "delete")}
    copy.apply(table.changes(since=since))
    assert stored(copy) == stored(table) == [("x", "a", 9), ("x", "c", 1)]


def test_copies_of_a_key_that_move_are_no_changes(tmp_path: Path):
    table, _, since = doubled(tmp_path)
    assert table.cluster().files_before
    assert rows(table, since=since) == []


def test_keys_that_were_in_several_partitions_before_a_global_index(tmp_path: Path):
    """Rows of one key that have moved to other files; the one that is left has not changed, and is not gone."""
    table = make_table(tmp_path / "t")
    table.upsert(batch_of([Row("k", "p1", 1, "x"), Row("j", "p1", 1, "x")]))
    table.upsert(
        batch_of([Row("k", "p2", 2, "y"), Row("i", "p1", 1, "x")]), options={"hoodie.parquet.small.file.limit": "0"}
    )
    table.upsert(batch_of([Row("h", "p2", 1, "x")]), options={"hoodie.parquet.small.file.limit": "0"})
    since = table.history()[0].instant
    assert table.cluster().files_before == 4
    table.delete(batch_of([Row("k", "p1", 0, None)]).select(["id", "day"]))
    table.index_migrate("GLOBAL_SIMPLE")
    found = rows(table, since=since)
    assert {row["id"] for row in found} == {"k"}
    left = [
        (row["day"], row["_change_type"]) for row in found if row["_change_type"] not in ("delete", "update_preimage")
    ]
    assert left in ([], [("p2", "update_postimage")])
    assert ("p2", "delete") not in [(row["day"], row["_change_type"]) for row in found]


TAKEN_AWAY: dict[str, Callable[[LakeTable], object]] = {
    "the older copy": lambda table: table.delete_partitions(["p1"]),
    "the newer copy": lambda table: table.delete_partitions(["p2"]),
    "both": lambda table: table.truncate(),
    "overwritten": lambda table: table.insert_overwrite(batch_of([Row("n", "p1", 1, "n")])),
    "the table overwritten": lambda table: table.insert_overwrite_table(batch_of([Row("k", "p3", 1, "n")])),
    "arranged before": lambda table: (table.cluster(["p2"]), table.delete_partitions(["p2"])),
    "written again since": lambda table: (
        table.delete_partitions(["p1"]),
        table.upsert(batch_of([Row("z", "p2", 9, "z")])),
    ),
}


@pytest.mark.parametrize("taken", TAKEN_AWAY)
def test_a_copy_in_another_partition_stays_when_a_partition_is_taken_away(tmp_path: Path, taken: str):
    """Who takes a whole partition away looks no key up: the copy is in a file group that nobody touched."""
    table, copy = (make_table(tmp_path / name, hoodie__index__type="GLOBAL_BLOOM") for name in ("t", "copy"))
    table.upsert(batch_of([Row("k", "p1", 1, "x"), Row("j", "p1", 1, "x"), Row("i", "p3", 1, "x")]))
    inserted(table, [Row("k", "p2", 5, "y"), Row("z", "p2", 1, "z")])
    copy.apply(table.changes())
    since = table.history()[0].instant
    TAKEN_AWAY[taken](table)
    copy.apply(table.changes(since=since))
    assert stored(copy) == stored(table)


def test_other_files_are_looked_into_only_where_a_partition_was_taken_away_under_a_global_index(tmp_path: Path):
    for index, others in (("GLOBAL_SIMPLE", 1), ("SIMPLE", 0)):
        table = make_table(tmp_path / index, hoodie__index__type=index)
        since = str(table.upsert(batch_of([Row(key, key, 1, "x") for key in "abc"])).instant)
        table.upsert(batch_of([Row("a", "a", 2, "y")]))
        asked = ChangesRequest(since, str(table.history()[0].instant))
        assert plan_changes(table.uri, asked).others == ()
        table.cluster()
        table.delete_partitions(["b"])
        found = plan_changes(table.uri, ChangesRequest(since, str(table.history()[0].instant)))
        assert [file.partition_path for file in found.others] == ["c"] * others
