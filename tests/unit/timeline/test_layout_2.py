"""Timeline layout 2: completion times, Avro commits, and verdicts that hold them."""

from __future__ import annotations

import json
from pathlib import Path

import fastavro
import pytest

from lakeindex.errors import TableCorruptError
from lakeindex.format.commit_metadata import CommitMetadata, WriteStat
from lakeindex.format.instants import COMMIT, REPLACE_COMMIT
from lakeindex.model import Instant, InstantState
from lakeindex.storage import open_storage
from lakeindex.storage.memory import MemoryStorage
from lakeindex.table.handle import Table
from lakeindex.timeline.layout import LAYOUT_1, LAYOUT_2, TimelineLayout, layout_of_version
from lakeindex.timeline.timeline import Timeline
from lakeindex.timeline.verdicts import Outcome, Verdict, decide, load_verdict, shrink, verdict_path
from tests.vectors_support import unpack_table

LAYOUT = TimelineLayout(LAYOUT_2, ".hoodie/timeline", ".hoodie/timeline/history")
STAT = WriteStat("id-0", "p/x.parquet", "p", "20260101000000000", num_writes=3, prev_base_file="old.parquet")
COMMITTED = CommitMetadata({"p": (STAT,)}, "UPSERT", {"schema": "{}", "nothing": None})


def commit_at(time: str, completed: str) -> Instant:
    return Instant(time, COMMIT, InstantState.COMPLETED, completed)


def test_versions_that_never_stood_for_long_have_the_layout_of_their_time() -> None:
    assert [layout_of_version(number) for number in (0, 5, 6, 7, 8, 9, 10, 11)] == [LAYOUT_1] * 3 + [LAYOUT_2] * 5


def test_new_times_follow_every_instant_and_every_completion() -> None:
    done = commit_at("20260101000000000", "20260101000009000")
    timeline = Timeline.of(LAYOUT, [done, Instant("20260101000001000", COMMIT, InstantState.REQUESTED)])
    assert timeline.max_time == "20260101000009000"
    clock = 1_767_225_600_000  # 2026-01-01
    assert LAYOUT.completion_time(timeline.max_time, clock) == "20260101000009001"
    assert LAYOUT.completion_time(timeline.max_time, clock + 60_000) == "20260101000100000"
    assert TimelineLayout(LAYOUT_1).completion_time(timeline.max_time, clock) is None


@pytest.mark.parametrize("action", [COMMIT, REPLACE_COMMIT])
def test_a_commit_comes_back_as_it_was_written(action: str) -> None:
    metadata = COMMITTED
    if action == REPLACE_COMMIT:
        metadata = CommitMetadata(COMMITTED.write_stats, "CLUSTER", {"schema": "{}"}, False, {"p": ("a-0", "b-0")})
    data = LAYOUT.encode_commit(metadata, action)
    found = LAYOUT.decode_commit(data, "c")
    assert found.stats().__next__().prev_base_file == "old.parquet"
    assert list(found.write_stats) == ["p"]
    assert found.replaced_file_ids == metadata.replaced_file_ids
    assert found.extra_metadata == {"schema": "{}"}
    assert LAYOUT.encode_commit(metadata, action) == data, "two attempts write the same bytes"


@pytest.mark.parametrize("suffix", [".commit", ".inflight", ".replacecommit"])
def test_the_schema_is_hudis_to_the_letter(tmp_path: Path, suffix: str) -> None:
    folder = unpack_table("h120_v9_main", tmp_path) / ".hoodie" / "timeline"
    theirs = next(path for path in sorted(folder.glob(f"*{suffix}")) if path.stat().st_size)
    action = REPLACE_COMMIT if suffix == ".replacecommit" else COMMIT
    ours = tmp_path / "ours"
    ours.write_bytes(LAYOUT.encode_commit(COMMITTED, action))

    def fields_of(path: Path) -> object:
        with path.open("rb") as file:
            return json.loads(json.dumps(_plain(fastavro.reader(file).writer_schema)))

    assert fields_of(ours) == fields_of(theirs)


def _plain(schema: object) -> object:
    """A schema without what is only a default of Hudi's own code, which says of some containers again that they are null."""
    if isinstance(schema, list):
        return [_plain(one) for one in schema]
    if not isinstance(schema, dict):
        return schema.rpartition(".")[2] if isinstance(schema, str) else schema
    kept = {key: _plain(one) for key, one in schema.items() if not key.startswith("__") and key != "namespace"}
    if kept.get("type") in ("map", "array"):
        kept.pop("default", None)
    return kept


def test_hudis_commits_are_written_again_as_they_are(tmp_path: Path) -> None:
    table = Table.open(open_storage(str(unpack_table("h120_v9_main", tmp_path))))
    timeline = table.load_timeline()
    for instant in timeline.completed_writes:
        metadata = timeline.commit_metadata(table.storage, instant)
        again = LAYOUT.decode_commit(LAYOUT.encode_commit(metadata, instant.action), "again")
        assert again == metadata


def test_a_verdict_holds_the_bytes_of_a_commit_and_its_completion() -> None:
    store = MemoryStorage()
    data = LAYOUT.encode_commit(COMMITTED)
    verdict = Verdict("20260101000000000", Outcome.COMMITTED, "t", commit=data, completion_time="20260101000000500")
    assert decide(store, verdict) == verdict
    assert load_verdict(store, verdict.instant) == verdict
    assert LAYOUT.path(verdict.completed) == ".hoodie/timeline/20260101000000000_20260101000000500.commit"
    shrink(store, verdict)
    small = load_verdict(store, verdict.instant)
    assert small is not None
    assert (small.commit, small.completion_time) == (None, "20260101000000500")


def test_a_verdict_of_layout_1_is_as_earlier_releases_read_it() -> None:
    store = MemoryStorage()
    text = '{"é": 1}'.encode()
    decide(store, Verdict("20260101000000000", Outcome.COMMITTED, "t", commit=text))
    found = json.loads(store.read(verdict_path("20260101000000000")))
    assert found["commit"] == '{"é": 1}'
    assert "completion_time" not in found
    assert "target" not in found


def test_a_verdict_with_a_commit_that_is_none_is_damage() -> None:
    store = MemoryStorage()
    decide(store, Verdict("20260101000000000", Outcome.COMMITTED, "t", commit=b"{}"))
    path = verdict_path("20260101000000000")
    store.write(path, store.read(path).replace(b'"{}"', b'"no base64!"'))
    with pytest.raises(TableCorruptError, match="damaged"):
        load_verdict(store, "20260101000000000")
