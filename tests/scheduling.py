"""Which worker plays what: a file by one of them, as ``--dist loadfile``; what shares something dear to start by one as well.
And which cases of a test other suites than ``make test`` play.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar
from zlib import crc32

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

T = TypeVar("T")

SHARED = ("tests/dags/", "tests/spark/")
"""One Airflow with its database, one JVM: started by one worker, while the other plays the rest."""
LONG = (
    "tests/model/test_metadata_faults.py",
    "tests/model/test_pipeline_faults.py",
    "tests/model/test_pipeline_power.py",
    "tests/unit/index/test_record_index_believed.py",
    "tests/unit/conductor/test_index_changes.py",
    "tests/unit/stages/test_streaming.py",
    "tests/contract/test_lives.py",
    "tests/unit/operations/test_looks_beside_writers.py",
    "tests/unit/conductor/test_condition_laws.py",
    "tests/unit/metadata/test_wrong_bits.py",
    "tests/unit/operations/test_bit_flips.py",
    "tests/budget/test_budget.py",
    "tests/docs/test_house.py",
)
"""Files of few tests that take long: first, lest one worker plays them at the end while the other has nothing left."""


def some_of(cases: Iterable[T], here: Callable[[T], object], others: pytest.MarkDecorator) -> list[Any]:
    """Parameters of which ``make test`` plays those that ``here`` chooses, and the suite of the mark the others.

    For tests whose cases differ in what other tests ask, too: an index, a version, a seed.
    """
    return [
        pytest.param(*(one if isinstance(one, tuple) else (one,)), marks=() if here(one) else others) for one in cases
    ]


def some_indexes(types: Iterable[str]) -> list[Any]:
    """Of index types those of ``make test``: filters, places that follow from the key, stored places."""
    return some_of(types, {"BLOOM", "BUCKET", "RECORD_INDEX"}.__contains__, pytest.mark.slow)


def leave_to_slow(items: Iterable[pytest.Item]) -> None:
    """Of a test that is marked ``few(n)`` all cases but the first n that are not ``slow`` are so."""
    seen = Counter[str]()
    for item in items:
        for mark in item.iter_markers("few") if item.get_closest_marker("slow") is None else ():
            name = item.nodeid.partition("[")[0]
            seen[name] += 1
            if seen[name] > mark.args[0]:
                item.add_marker(pytest.mark.slow)


def turn_of_commit() -> int:
    """A number of this commit, by which cases take turns."""
    command = ["git", "rev-parse", "HEAD"]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return int(done.stdout.strip() or "0", 16)


def whose_turn_it_is(items: Iterable[pytest.Item], share: int) -> list[pytest.Item]:
    """Tests that have one case, and of the cases of the others one in so many, others at each commit."""
    turn = turn_of_commit() % share
    return [one for one in items if not hasattr(one, "callspec") or crc32(one.nodeid.encode()) % share == turn]


class TogetherScheduling(LoadFileScheduling):  # type: ignore[misc] # xdist has no types
    """Files, and folders of :data:`SHARED` whole; those and :data:`LONG` first, then what has most tests."""

    def _split_scope(self, nodeid: str) -> str:
        return next((folder for folder in SHARED if nodeid.startswith(folder)), nodeid.partition("::")[0])

    def schedule(self) -> None:
        super().schedule()
        for scope in (*reversed(LONG), *reversed(SHARED)):
            if scope in self.workqueue:
                self.workqueue.move_to_end(scope, last=False)


def make_scheduler(config: pytest.Config, log: Producer) -> TogetherScheduling | None:
    """In place of xdist's own, where files were asked for."""
    return TogetherScheduling(config, log) if config.getvalue("dist") == "loadfile" else None
