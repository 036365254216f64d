"""SQLITE: locations in a SQLite database."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from lakeindex.errors import OptionError
from lakeindex.index.sqlite.options import SqliteOptions
from lakeindex.index.sqlite.store import SqliteStore
from lakeindex.index.stored.contract import StoredIndex
from lakeindex.index.stored.store_context import StoreContext
from lakeindex.model import IndexSpec
from lakeindex.options.types import WriteConfig


@dataclass(frozen=True, slots=True)
class SqliteIndex(StoredIndex):
    """The kind."""

    spec: IndexSpec

    def open(self, context: StoreContext) -> SqliteStore:
        """The store of a table. Raises: OptionError: the table is remote, and no folder is named."""
        return SqliteStore(context, _folder(context))

    def moves_rows(self, config: WriteConfig) -> bool:
        """As the option says."""
        return config.of(SqliteOptions).moves_rows


def make_index(spec: IndexSpec) -> SqliteIndex:
    """The kind."""
    return SqliteIndex(spec)


def _folder(context: StoreContext) -> Path:
    """The folder of a table's databases: SQLite needs a local file, wherever the table is."""
    named, uri = context.config.of(SqliteOptions).folder, context.storage.uri
    if named is not None:
        return Path(named) / context.table_name
    if urlsplit(uri).scheme in ("", "file"):
        return Path(urlsplit(uri).path) / context.view.folder
    raise OptionError(
        f"SQLite cannot keep a database in {uri!r}",
        culprit="lakeindex.sqlite.folder",
        hint="name a local folder that every task sees: -o lakeindex.sqlite.folder=/mnt/shared/indexes",
    )
