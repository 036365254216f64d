"""Commits that never happened: invisible to Hudi, rolled back by whoever writes next, on both sides."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.interop import ours
from tests.interop.hudi_client import HudiServer
from tests.interop.rows import SIMPLE
from tests.interop.story import Story, completed_writes, instant_files, keeping_story, rows_of

pytestmark = pytest.mark.interop

_CRASH = Path(__file__).with_name("crash_before_commit.py")
#: Where our writer dies, its data files written: before it is decided whether the run is committed, or between the
#: decision (``.hoodie/.lakeindex/verdicts``) and ``<instant>.commit``, which is all that Hudi knows of.
_UNDECIDED, _DECIDED = "*/verdicts/*", "*.commit"
_KILLED_ROWS = (*range(20), *range(200, 220))


def _base_files(story: Story) -> set[str]:
    return {path.name for path in story.path.rglob("*.parquet") if ".hoodie" not in path.parts}


def _pending(story: Story) -> set[str]:
    names = [path.name for path in instant_files(story.path, "*")]
    requested = {name.split(".")[0] for name in names if name.endswith(".commit.requested")}
    return requested - set(completed_writes(story.path))


def _rollbacks(story: Story) -> int:
    return len(instant_files(story.path, "*.rollback"))


def _die_in_a_commit(story: Story, where: str) -> set[str]:
    """Our killed upsert (version 9 of some rows); the names of the data files it left behind."""
    batch = story.path.with_name("killed.parquet")
    pq.write_table(rows_of(_KILLED_ROWS, 9), batch)
    before = _base_files(story)
    line = [sys.executable, str(_CRASH), str(story.path), str(batch), where]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 137, done.stderr
    left = _base_files(story) - before
    assert len(left) > 2
    assert list(story.path.glob(".hoodie/.temp/*/MARKERS0")), "of so many files the markers are lines of one"
    assert len(_pending(story)) == 1
    return left


@pytest.fixture
def story(hudi: HudiServer, folder: Path) -> Story:
    told = keeping_story(folder, SIMPLE, hudi)
    told.we_create()
    told.we_upsert(range(60), 1)
    told.hudi_upserts(range(50, 80), 2)
    return told


@pytest.mark.parametrize("where", [_UNDECIDED, _DECIDED], ids=["undecided", "decided"])
def test_our_killed_commit_is_invisible_and_hudi_rolls_it_back(story: Story, where: str) -> None:
    left = _die_in_a_commit(story, where)
    story.judge("with our killed commit pending")
    story.hudi_upserts(range(10), 3)
    assert not _pending(story)
    assert _rollbacks(story) == 1
    assert not left & _base_files(story), "Hudi's rollback left data files of ours"
    story.judge("after Hudi rolled us back", sound=True)
    story.we_upsert([*range(15, 25), *range(210, 230)], 4)
    story.judge("after our next turn", sound=True)


def test_our_killed_commit_is_rolled_back_by_our_next_run(story: Story) -> None:
    left = _die_in_a_commit(story, _UNDECIDED)
    story.we_upsert([*range(15, 25), *range(210, 230)], 3)
    assert not _pending(story)
    assert _rollbacks(story) == 1
    assert not left & _base_files(story)
    story.judge("after our rollback and next commit", sound=True)
    story.hudi_upserts(range(205, 215), 4)
    story.judge("after Hudi's turn behind our rollback")


def test_our_killed_commit_is_completed_by_our_next_run_once_decided(story: Story) -> None:
    left = _die_in_a_commit(story, _DECIDED)
    story.judge("decided, but not yet committed")
    (killed,) = _pending(story)
    story.note(killed, _KILLED_ROWS, 9)
    story.we_upsert([*range(15, 25), *range(210, 230)], 10)
    assert not _pending(story)
    assert left <= _base_files(story)
    story.judge("after our next run completed it", sound=True)
    story.hudi_upserts(range(205, 215), 11)
    story.judge("after Hudi's turn")


def test_our_rollback_of_a_completed_commit(story: Story) -> None:
    story.we_upsert([*range(30), *range(200, 210)], 3)
    undone = story.instants[-1]
    answer = ours.command("rollback", story.path, undone)
    assert answer.code == 0, answer.text
    del story.states[undone]
    story.replay = story.states[story.instants[-1]].copy()
    story.judge("after lakeindex rollback", sound=True)
    assert undone not in completed_writes(story.path)
    story.hudi_upserts(range(25, 35), 4)
    story.judge("after Hudi's turn behind it")
    story.we_upsert(range(5), 5)
    story.judge("after our turn", sound=True)


def test_hudis_dead_commit_blocks_until_forced(story: Story) -> None:
    """Hudi's writer died before its commit; a young one may be alive, so we wait unless told otherwise."""
    before = _base_files(story)
    known = story.instants[-1]
    story.hudi_upserts([*range(70, 90), *range(300, 310)], 3)
    died = story.instants[-1]
    for file in instant_files(story.path, f"*{died}*.commit*"):
        if not file.name.startswith(f"{died}.commit.requested") and "requested" not in file.name:
            file.unlink()
    del story.states[died]
    story.replay = story.states[known].copy()
    story.judge("with Hudi's pending commit")
    batch = story.path.with_name("batch.parquet")
    pq.write_table(rows_of(range(75, 100), 4), batch)
    answer = ours.command("upsert", story.path, batch)
    assert answer.code == 5, answer.text
    assert died in answer.text
    forced = ours.command("upsert", story.path, batch, "--force")
    assert forced.code == 0, forced.text
    story.note(str(forced.said["instant"]), range(75, 100), 4)
    assert not _pending(story)
    leftover = {name for name in _base_files(story) - before if died in name}
    assert not leftover, "our rollback left data files of Hudi's dead commit"
    story.judge("after our rollback of Hudi's commit", sound=True)
    story.hudi_upserts(range(20), 5)
    story.judge("after Hudi's next turn")
