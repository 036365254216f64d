"""Catalogs by name: ``glue://database/table``, and those that options name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from lakeindex.catalogs.catalog import Catalog, CatalogTable, is_of_hudi
from lakeindex.errors import OptionError, TableNotFoundError, TableUnsupportedError
from lakeindex.options.sync_options import CatalogKind, SyncOptions

_URL: Final = re.compile(r"(?P<kind>glue)://(?P<rest>.*)", re.IGNORECASE | re.DOTALL)
_FORMS: Final = {
    CatalogKind.GLUE: ("glue://database/table", "glue://database"),
}


@dataclass(frozen=True, slots=True)
class CatalogUrl:
    """A place in a catalog.

    Attributes:
        table: None: the whole database.
    """

    catalog: Catalog
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
                hint=f"`lakeindex tables {self.kind}://...` lists those of a database",
            )
        return found

    @property
    def kind(self) -> CatalogKind:
        return self.catalog.kind


def open_catalog(kind: CatalogKind, options: SyncOptions) -> Catalog:
    """A catalog, as options and environment say where it is. Raises: UsageError: its package is not installed."""
    from lakeindex.catalogs.glue import glue_catalog

    return {CatalogKind.GLUE: glue_catalog}[kind](options)


def is_catalog_url(place: object) -> bool:
    """Whether this is a place in a catalog, and not a path or the URL of a store."""
    return isinstance(place, str) and _URL.match(place) is not None


def catalog_url(text: str, options: SyncOptions | None = None) -> CatalogUrl:
    """What the URL of a catalog names. Raises: OptionError: it has too many parts, or too few."""
    found = _URL.match(text)
    kind = CatalogKind((found["kind"] if found else "glue").lower())
    parts = (found["rest"] if found else "").rstrip("/").split("/")
    given = options or SyncOptions()
    if found is None or not 1 <= len(parts) <= 2 or not all(parts):
        raise OptionError(
            f"{text!r} names no table of a catalog", culprit=text, hint=f"write {' or '.join(_FORMS[kind])}"
        )
    return CatalogUrl(open_catalog(kind, given), parts[0].lower(), parts[1].lower() if len(parts) > 1 else None)


def located(place: str) -> str:
    """Where a table is: a path or URL as it is, of a table in a catalog what the catalog says.

    Raises:
        TableNotFoundError: the catalog knows no such table.
        TableUnsupportedError: it says no place.
    """
    if not is_catalog_url(place):
        return place
    held = catalog_url(place).held()
    if not held.location:
        raise TableUnsupportedError(
            f"{held.full_name} has no place in the catalog: it is a view, or of another kind",
            culprit=place,
            hint="name a table that a sync made",
        )
    return held.location


def located_tables(place: str) -> list[str]:
    """Where the Hudi tables of a catalog's database are, or the one table that is named."""
    url = catalog_url(place)
    held = url.catalog.tables(url.database) if url.table is None else (url.held(),)
    return sorted({one.location for one in held if one.location and is_of_hudi(one)})
