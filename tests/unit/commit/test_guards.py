"""The guards of a commit: each refuses what it is for and nothing else, and each is asked, in its order. Several commits
may have come between the snapshot and ours: each counts, whatever stands before it.
"""

import itertools
import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from lakeindex.commit import write_session as sessions
from lakeindex.commit.guards import (
    GUARDS,
    ExpectedFile,
    PublishGuards,
    Since,
    check_files_match,
    check_not_overwritten,
    check_schema,
    files_of_commits,
    refuse_clustered,
)
from lakeindex.commit.run_records import PlannedFile, Replacement, RunPlan, claim_foreign
from lakeindex.commit.services.archive import archive_table
from lakeindex.errors import InvariantError, PendingInstantError, WriteConflictError
from lakeindex.format.commit_metadata import INTERNAL_SCHEMA_KEY, SCHEMA_KEY, CommitMetadata
from lakeindex.model import ARRANGING_OPERATION, BaseFile, IndexSpec, IndexType, Instant, InstantState
from lakeindex.options.clustering_options import ClusteringOptions, ClusteringUpdates
from lakeindex.table.handle import Table
from lakeindex.table.index_changes import index_record, store_index_change
from lakeindex.timeline.avro_instants import (
    ClusteringGroup,
    ClusteringSlice,
    RequestedReplace,
    format_requested_replace,
)
from lakeindex.timeline.timeline import Timeline
from lakeindex.timeline.verdicts import Outcome, Verdict, decide
from tests.model.buckets import group_id
from tests.model.world import CONFIG, PARTITION, file_id, stat_of
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


def began(_: World, found: Since, time: str) -> Since:
    """A plan of this instant, whose keys those that began later have changed, too: they are known."""

    def objects(timeline: Timeline) -> None:
        raise WriteConflictError(f"key 'x' {timeline.max_time}")

    known = found.timeline.completed_write_times
    return replace(found, plan=replace(PLAN, instant=time), given=PublishGuards(known_writes=known, in_order=objects))


REFUSED: dict[str, Callable[[World, Since], Since]] = {
    "check_history": gone_snapshot,
    "check_groups": moved_group,
    "check_schema": other_columns,
    "check_untouched": wants_to_be_alone,
    "check_not_overwritten": overwritten,
    "check_index": other_index,
    "check_rechecks": committed_key,
    "check_order": partial(began, time="20200101000000000"),
}
"""Each guard, in the order in which they are asked, and a state that it alone refuses."""


def test_each_guard_refuses_what_it_is_for_and_the_others_do_not() -> None:
    assert [guard.__name__ for guard in GUARDS] == list(REFUSED)
    for name, change in REFUSED.items():
        world = World()
        world.upsert(BATCH)
        assert refused_by(since(world)) == []
        assert refused_by(change(world, since(world))) == [name]


def replaces(found: Since, *, moved: int = 1, **how: bool) -> Since:
    """The plan takes file groups out of the table beside what it writes; so many of the first as it did not read them."""
    live = Table.open(found.storage).snapshot().base_files(PARTITION)
    taken = [replace(one, instant_time=FIRST) if at < moved else one for at, one in enumerate(live)]
    return replace(found, plan=replace(PLAN, replacement=Replacement(tuple(taken), **how)))


def archived(world: World, found: Since) -> Since:
    """All commits but the newest are archived since."""
    newest = world.upsert(OTHER)
    archive_table(Table.open(world.store), 1, CONFIG, host=world.host("archiver"))
    return replace(found, timeline=Table.open(world.store).load_timeline(), snapshot_time=newest)


def began_before(world: World, found: Since, time: str) -> Since:
    return replace(archived(world, found), given=PublishGuards(pending_writes=frozenset({time})))


def dead_change(world: World, found: Since) -> Since:
    """A change of the index that is older than the timeline, and was taken back then; nobody has removed it yet."""
    time = "20200101000000000"
    store_index_change(world.store, time, index_record(IndexSpec(IndexType.SIMPLE)))
    decide(world.store, Verdict(time, Outcome.ROLLED_BACK, "token"))
    return replace(found, given=PublishGuards.of(found.timeline))


EDGES: list[tuple[str, str | None, Callable[[World, Since], Since]]] = [
    ("a replaced group moved", "check_groups", lambda _, found: replaces(found, moved=1, groups_only=True)),
    ("a whole partition", "check_untouched", lambda _, found: replaces(found, moved=0)),
    ("everywhere", "check_untouched", lambda _, found: replaces(found, moved=0, everywhere=True, groups_only=True)),
    ("groups alone", None, lambda _, found: replaces(found, moved=0, groups_only=True)),
    (
        "nothing was there, and what came was archived",
        "check_history",
        lambda world, found: replace(archived(world, found), snapshot_time=None),
    ),
    ("nothing was there", None, lambda _, found: replace(found, snapshot_time=None)),
    ("what was pending came and was archived", "check_history", lambda w, found: began_before(w, found, FIRST)),
    ("what was pending was rolled back", None, lambda w, found: began_before(w, found, "20990101000000000")),
    ("an index that was taken back long ago", None, dead_change),
    ("others began before", None, partial(began, time="20990101000000000")),
    ("the newest is ours", None, lambda w, found: began(w, found, max(found.timeline.completed_write_times))),
    ("one began later", "check_order", lambda w, found: began(w, found, min(found.timeline.completed_write_times))),
]


@pytest.mark.parametrize(("guard", "change"), [one[1:] for one in EDGES], ids=[one[0] for one in EDGES])
def test_a_guard_refuses_for_each_of_its_reasons_and_for_no_other(
    guard: str | None, change: Callable[[World, Since], Since]
) -> None:
    world = World()
    world.upsert(BATCH)
    assert refused_by(change(world, since(world))) == ([] if guard is None else [guard])


def test_a_commit_that_does_not_say_what_was_planned_and_written_is_none() -> None:
    """Its files and the groups that it replaces; each alone is looked at."""
    one, other = PLAN.planned[0], PlannedFile(PARTITION, group_id(1), "0-0-0")
    lost = BaseFile(PARTITION, group_id(2), FIRST, "0-0-0")
    plan = replace(PLAN, planned=(one, other), replacement=Replacement((lost,)))
    rows = {file: {str(number): "v" for number in range(count)} for count, file in enumerate(plan.files, 1)}
    stats = {file: stat_of(file, rows[file], None) for file in plan.files}
    said = CommitMetadata({PARTITION: tuple(stats.values())}, replaced_file_ids={PARTITION: (lost.file_id,)})
    written = [ExpectedFile(file.path, stat.file_size_bytes or 0, stat.num_writes) for file, stat in stats.items()]
    check_files_match(plan, said, written)
    odd = [
        (said, written[:1]),
        (replace(said, write_stats={PARTITION: tuple(stats.values())[:1]}), written),
        (replace(said, replaced_file_ids={}), written),
        (replace(said, replaced_file_ids={PARTITION: (lost.file_id, other.file_id)}), written),
    ]
    for commit, files in odd:
        with pytest.raises(InvariantError):
            check_files_match(plan, commit, files)


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


def test_every_file_is_looked_at_for_a_clustering_that_waits(world: World) -> None:
    """Whichever of them it is going to replace; one of ours that is at work, or that may lose, is in nobody's way."""
    time, allow = "20260101000000500", CONFIG.having(ClusteringOptions, "updates", ClusteringUpdates.ALLOW)
    plan = RequestedReplace("CLUSTER", (ClusteringGroup((ClusteringSlice(PARTITION, file_id(1)),)),))
    world.store.write(f".hoodie/{time}.replacecommit.requested", format_requested_replace(plan))
    files = Table.open(world.store).snapshot().base_files(PARTITION)
    for order in itertools.permutations(files):
        with pytest.raises(PendingInstantError, match=time):
            refuse_clustered(Table.open(world.store).snapshot(), order, CONFIG)
        refuse_clustered(Table.open(world.store).snapshot(), order, allow)
    refuse_clustered(Table.open(world.store).snapshot(), files[:1], CONFIG)
    claim_foreign(world.store, world.host("ours"), time)
    refuse_clustered(Table.open(world.store).snapshot(), files, CONFIG)


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
            with pytest.raises(WriteConflictError, match=said) as caught:
                check_schema(since(world, at(*order), mine))
            assert caught.value.culprit == ("added" if wrong is other else INTERNAL_SCHEMA_KEY)
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
