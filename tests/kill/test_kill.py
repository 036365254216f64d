"""kill -9 at random times: the next run needs no hand, nothing is lost, nothing is doubled.

Each round upserts a batch in a process of its own and kills it at a random moment of the time that a whole run takes. Then
the same batch is run again, to the end, and the table is compared with a dictionary. Seeds are fixed; a failure names
its round.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lakeindex.api.table import LakeTable
from lakeindex.pipeline import Stage
from tests.builders import Oracle, Row, batch_of, content_of, make_table

pytestmark = pytest.mark.kill

ROOT = Path(__file__).parents[2]
LOCAL = "import sys; from lakeindex.cli import main; sys.argv[0] = 'lakeindex'; main()"
LOCAL_ROUNDS = 12
JOB_ROUNDS = 1


def batch_file(folder: Path, number: int, rng: random.Random) -> tuple[Path, list[Row]]:
    """A batch of updates, inserts and deletes."""
    rows = [
        Row(f"k{rng.randrange(6000):05d}", f"d{rng.randrange(3)}", number, f"{number}", deleted=rng.random() < 0.1)
        for _ in range(3000)
    ]
    path = folder / f"batch-{number:03d}.parquet"
    pq.write_table(batch_of(rows), path)
    return path, rows


def started(command: list[str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)


def kill_after(process: "subprocess.Popen[bytes]", seconds: float) -> bool:
    """Kill the process and its children; False if it had ended before."""
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return True
    process.communicate()
    return False


def finished(command: list[str]) -> bytes:
    process = started(command)
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, (out[-2000:], err[-4000:])
    return out


@pytest.mark.timeout(900)
def test_kill_local_runner_at_random_times(tmp_path: Path):
    rng = random.Random(20130101)
    table, oracle = make_table(tmp_path / "t"), Oracle()
    whole, killed = 3.0, 0
    for number in range(LOCAL_ROUNDS):
        path, rows = batch_file(tmp_path, number, rng)
        command = [sys.executable, "-c", LOCAL, "upsert", table.uri, str(path), "--batch-id", f"b{number}", "--json"]
        if number:
            killed += kill_after(started(command), rng.uniform(0.2, 1.1) * whole)
        begun = time.monotonic()
        summary = json.loads(finished(command))
        whole = time.monotonic() - begun
        oracle.apply(rows)
        assert summary["instant"], f"round {number}"
        assert content_of(table) == oracle.content(), f"round {number}"
    report = table.check()
    assert report.ok, report.violations
    assert killed > LOCAL_ROUNDS // 2


@pytest.mark.timeout(900)
def test_kill_a_rescaling_at_random_times(tmp_path: Path):
    rng = random.Random(2026)
    table, oracle = (
        make_table(tmp_path / "t", hoodie__index__type="BUCKET", hoodie__bucket__index__num__buckets="4"),
        Oracle(),
    )
    path, rows = batch_file(tmp_path, 1, rng)
    table.upsert(str(path))
    oracle.apply(rows)
    whole, killed = 2.0, 0
    for number, count in enumerate((16, 3, 7, 32, 1, 12, 5, 24), start=2):
        command = [sys.executable, "-c", LOCAL, "rescale", table.uri, "--buckets", str(count), "--json"]
        killed += kill_after(started(command), rng.uniform(0.3, 1.0) * whole)
        if number % 3 == 0:  # a batch finds the dead rescaling, before anybody goes on with it
            path, rows = batch_file(tmp_path, number, rng)
            table.upsert(str(path), batch_id=f"b{number}")
            oracle.apply(rows)
        begun = time.monotonic()
        done = json.loads(finished(command))
        whole = max(time.monotonic() - begun, 1.0)
        assert done["instant"] or done["noop"], f"round {number}"
        assert content_of(table) == oracle.content(), f"round {number}"
        path, rows = batch_file(tmp_path, 100 + number, rng)
        table.upsert(str(path), batch_id=f"b{100 + number}")
        oracle.apply(rows)
        assert content_of(table) == oracle.content(), f"round {number}, upserted"
    report = table.check()
    assert report.ok, report.violations
    assert killed > 3


@pytest.mark.timeout(900)
def test_kill_maintenance_at_random_times(tmp_path: Path):
    """Cleans and archivings are killed between upserts; no row goes, and in the end only what was asked for is there."""
    rng = random.Random(8)
    table, oracle = make_table(tmp_path / "t"), Oracle()
    keep = ["-o", "hoodie.cleaner.commits.retained=1", "-o", "hoodie.keep.min.commits=2"]
    command = [sys.executable, "-c", LOCAL, "maintain", table.uri, "--steps", "clean,archive", *keep, "--json"]
    whole, killed = 2.0, 0
    for number in range(8):
        path, rows = batch_file(tmp_path, number, rng)
        table.upsert(str(path), batch_id=f"b{number}")
        oracle.apply(rows)
        killed += kill_after(started(command), rng.uniform(0.5, 1.0) * whole)
        assert content_of(table) == oracle.content(), f"round {number}"
        if number % 2:
            begun = time.monotonic()
            finished(command)
            whole = time.monotonic() - begun
            assert content_of(table) == oracle.content(), f"round {number}, maintained"
    report = table.check()
    assert report.ok, report.violations
    assert len(list((tmp_path / "t/.hoodie").glob("*.commit"))) == 2
    assert killed > 2


def job_command(stage: Stage, table: LakeTable, path: Path, number: int) -> list[str]:
    arguments = ["--table", table.uri, "--checkpoints", f"{table.uri}.runs", "--run-id", f"r{number}"]
    arguments += ["--batch-id", f"b{number}", "--input", str(path)]
    return [sys.executable, str(ROOT / "jobs" / f"{stage}.py"), *arguments]


@pytest.mark.timeout(1200)
def test_kill_every_job_at_random_times(tmp_path: Path):
    rng = random.Random(2013)
    table, oracle = make_table(tmp_path / "t"), Oracle()
    base, rows = batch_file(tmp_path, 999, rng)
    table.upsert(str(base))
    oracle.apply(rows)
    for number in range(1000, 1000 + JOB_ROUNDS):
        path, rows = batch_file(tmp_path, number, rng)
        oracle.apply(rows)
        for stage in Stage:
            command = job_command(stage, table, path, number)
            # Java and the session take seconds; the stage's own work comes at the end.
            kill_after(started(command), rng.uniform(3.0, 10.0))
            finished(command)
        assert content_of(table) == oracle.content(), f"round {number}"
    report = table.check()
    assert report.ok, report.violations
