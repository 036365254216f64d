"""Which run folders go: finished ones by number, unfinished ones by age."""

import pytest

from lakeindex.errors import WriteConflictError
from lakeindex.run.run_folders import sweep_runs
from lakeindex.storage.memory import MemoryStorage
from tests.builders import Row
from tests.meanwhile import MemoryTable, writes_data

DAY_MS = 86_400_000


def folders(world: MemoryTable) -> list[str]:
    found = MemoryStorage.named(f"{world.name}-runs").list_folder("").folders
    return sorted(one for one in found if not one.startswith("_"))  # the roster is no run


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_the_newest_finished_runs_are_kept(keep: int):
    world = MemoryTable()
    for number in range(4):
        world.upsert([Row("a", "x", number, "v")], run=f"run-{number}", lakeindex__checkpoint__keep__runs=str(keep))
    assert folders(world) == [f"run-{number}" for number in range(4 - keep, 4)]


@pytest.mark.parametrize(("days", "stays"), [(0.9, False), (1.1, True)])
def test_a_run_that_failed_goes_by_the_age_of_what_it_last_wrote(days: float, stays: bool):
    world = MemoryTable()
    world.upsert([Row("a", "x", 1, "v")], run="first")
    world.once(writes_data, lambda: world.upsert([Row("a", "x", 2, "theirs")], run="other"))
    with pytest.raises(WriteConflictError):
        world.upsert([Row("a", "x", 3, "ours")], run="failed", lakeindex__conflict__retries="0")
    assert folders(world) == ["failed", "first", "other"]
    runs = MemoryStorage.named(f"{world.name}-runs")
    newest = max(one.modified_ms for one in runs.list("failed"))
    where = f"memory://{world.name}"
    sweep_runs(where, f"{where}-runs", keep=20, days=days, now_ms=newest + DAY_MS)
    assert folders(world) == ["failed", "first", "other"] if stays else ["first", "other"]
