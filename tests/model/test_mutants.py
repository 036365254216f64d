"""The model can fail: take a check out of the protocol, and the search finds the history that needs it."""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pytest

from lakeindex.commit import recovery
from lakeindex.commit import recovery as foreign
from lakeindex.commit import write_session as commit
from lakeindex.commit.run_records import Attempt, AttemptRecord, RunIdentity
from lakeindex.commit.services import rollback
from lakeindex.index.key_match import match_keys
from lakeindex.lock.hudi_lock import StorageLock
from lakeindex.lock.lock import TableLock
from lakeindex.lock.write_context import WriteContext
from lakeindex.stages.merge_write import planning as insert_check
from lakeindex.storage.port import Storage
from lakeindex.timeline.timeline import Timeline
from lakeindex.timeline.verdicts import Verdict, overrule
from tests.model.exploring import Story, Violation, explore
from tests.model.shared_lock import SHARED_STORIES
from tests.model.stories import (
    DISJOINT,
    GROUPS,
    INTO_A_NEW_BUCKET,
    OVERLAPPING,
    RESCALE_AND_UPSERT,
    SAME_BATCH,
    SAME_NEW_KEY,
    SAME_ROW,
    TWO_OVERWRITES,
    ZOMBIE,
    Cast,
    ChangedTableStory,
    HudiStory,
    TakenBackStory,
    UndoneStory,
    WriterStory,
    bucket_story,
    cleaning,
    parquet_story,
    rolling_back,
    rolling_one_back,
)
from tests.model.test_exploration import ONE


def violation(story: Callable[[], Story], budget: dict[str, int]) -> str:
    with pytest.raises(Violation) as caught:
        explore(story, budget)
    return caught.value.reason


def without(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    left = tuple(guard for guard in commit.GUARDS if guard.__name__ not in names)
    assert len(left) == len(commit.GUARDS) - len(names)
    monkeypatch.setattr(commit, "GUARDS", left)


def writers(cast: Sequence[Cast]) -> Callable[[], Story]:
    return lambda: WriterStory(GROUPS, cast)


def test_without_the_check_of_file_groups_an_update_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "check_groups")
    assert "lost" in violation(writers(OVERLAPPING), {"switch": 1})


def test_without_the_check_of_file_groups_the_row_that_was_committed_last_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both values were written by somebody: only who came last tells that one is wrong."""
    without(monkeypatch, "check_groups")
    assert "last committed" in violation(writers(SAME_ROW), {"switch": 1})


def test_without_the_recheck_of_inserts_a_key_is_doubled(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "check_rechecks")
    assert "doubled keys" in violation(lambda: parquet_story(SAME_NEW_KEY), {"switch": 1})


@pytest.mark.parametrize(
    ("name", "blind"),
    [
        ("_check_file", lambda *_: None),
        pytest.param("rows_that_may_be_in", lambda *_: np.zeros(0, np.int64), marks=pytest.mark.model),
        ("match_keys", lambda keys, stored: match_keys(keys, stored[:1])),  # only the first row group
        pytest.param("keys_of", lambda *_: pa.array([], pa.string()), marks=pytest.mark.model),
    ],
)
def test_without_the_real_look_for_inserts_a_key_is_doubled(
    monkeypatch: pytest.MonkeyPatch, name: str, blind: Callable[..., object]
) -> None:
    monkeypatch.setattr(insert_check, name, blind)
    assert "doubled keys" in violation(lambda: parquet_story(SAME_NEW_KEY), {"switch": 1})


def ledger_only_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    real = commit.find_done
    looks: Counter[int] = Counter()

    def look(
        context: WriteContext, run: RunIdentity, timeline: Timeline | None = None, own: str | None = None
    ) -> commit.AlreadyDone | None:
        looks[id(run)] += 1
        return real(context, run, timeline, own) if looks[id(run)] <= 2 else None

    monkeypatch.setattr(commit, "find_done", look)


def test_without_the_ledger_under_the_lock_a_batch_is_committed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger_only_at_the_start(monkeypatch)
    assert "was committed 2 times" in violation(writers(SAME_BATCH), {"switch": 1})


def test_the_token_and_the_ledger_both_stop_a_zombie(monkeypatch: pytest.MonkeyPatch) -> None:
    """Either alone is enough; without both the batch of a run is committed twice."""
    monkeypatch.setattr(Attempt, "check", lambda _: None)
    explore(writers(ZOMBIE), {"switch": 1})
    ledger_only_at_the_start(monkeypatch)
    assert "was committed 2 times" in violation(writers(ZOMBIE), {"switch": 1})


def test_without_arbitration_what_was_committed_is_rolled_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_arbiter(storage: Storage, verdict: Verdict) -> Verdict:
        overrule(storage, verdict)
        return verdict

    monkeypatch.setattr(commit, "decide", no_arbiter)
    monkeypatch.setattr(recovery, "decide", no_arbiter)
    assert "was committed 0 times" in violation(writers(OVERLAPPING), {"stall": 1})


def test_a_takeover_settles_what_the_last_holder_was_about_to_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock alone is not enough: its lease runs out while the holder, otherwise alive, is between check and put."""
    monkeypatch.setattr(AttemptRecord, "is_alive", lambda record, _: not record.ended)
    explore(writers(OVERLAPPING), {"stall": 1})
    monkeypatch.setattr(TableLock, "unsettled", ())
    assert "lost" in violation(writers(OVERLAPPING), {"stall": 1})


def test_without_recovery_of_claims_a_killed_writer_stays_pending(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "_resolve", lambda *_: None)
    violation(writers(DISJOINT), {"crash": 1})


def test_without_the_look_back_hudis_rollback_leaves_a_commit_without_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "_is_undisturbed", lambda *_: True)
    violation(lambda: HudiStory(GROUPS, OVERLAPPING[0]), ONE)


def test_without_the_check_of_replaced_groups_an_update_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "check_groups", "check_untouched", "check_index")
    assert "lost" in violation(lambda: bucket_story(RESCALE_AND_UPSERT), {"switch": 1})


def test_without_the_check_of_the_partition_a_new_group_stays_beside_the_new_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without(monkeypatch, "check_untouched")
    reason = violation(lambda: bucket_story(INTO_A_NEW_BUCKET, [{"a1": "0"}]), {"switch": 1})
    assert "bucket" in reason


def test_without_the_check_of_the_partition_two_overwrites_of_nothing_both_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without(monkeypatch, "check_untouched")
    assert "odd" in violation(lambda: bucket_story(TWO_OVERWRITES, []), {"switch": 1})


def test_without_the_check_of_the_index_a_new_key_goes_where_the_old_count_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without(monkeypatch, "check_index")
    reason = violation(lambda: bucket_story(INTO_A_NEW_BUCKET[::-1], [{"a1": "0"}]), {"switch": 1})
    assert "bucket" in reason


def test_without_looking_for_other_writers_hudi_overwrites(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "is_foreign", lambda *_: False)
    monkeypatch.setattr(foreign, "is_foreign", lambda *_: False)
    violation(lambda: HudiStory(GROUPS, OVERLAPPING[0], hudi_first=True), {"switch": 1})


@pytest.mark.parametrize(
    ("key", "value"), [("hoodie.table.version", "9"), ("hoodie.table.metadata.partitions", "expr_index_a,files")]
)
def test_without_rereading_the_properties_we_commit_to_a_changed_table(
    monkeypatch: pytest.MonkeyPatch, key: str, value: str
) -> None:
    monkeypatch.setattr(commit, "check_metadata_table", lambda table, _: table.properties)
    assert "must not be written" in violation(lambda: ChangedTableStory(key, value), {"switch": 1})


def cleaned_and_undone() -> Story:
    return UndoneStory({"cleaner": cleaning, "operator": rolling_back})


def test_without_looking_at_the_lock_a_stale_clean_deletes_what_is_live_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TableLock, "check", lambda _: None)
    violation(cleaned_and_undone, ONE)


def test_without_finishing_cleans_a_rollback_brings_back_what_is_about_to_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollback, "finish_cleans", lambda *_: ())
    violation(cleaned_and_undone, ONE)


def test_without_looking_for_predecessors_a_commit_is_taken_back_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollback, "missing_files", lambda *_: ())
    assert "lost or doubled" in violation(cleaned_and_undone, {"switch": 1})


def taken_back(*, gone_is_seen: bool = True) -> Story:
    return TakenBackStory({"operator": rolling_one_back}, OVERLAPPING[1:], gone_is_seen=gone_is_seen)


def test_without_arbitration_a_stalled_rollback_undoes_what_was_built_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_arbiter(storage: Storage, verdict: Verdict) -> Verdict:
        overrule(storage, verdict)
        return verdict

    monkeypatch.setattr(rollback, "decide", no_arbiter)
    violation(taken_back, {"stall": 1})


def test_without_carrying_a_decided_rollback_out_a_write_is_built_on_what_goes_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next holder of the lock finds the decision; whoever took it wakes up later, and takes the commit away."""
    monkeypatch.setattr(recovery, "take_back", lambda *_: None)
    violation(taken_back, {"stall": 1})


def test_without_hudis_lock_an_update_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """We commit between the look for conflicts of a writer of Hudi, who has the lock, and its commit."""
    monkeypatch.setattr(StorageLock, "try_acquire", lambda _: None)
    monkeypatch.setattr(StorageLock, "check", lambda _: None)
    report = explore(SHARED_STORIES["hudi under its storage lock, first"], {"switch": 1})
    assert report.outcomes["window"] > 0
