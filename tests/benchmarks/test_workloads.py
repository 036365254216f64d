"""What the benchmark is judged by must be right itself."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from benchmarks import workloads
from benchmarks.workloads import SPREAD, TAILS, Totals, Workload, workload

pytestmark = pytest.mark.slow

MIXED = ("T_mono", "T_uuid", "TL_tail", "TL_small", "TG1_tail", "TG20_tail")
KINDS = ("T_wide", "T_nested", "T_text", "T_all", "T_inserts", "T_deletes", "T_parts")


@pytest.fixture(params=[*MIXED, *KINDS])
def tiny(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workload:
    monkeypatch.setattr(workloads, "DATA", tmp_path)
    return workload(request.param)


def test_truth_is_what_a_dictionary_replay_gives(tiny: Workload) -> None:
    replay: dict[str, tuple[int, int]] = {}
    for path in [*tiny.base_files, tiny.batch]:
        rows = pq.read_table(path, columns=["id", "ts", "n1"]).to_pydict()
        if path == tiny.batch and tiny.operation == "delete":
            assert set(rows["id"]) <= replay.keys()
            replay = {key: row for key, row in replay.items() if key not in rows["id"]}
            continue
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
    assert [path.read_bytes() for path in again.base_files] == [path.read_bytes() for path in tiny.base_files]


def test_files_lie_in_the_day_that_is_said(tiny: Workload) -> None:
    for index, path in enumerate(tiny.base_files):
        assert pq.read_table(path, columns=["day"])["day"].unique().to_pylist() == [tiny.day_of(index)]
    assert tiny.base_rows == sum(pq.read_metadata(path).num_rows for path in tiny.base_files)


def test_updated_rows_keep_their_day_and_are_newer(tiny: Workload) -> None:
    base = pa.concat_tables([pq.read_table(path, columns=["id", "day", "ts"]) for path in tiny.base_files])
    batch = pq.read_table(tiny.batch, columns=["id", "day", "ts"])
    both = batch.join(base, "id", right_suffix="_old", join_type="inner")
    parts = {"T_all": 1.0, "T_inserts": 0.0, "T_deletes": 1.0}
    assert both.num_rows == round(tiny.batch_rows * parts.get(tiny.name, 0.8))
    assert pc.all(pc.equal(both["day"], both["day_old"]), min_count=0).as_py()
    assert pc.all(pc.greater(both["ts"], both["ts_old"]), min_count=0).as_py()


def test_tail_updates_only_the_newest_rows_and_shares_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workloads, "DATA", tmp_path)
    small, large = workload("TL_tail"), workload("TG20_tail")
    shape = TAILS["TG20_tail"]
    keys = pc.utf8_slice_codeunits(pq.read_table(large.batch)["id"], 4).cast(pa.int64())
    assert pc.min(keys).as_py() >= large.base_rows - shape.newest
    assert pc.max(keys).as_py() == large.base_rows + shape.batch // 5 - 1
    assert len(large.base_files) == 20
    assert [path.stat().st_ino for path in small.base_files] == [p.stat().st_ino for p in large.base_files[:5]]


def test_parts_has_many_partitions_of_one_file_and_updates_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workloads, "DATA", tmp_path)
    parts = workload("T_parts")
    assert len({parts.day_of(index) for index in range(len(parts.base_files))}) == len(parts.base_files) == 120
    assert parts.touched_files == 120
    every = SPREAD["parts"]
    assert (every.partitions, every.files_per_partition, every.base_rows // every.partitions) == (2_000, 1, 500)


def test_unknown_workload_is_refused() -> None:
    with pytest.raises(KeyError, match="T_mono"):
        workload("XXL_mono")


def test_rows_have_the_shape_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workloads, "DATA", tmp_path)
    wide, nested, text = (pq.read_table(workload(name).batch) for name in ("T_wide", "T_nested", "T_text"))
    assert wide.num_columns == 200
    assert {str(kind.type) for kind in nested.schema} >= {"list<element: double>", "map<string, string ('attributes')>"}
    assert 900 < pc.mean(pc.binary_length(text["body"])).as_py() < 1100
