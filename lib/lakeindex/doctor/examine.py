"""All checks, one after the other."""

from __future__ import annotations

from collections.abc import Iterator

from lakeindex.doctor.airflow_connection import check_connection
from lakeindex.doctor.findings import Check, Diagnosis
from lakeindex.doctor.machine import check_java, check_memory, check_spark_starts, check_submit
from lakeindex.doctor.packages import check_packages, check_python, installed_version
from lakeindex.doctor.place import check_place


def examine(uri: str | None = None, *, spark: bool = False, write: bool = False) -> Diagnosis:
    """Look at the environment, and at a table's place.

    Args:
        uri: a table's folder, which need not be there yet.
        spark: also start Spark.
        write: also write, list and delete a probe below ``uri``.
    """
    return Diagnosis(tuple(_checks(uri, spark=spark, write=write)))


def _checks(uri: str | None, *, spark: bool, write: bool) -> Iterator[Check]:
    pyspark = installed_version("pyspark")
    yield check_python()
    yield from check_packages()
    yield check_java(pyspark)
    for check in (check_submit(pyspark), check_connection()):
        if check is not None:
            yield check
    yield check_memory()
    if spark:
        yield check_spark_starts()
    if uri is not None:
        yield from check_place(uri, write=write)
