"""A table in a notebook: what it is, from its properties and the names of its instants."""

from __future__ import annotations

from lakeindex.commands.look.history import iso_time
from lakeindex.commands.written_slices import open_at
from lakeindex.errors import LakeIndexError
from lakeindex.notebook import facts_html
from lakeindex.table.columns import table_schema


def table_html(uri: str) -> str:
    """The table as HTML: a few reads, none of a base file unless only those say the columns.

    A table that cannot be opened says why: showing it in a notebook raises nothing.
    """
    try:
        table = open_at(uri)
        timeline = table.load_timeline()
        index, last = table.index(timeline), timeline.last_completed_write_time
        columns = [f"{column.name} {column.type}" for column in table_schema(table, table.snapshot())]
    except LakeIndexError as error:
        return facts_html(uri, {"error": error.message, "what to do": error.hint})
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
    return facts_html(table.name, facts)
