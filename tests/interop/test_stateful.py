"""lakeindex, Hudi 0.15 and Hudi 1.2 take turns on one table, and do to it what they can: Hypothesis looks for a short story.

``LAKEINDEX_TURNS=200`` plays so many stories, with other choices in every run (`make interop-long`). A story that fails is
made shorter for up to five minutes; ``LAKEINDEX_TURNS_SHRINK=no`` shows it as it was found.
"""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.interop.hudi_client import HudiServer
from tests.interop.turns import Turns

pytestmark = pytest.mark.interop

STORIES = os.environ.get("LAKEINDEX_TURNS")
SHRINK = os.environ.get("LAKEINDEX_TURNS_SHRINK") != "no"


@pytest.mark.timeout(7200)
def test_turns_of_any_kind(servers: dict[str, HudiServer], folder: Path) -> None:
    number = count()
    chosen = settings(
        max_examples=int(STORIES or 3),
        stateful_step_count=12 if STORIES else 8,
        derandomize=STORIES is None,
        deadline=None,
        print_blob=True,
        database=None,
        phases=[Phase.explicit, Phase.generate, *([Phase.shrink] if SHRINK else [])],
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(lambda: Turns(servers, folder / str(next(number))), settings=chosen)
