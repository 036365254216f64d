"""Options of STATE."""

from __future__ import annotations

from typing import Final

from lakeindex.frozen import Frozen
from lakeindex.model import GLOBAL_OPTION
from lakeindex.options.option import FLAG, Option, OptionArea, days, flag, some_text, whole


class StateOptions(Frozen):
    """What a state holds, and where it is."""

    is_global: bool | None = None
    ttl_days: float | None = None
    folder: str | None = None
    partitions: int = 8


# A table of options, not code: the formatter would give each argument a line.
# fmt: off
AREA: Final = OptionArea(
    "STATE",
    StateOptions,
    (
        Option(GLOBAL_OPTION, "is_global", flag, FLAG,
               "STATE: a key is unique in the whole table (`true`) or in its partition (`false`). Bound.",
               True, "true"),
        Option("index.state.ttl", "ttl_days", days, "days, 0 or more (0: keys never expire)",
               "STATE: time to live. A key that was not inserted or moved for this long expires from the state and is "
               "then looked up in the files. Bound.", True, "0.0"),
        Option("lakeindex.state.folder", "folder", some_text, "a path or URL Spark can write to",
               "STATE: folder in which a new state is created. Default: "
               "a folder inside the table, if the table is on a local file system."),
        Option("lakeindex.state.partitions", "partitions", whole(1, 10_000), "1 .. 10000",
               "STATE: number of partitions of a new state. It cannot be changed for an existing state."),
    ),
)
# fmt: on
