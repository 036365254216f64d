"""A metadata table that its writer did not keep up is told from one that was made late."""

from __future__ import annotations

from lakeindex.format import instants as names
from lakeindex.metadata.metadata_table import FILES, MetadataTable
from lakeindex.metadata.metadata_view import MetadataView
from lakeindex.metadata.slices import is_complete
from lakeindex.model import Instant, InstantState
from lakeindex.storage.memory import MemoryStorage
from lakeindex.timeline.timeline import Timeline

OLDER, FIRST, NEWER = "20260101000000001", "20260101000000002", "20260101000000003"


def untold(layout: int, delta_commits: dict[str, str | None], commits: dict[str, str | None]) -> tuple[str, ...]:
    """The writes that a metadata table does not know, of instants and the times at which they were completed."""
    table = MetadataTable.of(MemoryStorage(), {1: 6, 2: 9}[layout], layout, (FILES,))
    assert table is not None

    def timeline(times: dict[str, str | None], action: str) -> Timeline:
        done = [Instant(time, action, InstantState.COMPLETED, at) for time, at in times.items()]
        return Timeline.of(table.layout, done, table.storage)

    view = MetadataView(table, timeline(delta_commits, names.DELTA_COMMIT), timeline(commits, names.COMMIT))
    return view.untold_writes()


def test_version_6_makes_a_partition_right_behind_the_newest_commit() -> None:
    made = {f"{FIRST}010": None}
    assert untold(1, made, {OLDER: None, FIRST: None}) == ()
    assert untold(1, made, {OLDER: None, FIRST: None, NEWER: None}) == (NEWER,)
    assert untold(1, {f"{'0' * 14}010": None}, {NEWER: None}) == (NEWER,)


def test_version_9_says_when_a_partition_was_made() -> None:
    made = {"0" * 17: "20260101000000010"}
    assert untold(2, made, {FIRST: "20260101000000009"}) == ()
    assert untold(2, made, {FIRST: "20260101000000011"}) == (FIRST,)


def test_a_table_that_hudi_brought_back_to_version_6_no_longer_says_so() -> None:
    """Its delta commits have the names of version 9 and no completion times; the commits before them are no fault."""
    made: dict[str, str | None] = {f"{number:017d}": None for number in range(3)}
    assert untold(1, made | {FIRST: None}, {OLDER: None, FIRST: None}) == ()
    assert untold(1, made | {FIRST: None}, {OLDER: None, FIRST: None, NEWER: None}) == (NEWER,)
    assert untold(1, made, {OLDER: None}) == (OLDER,), "nothing says that it was told"


def test_a_metadata_table_without_a_delta_commit_knows_nothing() -> None:
    assert untold(1, {}, {OLDER: None}) == (OLDER,)


def test_an_old_clean_does_not_begin_the_timeline() -> None:
    """Hudi 0.15 archives writes apart from cleans: what is older than the first write was archived."""
    table = MetadataTable.of(MemoryStorage(), 6, 1, (FILES,))
    assert table is not None

    def timeline(*instants: tuple[str, str]) -> Timeline:
        done = [Instant(time, action, InstantState.COMPLETED) for time, action in instants]
        return Timeline.of(table.layout, done, table.storage)

    own = timeline((f"{OLDER}002", names.CLEAN), (NEWER, names.DELTA_COMMIT))
    assert MetadataView(table, own, timeline((FIRST, names.COMMIT), (NEWER, names.COMMIT))).untold_writes() == ()


def test_a_pending_instant_is_not_taken_for_an_archived_one() -> None:
    table = MetadataTable.of(MemoryStorage(), 6, 1, (FILES,))
    assert table is not None
    states = ((FIRST, InstantState.INFLIGHT), (NEWER, InstantState.COMPLETED))
    own = Timeline.of(table.layout, [Instant(time, names.DELTA_COMMIT, state) for time, state in states])
    assert is_complete(own, OLDER)
    assert not is_complete(own, FIRST)
