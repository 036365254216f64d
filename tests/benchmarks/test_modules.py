"""The pieces of the measuring modules that need no engine."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow.compute as pc
import pytest

from benchmarks import environment, footers, harness, metadata
from benchmarks.cold import import_times
from benchmarks.footers import Far, batch_of
from benchmarks.measuring import written
from benchmarks.peers import PEERS, shifts
from benchmarks.slow_link import slow_link
from benchmarks.workloads import Totals, Workload
from scripts import interop_env


def test_peers_that_fit_into_memory_take_turns_together() -> None:
    assert [len(shift) for shift in shifts(list(PEERS), 1000.0)] == [len(PEERS)]
    assert list(shifts(["hudi", "hudi-v6"], 1.0)) == [["hudi"], ["hudi-v6"]]
    packed = list(shifts(list(PEERS), 20.0))
    assert [name for shift in packed for name in shift] == list(PEERS)
    assert all(sum(PEERS[name].gib for name in shift) <= 20.0 for shift in packed)


def test_command_line() -> None:
    given = harness.parse("x", "y", workloads=["a", "b"], default=["a"], peers=["p"], arguments=[])
    assert given == harness.Wanted(("a",), None, 5, dry=False)
    words = ["--workload", "b", "--peer", "p", "--runs", "2", "--dry"]
    given = harness.parse("x", "y", workloads=["a", "b"], default=["a"], peers=["p"], arguments=words)
    assert given == harness.Wanted(("b",), ("p",), 2, dry=True)


def test_data_files_are_told_from_metadata() -> None:
    after = {
        "day=1/a.parquet": (10, 1),
        ".hoodie/x.parquet": (5, 1),
        "_indices/p.lance": (3, 1),
        "data/b.lance": (7, 1),
        "old.parquet": (9, 0),
    }
    new = written({"old.parquet": (9, 0)}, after)
    assert (new.data_files, new.data_bytes, new.other_bytes) == (2, 17, 8)


def test_import_times_are_summed_by_package() -> None:
    text = (
        "import time: self [us] | cumulative | imported package\n"
        "import time:       100 |        100 |   _io\n"
        "import time:      2000 |       2100 |     numpy.core\n"
        "import time:      1000 |       3100 |   numpy\n"
        "something else\n"
    )
    assert import_times(text) == {"numpy": 3.0, "_io": 0.1}


def test_far_batch_has_stored_and_new_keys_of_the_newest_files() -> None:
    far = Far(40, 50, 100)
    batch = batch_of(far)
    numbers = pc.utf8_slice_codeunits(batch["id"], 4).cast("int64").to_numpy()
    assert batch.num_rows == len(set(numbers)) == 100
    assert sum(numbers % 2 == 0) == 80
    assert (numbers % 1_000_000_000 >= 2 * (far.rows_a_day - far.rows)).all()
    assert footers.WORKLOADS["far_2000"].files == 2_000


def test_batches_in_a_row_update_other_rows_and_insert_other_keys() -> None:
    wanted = Workload("T_mono", Path(), 20_000, 1_000, 12, Totals(0, 0, 0, 0))
    batches = [metadata.batch_of(wanted, number) for number in (0, 1)]
    assert batches[0] == metadata.batch_of(wanted, 0)
    numbers = [pc.utf8_slice_codeunits(batch["id"], 4).cast("int64").to_numpy() for batch in batches]
    assert [len(set(found)) for found in numbers] == [1_000, 1_000]
    assert [sorted(found[found >= 20_000]) for found in numbers] == [
        list(range(20_000, 20_200)),
        list(range(20_200, 20_400)),
    ]
    assert min(found.min() for found in numbers) >= 14_000  # of the newest six days
    assert len(set(numbers[0]) & set(numbers[1])) < 300
    assert pc.min(batches[1]["ts"]).as_py() >= pc.max(batches[0]["ts"]).as_py()


class _Hello(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = b"x" * 1_000_000
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Hello) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


def test_slow_link_delays_each_request_and_loses_nothing(server: str) -> None:
    with slow_link(server, 0.05) as link:
        connection = http.client.HTTPConnection(link.endpoint.removeprefix("http://"))
        for _ in range(3):
            started = time.perf_counter()
            connection.request("GET", "/")
            assert len(connection.getresponse().read()) == 1_000_000
            assert time.perf_counter() - started >= 0.05
        connection.close()
        assert link.requests == 3


def test_jar_that_is_not_what_was_pinned_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = environment.JARS["delta-storage"]

    def fetch(_mvn: str, jar: interop_env.Jar, folder: Path) -> None:
        (folder / jar.name).write_bytes(b"something else")

    monkeypatch.setattr(interop_env.shutil, "which", lambda _: "maven")
    monkeypatch.setattr(interop_env, "_fetch_with_maven", fetch)
    with pytest.raises(interop_env.SetupError, match="not installed"):
        interop_env.fetch_jar(wanted, tmp_path)
    assert not (tmp_path / "jars" / wanted.name).exists()
