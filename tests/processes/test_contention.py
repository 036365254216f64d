"""Eight writers at the same file groups: at most one lost attempt a commit, and none gives up."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes.contention import measure

pytestmark = pytest.mark.processes


@pytest.mark.timeout(400)
def test_eight_writers_at_the_same_file_groups(tmp_path: Path):
    found = measure(tmp_path, writers=8, batches=2)
    assert dict(found.ends) == {0: 16}, found.said
    assert found.rollbacks <= found.commits, str(found)
