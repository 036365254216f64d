"""From a URL to a store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from lakeindex.errors import ObjectNotFoundError, OptionError
from lakeindex.storage.local import LocalStorage
from lakeindex.storage.memory import MemoryStorage
from lakeindex.storage.options import StoreOptions, current_options
from lakeindex.storage.paths import Place, plain
from lakeindex.storage.port import ListsNames, Storage, SyncsFolders
from lakeindex.time_spent import loading

if TYPE_CHECKING:
    from lakeindex.storage.hdfs import HdfsStorage


def open_storage(uri: Place, options: StoreOptions | None = None) -> Storage:
    """The store at a path or URL; nothing is read or written, and it need not exist.

    Args:
        uri: a path, ``file:///path``, ``s3://bucket/prefix``, ``gs://...``, ``az://...``,
            ``hdfs://namenode:port/path``, or ``memory://NAME`` (this process only), read as
            :func:`lakeindex.storage.paths.plain` says.
        options: settings of the store; by default those of the call that is running.

    Raises:
        OptionError: a scheme that is not known, or a URL without a bucket.
    """
    place = plain(uri)
    scheme, separator, rest = place.partition("://")
    if not separator:
        return LocalStorage(place)
    if scheme == "memory":
        return MemoryStorage.named(rest)
    if scheme == "hdfs":
        return _hdfs(place, current_options() if options is None else options)
    with loading():
        from lakeindex.storage.objects import ObjectStorage  # obstore loads only where an object store is used

    return ObjectStorage(place, current_options() if options is None else options)


def is_there(storage: Storage, path: str) -> bool:
    """Whether there is such an object."""
    try:
        storage.head(path)
    except ObjectNotFoundError:
        return False
    return True


def remove_empty_folders(storage: Storage, prefix: str) -> None:
    """On local disk and HDFS, remove a folder and those below it as far as they are empty; elsewhere there are none."""
    folders = _with_folders(storage.uri)
    if folders is not None:
        folders.remove_empty_folders(prefix)


def remove_temporary(storage: Storage, prefix: str, older_than_seconds: float) -> int:
    """On local disk and HDFS, remove temporary files that killed writers left in a folder; returns how many."""
    folders = _with_folders(storage.uri)
    return 0 if folders is None else folders.remove_temporary(prefix, older_than_seconds)


def sync_folders(storage: Storage, folders: Iterable[str]) -> None:
    """Make what was created and deleted in some folders durable, where that takes anything (local disk)."""
    if hasattr(storage, "sync_folders"):  # isinstance does the same for a protocol, but takes longer than the call
        cast("SyncsFolders", storage).sync_folders(folders)


def list_names(storage: Storage, prefix: str) -> tuple[str, ...]:
    """Names, without the folder's, of the objects one level below a folder, sorted: cheaper than a listing with sizes
    and times. Names of folders may be among them, where the store would have to be asked about each.
    """
    if hasattr(storage, "list_names"):  # as above
        return cast("ListsNames", storage).list_names(prefix)
    return tuple(one.path.rpartition("/")[2] for one in storage.list_folder(prefix).objects)


def _with_folders(uri: str) -> LocalStorage | HdfsStorage | None:
    """The store itself, whatever a run wrapped around it, where it has folders."""
    place = plain(uri)
    if "://" not in place:
        return LocalStorage(place)
    return _hdfs(place, current_options()) if place.startswith("hdfs://") else None


def _hdfs(uri: str, options: StoreOptions) -> HdfsStorage:
    try:
        with loading():
            from lakeindex.storage.hdfs import HdfsStorage
    except ModuleNotFoundError as error:
        hint = "pip install 'lakeindex[hdfs]', in the driver, the executors and Airflow alike"
        raise OptionError(f"{uri} needs hdfs-native, which is not installed", culprit=uri, hint=hint) from error
    return HdfsStorage(uri, options)
