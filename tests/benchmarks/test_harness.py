"""The measuring itself, on thousands of rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import bulk, environment, footers, metadata, operations, run, timings, tpch, workloads
from benchmarks.footers import Far
from benchmarks.workloads import workload
from lakeindex.storage.local import LocalStorage


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for module in (workloads, run, bulk, metadata, operations, tpch):
        monkeypatch.setattr(module, "DATA", tmp_path)
    return tmp_path


@pytest.mark.slow
def test_peers_take_turns_and_are_judged(data: Path) -> None:
    done = run.compare("TL_tail", ["floor", "delta-rs"], 2)
    assert [peer.peer for peer in done.peers] == ["floor", "delta-rs"]
    for peer in done.peers:
        assert peer.failed is None
        assert peer.correct
        assert len(peer.seconds) == 2
        assert (peer.base_files, peer.data_files) == (5, 1)
        assert peer.peak_bytes > 0
    assert list((data / "tables" / "TL_tail").iterdir()) == []


@pytest.mark.slow
def test_a_peer_that_cannot_start_is_shown_and_the_others_go_on(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(run.PEERS, "nobody", run.PEERS["floor"])  # unknown in the process of its own
    done = run.compare("TL_small", ["nobody", "floor"], 1)
    assert [(peer.failed is None, peer.correct) for peer in done.peers] == [(False, False), (True, True)]
    assert "nobody" in str(done.peers[0].failed)


@pytest.mark.slow
def test_bulk_load_is_checked(data: Path) -> None:
    timing = bulk.measure(workload("TL_tail"), "floor", 1)
    assert timing.failed is None
    assert len(timing.seconds) == 1
    assert not (data / "tables" / "bulk").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "peers"),
    [
        ("T_partial", {"whole", "partial"}),
        ("T_insert", {"bulk-insert", "insert"}),
        ("T_stream", {"stream"}),
        ("T_commits", {"short", "long"}),
        ("T_read", {"read", "delta-read"}),
        ("T_get", {"get", "delta-get", "first-get", "delta-first-get"}),
    ],
)
def test_operations_take_turns_and_are_checked(
    data: Path, monkeypatch: pytest.MonkeyPatch, name: str, peers: set[str]
) -> None:
    sync = LocalStorage.sync
    done = {timing.peer: timing for timing in operations.measure(name, tuple(operations.PEERS), 2)}
    assert LocalStorage.sync is sync  # a peer that does not sync leaves it to the others
    assert done.keys() == peers
    assert all((timing.failed, len(timing.seconds)) == (None, 2) for timing in done.values())
    checked = timings.checked
    monkeypatch.setattr(timings, "checked", lambda found, wanted: checked(found, wanted + 1))
    done = {timing.peer: timing for timing in operations.measure(name, tuple(peers), 1)}
    assert all("expected" in str(timing.failed) and not timing.seconds for timing in done.values())
    assert {one.name for one in data.iterdir()} <= {"T_mono"}  # what a workload's rows are made of stays


@pytest.mark.slow
@pytest.mark.skipif(not (environment.python().parent / "tpchgen-cli").exists(), reason="make bench-env makes it")
def test_tpch_takes_turns_and_is_checked(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = tpch.measure("T_tpch", tuple(tpch.PEERS), 1)
    assert [timing.peer for timing in done] == [*[*tpch.PEERS] * len(tpch.STEPS), "dataset"]
    assert all((timing.failed, len(timing.seconds)) == (None, 1) and timing.peak_bytes for timing in done)
    assert all("x delta-rs" in timing.facts for timing in done if timing.peer == "lakeindex")
    checked = timings.checked
    monkeypatch.setattr(timings, "checked", lambda found, wanted: checked(found, wanted + 1))
    assert all("expected" in str(timing.failed) for timing in tpch.measure("T_tpch", ("lakeindex",), 1))


def test_footers_are_read_once_and_then_come_from_the_cache(tmp_path: Path) -> None:
    far = Far(40, 20, 100)
    footers.load(far, str(tmp_path / "far"))
    seen = footers.look_ups(str(tmp_path / "far"), footers.batch_of(far))
    assert [one["found"] for one in seen.values()] == [80, 80, 80]
    assert seen["without"]["read"] >= 40
    assert seen["cached"]["read"] == seen["again"]["read"] == 0
    assert seen["cached"]["requests"] < seen["without"]["requests"]


@pytest.mark.slow
def test_upserts_with_and_without_a_metadata_table_take_turns_and_the_tenth_compacts(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compacted = {}

    def run(tables: metadata.Tables, peers: tuple[str, ...]) -> dict[str, list[metadata.Upsert]]:
        done = metadata_run(tables, peers)
        compacted.update({peer: [one.compacted for one in upserts] for peer, upserts in done.items()})
        return done

    metadata_run = metadata.run
    monkeypatch.setattr(metadata, "run", run)
    peers = ("none", "record-index", "locate-metadata", "look-up-metadata", "look-up-shards")
    found = {timing.peer: timing for timing in metadata.measure("T_mono_v9", peers, 1)}
    assert tuple(found) == peers
    assert compacted == {"none": [False] * 10, "record-index": [False] * 9 + [True]}
    assert found["record-index"].facts["median compacting"].endswith("(1)")
    assert found["look-up-metadata"].facts["found"] == found["look-up-shards"].facts["found"]
    assert list((data / "tables").iterdir()) == []
