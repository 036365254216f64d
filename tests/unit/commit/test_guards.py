"""Several commits came between the snapshot and ours: each counts, whatever stands before it."""

import itertools

import pytest

from lakeindex.commit.guards import check_not_overwritten, files_of_commits
from lakeindex.commit.run_records import PlannedFile, RunPlan
from lakeindex.errors import WriteConflictError
from lakeindex.format.commit_metadata import CommitMetadata
from lakeindex.model import ARRANGING_OPERATION, BaseFile, Instant, InstantState
from lakeindex.table.handle import Table
from tests.model.buckets import group_id
from tests.model.world import PARTITION, stat_of
from tests.unit.commit.protocol_support import World

PLAN = RunPlan("20260101000000009", "digest", 1, (PlannedFile(PARTITION, group_id(0), "0-0-0"),), "token")
ARRANGED = CommitMetadata(operation=ARRANGING_OPERATION, replaced_file_ids={PARTITION: (group_id(0),)})
OVERWRITTEN = CommitMetadata(operation="INSERT_OVERWRITE", replaced_file_ids={PARTITION: (group_id(1),)})
ELSEWHERE = CommitMetadata(operation="INSERT_OVERWRITE", replaced_file_ids={"elsewhere": (group_id(2),)})
PLAIN = CommitMetadata(operation="UPSERT")


def at(*commits: CommitMetadata) -> dict[Instant, CommitMetadata]:
    return {
        Instant(f"2026010100000000{number}", "replacecommit", InstantState.COMPLETED): commit
        for number, commit in enumerate(commits)
    }


def test_an_overwrite_is_seen_wherever_it_stands_among_others() -> None:
    for order in itertools.permutations((ARRANGED, ELSEWHERE, PLAIN, OVERWRITTEN)):
        with pytest.raises(WriteConflictError, match=r"was replaced by INSERT_OVERWRITE 2026010100000000\d"):
            check_not_overwritten(PLAN, at(*order))
    for order in itertools.permutations((ARRANGED, ELSEWHERE, PLAIN)):
        check_not_overwritten(PLAN, at(*order))


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
