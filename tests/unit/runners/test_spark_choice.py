"""Which steps the Spark runner gives to executors."""

import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq

from lakeindex.options.types import WriteConfig
from lakeindex.runners.spark import SparkRunner
from lakeindex.tasks.local_runner import LocalRunner
from lakeindex.tasks.runner import for_work
from tests.builders import Row, batch_of, make_table


def test_the_driver_does_four_times_as_much_while_there_are_no_executors() -> None:
    config, started = WriteConfig(driver_bytes=100), []
    runner = SparkRunner(lambda: cast(Any, started.append(1)))
    assert isinstance(for_work(runner, 400, config), LocalRunner)
    assert for_work(runner, 401, config) is runner
    assert started == []

    assert (runner.session, started) == (None, [1])
    assert isinstance(for_work(runner, 100, config), LocalRunner)
    assert for_work(runner, 101, config) is runner
    given = SparkRunner(cast(Any, object()))
    assert for_work(given, 101, config) is given


def test_nothing_stays_on_the_driver_with_zero() -> None:
    runner = SparkRunner(lambda: cast(Any, None))
    assert for_work(runner, 1, WriteConfig(driver_bytes=0)) is runner


def test_threads_need_no_start() -> None:
    runner = LocalRunner()
    assert for_work(runner, 10**12, WriteConfig()) is runner


def test_without_pyspark_the_runner_says_what_to_install(tmp_path: Path) -> None:
    """By the command line, as who installed the library alone."""
    make_table(tmp_path / "t")
    pq.write_table(batch_of([Row("a", "x", 1, "1")]), tmp_path / "rows.parquet")
    program = (
        "import sys\nsys.modules['pyspark'] = None\nfrom lakeindex.cli import main\n"
        "main(['upsert', 't', 'rows.parquet', '--runner', 'spark'])"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "PySpark, which is not installed" in done.stderr
    assert "pip install 'lakeindex[spark]'" in done.stderr
    assert "LAKEINDEX_DEBUG" not in done.stderr
