"""Shared by all tests: Hypothesis profiles, what makes them fast, one Spark session for those that are marked ``spark``."""

from __future__ import annotations

import atexit
import gc
import logging
import os
import re
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.scheduling import leave_to_slow, make_scheduler, whose_turn_it_is

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.remote import Producer
    from xdist.scheduler import LoadFileScheduling

# Examples are the same in every run, so that a red run is the change's doing; `HYPOTHESIS_PROFILE=explore` looks
# further. No deadlines: two cores are shared with other tests, and first calls compile.
settings.register_profile(
    "default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("ci", settings.get_profile("default"))
# A seeded bug is caught by the first example that fails: which is the simplest one is nobody's question.
settings.register_profile(
    "mutants", settings.get_profile("default"), phases=[Phase.explicit, Phase.generate], print_blob=False
)
settings.register_profile(
    "explore", settings.get_profile("default"), derandomize=False, max_examples=2_000
)  # make test-long: other examples each time; a red run prints how to play its example again
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# Folders of tests are in memory where there is room: a fifth of their CPU is the disk's else, and Airflow's database syncs.
MEMORY = Path("/dev/shm")
ROOM = 4 << 30  # bytes free; `make test` holds a tenth of it at once
if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
    if "TMPDIR" not in os.environ:  # a property's folders, and a run's: of workers and of what tests start, too
        os.environ["TMPDIR"] = tempfile.tempdir = tempfile.mkdtemp(prefix="lakeindex-tests-", dir=MEMORY)
        os.chmod(tempfile.tempdir, 0o1777)  # noqa: PTH101 - as /tmp: some tests are another user for a while
        atexit.register(lambda path, me: me == os.getpid() and shutil.rmtree(path, True), tempfile.tempdir, os.getpid())


_ONLY_LEAVES_OUT = re.compile(r"not \((\w+(?: or \w+)*)\)")
_MARKS = re.compile(r"^pytestmark = (.*)$", re.MULTILINE)


def is_left_out(module: Path, marks: str) -> bool:
    """A module whose ``pytestmark`` has one of the marks that ``-m "not (A or B)"`` leaves out: it need not be imported."""
    expression = _ONLY_LEAVES_OUT.fullmatch(marks)
    found = _MARKS.search(module.read_text(encoding="utf-8")) if expression else None
    if expression is None or found is None:
        return False
    return not set(re.findall(r"pytest\.mark\.(\w+)", found[1])).isdisjoint(expression[1].split(" or "))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Modules of which no test is chosen, and folders of only such modules with their conftest."""
    modules = sorted(collection_path.rglob("test_*.py")) if collection_path.is_dir() else [collection_path]
    if collection_path.suffix not in ("", ".py") or not modules or not config.option.markexpr:
        return None
    return all(is_left_out(module, config.option.markexpr) for module in modules) or None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Thousands of items and modules stay to the end: the garbage collector need not look at them again and again.

    Nobody may call ``gc.unfreeze`` afterwards: every full collection takes half a second then, to the end of the process.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        atexit.register(gc.unfreeze)  # modules in C look for what was left at the end of the process


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    leave_to_slow(items)
    share = int(os.environ.get("LAKEINDEX_IN_TURNS", "1"))
    if share > 1:
        chosen = whose_turn_it_is(items, share)
        config.hook.pytest_deselected(items=[*frozenset(items).difference(chosen)])
        items[:] = chosen


def pytest_unconfigure() -> None:
    """What is logged while the process ends (py4j's connections do) would go to streams that pytest has closed by then:
    Airflow's handlers have them. PySpark leaves its JVM to the end of the process, too.
    """
    logging.raiseExceptions = False
    atexit.register(warnings.simplefilter, "ignore", ResourceWarning)  # pytest puts its own filters back


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """What shares an Airflow or a JVM is played by one worker."""
    return make_scheduler(config, log)


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    """``fsync`` in this process checks its descriptor and returns: no test cuts the machine's own power.

    What is synced, and when, is seen by tests that put their own ``fsync`` in its place, and by the model's stores.
    """
    if os.environ.get("LAKEINDEX_TESTS_SYNC"):
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)
        yield


@pytest.fixture(scope="session", autouse=True)
def home_of_golden_tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Where ``tests/golden.py`` keeps what it copies."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAKEINDEX_TESTS_GOLDEN", str(tmp_path_factory.getbasetemp()))
        yield


@pytest.fixture
def time_leaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who sleeps by the library's clock wakes at once, and it is that much later: others who stand still are waited for so."""
    from lakeindex.timeline.clock import SystemClock

    slept = 0

    def sleep(_: SystemClock, seconds: float) -> None:
        nonlocal slept
        slept += round(seconds * 1_000)

    monkeypatch.setattr(SystemClock, "sleep", sleep)
    monkeypatch.setattr(SystemClock, "now_ms", lambda _: time.time_ns() // 1_000_000 + slept)


@pytest.fixture
def spark() -> SparkSession:
    """A small local session; the process has one, which is made anew after somebody stopped it."""
    from pyspark.sql import SparkSession

    from lakeindex.runners.java import find_java_home
    from lakeindex.runners.spark_settings import FAST_WORKERS

    os.environ.setdefault("JAVA_HOME", str(find_java_home()))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder
    for key, value in FAST_WORKERS.items():  # the session of all tests of this process, of the runner's too
        builder = builder.config(key, value)
    return (
        builder.master("local[2]")
        .appName("lakeindex tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.log.level", "WARN")
        .getOrCreate()
    )
