"""The storage port and its adapters."""

from lakeindex.storage.opening import (
    is_there,
    list_names,
    open_storage,
    remove_empty_folders,
    remove_temporary,
    sync_folders,
)
from lakeindex.storage.options import NO_OPTIONS, StoreOptions, current_options, using
from lakeindex.storage.parallel import decoded_in_parallel, in_parallel
from lakeindex.storage.paths import is_local_disk, is_on_this_machine
from lakeindex.storage.port import Listing, ObjectMeta, Storage

__all__ = [
    "NO_OPTIONS",
    "Listing",
    "ObjectMeta",
    "Storage",
    "StoreOptions",
    "current_options",
    "decoded_in_parallel",
    "in_parallel",
    "is_local_disk",
    "is_on_this_machine",
    "is_there",
    "list_names",
    "open_storage",
    "remove_empty_folders",
    "remove_temporary",
    "sync_folders",
    "using",
]
