from __future__ import annotations

from pathlib import Path

import pytest

from lakeindex.operations.look.history import table_history
from tests.builders import Row, batch_of, make_table
from tests.vectors_support import commit_instants, unpack_table


def test_newest_first_with_counts(tmp_path: Path):
    table = unpack_table("py_simple", tmp_path)
    entries = table_history(str(table))
    assert [entry.instant for entry in entries] == commit_instants(table)[::-1]
    assert [(e.operation, e.inserts, e.updates, e.deletes) for e in entries] == [
        ("DELETE", 0, 0, 10),
        ("UPSERT", 30, 50, 0),
        ("INSERT", 200, 0, 0),
    ]
    assert all(entry.batch_id is None and entry.problem is None for entry in entries)
    assert entries[0].time is not None
    assert entries[0].time.endswith("Z"), "the table's instants are in UTC"


def test_local_instants_have_no_zone(tmp_path: Path):
    times = [entry.time for entry in table_history(str(unpack_table("h120_v6_main", tmp_path)))]
    assert not any(time is None or time.endswith("Z") for time in times)


def test_clustering_cleaning_rolling_back(tmp_path: Path):
    clustered = table_history(str(unpack_table("h0150_v6_main", tmp_path)))[0]
    assert (clustered.action, clustered.operation, clustered.files_removed) == ("replacecommit", "CLUSTER", 3)
    cleaned = table_history(str(unpack_table("h0150_v6_clean", tmp_path)))
    assert cleaned[0].action == "clean"
    assert cleaned[0].files_removed == 3
    rolled = next(e for e in table_history(str(unpack_table("h120_v6_rolledback", tmp_path))) if e.action == "rollback")
    assert rolled.target is not None
    assert rolled.target < rolled.instant


def test_completion_times_of_newer_versions(tmp_path: Path):
    entries = table_history(str(unpack_table("h120_v9_main", tmp_path)))
    assert all(entry.completion_time is not None and entry.completion_time > entry.instant for entry in entries)


def test_pending_instants_say_what_they_are(tmp_path: Path):
    table = unpack_table("h120_v6_rolledback", tmp_path)
    hoodie = table / ".hoodie"
    rollback = next(hoodie.glob("*.rollback"))
    target = next(e.target for e in table_history(str(table)) if e.action == "rollback")
    rollback.unlink()
    pending = next(e for e in table_history(str(table)) if e.action == "rollback")
    assert (pending.state, pending.target) == ("inflight", target)
    clustered = unpack_table("h120_v6_main", tmp_path)
    next((clustered / ".hoodie").glob("*.replacecommit")).unlink()
    pending = table_history(str(clustered))[0]
    assert (pending.state, pending.operation) == ("inflight", "CLUSTER")
    next((clustered / ".hoodie").glob("*.replacecommit.requested")).unlink()
    assert table_history(str(clustered))[0].problem is not None


@pytest.mark.parametrize("action", ["commit", "clean"])
@pytest.mark.usefixtures("time_leaps")
def test_damaged_instants_are_listed_with_their_problem(tmp_path: Path, action: str):
    table = unpack_table("h0150_v6_clean", tmp_path)
    path = next((table / ".hoodie").glob(f"*.{action}"))
    path.write_bytes(path.read_bytes()[:40])
    damaged = [entry for entry in table_history(str(table)) if entry.problem]
    assert [f"{entry.instant}.{entry.action}" for entry in damaged] == [path.name]
    assert path.name in str(damaged[0].problem)


@pytest.mark.usefixtures("time_leaps")
def test_savepoints_are_listed(tmp_path: Path):
    table = unpack_table("py_simple", tmp_path)
    at = commit_instants(table)[0]
    (table / ".hoodie" / f"{at}.savepoint").write_bytes(b"no avro")
    entry = next(e for e in table_history(str(table)) if e.action == "savepoint")
    assert entry.problem is not None


@pytest.mark.parametrize("version", ["6", "8", "9"])
def test_a_scheduled_clustering_says_what_it_is_in_each_layout(tmp_path: Path, version: str):
    """In layout 2 it begins as a clustering, and completes as a replacecommit."""
    table = make_table(tmp_path / "t", hoodie__write__table__version=version)
    for number in range(2):
        batch = batch_of([Row(f"k{number}", "x", 1, "1")])
        table.upsert(batch, options={"hoodie.parquet.small.file.limit": "0"})
    plan = table.cluster(["x"], schedule=True)
    pending, *_ = table.history()
    assert (pending.instant, pending.state, pending.operation) == (plan.instant, "requested", "CLUSTER")
    table.cluster(instant=plan.instant)
    done = next(one for one in table.history() if one.instant == plan.instant)
    assert (done.action, done.state, done.operation) == ("replacecommit", "completed", "CLUSTER")
