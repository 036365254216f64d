"""SQLITE: locations in SQLite databases, one a generation."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa

from lakeindex.errors import OptionError
from lakeindex.hashing.arrow import StringArray
from lakeindex.index.locations.change_log import read_changes
from lakeindex.index.locations.sqlite_options import SqliteOptions
from lakeindex.index.locations.store_context import StoreContext
from lakeindex.index.locations.stored_index import DELTA_SCHEMA, Found, StoredIndex
from lakeindex.model import IndexSpec
from lakeindex.options.types import WriteConfig

_TABLES = """
create table keys (key text primary key, partition text, file_id text);
create table applied (name text primary key);
create table voided (name text, key text);
"""
"""A key whose place is null is in doubt: it may be anywhere. Voided are keys that a delta's groups had before it."""


class SqliteStore:
    """Keys and their places."""

    def __init__(self, context: StoreContext, folder: Path) -> None:
        self._context, self._view, self._folder = context, context.view, folder

    def _path(self, generation: str | None) -> Path:
        return self._folder / f"sqlite-{generation}.db"

    @contextmanager
    def _open(self, generation: str | None) -> Iterator[sqlite3.Connection]:
        """A transaction; it is on disk when the block ends."""
        with closing(sqlite3.connect(self._path(generation))) as database, database:
            yield database

    def generation(self) -> str | None:
        """The generation in force, if its database is there."""
        return self._view.generation if self._path(self._view.generation).exists() else None

    def build(self, generation: str, entries: Iterable[pa.Table]) -> int:
        """A new database beside the old one."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._path(generation).unlink(missing_ok=True)
        with self._open(generation) as database:
            database.executescript(_TABLES)
            for table in entries:
                database.executemany("insert or replace into keys values (?, ?, ?)", _places(table))
            return int(database.execute("select count(*) from keys").fetchone()[0])

    def retire(self, keep: str | None) -> None:
        """Delete the databases of other generations."""
        for path in self._folder.glob("sqlite-*.db"):
            if path != self._path(keep):
                path.unlink(missing_ok=True)

    def drop(self) -> None:
        """Delete all of them."""
        self.retire(None)

    def behind(self, names: Sequence[str]) -> Sequence[str]:
        """Deltas that are not in the database."""
        with self._open(self._view.generation) as database:
            applied = {name for (name,) in database.execute("select name from applied")}
        return [name for name in names if name not in applied]

    def prepare(self, name: str) -> None:
        """Nothing is written before the commit."""

    def apply(self, names: Sequence[str]) -> None:
        """Take in deltas: each in one transaction, so that it is in the database whole or not at all."""
        for name in self.behind(names):
            delta, rows = read_changes(self._context.storage, self._view, name)
            with self._open(self._view.generation) as database:
                void = [*delta.gone, *delta.resets]
                of_group = "from keys where partition = ? and file_id = ?"
                database.executemany(f"insert into voided select ?, key {of_group}", [(name, *group) for group in void])
                database.executemany(f"delete {of_group}", void)
                places = _places(rows)
                database.executemany(
                    "delete from keys where key = ?", [(key,) for key, _, file_id in places if not file_id]
                )
                database.executemany("insert or replace into keys values (?, ?, ?)", [p for p in places if p[2]])
                database.execute("insert into applied values (?)", (name,))

    def undo(self, name: str) -> None:
        """A delta that was taken in does not count any more: its keys may be anywhere."""
        if name in self.behind([name]):
            return
        _, rows = read_changes(self._context.storage, self._view, name)
        with self._open(self._view.generation) as database:
            voided = database.execute("select key from voided where name = ?", (name,)).fetchall()
            doubted = {key for key, _, _ in _places(rows)} | {key for (key,) in voided}
            database.executemany("insert or replace into keys values (?, null, null)", [(key,) for key in doubted])
            database.execute("delete from voided where name = ?", (name,))
            database.execute("delete from applied where name = ?", (name,))

    def fold(self) -> str:
        """Deltas that were taken in need not be kept."""
        assert self._view.generation is not None  # only what is built is folded
        return self._view.generation

    def count(self) -> int | None:
        """Keys it holds; None while a key is in doubt, which may be stored or not."""
        with self._open(self._view.generation) as database:
            keys, places = database.execute("select count(*), count(file_id) from keys").fetchone()
        return int(keys) if keys == places else None

    def look_up(self, keys: StringArray, partition: str | None) -> Found:
        """Places of keys."""
        del partition  # a key is unique in the whole table
        with self._open(self._view.generation) as database:
            one = "select partition, file_id from keys where key = ?"
            held = [database.execute(one, (key,)).fetchone() for key in keys.to_pylist()]
        found = [row for row, place in enumerate(held) if place is not None and place[1] is not None]
        return Found(
            np.array(found, np.int64),
            pa.array([held[row][0] for row in found], pa.string()),
            pa.array([held[row][1] for row in found], pa.string()),
            np.array([row for row, place in enumerate(held) if place is not None and place[1] is None], np.int64),
        )

    def entries(self) -> Iterable[pa.Table]:
        """Everything, in one piece."""
        with self._open(self._view.generation) as database:
            rows = database.execute("select key, partition, file_id from keys where file_id is not null").fetchall()
        schema = pa.schema([DELTA_SCHEMA.field(n) for n in range(3)])
        yield pa.table([pa.array([row[n] for row in rows], pa.string()) for n in range(3)], schema=schema)


def _places(table: pa.Table) -> list[tuple[str, str, str | None]]:
    """Key, partition path and file id of each row of a delta."""
    return list(zip(*(table.column(n).to_pylist() for n in range(3)), strict=True))


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
