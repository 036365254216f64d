"""Find tables from Python."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakeindex.api.batch_data import uri_text
from lakeindex.errors import door
from lakeindex.storage.options import StoreOptions, using

if TYPE_CHECKING:
    from lakeindex.operations.look.find_tables import TablesFound


@door
def find_tables(
    uri: str | os.PathLike[str],
    *,
    depth: int = 3,
    size: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> TablesFound:
    """Find the Hudi tables below a folder, and what properties and timelines say of them. No base file is read.

    >>> import lakeindex
    >>> import pyarrow as pa
    >>> columns = pa.schema([("id", pa.string()), ("ts", pa.int64())])
    >>> made = lakeindex.create_table("shop/customers", columns, key="id", ordering="ts", index="RECORD_INDEX")
    >>> [(one.name, one.version, one.index_type, one.health.value) for one in find_tables("shop").tables]
    [('customers', 6, 'RECORD_INDEX', 'ok')]

    A folder with ``.hoodie`` is a table, and is not looked into. Nor are hidden folders, run folders
    (``*.lakeindex``), folders of partitions (``name=value``) and tables of other formats. At most 1,000 folders are
    listed; ``complete`` says whether those were all. A table that cannot be opened has ``health`` ``broken`` and says
    why in ``findings``: it holds nobody up.

    Args:
        uri: a folder (or a table), a path or URL; or the database of a catalog, ``glue://database``: its Hudi tables.
        depth: how many levels below it tables may be.
        size: count live files and their bytes, too: as a metadata table names them, else by listing the folder of
            every partition.
        storage_options: as of :func:`lakeindex.open_table`.

    Raises:
        OptionError: a depth below 0.
        InputError: there is nothing at this place.
    """
    from lakeindex.operations.look.find_tables import find_tables as find

    with using(StoreOptions.of(storage_options)):
        return find(uri_text(uri), depth=depth, size=size)
