"""Histories of every story with one preemption, of some with one stall, crash or lost answer, too; more under the mark ``model``."""

import os
from collections.abc import Callable
from functools import partial

import pytest

from tests.model.buckets import write as write_buckets
from tests.model.exploring import Story, explore
from tests.model.scheduling import WRITES
from tests.model.shared_lock import SHARED_STORIES
from tests.model.stories import (
    ALLOWING,
    BUCKET_GROUPS,
    CLUSTERED_AND_INSERTED,
    CLUSTERED_AND_UPSERTED,
    CLUSTERED_TWICE,
    DISJOINT,
    EMPTIED_AND_INSERTED,
    GROUPS,
    INTO_A_NEW_BUCKET,
    OVERLAPPING,
    OVERWRITE,
    OVERWRITTEN_AND_UPSERTED,
    RESCALE,
    RESCALE_AND_INSERT,
    RESCALE_AND_UPSERT,
    RESCALED_AND_OVERWRITTEN,
    RESCALED_TWICE,
    SAME_BATCH,
    SAME_NEW_KEY,
    SAME_ROW,
    TWO_OVERWRITES,
    TWO_RESCALES,
    UPSERTED_AND_OVERWRITTEN,
    ZOMBIE,
    ChangedTableStory,
    HudiStory,
    ServiceStory,
    TakenBackStory,
    UndoneStory,
    WriterStory,
    archiving,
    bucket_story,
    cleaning,
    parquet_story,
    restoring,
    rolling_back,
    rolling_one_back,
)
from tests.model.world import upsert
from tests.scheduling import some_of

ONE = {"switch": 1, "stall": 1, "crash": 1, "lost": 1, "total": 1}

STORIES: dict[str, Callable[[], Story]] = {
    "overlapping groups": lambda: WriterStory(GROUPS, OVERLAPPING),
    "disjoint groups": lambda: WriterStory(GROUPS, DISJOINT),
    "same row": lambda: WriterStory(GROUPS, SAME_ROW),
    "same new key": lambda: parquet_story(SAME_NEW_KEY),
    "zombie attempt": lambda: WriterStory(GROUPS, ZOMBIE),
    "one batch, two runs": lambda: WriterStory(GROUPS, SAME_BATCH),
    "other host": lambda: WriterStory(GROUPS, OVERLAPPING, gone_is_seen=False),
    "zombie attempt on another host": lambda: WriterStory(GROUPS, ZOMBIE, gone_is_seen=False),
    "hudi second": lambda: HudiStory(GROUPS, OVERLAPPING[0]),
    "hudi first": lambda: HudiStory(GROUPS, OVERLAPPING[0], hudi_first=True),
    "rescaled and upserted": lambda: bucket_story(RESCALE_AND_UPSERT),
    "rescaled and inserted": lambda: bucket_story(RESCALE_AND_INSERT),
    "inserted where no bucket is": lambda: bucket_story(INTO_A_NEW_BUCKET, [{"a1": "0"}]),
    "inserted there first": lambda: bucket_story(INTO_A_NEW_BUCKET[::-1], [{"a1": "0"}]),
    "two rescalings": lambda: bucket_story(TWO_RESCALES),
    "a rescaling and its zombie": lambda: bucket_story(RESCALED_TWICE),
    "overwritten and upserted": lambda: bucket_story(OVERWRITTEN_AND_UPSERTED),
    "inserted and overwritten": lambda: bucket_story(UPSERTED_AND_OVERWRITTEN),
    "two overwrites": lambda: bucket_story(TWO_OVERWRITES),
    "two overwrites of an empty partition": lambda: bucket_story(TWO_OVERWRITES, []),
    "rescaled and overwritten": lambda: bucket_story(RESCALED_AND_OVERWRITTEN),
    "emptied and inserted": lambda: bucket_story(EMPTIED_AND_INSERTED, [{"a1": "0"}]),
    "hudi beside an overwrite": lambda: HudiStory(BUCKET_GROUPS, OVERWRITE, write=write_buckets),
    "hudi beside a rescaling": lambda: HudiStory(BUCKET_GROUPS, RESCALE, write=write_buckets),
    "clustered and upserted": lambda: WriterStory(GROUPS, CLUSTERED_AND_UPSERTED),
    "clustered and upserted, which is allowed": lambda: WriterStory(
        GROUPS, CLUSTERED_AND_UPSERTED, write=partial(upsert, config=ALLOWING)
    ),
    "clustered and inserted": lambda: WriterStory(GROUPS, CLUSTERED_AND_INSERTED),
    "a clustering and its zombie": lambda: WriterStory(GROUPS, CLUSTERED_TWICE),
    "cleaned and upserted": lambda: ServiceStory({"cleaner": cleaning}, OVERLAPPING[:1]),
    "cleaned twice": lambda: ServiceStory({"cleaner": cleaning, "other": cleaning}),
    "cleaned and archived": lambda: ServiceStory({"cleaner": cleaning, "archiver": archiving}),
    "archived and upserted": lambda: ServiceStory({"archiver": archiving}, OVERLAPPING[:1]),
    "archived twice": lambda: ServiceStory({"archiver": archiving, "other": archiving}),
    "cleaned and rolled back": lambda: UndoneStory({"cleaner": cleaning, "operator": rolling_back}),
    "taken back beside a writer": lambda: TakenBackStory({"operator": rolling_one_back}, OVERLAPPING[1:]),
    "taken back by a process that is not seen to be gone": lambda: TakenBackStory(
        {"operator": rolling_one_back}, OVERLAPPING[1:], gone_is_seen=False
    ),
    "taken back twice": lambda: TakenBackStory({"operator": rolling_one_back, "other": rolling_one_back}),
    "restored beside a writer": lambda: TakenBackStory({"operator": restoring}, OVERLAPPING[1:]),
    "restored by a process that is not seen to be gone": lambda: TakenBackStory(
        {"operator": restoring}, OVERLAPPING[1:], gone_is_seen=False
    ),
    "restored twice": lambda: TakenBackStory({"operator": restoring, "other": restoring}),
    "restored and rolled back": lambda: TakenBackStory({"operator": restoring, "other": rolling_one_back}),
    "cleaned and restored": lambda: UndoneStory({"cleaner": cleaning, "operator": restoring}),
    **SHARED_STORIES,
    "upgraded meanwhile": lambda: ChangedTableStory("hoodie.table.version", "5"),
    "metadata table meanwhile": lambda: ChangedTableStory("hoodie.table.metadata.partitions", "expr_index_a,files"),
}
STORIES_IN_FULL = (
    "overlapping groups",
    "zombie attempt",
    "hudi first",
    "rescaled and upserted",
    "taken back beside a writer",
)
"""Those that ``make model`` plays with more deviations than the others; ``make test`` two of them with a deviation of each kind."""
OTHER_STORIES = [name for name in STORIES if name not in STORIES_IN_FULL]


@pytest.mark.parametrize("name", some_of(OTHER_STORIES, OTHER_STORIES[::2].__contains__, pytest.mark.model))
@pytest.mark.few(8)
def test_every_history_with_one_preemption_before_a_write(name: str) -> None:
    """What ``make test`` has the time for: calls that read lie between two of them."""
    _explored(name, {"switch": 1}, lambda actor, call, path: call in WRITES)


@pytest.mark.parametrize(
    "name", some_of(STORIES_IN_FULL, ("zombie attempt", "hudi first").__contains__, pytest.mark.model)
)
@pytest.mark.few(1)
def test_every_history_with_one_deviation(name: str) -> None:
    _explored(name, ONE)


def test_disjoint_writers_both_succeed_without_help() -> None:
    report = explore(STORIES["disjoint groups"], {"switch": 1})
    assert set(report.outcomes) == {"done+done"}


def test_a_changed_table_is_refused() -> None:
    report = explore(STORIES["upgraded meanwhile"], {"switch": 1})
    assert report.outcomes["TableUnsupportedError+done"] > 0
    report = explore(STORIES["metadata table meanwhile"], {"switch": 1})
    assert report.outcomes["MetadataTableError+done"] > 0


def test_a_living_hudi_writer_is_left_alone() -> None:
    report = explore(STORIES["hudi first"], {"switch": 1})
    assert report.outcomes["done+PendingInstantError"] > 0


def test_the_window_that_is_left() -> None:
    """Hudi saw us pending, stands still until our commit is told, and then rolls it back."""

    def where(actor: str, name: str, path: str) -> bool:
        return name == "create" and ("/verdicts/" in path if actor == "one" else path.endswith(".rollback.requested"))

    report = explore(STORIES["hudi second"], {"switch": 2}, where=where)
    assert report.complete
    assert report.outcomes["window"] == 1


@pytest.mark.parametrize("name", ["hudi second", "hudi beside a rescaling"])
def test_what_was_put_while_hudi_rolled_it_back_does_not_stay(name: str) -> None:
    """Hudi begins between our checks and our put, and stands still in the middle; it does not know of what we put then."""

    def where(actor: str, call: str, path: str) -> bool:
        is_put = call == "create" and path.endswith((".commit", ".replacecommit"))
        return is_put if actor != "hudi" else call == "delete" and path.endswith(".parquet")

    report = explore(STORIES[name], {"switch": 1, "stall": 1, "total": 2}, where=where)
    assert report.complete
    assert report.histories > 2
    assert report.outcomes["window"] == 0


@pytest.mark.model
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", OTHER_STORIES)
def test_every_history_with_one_deviation_of_the_other_stories(name: str) -> None:
    _explored(name, ONE)


def _explored(name: str, budget: dict[str, int], where: Callable[[str, str, str], bool] | None = None) -> None:
    report = explore(STORIES[name], budget, where=where)
    assert report.complete
    assert report.histories + report.cut > (20 if where is None else 10)
    assert report.outcomes["window"] == 0


def decides(actor: str, name: str, path: str) -> bool:
    """Calls by which something is decided or told: the others lie between two of them."""
    decisive = ("/.lakeindex/lock/", "/.lakeindex/verdicts/", "/.lakeindex/ledger/")
    steps = (".rollback.requested", ".rollback", ".restore.requested", ".restore.inflight", ".restore")
    on_the_timeline = path.endswith((".commit", ".replacecommit", ".clean", *steps))
    return name == "create" and (on_the_timeline or any(part in path for part in decisive))


@pytest.mark.model
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", STORIES)
def test_every_pair_of_deviations_where_something_is_decided(name: str) -> None:
    """All of them, while a search in random order goes deep by chance: two stalls, or a crash of who took over."""
    report = explore(STORIES[name], {"switch": 2, "stall": 2, "crash": 2, "lost": 2, "total": 2}, where=decides)
    print(f"\n{name}, decisive pairs: {report}")  # noqa: T201 - the numbers for docs/commit-protocol.md
    assert report.complete
    assert name.startswith("hudi") or not report.outcomes["window"]


@pytest.mark.model
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", STORIES)
def test_histories_with_two_deviations(name: str) -> None:
    _search(name, {"switch": 2, "stall": 2, "crash": 2, "lost": 2, "total": 2})


@pytest.mark.model
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", STORIES)
def test_histories_with_up_to_four_deviations(name: str) -> None:
    _search(name, {"switch": 4, "stall": 2, "crash": 2, "lost": 2, "total": 4})


def _search(name: str, budget: dict[str, int]) -> None:
    """LAKEINDEX_MODEL_LIMIT histories, in an order given by LAKEINDEX_MODEL_SEED; limit 0: all of them, which takes hours."""
    limit = int(os.environ.get("LAKEINDEX_MODEL_LIMIT", "2500"))
    seed = int(os.environ.get("LAKEINDEX_MODEL_SEED", "7"))
    report = explore(STORIES[name], budget, limit=limit or None, seed=seed)
    print(f"\n{name}, {budget['total']} deviations: {report}")  # noqa: T201 - the numbers for docs/commit-protocol.md
    assert report.histories > 0
    assert name.startswith("hudi") or not report.outcomes["window"]
