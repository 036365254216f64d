"""Where a repair keeps what it removes or replaces: ``<table>.repaired/<time>`` beside the table, until somebody says
that it may go. A note in the table says that a repair is under way, and what is left to be built at its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Final

from msgspec.structs import replace

from lakeindex.errors import ObjectNotFoundError, UsageError
from lakeindex.format.instants import instant_time_of
from lakeindex.frozen import Frozen
from lakeindex.metadata.metadata_table import MetadataTable
from lakeindex.pipeline import KEPT_ENDING
from lakeindex.showing.json_result import TableResult
from lakeindex.storage import in_parallel, remove_empty_folders, sync_folders
from lakeindex.storage.port import Storage
from lakeindex.table.handle import Table
from lakeindex.table.host import Host
from lakeindex.table.properties import metadata_table_of
from lakeindex.tasks.stores import storage_at
from lakeindex.timeline import records

NOTE: Final = f"{records.OWN_FOLDER}/repair.json"
PLAN: Final = "repair.json"
"""What was going to be done, in the folder of what is kept."""


class Kept(Frozen):
    """What one repair keeps.

    Attributes:
        uri: its folder.
        partitions: of the metadata table, to be there again at the end.
    """

    table: Storage
    uri: str
    partitions: tuple[str, ...] = ()

    @staticmethod
    def unfinished(storage: Storage) -> Kept | None:
        """That of a repair that was cut short; None if there is none."""
        noted = records.load(storage, NOTE)
        return Kept(storage, noted["kept"], tuple(noted["partitions"])) if noted else None

    @staticmethod
    def begin(table: Table, host: Host, partitions: Sequence[str], plan: str) -> Kept:
        """That of a repair that begins now, or goes on. Nothing was changed before.

        Args:
            partitions: of the metadata table, which is going to be built anew.
            plan: what is going to be done, as JSON text.
        """
        storage = table.storage
        before = Kept.unfinished(storage)
        uri = f"{root_of(table.uri)}/{instant_time_of(host.clock.now_ms())}" if before is None else before.uri
        wanted = tuple(dict.fromkeys((*(() if before is None else before.partitions), *partitions)))
        kept = Kept(storage, uri, wanted)
        records.put(storage, NOTE, records.encode({"kept": uri, "partitions": list(wanted)}))
        storage.sync([NOTE])  # before the folder is there, which would be discarded without it
        kept.put(PLAN, plan.encode())
        return kept

    @staticmethod
    def outside(table: Table, host: Host) -> Kept:
        """That of a repair that is no more than one step: no note is needed."""
        return Kept(table.storage, f"{root_of(table.uri)}/{instant_time_of(host.clock.now_ms())}")

    def copy(self, paths: Iterable[str]) -> None:
        """Keep objects of the table as they are; one that is not there needs no keeping."""
        in_parallel(self.uri, self._copy, paths)

    def read(self, path: str) -> bytes | None:
        """What is kept of an object of the table; None if nothing is."""
        try:
            return storage_at(self.uri).read(path)
        except ObjectNotFoundError:
            return None

    def metadata_table(self, table: Table) -> MetadataTable | None:
        """The metadata table that was taken away; None if none was."""
        return metadata_table_of(storage_at(self.uri), replace(table.properties, metadata_partitions=self.partitions))

    def put(self, path: str, data: bytes) -> None:
        """Put an object there, for good."""
        store = storage_at(self.uri)
        records.put(store, path, data)
        store.sync([path])

    def remove(self, paths: Iterable[str]) -> None:
        """Keep objects of the table, and remove them there."""
        listed = list(paths)
        self.copy(listed)
        records.remove(self.table, listed)

    def end(self) -> None:
        """Nothing is left to be done. A note that came back would send the next repair to what this one has kept."""
        records.remove(self.table, [NOTE])
        sync_folders(self.table, [records.OWN_FOLDER])

    def _copy(self, path: str) -> None:
        if self.read(path) is not None:
            return  # a repair that was cut short has kept it: what is there since may be torn
        try:
            data = self.table.read(path)
        except ObjectNotFoundError:
            return
        self.put(path, data)


def root_of(uri: str) -> str:
    """The folder beside a table in which repairs keep what they took out of it."""
    return f"{uri.rstrip('/')}{KEPT_ENDING}"


class RepairDiscarded(TableResult):
    """What repairs had kept, and is kept no longer.

    Attributes:
        dry_run: nothing was removed.
        folder: the folder beside the table.
        repairs: the repairs, by the names of their folders, oldest first.
        files: objects that went, or would go.
        bytes: their size.
    """

    shown_by: ClassVar[str] = "results:show_discarded"

    dry_run: bool
    folder: str
    repairs: tuple[str, ...]
    files: int
    bytes: int


def discard_kept(uri: str, repair: str | None = None, *, dry_run: bool = False) -> RepairDiscarded:
    """Remove what repairs of a table have kept.

    Args:
        repair: only that of one; by default of all.

    Raises:
        TableError: no table.
        UsageError: there is no such repair, or it is not at its end.
    """
    table = Table.at(uri)
    root = root_of(table.uri)
    store = storage_at(root)
    there = tuple(folder.strip("/") for folder in store.list_folder("").folders)
    if repair is not None and repair not in there:
        raise UsageError(
            f"no repair of {table.name} has kept anything under {repair!r}",
            culprit=repair,
            hint=f"there are: {', '.join(there) or 'none'}",
        )
    before = Kept.unfinished(table.storage)
    going = there if repair is None else (repair,)
    if before is not None and before.uri.rpartition("/")[2] in going:
        raise UsageError(
            f"the repair {before.uri} was cut short, and needs what it has kept",
            culprit=before.uri,
            hint="`lakeindex repair TABLE --apply` finishes it",
        )
    found = [one for folder in going for one in store.list(folder)]
    if not dry_run:
        records.remove(store, [one.path for one in found])
        for folder in going:
            remove_empty_folders(store, folder)
    return RepairDiscarded(
        table.name, table.uri, dry_run, root, going, len(found), sum(one.size_bytes for one in found)
    )
