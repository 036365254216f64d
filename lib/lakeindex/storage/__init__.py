"""The storage port and its adapters."""

from lakeindex.storage.opening import open_storage, remove_empty_folders, remove_temporary
from lakeindex.storage.protocol import Listing, ObjectMeta, Storage

__all__ = ["Listing", "ObjectMeta", "Storage", "open_storage", "remove_empty_folders", "remove_temporary"]
