"""Files that we rewrote in parts, column chunks copied as bytes: every reader sees their rows, and Hudi writes on."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from tests.interop import ours
from tests.interop.hudi_client import HudiServer
from tests.interop.rows import LAYOUTS, assert_state, key_of
from tests.interop.story import Story, hudi_since, keeping_story, rows_of

pytestmark = pytest.mark.interop

SMALL_GROUPS = {"lakeindex.parquet.row.group.rows": "8"}
VECTORIZED = "spark.sql.parquet.enableVectorizedReader"


def _upsert(story: Story, numbers: list[int], version: int) -> tuple[int, int]:
    """Column chunks copied and encoded."""
    summary = ours.upsert(story.path, rows_of(numbers, version), SMALL_GROUPS)
    story.note(summary.instant, numbers, version)
    return summary.chunks_copied, summary.chunks_encoded


def _live_files(path: Path) -> list[str]:
    """The newest base file of each file group."""
    newest: dict[tuple[Path, str], Path] = {}
    for file in sorted(path.rglob("*_*_*.parquet"), key=lambda f: f.stem.split("_")[2]):
        newest[file.parent, file.name.split("_")[0]] = file
    return [str(file) for file in newest.values()]


@pytest.fixture(scope="module", params=LAYOUTS, ids=lambda layout: layout.name)
def story(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, hudi: HudiServer) -> Story:
    """Updates in few row groups, deletes, new rows, twice: most chunks are copies, some of them copies of copies.

    One a layout and release; the last test writes on.
    """
    told = keeping_story(tmp_path_factory.mktemp("parts"), request.param, hudi)
    told.our_options = SMALL_GROUPS
    told.we_create()
    told.we_upsert(range(300), 1)
    copied, encoded = _upsert(told, [*range(40, 60), 299, *range(300, 320)], 2)
    assert copied > encoded > 0
    told.we_delete([*range(100, 112), 150, 301])
    copied, encoded = _upsert(told, [41, 200, *range(320, 330)], 3)
    assert copied > encoded > 0
    return told


def test_every_reader(story: Story) -> None:
    story.judge("after rewrites in parts", sound=True)
    for instant, state in story.states.items():
        assert_state(story.hudi.as_of(story.path, instant), state, f"as of {instant}")
    last, before = story.instants[-1], story.instants[-2]
    assert_state(hudi_since(story.hudi, story, before, last), story.states[last].since(before), "incremental")


@pytest.mark.parametrize("vectorized", [True, False])
def test_filters_that_prune_row_groups(story: Story, vectorized: bool) -> None:
    with story.hudi.settings({VECTORIZED: str(vectorized).lower()}):
        assert_state(story.hudi.read(story.path), story.replay, f"vectorized {vectorized}")
        for number in (41, 42, 105, 200, 310, 325):
            found = story.hudi.read(story.path, where=f"id = '{key_of(number)}' and ts >= 1000")
            wanted = [row["val"] for n, row in story.replay.rows.items() if n == number]
            assert found["val"].to_pylist() == wanted, number


def test_duckdb_reads_the_files(story: Story) -> None:
    files = _live_files(story.path)
    groups = [pq.read_metadata(file).num_row_groups for file in files]
    assert min(groups) > 5
    scan = duckdb.read_parquet(files, hive_partitioning=False)
    found = duckdb.sql("select id, val, ts, pair.x, list, money from scan order by id").fetchall()
    wanted = [
        (r["id"], r["val"], r["ts"], (r["pair"] or {}).get("x"), r["list"], r["money"])
        for r in story.replay.rows.values()
    ]
    assert found == sorted(wanted, key=lambda row: row[0].encode())
    named = scan.filter(f"_hoodie_file_name = '{Path(files[0]).name}'")
    assert len(named.fetchall()) == pq.read_metadata(files[0]).num_rows


def test_hudi_upserts_into_them_and_we_again(story: Story) -> None:
    story.hudi_upserts([0, 45, 110, 311, *range(400, 410)], 4)
    story.judge("after Hudi's upsert")
    story.hudi_deletes([46, 312, 401])
    story.we_upsert([1, 45, 402, *range(410, 420)], 5)
    story.we_upsert([2, 403, 411], 6)
    story.judge("after ours", sound=True)
