"""Catalogs by name: ``glue://database/table``, ``hive://host:port/database/table`` (``hives://`` with TLS), and those
that options name.
"""

from __future__ import annotations

import re
from contextlib import closing
from typing import Final

from msgspec.structs import replace

from lakeindex.catalogs.catalog import Catalog, CatalogTable, is_of_hudi
from lakeindex.errors import OptionError, TableNotFoundError, TableUnsupportedError
from lakeindex.frozen import Frozen
from lakeindex.options.sync_options import CatalogKind, SyncOptions
from lakeindex.storage.paths import place_of_location, with_one_scheme

_URL: Final = re.compile(r"(?P<kind>glue|hive|hives)://(?P<rest>.*)", re.IGNORECASE | re.DOTALL)
_NAMES: Final = 2
_FORMS: Final = {
    CatalogKind.GLUE: ("glue://database/table", "glue://database"),
    CatalogKind.HIVE: ("hive://host:port/database/table", "hive://host:port/database"),
}


class CatalogUrl(Frozen):
    """A place in a catalog.

    Attributes:
        above: URL of the database.
        table: None: the whole database.
    """

    catalog: Catalog
    above: str
    database: str
    table: str | None

    def held(self) -> CatalogTable:
        """The entry of the table. Raises: TableNotFoundError, OptionError: no table is named."""
        if self.table is None:
            raise OptionError(
                f"{self.database!r} is a database", culprit=self.database, hint=f"write {_FORMS[self.kind][0]}"
            )
        found = self.catalog.table(self.database, self.table)
        if found is None:
            raise TableNotFoundError(
                f"{self.kind} knows no table {self.database}.{self.table}",
                culprit=f"{self.database}.{self.table}",
                hint=f"`lakeindex tables {self.above}` lists those that it knows; a new table is created in its "
                "folder, and then synced",
            )
        return found

    @property
    def kind(self) -> CatalogKind:
        return self.catalog.kind


def open_catalog(kind: CatalogKind, options: SyncOptions) -> Catalog:
    """A catalog, as options and environment say where it is. Raises: UsageError: its package is not installed."""
    if kind is CatalogKind.GLUE:
        from lakeindex.catalogs.glue import glue_catalog

        return glue_catalog(options)
    from lakeindex.catalogs.hive import hive_catalog

    return hive_catalog(options)


def is_catalog_url(place: object) -> bool:
    """Whether this is a place in a catalog, and not a path or the URL of a store."""
    return isinstance(place, str) and _URL.match(place) is not None


def catalog_url(text: str) -> CatalogUrl:
    """What the URL of a catalog names. Raises: OptionError: it has too many parts, or too few."""
    found = _URL.match(text)
    scheme = found["kind"].lower() if found is not None else "glue"
    kind = CatalogKind(scheme.removesuffix("s"))
    parts = (found["rest"] if found is not None else "").rstrip("/").split("/")
    options, named = SyncOptions(), parts
    if kind is CatalogKind.HIVE:
        options, named = replace(options, metastore=f"thrift://{parts[0]}", hive_tls=scheme == "hives"), parts[1:]
    if not 1 <= len(named) <= _NAMES or not all(parts):
        raise OptionError(
            f"{text!r} names no table of a catalog", culprit=text, hint=f"write {' or '.join(_FORMS[kind])}"
        )
    above = f"{scheme}://{'/'.join(parts[: len(parts) - len(named) + 1])}"
    table = named[1].lower() if len(named) > 1 else None
    return CatalogUrl(open_catalog(kind, options), above, named[0].lower(), table)


def located(place: str) -> str:
    """Where a table is: a path or URL as it is, of a table in a catalog what the catalog says.

    Raises:
        TableNotFoundError: the catalog knows no such table.
        TableUnsupportedError: it says no place.
    """
    if not is_catalog_url(place):
        return place
    url = catalog_url(place)
    with closing(url.catalog):
        held = url.held()
    if not held.location:
        raise TableUnsupportedError(
            f"{held.full_name} has no place in the catalog: it is a view, or of another kind",
            culprit=place,
            hint="name a table that a sync made",
        )
    return with_one_scheme(place_of_location(held.location))


def located_tables(place: str) -> list[str]:
    """Where the Hudi tables of a catalog's database are, or the one table that is named."""
    url = catalog_url(place)
    with closing(url.catalog):
        held = url.catalog.tables(url.database) if url.table is None else (url.held(),)
        return sorted({place_of_location(one.location) for one in held if one.location and is_of_hudi(one)})
