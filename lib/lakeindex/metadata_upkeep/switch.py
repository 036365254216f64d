"""The metadata table of a table as its properties have it: checked before a write, switched on, dropped.

Hudi's order for changing the properties (``HoodieTableConfig``): the new text to ``hoodie.properties.backup``, the old
``hoodie.properties`` goes, the new one is created, then the backup goes. Hadoop's checksum side files of both would be
stale and are deleted.

Readers use what the properties name. So what is dropped leaves the properties before its files go, and what is built is
whole before they name it. A note of ours, written first and removed last, makes both resumable after a kill at any
call; without it nothing of a metadata table is ever deleted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from lakeindex.errors import MetadataTableError, ObjectNotFoundError, TableCorruptError
from lakeindex.format.file_names import crc_path
from lakeindex.format.java_properties import format_properties, parse_properties, table_checksum
from lakeindex.metadata.indexed_columns import (
    DEFINITIONS_PATH,
    read_definitions,
    with_definition,
    without_definitions,
)
from lakeindex.metadata.metadata_table import FILES, METADATA_ROOT
from lakeindex.storage import remove_empty_folders, sync_folders
from lakeindex.storage.port import Storage
from lakeindex.table import property_keys as keys
from lakeindex.table.handle import Table
from lakeindex.table.properties import TableProperties, metadata_table_of
from lakeindex.table.property_keys import DEFINITIONS_PROPERTY, PROPERTIES_BACKUP_PATH, PROPERTIES_PATH
from lakeindex.timeline import records

INDEX_DEFINITIONS: Final = ".hoodie/.index_defs"
METADATA_FOLDERS: Final = (METADATA_ROOT, INDEX_DEFINITIONS)
NOTE: Final = f"{records.OWN_FOLDER}/dropping-metadata.json"
"""What is under way, building as well: earlier releases only dropped."""


_PARTITIONS: Final = keys.METADATA_PARTITIONS[0]


def drop_metadata(table: Table, partitions: Collection[str] = ()) -> tuple[str, ...]:
    """Take the metadata table away, or some of its partitions, under the lock; the partitions that went.

    Args:
        partitions: those that go; all, if none are named or ``files`` is among them, without which there are no others.
    """
    storage, properties = table.storage, table.current_properties()
    there = _named(properties)
    whole = not partitions or FILES in partitions or set(there) <= set(partitions)
    asked = (*(name for name in there if name in partitions), *unnamed(storage, partitions))
    going = there if whole else tuple(dict.fromkeys(asked))
    if not going and not (whole and storage.list(METADATA_ROOT)):
        return ()
    _note(storage, {"partitions": list(going), "whole": whole})
    if going:
        _change_properties(storage, lambda entries: _without(entries, set(going), whole=whole))
    _finish_drop(storage, going, whole=whole)
    return going


def unnamed(storage: Storage, partitions: Collection[str]) -> tuple[str, ...]:
    """Those of some partitions that have a folder in the metadata table, whether or not the properties name them."""
    folders = storage.list_folder(METADATA_ROOT).folders if partitions else []
    names = {folder.strip("/").rpartition("/")[2] for folder in folders}
    return tuple(name for name in partitions if name in names)


def begin_building(storage: Storage) -> None:
    """Note that a metadata table is built, before its first file is there. Under the lock.

    Raises:
        MetadataTableError: there is something in its place.
    """
    found = next(iter(storage.list(METADATA_ROOT)), None)
    if found is not None:
        raise MetadataTableError(
            f"{storage.uri} has {found.path}, but its properties name no metadata table",
            culprit=found.path,
            hint="a Hudi writer may be building one; else take it away with `lakeindex metadata drop TABLE`",
        )
    _note(storage, {"building": True})


def begin_adding(storage: Storage, partition: str, instant: str) -> None:
    """Note that a partition is added to a metadata table, before its first file is there. Under the lock.

    Raises:
        MetadataTableError: there is something in its place.
    """
    found = next(iter(storage.list(f"{METADATA_ROOT}/{partition}")), None)
    if found is not None:
        raise MetadataTableError(
            f"{storage.uri} has {found.path}, but its properties name no partition {partition} of the metadata table",
            culprit=found.path,
            hint="a Hudi writer may be building it; else take it away with `lakeindex metadata drop TABLE "
            f"--partition {partition}`",
        )
    _note(storage, {"adding": partition, "instant": instant})


def define_index(
    storage: Storage, partition: str, columns: Sequence[str], version: int, *, partitioned: bool = False
) -> None:
    """Write what an index is of where Hudi 1.x looks for it, before readers use it. Under the lock.

    Args:
        partitioned: a record index has a record for a key in each partition of the table.
    """
    text = with_definition(read_definitions(storage), partition, columns, version, partitioned=partitioned)
    put_definitions(storage, text)


def switch_on(storage: Storage, partitions: Collection[str], *, defined: bool = False) -> None:
    """Let readers use what was built. Under the lock."""
    more = {DEFINITIONS_PROPERTY: DEFINITIONS_PATH} if defined else {}
    _change_properties(storage, lambda entries: {**entries, _PARTITIONS: ",".join(sorted(partitions)), **more})
    _finish_building(storage)


def _note(storage: Storage, what: Mapping[str, object]) -> None:
    records.put(storage, NOTE, records.encode(what))
    storage.sync([NOTE])


def finish_noted(storage: Storage, properties: TableProperties) -> bool:
    """Finish what a writer of ours that died had begun; whether there was anything.

    The properties, or their backup where a writer was replacing them, tell how far it came. A torn note says nothing:
    nothing followed from it.
    """
    noted = records.load(storage, NOTE)
    if noted is None:
        return False
    there = set(_named(properties))
    going = tuple(noted.get("partitions", there))
    if noted.get("building"):
        if not there:
            remove_folder(storage, METADATA_ROOT)
        _finish_building(storage)
    elif noted.get("adding"):
        if noted["adding"] not in there:
            _take_back(storage, properties, noted["adding"], noted["instant"])
        _finish_building(storage)
    elif not noted or there & set(going):
        records.remove(storage, [NOTE])  # nothing was changed
    else:
        _finish_drop(storage, going, whole=bool(noted.get("whole", not there)))
    return True


def _named(properties: TableProperties) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*properties.metadata_partitions, *properties.metadata_partitions_inflight)))


def _change_properties(storage: Storage, edit: Callable[[dict[str, str]], Mapping[str, str]]) -> None:
    entries = parse_properties(storage.read(PROPERTIES_PATH), PROPERTIES_PATH)
    edited = dict(edit(dict(entries)))
    database, name = (edited.get(one[0], "") for one in (keys.DATABASE_NAME, keys.TABLE_NAME))
    known = edited.pop(keys.CHECKSUM[0], None)
    edited[keys.CHECKSUM[0]] = known or str(table_checksum(database, name))  # last: a file that is cut off lacks it
    data = format_properties(edited, comments=("Updated by lakeindex",))
    back_up(storage, data)
    records.remove(storage, [PROPERTIES_PATH])
    put_properties(storage)


def back_up(storage: Storage, data: bytes) -> None:
    """Put what the properties are going to be where readers look who find none."""
    records.put(storage, PROPERTIES_BACKUP_PATH, data)
    storage.sync([PROPERTIES_BACKUP_PATH])


def _finish_building(storage: Storage) -> None:
    put_properties(storage)
    remove_backup(storage)
    records.remove(storage, [NOTE])


def _finish_drop(storage: Storage, going: Collection[str], *, whole: bool) -> None:
    """The properties, or their backup, name what goes no more: remove what is left of it."""
    put_properties(storage)
    folders = METADATA_FOLDERS if whole else [f"{METADATA_ROOT}/{name}" for name in going]
    for folder in folders:
        remove_folder(storage, folder)
    if not whole:
        _forget_definitions(storage, going)
    remove_backup(storage)
    records.remove(storage, [NOTE])


def _take_back(storage: Storage, properties: TableProperties, partition: str, instant: str) -> None:
    """Remove what there is of a partition that was added, and its delta commit: completed first, pending last."""
    table = metadata_table_of(storage, properties)
    timeline = () if table is None else table.load_timeline().files
    files = [
        (one.is_completed, table.layout.path(one)) for one in timeline if table is not None and one.time == instant
    ]
    _remove_files(storage, [path for is_completed, path in files if is_completed])
    remove_folder(storage, f"{METADATA_ROOT}/{partition}")
    _remove_files(storage, [path for is_completed, path in files if not is_completed])
    _forget_definitions(storage, {partition})


def _remove_files(storage: Storage, paths: Collection[str]) -> None:
    records.remove(storage, [one for path in paths for one in (path, crc_path(path))])
    sync_folders(storage, {path.rpartition("/")[0] for path in paths})


def remove_folder(storage: Storage, folder: str) -> None:
    """Remove a folder of the metadata table, for good."""
    # Its own properties first: without them it is no table any more.
    paths = sorted((one.path for one in storage.list(folder)), key=lambda path: (".hoodie/" not in path[8:], path))
    records.remove(storage, paths)
    sync_folders(storage, {path.rpartition("/")[0] for path in paths})  # who builds it anew finds nothing stale
    remove_empty_folders(storage, folder)


def _forget_definitions(storage: Storage, going: Collection[str]) -> None:
    """Take the definitions of indexes that are gone out of the file that has them."""
    data = _read(storage, DEFINITIONS_PATH)
    if data is None or records.is_torn(data):
        return
    try:
        text = data.decode()
        kept = without_definitions(text, going)
    except (TableCorruptError, UnicodeDecodeError):
        return  # what is damaged names no index that anybody could use
    if json.loads(kept) != json.loads(text):
        put_definitions(storage, kept)


def put_definitions(storage: Storage, text: str) -> None:
    records.remove(storage, [crc_path(DEFINITIONS_PATH)])
    records.put(storage, DEFINITIONS_PATH, text.encode())
    storage.sync([DEFINITIONS_PATH])


def put_properties(storage: Storage) -> None:
    """Put what the backup says where it belongs, unless the backup is Hudi's.

    The file is created, not replaced: a power loss may tear what is replaced.
    As long as it is missing, readers take the backup.
    """
    data = _read(storage, PROPERTIES_BACKUP_PATH)
    if data is None or _read(storage, PROPERTIES_PATH) not in (None, data):
        return
    records.remove(storage, [crc_path(PROPERTIES_PATH), crc_path(PROPERTIES_BACKUP_PATH)])
    records.settle(storage, PROPERTIES_PATH, data)
    storage.sync([PROPERTIES_PATH])


def _read(storage: Storage, path: str) -> bytes | None:
    try:
        return storage.read(path)
    except ObjectNotFoundError:
        return None


def remove_backup(storage: Storage) -> None:
    """Remove the backup, unless it is Hudi's: it holds something else then, and Hudi is in the middle of a change."""
    data = _read(storage, PROPERTIES_BACKUP_PATH)
    if data is None or data != _read(storage, PROPERTIES_PATH):
        return
    _remove_files(storage, [PROPERTIES_BACKUP_PATH])  # before the note, which tells that it has to go


def _without(entries: Mapping[str, str], going: Collection[str], *, whole: bool) -> dict[str, str]:
    """Properties that name some partitions no more; without any, the definitions of indexes are not named, either."""
    if whole:
        return {key: value for key, value in entries.items() if not key.startswith((_PARTITIONS, DEFINITIONS_PROPERTY))}
    kept = dict(entries)
    for key in (_PARTITIONS, keys.METADATA_PARTITIONS_INFLIGHT[0]):
        if key in kept:
            kept[key] = ",".join(name for name in kept[key].split(",") if name and name not in going)
    return kept
