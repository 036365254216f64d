"""Every storage call of an import fails once: the same import is called again, and each row is there once."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeindex
from lakeindex.api.table import LakeTable
from lakeindex.commit.import_mark import load_mark
from lakeindex.storage.memory import MemoryStorage
from tests.model.harness import Operation, fail_every_call
from tests.model.test_pipeline_faults import OPTIONS

pytestmark = pytest.mark.usefixtures("time_leaps")

INDEXES = {"6": "BLOOM", "8": "GLOBAL_SIMPLE", "9": "RECORD_INDEX"}
ROWS = [{"id": f"k{n}", "ts": n % 3, "v": f"v{n}", "day": f"2026-01-0{1 + n % 2}"} for n in range(8)]
WANTED = sorted((str(row["id"]), str(row["v"]), str(row["day"])) for row in ROWS)
STORES = ("pipeline", "pipeline.lakeindex")


def importing(folder: Path, version: str) -> Operation:
    """Two days in folders of their own, three files, in two or more commits."""
    for number, part in enumerate((ROWS[::2], ROWS[1:4:2], ROWS[5::2])):
        path = folder / f"day={part[0]['day']}" / f"{number}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(part).drop_columns(["day"]), path)

    def prepare() -> dict[str, bytes]:
        for name in STORES:
            MemoryStorage.named(name).restore({})
        return {}

    def run(store: MemoryStorage) -> None:
        lakeindex.import_table(
            folder,
            store.uri,
            key="id",
            ordering="ts",
            index=INDEXES[version],
            table_version=int(version),
            metadata=version == "9",
            max_bytes=1,
            options=OPTIONS,
        )

    def check(store: MemoryStorage) -> None:
        mark = load_mark(store)
        assert mark is not None
        assert mark.is_complete
        assert len(mark.commits) > 1
        table = LakeTable(store.uri)
        found = table.read(meta=False).to_pylist()
        assert sorted((row["id"], row["v"], str(row["day"])) for row in found) == WANTED
        assert table.check().ok

    return Operation(f"import, version {version}", prepare, run, check, store=lambda: MemoryStorage.named("pipeline"))


@pytest.mark.parametrize(("version", "every", "first"), [("6", 97, 5), ("9", 211, 72)])
@pytest.mark.few(1)
def test_some_calls_may_fail(tmp_path: Path, version: str, every: int, first: int) -> None:
    assert fail_every_call(importing(tmp_path, version), every=every, first=first).histories > 1


@pytest.mark.model
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("version", "first"), [("6", 1), ("8", 3), ("9", 5)])
def test_every_call_may_fail(tmp_path: Path, version: str, first: int) -> None:
    """A fifth of the calls on each version."""
    assert fail_every_call(importing(tmp_path, version), every=5, first=first).histories > 10
