"""A table in a notebook: what it is, from its properties and the names of its instants; a scan: its first rows."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from lakeindex.errors import LakeIndexError
from lakeindex.operations.look.history import iso_time
from lakeindex.showing.facts import facts_of
from lakeindex.showing.notebook import Screen
from lakeindex.showing.results import show_rows
from lakeindex.table.handle import Table
from lakeindex.table.table_columns import table_schema


def show_table(screen: Screen, uri: str) -> None:
    """The table: a few reads, none of a base file unless only those say the columns.

    A table that cannot be opened says why: showing it in a notebook raises nothing.
    """
    try:
        table = Table.at(uri)
        timeline = table.load_timeline()
        index, last = table.index(timeline), timeline.last_completed_write_time
        columns = [f"{column.name} {column.type}" for column in table_schema(table, table.snapshot())]
    except LakeIndexError as error:
        screen.print(facts_of(uri, {"error": error.message, "what to do": error.hint}))
        return
    properties = table.properties
    facts = {
        "where": table.uri,
        "record key": properties.key_fields,
        "partitions": properties.partition_fields,
        "ordering": properties.ordering_fields,
        "index": None if index is None else str(index.index_type),
        "last commit": None if last is None else f"{last} ({iso_time(table, last)})",
        "columns": tuple(columns),
    }
    screen.print(facts_of(table.name, facts))


def show_first_rows(screen: Screen, head: Callable[[], pa.Table]) -> None:
    """Rows that a scan finds first; one that finds none, or cannot be done, says so."""
    try:
        rows = head()
    except LakeIndexError as error:
        screen.print(facts_of(type(error).__name__, {"error": error.message, "what to do": error.hint}))
        return
    if rows.num_rows:
        show_rows(screen, rows.column_names, rows.to_pylist())
    screen.print(f"the first {rows.num_rows:,} rows that are found" if rows.num_rows else "no rows")
