"""Shared by all tests: Hypothesis profiles and one Spark session for those that are marked ``spark``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A small local session; made once a worker process."""
    from pyspark.sql import SparkSession

    from lakeindex.runners.java import find_java_home

    os.environ.setdefault("JAVA_HOME", str(find_java_home()))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    session = (
        SparkSession.builder.master("local[2]")
        .appName("lakeindex tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.log.level", "WARN")
        .getOrCreate()
    )
    yield session
    session.stop()
