"""Which kind an index type is. An index that is not there is an error, never another one in its place.

The module of a kind (a line of :class:`lakeindex.model.IndexType`) is imported when the type is used.
"""

from __future__ import annotations

import importlib

from lakeindex.errors import OptionError
from lakeindex.index.contract import Index, StoredIndex
from lakeindex.model import IndexSpec


def index_for(spec: IndexSpec) -> Index:
    """The kind of an index, with what is bound to it.

    Raises:
        OptionError: what it needs is not installed.
    """
    try:
        module = importlib.import_module(spec.index_type.module)
    except ModuleNotFoundError as error:
        raise OptionError(
            f"index type {spec.index_type} needs the package {error.name}, which is not installed",
            culprit="hoodie.index.type",
            hint=f"pip install 'lakeindex[{spec.index_type.lower()}]'",
        ) from error
    index: Index = module.make_index(spec)
    return index


def stored_index_for(spec: IndexSpec) -> StoredIndex:
    """The kind of an index that stores locations.

    Raises:
        OptionError: it stores none.
    """
    index = index_for(spec)
    if not isinstance(index, StoredIndex):
        raise OptionError(
            f"index type {spec.index_type} stores nothing: there is nothing to build, drop or verify",
            culprit=spec.index_type,
            hint="it answers from the base files themselves",
        )
    return index
