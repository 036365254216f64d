"""A checkpoint counts as it was written, or not at all."""

import pyarrow as pa
import pytest

from lakeindex.pipeline import Stage
from lakeindex.run.checkpoints import CheckpointError, Manifest, RunFolder, finished_stages
from lakeindex.storage.memory import MemoryStorage

ROWS = pa.table({"n": list(range(100))})


@pytest.mark.parametrize("damage", ["byte", "short", "gone"])
def test_a_damaged_file_is_told_by_name(damage: str):
    store = MemoryStorage()
    folder = RunFolder(store, "run")
    part = folder.write_table("run/rows.parquet", ROWS)
    assert folder.read_table(part).equals(ROWS)
    data = bytearray(store.read(part.path))
    data[len(data) // 3] ^= 1
    if damage == "gone":
        store.delete(part.path)
    else:
        store.write(part.path, bytes(data) if damage == "byte" else bytes(data[:-1]))
    with pytest.raises(CheckpointError, match=r"run/rows-[0-9a-f]+\.parquet"):
        folder.read_table(part)


def test_a_manifest_whose_files_are_gone_or_short_is_not_whole():
    store = MemoryStorage()
    folder = RunFolder(store, "run")
    parts = tuple(folder.write_table(f"run/{n}.parquet", ROWS) for n in range(2))
    manifest = Manifest(stage=Stage.STAGE_INPUT, run_id="run", basis="b", tables={"staged": parts}, counters={})
    assert folder.is_whole(manifest)
    data = store.read(parts[1].path)
    store.write(parts[1].path, data[:-1])
    assert not folder.is_whole(manifest)
    store.delete(parts[1].path)
    assert not folder.is_whole(manifest)


@pytest.mark.parametrize(
    ("run", "stage"), [("run", Stage.STAGE_INPUT), ("other", Stage.STAGE_INPUT), ("other", Stage.MERGE_WRITE)]
)
def test_a_manifest_of_another_stage_or_run_is_told(run: str, stage: Stage):
    """Copied by somebody who put a folder back, for example."""
    store = MemoryStorage()
    RunFolder(store, run).write_manifest(Manifest(stage=stage, run_id=run, basis="b", tables={}, counters={}))
    folder = RunFolder(store, "run")
    store.write(folder.manifest_path(Stage.MERGE_WRITE), store.read(f"{run}/{stage}.json"))
    with pytest.raises(CheckpointError, match=f"belongs to stage '{stage}' of run '{run}'"):
        folder.read_manifest(Stage.MERGE_WRITE)


def test_what_a_stage_has_cost_is_told_beside_another_whose_manifest_is_damaged() -> None:
    """Of a run that failed; what the last stage leaves before it is over says nothing of costs."""
    store = MemoryStorage()
    folder, costs = RunFolder(store, "run"), {"seconds": 1.5, "bytes_read": 1, "requests": 1, "of a later release": 2}
    for stage in Stage:
        folder.write_manifest(Manifest(stage, "run", "b", costs={} if stage is Stage.MERGE_WRITE else costs))
    store.write(folder.manifest_path(Stage.INDEX_LOOKUP), b"{")
    told = finished_stages(folder)
    assert [one.name for one in told] == [Stage.STAGE_INPUT, Stage.BLOOM_CHECK, Stage.VERIFY_KEYS]
    assert {one.seconds for one in told} == {1.5}
