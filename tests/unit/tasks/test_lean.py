"""What processes of ours leave out at their start."""

import gc
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lakeindex.pipeline import Stage
from lakeindex.tasks import fast_start
from tests.builders import Row, batch_of, make_table

ROOT = Path(__file__).resolve().parents[3]
JOB = """
import runpy, sys
sys.argv = sys.argv[1:]
try: runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit as end: print(end.code, [name for name in ("pandas", "pyspark") if name in sys.modules])
"""

PROGRAM = """
import sys
import {first}
import pyarrow as pa
pa.array([1])
before = "pandas" in sys.modules
frame = pa.table({{"a": [1]}}).to_pandas()
print(before, type(frame).__module__.partition(".")[0])
"""


@pytest.mark.parametrize(
    ("first", "said"), [("lakeindex.runners.jobs", "False pandas"), ("lakeindex.api.table", "True pandas")]
)
def test_a_job_does_without_pandas_until_it_is_wanted(first: str, said: str) -> None:
    pytest.importorskip("pandas")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(first=first)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == said


def test_a_command_that_writes_does_without_pandas(tmp_path: Path) -> None:
    program = "import sys; from lakeindex.cli import main\ntry: main(['upsert', 'none', 'none.parquet'])\nexcept SystemExit as end: print(end.code, 'pandas' in sys.modules, 'pyarrow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split()[1:] == ["False", "True"]


@pytest.mark.slow
def test_jobs_load_neither_pandas_nor_spark_for_little_work(tmp_path: Path) -> None:
    make_table(tmp_path / "t")
    pq.write_table(batch_of([Row(f"k{n}", "x", 1, "v") for n in range(100)]), tmp_path / "b.parquet")
    words = [
        *("--table", str(tmp_path / "t"), "--checkpoints", str(tmp_path / "runs"), "--run-id", "r", "--batch-id", "b"),
        *("--input", str(tmp_path / "b.parquet")),
    ]
    loaded = []
    for stage in Stage:
        job = [sys.executable, "-c", JOB, str(ROOT / "jobs" / f"{stage}.py"), *words]
        done = subprocess.run(job, capture_output=True, text=True, check=True)
        loaded.append(done.stdout.splitlines()[-1])
    assert loaded == ["0 []"] * len(Stage)


def test_garbage_is_not_looked_for_among_modules() -> None:
    new, before = [[number] for number in range(100)], gc.get_freeze_count()
    fast_start.loaded()
    assert gc.get_freeze_count() >= before + len(new)


def test_what_is_not_installed_is_looked_for_once() -> None:
    program = (
        "import importlib.util, sys\n"
        "if sys.argv[1] == 'gone': importlib.util.find_spec = lambda name: None\n"
        "import lakeindex.tasks.fast_start\n"
        "print('dateutil' in sys.modules and sys.modules['dateutil'] is None)"
    )
    said = [
        subprocess.run([sys.executable, "-c", program, how], capture_output=True, text=True, check=True).stdout.strip()
        for how in ("gone", "there")
    ]
    assert said == ["True", "False"]
