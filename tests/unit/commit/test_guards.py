"""The guards of a commit: each refuses what it is for and nothing else, and each is asked, in its order. Several commits
may have come between the snapshot and ours: each counts, whatever stands before it.
"""

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from lakeindex.commit import write_session as sessions
from lakeindex.commit.guards import (
    GUARDS,
    PublishGuards,
    Since,
    check_not_overwritten,
    check_schema,
    files_of_commits,
)
from lakeindex.commit.run_records import PlannedFile, RunPlan
from lakeindex.errors import WriteConflictError
from lakeindex.format.commit_metadata import INTERNAL_SCHEMA_KEY, SCHEMA_KEY, CommitMetadata
from lakeindex.model import ARRANGING_OPERATION, BaseFile, IndexSpec, IndexType, Instant, InstantState
from lakeindex.table.handle import Table
from lakeindex.table.index_changes import index_record, store_index_change
from tests.model.buckets import group_id
from tests.model.world import PARTITION, stat_of
from tests.unit.commit.protocol_support import BATCH, FIRST, OTHER, World
from tests.unit.commit.test_commit import Written, begin

PLAN = RunPlan("20260101000000009", "digest", 1, (PlannedFile(PARTITION, group_id(0), "0-0-0"),), "token")
ARRANGED = CommitMetadata(operation=ARRANGING_OPERATION, replaced_file_ids={PARTITION: (group_id(0),)})
OVERWRITTEN = CommitMetadata(operation="INSERT_OVERWRITE", replaced_file_ids={PARTITION: (group_id(1),)})
ELSEWHERE = CommitMetadata(operation="INSERT_OVERWRITE", replaced_file_ids={"elsewhere": (group_id(2),)})
PLAIN = CommitMetadata(operation="UPSERT")
SCHEMAS = [
    json.dumps({"type": "record", "name": "t", "fields": [{"name": one, "type": "int"} for one in names]})
    for names in (["id"], ["id", "added"])
]


def at(*commits: CommitMetadata) -> dict[Instant, CommitMetadata]:
    return {
        Instant(f"2026010100000000{number}", "replacecommit", InstantState.COMPLETED): commit
        for number, commit in enumerate(commits)
    }


def since(
    world: World,
    commits: dict[Instant, CommitMetadata] | None = None,
    commit: CommitMetadata = CommitMetadata({}, "UPSERT", {SCHEMA_KEY: "{}"}),  # noqa: B008 - a frozen value
) -> Since:
    """A plan that writes a new file group, on the snapshot of the first commit, while the table has moved."""
    found = Since(world.store, Table.open(world.store).load_timeline(), PLAN, FIRST, PublishGuards(), commit)
    if commits is not None:
        vars(found)["commits"] = commits  # as if they had been read
    return found


def refused_by(found: Since) -> list[str]:
    refused = []
    for guard in GUARDS:
        try:
            guard(found)
        except WriteConflictError:
            refused.append(guard.__name__)
    return refused


def gone_snapshot(_: World, found: Since) -> Since:
    return replace(found, snapshot_time="20200101000000000")


def moved_group(world: World, found: Since) -> Since:
    live = Table.open(world.store).snapshot().base_files(PARTITION)
    moved = next(file for file in live if file.instant_time != FIRST)
    read = PlannedFile(PARTITION, moved.file_id, "0-0-0", replace(moved, instant_time=FIRST))
    return replace(found, plan=replace(PLAN, planned=(read,)))


def other_columns(_: World, found: Since) -> Since:
    schema = '{"type": "record", "name": "t", "fields": [{"name": "added", "type": "int"}]}'
    return replace(found, commit=CommitMetadata({}, "UPSERT", {SCHEMA_KEY: schema}))


def wants_to_be_alone(_: World, found: Since) -> Since:
    return replace(found, given=PublishGuards(alone_in=frozenset({PARTITION})))


def overwritten(world: World, _: Since) -> Since:
    return since(world, at(OVERWRITTEN))


def other_index(world: World, found: Since) -> Since:
    store_index_change(world.store, world.upsert(OTHER), index_record(IndexSpec(IndexType.SIMPLE)))
    return replace(found, timeline=Table.open(world.store).load_timeline())


def committed_key(_: World, found: Since) -> Since:
    def objects(files: Sequence[BaseFile]) -> None:
        if files:
            raise WriteConflictError("key 'x'")

    return replace(found, given=PublishGuards((objects,)))


REFUSED: dict[str, Callable[[World, Since], Since]] = {
    "check_history": gone_snapshot,
    "check_groups": moved_group,
    "check_schema": other_columns,
    "check_untouched": wants_to_be_alone,
    "check_not_overwritten": overwritten,
    "check_index": other_index,
    "check_rechecks": committed_key,
}
"""Each guard, in the order in which they are asked, and a state that it alone refuses."""


def test_each_guard_refuses_what_it_is_for_and_the_others_do_not() -> None:
    assert [guard.__name__ for guard in GUARDS] == list(REFUSED)
    for name, change in REFUSED.items():
        world = World()
        world.upsert(BATCH)
        assert refused_by(since(world)) == []
        assert refused_by(change(world, since(world))) == [name]


def test_every_guard_is_asked_in_its_order_before_a_file_is_written_and_before_a_commit(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def noted(guard: Callable[[Since], None], found: Since) -> Any:
        asked.append(guard.__name__)
        guard(found)

    monkeypatch.setattr(sessions, "GUARDS", tuple(partial(noted, guard) for guard in GUARDS))
    mine = Written(world, begin(world))
    mine.session.check_planned(mine.plan.planned, FIRST)
    assert asked == list(REFUSED)
    mine.publish()
    assert asked == [*REFUSED, *REFUSED]


def test_an_overwrite_is_seen_wherever_it_stands_among_others(world: World) -> None:
    for order in itertools.permutations((ARRANGED, ELSEWHERE, PLAIN, OVERWRITTEN)):
        with pytest.raises(WriteConflictError, match=r"was replaced by INSERT_OVERWRITE 2026010100000000\d"):
            check_not_overwritten(since(world, at(*order)))
    for order in itertools.permutations((ARRANGED, ELSEWHERE, PLAIN)):
        check_not_overwritten(since(world, at(*order)))


def test_changed_columns_are_seen_whichever_commit_changed_them(world: World) -> None:
    """One that says nothing of columns, as a delete of partitions may, or has them as they were, may come behind."""
    mine = CommitMetadata({}, "UPSERT", {SCHEMA_KEY: SCHEMAS[0]})
    silent, same, other = (CommitMetadata({}, "UPSERT", {SCHEMA_KEY: text} if text else {}) for text in ("", *SCHEMAS))
    altered = CommitMetadata({}, "UPSERT", {INTERNAL_SCHEMA_KEY: "{}"})
    for wrong, said in ((other, "were changed by another"), (altered, "were altered by another")):
        for order in itertools.permutations((silent, same, wrong)):
            with pytest.raises(WriteConflictError, match=said):
                check_schema(since(world, at(*order), mine))
    for order in itertools.permutations((silent, same)):
        check_schema(since(world, at(*order), mine))


def test_files_that_a_later_commit_replaced_are_not_looked_into(world: World) -> None:
    timeline = Table.open(world.store).load_timeline()
    first, rewritten, other, arranged = (
        BaseFile(PARTITION, group_id(group), f"2026010100000000{time}", "0-0-0")
        for group, time in ((0, 0), (0, 1), (1, 1), (2, 2))
    )

    def wrote(*files: BaseFile, replaced: int | None = None) -> CommitMetadata:
        gone = {} if replaced is None else {PARTITION: (group_id(replaced),)}
        return CommitMetadata({PARTITION: tuple(stat_of(one, {}, None) for one in files)}, replaced_file_ids=gone)

    commits = at(wrote(first), wrote(rewritten, other), wrote(arranged, replaced=1))
    assert [one.name for one in files_of_commits(timeline, commits)] == [rewritten.name, arranged.name]
