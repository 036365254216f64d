"""Which steps the Spark runner gives to executors."""

from typing import Any, cast

from lakeindex.options.types import WriteConfig
from lakeindex.runners.spark import SparkRunner
from lakeindex.tasks.local_runner import LocalRunner
from lakeindex.tasks.runner import for_work


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
