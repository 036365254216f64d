"""Dropping a metadata table, so that readers list folders and see what we commit.

Hudi's order for changing the properties (``HoodieTableConfig``): the new text to ``hoodie.properties.backup``, the old
``hoodie.properties`` goes, the new one is created, then the backup goes. Hadoop's checksum side files of both would be
stale and are deleted. Only then is ``.hoodie/metadata`` removed: whoever still lists from it finds it whole. A note of
ours, written first and removed last, makes the drop resumable after a kill at any call.
"""

from __future__ import annotations

from typing import Final

from lakeindex.errors import ObjectNotFoundError
from lakeindex.format.file_names import crc_path
from lakeindex.format.properties import format_properties, parse_properties
from lakeindex.options.types import MetadataTablePolicy
from lakeindex.storage import remove_empty_folders, sync_folders
from lakeindex.storage.port import Storage
from lakeindex.table.handle import Table, check_no_metadata_table, check_writable
from lakeindex.table.properties import TableProperties
from lakeindex.table.property_keys import PROPERTIES_BACKUP_PATH, PROPERTIES_PATH
from lakeindex.timeline import records

METADATA_FOLDERS: Final = (".hoodie/metadata", ".hoodie/.index_defs")
DROP_NOTE: Final = f"{records.OWN_FOLDER}/dropping-metadata.json"

_DROPPED_PREFIXES: Final = ("hoodie.table.metadata.partitions", "hoodie.table.index.defs.path")


def check_or_drop_metadata_table(table: Table, policy: MetadataTablePolicy) -> TableProperties:
    """Re-read the properties, and make sure that we may write: version, features, no metadata table. Under the lock.

    Args:
        table: the table.
        policy: refuse a metadata table, or drop it.

    Returns:
        The properties as they are now.

    Raises:
        TableUnsupportedError: the version or a feature is not one that we write.
        TimelineChangedError: another writer has upgraded or downgraded the table since it was opened.
        MetadataTableError: there is a metadata table, and the policy is to refuse; it says what dropping would lose.
    """
    properties = table.current_properties()
    check_writable(properties)
    table.check_same_version(properties)
    if has_metadata_table(properties):
        if policy is MetadataTablePolicy.REFUSE:
            check_no_metadata_table(properties)
        _drop(table.storage)
        return table.current_properties()
    if _read(table.storage, DROP_NOTE) is not None:
        _finish(table.storage)
    return properties


def has_metadata_table(properties: TableProperties) -> bool:
    """Whether readers may list from a metadata table, or one is being built."""
    return bool(properties.metadata_partitions or properties.metadata_partitions_inflight)


def _drop(storage: Storage) -> None:
    records.put(storage, DROP_NOTE, records.encode({"step": "properties, then folders"}))
    storage.sync([DROP_NOTE])
    data = _without_metadata(storage.read(PROPERTIES_PATH))
    records.put(storage, PROPERTIES_BACKUP_PATH, data)
    storage.sync([PROPERTIES_BACKUP_PATH])
    records.remove(storage, [PROPERTIES_PATH])
    _finish(storage)


def _finish(storage: Storage) -> None:
    """The properties, or their backup, name no metadata table: remove what is left of it."""
    _put_properties(storage)
    for folder in METADATA_FOLDERS:
        # Its own properties first: without them it is no table any more.
        paths = sorted((one.path for one in storage.list(folder)), key=lambda path: (".hoodie/" not in path[8:], path))
        records.remove(storage, paths)
        sync_folders(storage, {path.rpartition("/")[0] for path in paths})  # who builds it anew finds nothing stale
        remove_empty_folders(storage, folder)
    _remove_backup(storage)
    records.remove(storage, [DROP_NOTE])


def _put_properties(storage: Storage) -> None:
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


def _remove_backup(storage: Storage) -> None:
    """Remove the backup, unless it is Hudi's: it holds something else then, and Hudi is in the middle of a change."""
    data = _read(storage, PROPERTIES_BACKUP_PATH)
    if data is None or data != _read(storage, PROPERTIES_PATH):
        return
    records.remove(storage, [PROPERTIES_BACKUP_PATH, crc_path(PROPERTIES_BACKUP_PATH)])


def _without_metadata(data: bytes) -> bytes:
    entries = parse_properties(data, PROPERTIES_PATH)
    kept = {key: value for key, value in entries.items() if not key.startswith(_DROPPED_PREFIXES)}
    return format_properties(kept, comments=("Updated by lakeindex: metadata table dropped",))
