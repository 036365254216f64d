"""Options of SQLITE."""

from __future__ import annotations

from typing import Final

from lakeindex.frozen import Frozen
from lakeindex.options.option import FLAG, Option, OptionArea, flag, some_text


class SqliteOptions(Frozen):
    """Where the databases are, and what happens to a key that arrives with another partition."""

    folder: str | None = None
    moves_rows: bool = False


AREA: Final = OptionArea(
    "SQLITE",
    SqliteOptions,
    (
        Option(
            "lakeindex.sqlite.folder",
            "folder",
            some_text,
            "a local folder",
            "SQLITE: folder of the databases, which every task must see. Default: inside a table on a local disk.",
        ),
        Option(
            "lakeindex.sqlite.update.partition.path",
            "moves_rows",
            flag,
            FLAG,
            "SQLITE, if a stored key arrives with another partition: `true` moves the row, `false` updates it in place.",
        ),
    ),
)
