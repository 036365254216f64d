"""lakeindex, Hudi 0.15 and Hudi 1.2 take turns on one table, and do to it what they can: Hypothesis looks for a short story.

``LAKEINDEX_TURNS=200`` plays so many stories, ten to a test, with the seeds from ``LAKEINDEX_TURNS_SEED`` on (`make interop-long`).
A story that fails is made shorter for up to five minutes; ``LAKEINDEX_TURNS_SHRINK=no`` shows it as it was found.
"""

from __future__ import annotations

import os
import traceback
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.interop.hudi_client import HudiServer
from tests.interop.turns import Turns

pytestmark = pytest.mark.interop

STORIES = int(os.environ.get("LAKEINDEX_TURNS", "0"))
SEED = int(os.environ.get("LAKEINDEX_TURNS_SEED", "0"))
SHRINK = os.environ.get("LAKEINDEX_TURNS_SHRINK") != "no"
AT_ONCE = 10
"""Stories of one test: what one finds does not end the run."""


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(-(-STORIES // AT_ONCE) or 1))
def test_turns_of_any_kind(part: int, servers: dict[str, HudiServer], folder: Path) -> None:
    number, played = count(), min(AT_ONCE, STORIES - AT_ONCE * part) if STORIES else 3
    chosen = settings(
        max_examples=played,
        stateful_step_count=12 if STORIES else 8,
        derandomize=not STORIES,
        deadline=None,
        print_blob=True,
        database=None,
        phases=[Phase.explicit, Phase.generate, *([Phase.shrink] if SHRINK else [])],
        suppress_health_check=list(HealthCheck),
    )

    def story() -> Turns:
        return Turns(servers, folder / str(next(number)))

    try:
        run_state_machine_as_test(seed(SEED + part)(story) if STORIES else story, settings=chosen)
    except BaseException:
        traceback.print_exc()  # pytest shows it when all are played, which may be hours later
        raise
    print(f"\nseed {SEED + part}: {next(number)} stories")  # noqa: T201 - for docs/reliability.md
