"""Rows that are read in pieces, as a Spark DataFrame: each piece by one task, as every other reader reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def frame_of_pieces(
    session: SparkSession, pieces: int, read: Callable[[int], Iterator[pa.RecordBatch]], schema: pa.Schema
) -> DataFrame:
    """A DataFrame whose rows are read on the executors, whenever Spark asks for them.

    Args:
        pieces: how many there are.
        read: gives the rows of a piece by its number; it is pickled.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    numbers = session.range(0, pieces, 1, max(pieces, 1))
    return numbers.mapInArrow(partial(_read, read), from_arrow_schema(schema))


def _read(
    read: Callable[[int], Iterator[pa.RecordBatch]], numbers: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            yield from read(number)
