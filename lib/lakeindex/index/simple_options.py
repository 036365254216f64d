"""Options of GLOBAL_SIMPLE."""

from __future__ import annotations

from typing import Final

from lakeindex.frozen import Frozen
from lakeindex.options.option import FLAG, Option, OptionArea, flag


class SimpleOptions(Frozen):
    """How the simple index treats a key of another partition."""

    moves_rows: bool = True


# A table of options, not code: the formatter would give each argument a line.
# fmt: off
AREA: Final = OptionArea(
    "GLOBAL_SIMPLE",
    SimpleOptions,
    (
        Option("hoodie.simple.index.update.partition.path", "moves_rows", flag, FLAG,
               "GLOBAL_SIMPLE, if a stored key arrives with another partition: "
               "`true` moves the row to that partition, `false` updates the row in its present partition."),
    ),
)
# fmt: on
