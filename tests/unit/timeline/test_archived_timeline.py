"""What the archive proves of an instant, and what its entries and rows say."""

from __future__ import annotations

from typing import Any

from lakeindex.format import instants as names
from lakeindex.storage.memory import Call, MemoryStorage
from lakeindex.timeline.archived_timeline import (
    ArchivedLog,
    ArchivedTimeline,
    _said_by,
    _said_by_row,
    load_archived_timeline,
)
from lakeindex.timeline.avro_instants import (
    AVRO_MAGIC,
    NOTHING_UNDONE,
    RollbackMetadata,
    Undone,
    format_rollback_metadata,
    parse_requested_replace,
    undone_by_restore,
    undone_by_rollback,
)
from lakeindex.timeline.layout import TimelineLayout
from lakeindex.timeline.lsm_archive import ArchivedInstant
from tests.unit.timeline.archives import ARCHIVE, put_log

OLD, FIRST, SECOND, LATE = (f"2026010100000000{number}" for number in range(4))
ROLLED_BACK: dict[str, Any] = {
    "commitsRollback": [FIRST],
    "partitionMetadata": {
        "p": {"successDeleteFiles": ["file:/t/p/a.parquet"], "failedDeleteFiles": ["file:/t/p/b.parquet", "c.parquet"]},
        "": {"successDeleteFiles": [], "failedDeleteFiles": ["/t/d.parquet"]},
    },
}
GONE = frozenset({("p", "a.parquet"), ("p", "b.parquet"), ("p", "c.parquet"), ("", "d.parquet")})


def test_what_an_archive_knows_of_an_instant() -> None:
    undone = Undone(frozenset({OLD, SECOND}))
    whole = ArchivedTimeline(frozenset({FIRST, LATE}), undone)
    damaged = ArchivedTimeline(frozenset({FIRST, LATE}), undone, ("a log",))
    nothing = ArchivedTimeline()
    cases = [
        (whole, FIRST, True),
        (whole, LATE, True),
        (whole, SECOND, False),
        (whole, OLD, False),  # older than all of it, but taken back
        (whole, f"{SECOND}1", False),  # between, and not named
        (whole, "20250101000000000", None),
        (damaged, FIRST, True),
        (damaged, SECOND, False),
        (damaged, f"{SECOND}1", None),  # the log that cannot be read may name it
        (nothing, FIRST, None),
    ]
    assert [(time, archive.knows(time)) for archive, time, _ in cases] == [(time, known) for _, time, known in cases]


def test_a_log_that_was_merged_away_while_the_archive_is_read_is_no_damage() -> None:
    """Hudi has put what it said into a newer one."""
    store = MemoryStorage()
    put_log(store, [FIRST], number=1)
    put_log(store, [FIRST, SECOND], number=2)

    def hook(call: Call) -> None:
        if call.name == "read" and ".archive.1_" in call.path:
            store.hook = None
            store.delete(call.path)

    store.hook = hook
    assert load_archived_timeline(store, ARCHIVE) == ArchivedTimeline(frozenset({FIRST, SECOND}))


def test_what_the_entries_of_a_log_say() -> None:
    for state in ("REQUESTED", "INFLIGHT", "COMPLETED"):
        for action in (names.COMMIT, names.REPLACE_COMMIT, names.CLUSTERING, names.COMPACTION, names.DELTA_COMMIT):
            entry = {"actionState": state, "actionType": action, "commitTime": FIRST}
            assert _said_by(entry).writes == (frozenset({FIRST}) if state == "COMPLETED" else frozenset()), entry
        entry = {"actionState": state, "actionType": names.ROLLBACK, "commitTime": LATE}
        assert _said_by(entry) == ArchivedLog()
        found = _said_by({**entry, "hoodieRollbackMetadata": ROLLED_BACK})
        wanted = Undone(frozenset({FIRST}), GONE) if state == "COMPLETED" else NOTHING_UNDONE
        assert found == ArchivedLog(undone=wanted)
    for lacking in ({"actionType": None}, {"commitTime": ""}, {"actionType": names.CLEAN}):
        entry = {"actionState": "COMPLETED", "actionType": names.COMMIT, "commitTime": FIRST, **lacking}
        assert _said_by(entry) == ArchivedLog(), entry


def test_what_the_rows_of_the_tree_say() -> None:
    for action in (names.COMMIT, names.REPLACE_COMMIT, names.DELTA_COMMIT):
        for end, ends in ((LATE, {FIRST: LATE}), (None, {})):
            assert _said_by_row(ArchivedInstant(FIRST, end, action), "x") == ArchivedLog(frozenset({FIRST}), ends=ends)
    for action in (names.CLEAN, names.ROLLBACK, names.SAVEPOINT):
        assert _said_by_row(ArchivedInstant(FIRST, LATE, action), "x") == ArchivedLog()
    done = format_rollback_metadata(RollbackMetadata(LATE, FIRST, names.COMMIT, {"p": ("file:/t/p/a.parquet",)}))
    said = ArchivedLog(undone=Undone(frozenset({FIRST}), frozenset({("p", "a.parquet")})))
    assert _said_by_row(ArchivedInstant(LATE, LATE, names.ROLLBACK, done), "x") == said


def test_what_was_to_be_deleted_is_gone_whether_it_was_or_not() -> None:
    assert undone_by_rollback(ROLLED_BACK) == Undone(frozenset({FIRST}), GONE)
    newer = {**ROLLED_BACK, "instantsRollback": [{"commitTime": SECOND, "action": "commit"}]}
    assert undone_by_rollback(newer).instants == {SECOND}
    other = {
        "commitsRollback": [LATE],
        "partitionMetadata": {"q": {"successDeleteFiles": ["e"], "failedDeleteFiles": []}},
    }
    restored = {
        "hoodieRestoreMetadata": {FIRST: [ROLLED_BACK, None, other], SECOND: [newer]},
        "instantsToRollback": [OLD],
    }
    assert undone_by_restore(restored) == Undone(frozenset({OLD, FIRST, SECOND, LATE}), GONE | {("q", "e")})
    assert undone_by_restore({"hoodieRestoreMetadata": {}}) == NOTHING_UNDONE


def test_what_is_requested_of_a_replacement_is_hudis_record_in_both_layouts() -> None:
    for layout in (TimelineLayout(), TimelineLayout(2, ".hoodie/timeline", ".hoodie/timeline/history")):
        assert layout.encode_requested(names.COMMIT) == b""
        assert layout.encode_requested(names.REPLACE_COMMIT).startswith(AVRO_MAGIC)
        plan = parse_requested_replace(layout.encode_requested(names.REPLACE_COMMIT), "x")
        assert (plan.operation, plan.input_groups) == (None, ())
