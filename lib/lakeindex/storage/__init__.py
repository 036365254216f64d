"""The storage port and its adapters."""

from lakeindex.storage.opening import (
    is_local_disk,
    is_on_this_machine,
    list_names,
    open_storage,
    remove_empty_folders,
    remove_temporary,
    sync_folders,
)
from lakeindex.storage.options import NO_OPTIONS, StoreOptions, current_options, using
from lakeindex.storage.parallel import in_parallel
from lakeindex.storage.port import Listing, ObjectMeta, Storage

__all__ = [
    "NO_OPTIONS",
    "Listing",
    "ObjectMeta",
    "Storage",
    "StoreOptions",
    "current_options",
    "in_parallel",
    "is_local_disk",
    "is_on_this_machine",
    "list_names",
    "open_storage",
    "remove_empty_folders",
    "remove_temporary",
    "sync_folders",
    "using",
]
