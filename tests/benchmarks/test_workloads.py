"""What the benchmark is judged by must be right itself."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from benchmarks import workloads
from benchmarks.workloads import Totals, Workload, workload


@pytest.fixture(params=["T_mono", "T_uuid"])
def tiny(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workload:
    monkeypatch.setattr(workloads, "DATA", tmp_path)
    return workload(request.param)


def test_truth_is_what_a_dictionary_replay_gives(tiny: Workload) -> None:
    replay: dict[str, tuple[int, int]] = {}
    for path in [*tiny.base_files, tiny.batch]:
        rows = pq.read_table(path, columns=["id", "ts", "n1"]).to_pydict()
        replay.update(zip(rows["id"], zip(rows["ts"], rows["n1"], strict=True), strict=True))
    sums = [sum(values) for values in zip(*replay.values(), strict=True)]
    assert tiny.truth == Totals(len(replay), len(replay), sums[0], sums[1])


def test_owners_name_the_file_that_holds_the_key(tiny: Workload) -> None:
    owner_of = {}
    for index, path in enumerate(tiny.base_files):
        owner_of.update(dict.fromkeys(pq.read_table(path, columns=["id"])["id"].to_pylist(), index))
    keys = pq.read_table(tiny.batch, columns=["id"])["id"].to_pylist()
    assert tiny.owners().tolist() == [owner_of.get(key, -1) for key in keys]
    assert tiny.touched_files == len(set(tiny.owners().tolist()) - {-1})


def test_the_same_name_gives_the_same_bytes(tiny: Workload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workloads, "DATA", tmp_path / "again")
    again = workload(tiny.name)
    assert again.folder != tiny.folder
    assert again.batch.read_bytes() == tiny.batch.read_bytes()


def test_unknown_workload_is_refused() -> None:
    with pytest.raises(KeyError, match="T_mono"):
        workload("XXL_mono")
