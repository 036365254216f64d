"""Real processes at one table, mixed with everything that can be done to it, against a dictionary.

``LAKEINDEX_PROCESSES_SEEDS=100-140`` and ``LAKEINDEX_PROCESSES_SECONDS=60`` ask for more; a failure names its seed.
"""

from __future__ import annotations

import os
import sys
import uuid
from pathlib import Path

import pytest

from tests.processes.scenario import Scenario

pytestmark = pytest.mark.processes

#: What CI runs: each kind of table once on local disk, and two on S3.
LOCAL = (0, 1, 2)
ON_S3 = (4, 5)
SECONDS = float(os.environ.get("LAKEINDEX_PROCESSES_SECONDS", "12"))


def seeds(chosen: tuple[int, ...], every: int) -> list[int]:
    """The seeds to run; of a range that is asked for, one of ``every`` goes to S3."""
    asked = os.environ.get("LAKEINDEX_PROCESSES_SEEDS")
    if not asked:
        return list(chosen)
    first, _, last = asked.partition("-")
    numbers = range(int(first), int(last or first) + 1)
    return [seed for seed in numbers if (seed % 4 == 3) == (every == 4)]


def play(seed: int, uri: str, folder: Path) -> None:
    scenario = Scenario(seed, uri, folder, SECONDS)
    scenario.run()
    acknowledged = sum(batch.instant is not None for batch in scenario.oracle.batches)
    told = f"seed {seed}: {scenario.kind}, {scenario.writers} writers, {acknowledged} batches, {dict(scenario.did)}"
    sys.stdout.write(f"\n{told}\n")
    assert not scenario.findings, "\n".join([told, *scenario.findings])
    assert acknowledged > 0, told


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", seeds(LOCAL, 1))
def test_processes_on_local_disk(seed: int, tmp_path: Path):
    play(seed, str(tmp_path / "t"), tmp_path)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", seeds(ON_S3, 4))
def test_processes_on_s3(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    endpoint = os.environ.get("LAKEINDEX_S3_ENDPOINT")
    if not endpoint:
        pytest.skip("LAKEINDEX_S3_ENDPOINT is not set: `make processes` has an S3 server")
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    play(seed, f"s3://{os.environ['LAKEINDEX_S3_BUCKET']}/{uuid.uuid4().hex}/t", tmp_path)
