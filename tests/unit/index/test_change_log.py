"""What an index covers by its change log, and how the log copes with damage, losses and races."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakeindex.index.locations.change_log import Built, ChangeLog, CoveredFile, Delta, catch_up_name
from lakeindex.index.locations.store_context import Completed
from lakeindex.index.locations.stored_index import DELTA_SCHEMA
from lakeindex.model import IndexType
from lakeindex.storage.memory import Call, Fault, MemoryStorage

T1, T2, T3, T4 = (f"2026010100000000{n}" for n in range(1, 5))
DONE = Completed(frozenset({T1, T2, T3}), T1, frozenset({T4}))
GROUP = ("x", "g")


def covered(instant: str, replaces: str | None = None, group: tuple[str, str] = GROUP) -> CoveredFile:
    return CoveredFile(
        *group, f"{group[1]}_0_{instant}.parquet", 1, f"{group[1]}_0_{replaces}.parquet" if replaces else None
    )


def log_with(*deltas: Delta, built: tuple[CoveredFile, ...] = (), folded: frozenset[str] = frozenset()) -> ChangeLog:
    log = ChangeLog(MemoryStorage(), IndexType.RECORD_INDEX)
    log.put_built(Built(1, "g1", built, folded, len(built)))
    for delta in deltas:
        put(log, delta)
    return log


def put(log: ChangeLog, delta: Delta) -> None:
    log.put(delta, [pa.table({n: [] for n in DELTA_SCHEMA.names}, schema=DELTA_SCHEMA)])


def names_covered(log: ChangeLog, completed: Completed = DONE) -> dict[tuple[str, str], str]:
    return {group: file.name for group, file in log.load(completed).coverage.items()}


def test_delta_counts_once_its_instant_is_completed():
    log = log_with(Delta(T2, (covered(T2),)), Delta(T4, (covered(T4, T2),)))
    state = log.load(DONE)
    assert ([d.name for d in state.in_force], state.doubtful) == ([T2], (T4,))
    assert names_covered(log) == {GROUP: f"g_0_{T2}.parquet"}
    assert names_covered(log, Completed(DONE.times | {T4}, T1)) == {GROUP: f"g_0_{T4}.parquet"}


def test_delta_of_an_instant_before_the_timeline_counts_unless_it_is_pending():
    log = log_with(Delta(T1, (covered(T1),)))
    assert names_covered(log, Completed(frozenset({T3}), T2)) == {GROUP: f"g_0_{T1}.parquet"}
    assert names_covered(log, Completed(frozenset({T3}), T2, frozenset({T1}))) == {}


def test_lost_delta_leaves_its_file_groups_uncovered_also_below_later_ones():
    log = log_with(Delta(T1, (covered(T1),)), Delta(T2, (covered(T2, T1),)), Delta(T3, (covered(T3, T2),)))
    log.forget([T2])
    state = log.load(DONE)
    assert (dict(state.coverage), state.broken) == ({}, (GROUP,))


def test_catch_up_mends_a_broken_chain_and_the_next_commit_goes_on_from_it():
    log = log_with(Delta(T2, (covered(T2, T1),)))
    put(log, Delta(catch_up_name(T2, log.names()), (covered(T2),), (), (GROUP,)))
    put(log, Delta(T3, (covered(T3, T2),)))
    state = log.load(DONE)
    assert (names_covered(log), state.broken) == ({GROUP: f"g_0_{T3}.parquet"}, ())


def test_catch_ups_of_one_instant_keep_their_order():
    """An older instant may complete later: then the same newest instant has two states of the table."""
    log = log_with()
    for instant in [T1, *[T2] * 12]:
        put(log, Delta(catch_up_name(T3, log.names()), (covered(instant),), (), (GROUP,)))
    put(log, Delta(catch_up_name(T3, log.names()), (covered(T3),), (), (GROUP,)))
    put(log, Delta(catch_up_name(T2, log.names()), (covered(T1),), (), (GROUP,)))
    assert names_covered(log) == {GROUP: f"g_0_{T3}.parquet"}
    assert len(log.load(DONE).in_force) == 15


def test_old_short_instants_come_after_the_milliseconds_of_their_second():
    short, long = "20260101000000", "20260101000000123"
    log = log_with()
    for instant in (short, long):
        put(log, Delta(catch_up_name(instant, ()), (covered(instant),), (), (GROUP,)))
    completed = Completed(frozenset({short, long}), long)
    assert names_covered(log, completed) == {GROUP: f"g_0_{short}.parquet"}


def test_group_that_is_gone_is_not_covered_but_one_that_is_read_anew_in_the_same_delta_is():
    log = log_with(built=(covered(T1), covered(T1, group=("x", "h"))))
    put(log, Delta(catch_up_name(T2, ()), (covered(T2),), (GROUP, ("x", "h")), (GROUP,)))
    assert names_covered(log) == {GROUP: f"g_0_{T2}.parquet"}


def test_catch_up_of_a_table_whose_commits_are_all_gone_counts():
    log = log_with(built=(covered(T1),))
    put(log, Delta(catch_up_name(None, ()), (), (GROUP,)))
    assert names_covered(log, Completed(frozenset(), None)) == {}


@pytest.mark.parametrize("name", [T2, catch_up_name(T2, ())], ids=["commit", "catch-up"])
def test_damaged_delta_is_passed_over_and_named(name: str):
    log = log_with(Delta(T1, (covered(T1),)), Delta(name, (covered(T2, T1),), (), (GROUP,)))
    path = f"{log.folder}/log/{name}.parquet"
    log._storage.write(path, log._storage.read(path)[:-9])
    state = log.load(DONE)
    assert state.unreadable == (name,)
    assert not log.is_readable(name)
    assert names_covered(log) == {GROUP: f"g_0_{T1}.parquet"}


def test_torn_list_of_what_was_built_leaves_the_one_before_in_force():
    storage = MemoryStorage()
    log = ChangeLog(storage, IndexType.RECORD_INDEX)
    assert log.put_built(Built(1, "g1", (), frozenset(), 0))

    def tear(call: Call) -> Fault | None:
        return Fault.TORN if call.name == "create" else None

    storage.hook = tear
    assert not log.put_built(Built(2, "g2", (), frozenset(), 0))
    storage.hook = None
    state = log.load(DONE)
    assert state.built is not None
    assert (state.built.generation, state.next_number) == ("g1", 3)
    assert log.put_built(Built(3, "g3", (), frozenset(), 0))
    assert not log.put_built(Built(3, "other", (), frozenset(), 0))


def test_tidy_keeps_what_a_reader_of_the_builds_that_stay_needs():
    log = log_with(Delta(T1, (covered(T1),)), Delta(T2, (covered(T2, T1),)), Delta(T3, (covered(T3, T2),)))
    for number, folded in ((2, {T1}), (3, {T1, T2})):
        log.put_built(Built(number, f"g{number}", (covered(max(folded)),), frozenset(folded), 1))
        log.tidy()
    assert log.names() == [T2, T3]
    assert names_covered(log) == {GROUP: f"g_0_{T3}.parquet"}
    log._storage.delete(f"{log.folder}/built-00000003.parquet")
    assert names_covered(log) == {GROUP: f"g_0_{T3}.parquet"}


def test_delta_forgotten_between_listing_and_reading_is_looked_for_again():
    log = log_with(Delta(T1, (covered(T1),)))
    storage = log._storage
    assert isinstance(storage, MemoryStorage)

    def fold_meanwhile(call: Call) -> None:
        if call.name == "head" and call.path.endswith(f"{T1}.parquet"):
            storage.hook = None
            log.put_built(Built(2, "g2", (covered(T1),), frozenset({T1}), 1))
            log.forget([T1])

    storage.hook = fold_meanwhile
    state = log.load(DONE)
    assert state.built is not None
    assert (state.built.number, state.in_force) == (2, ())


def test_drop_cut_short_leaves_the_newest_build_or_none():
    log = log_with(Delta(T1, (covered(T1),)))
    log.put_built(Built(2, "g2", (), frozenset(), 0))
    storage = log._storage
    assert isinstance(storage, MemoryStorage)
    left: list[int | None] = []

    def look(call: Call) -> None:
        if call.name == "delete":
            storage.hook = None
            built = log.load(DONE).built
            left.append(None if built is None else built.number)
            storage.hook = look

    storage.hook = look
    log.drop()
    storage.hook = None
    assert left == [2, 2, None]
    assert not storage.list()


def test_tidy_forgets_what_the_older_of_two_builds_has_taken_in():
    """As soon as there are two: no reader of either needs it."""
    log = log_with(
        *(Delta(time, (covered(time, before),)) for time, before in ((T1, None), (T2, T1), (T3, T2))),
        built=(covered(T1),),
        folded=frozenset({T1}),
    )
    log.tidy()
    assert log.names() == [T1, T2, T3]  # of one build nothing is known to be of no use
    log.put_built(Built(2, "g2", (covered(T2),), frozenset({T1, T2}), 1))
    log.tidy()
    assert log.names() == [T2, T3]
    assert names_covered(log) == {GROUP: f"g_0_{T3}.parquet"}


def test_files_of_others_beside_the_deltas_are_none():
    log = log_with(Delta(T1, (covered(T1),)))
    for name in (f".{T2}.parquet.crc", "notes.txt"):
        log._storage.write(f"{log.folder}/log/{name}", b"theirs")
    state = log.load(DONE)
    assert (log.names(), state.unreadable, state.doubtful) == ([T1], (), ())
    log.tidy()
    assert len(log._storage.list(f"{log.folder}/log")) == 3


def test_a_list_of_what_was_built_whose_answer_was_lost_is_ours_if_it_is_the_one_that_stands():
    storage = MemoryStorage()
    log = ChangeLog(storage, IndexType.RECORD_INDEX)
    storage.hook = lambda call: Fault.DONE_BUT_FAILED if call.name == "create" else None
    assert log.put_built(Built(1, "ours", (), frozenset(), 0))
    assert not log.put_built(Built(1, "theirs", (), frozenset(), 0))
    storage.hook = None
    built = log.load(DONE).built
    assert built is not None
    assert built.generation == "ours"
