"""Which kind an index type is. An index that is not there is an error, never another one in its place.

The module of a kind is named by its line in :class:`lakeindex.model.IndexType`, and imported when the type is used.
"""

from __future__ import annotations

import importlib
import sys
from contextlib import nullcontext

from lakeindex.errors import OptionError
from lakeindex.index.advice import STORED, KindAdvice
from lakeindex.index.contract import Index
from lakeindex.index.locations.stored_index import StoredIndex
from lakeindex.model import IndexSpec, IndexType
from lakeindex.time_spent import loading


def index_for(spec: IndexSpec) -> Index:
    """The kind of an index, with what is bound to it. Raises: OptionError: what it needs is not installed."""
    name = spec.index_type.module
    try:
        with nullcontext() if name in sys.modules else loading():
            index: Index = importlib.import_module(name).make_index(spec)
    except ModuleNotFoundError as error:
        raise OptionError(
            f"index type {spec.index_type} needs the package {error.name}, which is not installed",
            culprit="hoodie.index.type",
            hint=f"pip install 'lakeindex[{spec.index_type.lower()}]'",
        ) from error
    return index


def built_index_for(spec: IndexSpec) -> StoredIndex | None:
    """The kind of an index that is built and kept beside the table; None if it is of another kind."""
    index = index_for(spec).stored
    return None if index is None or index.in_process else index


def stored_index_for(spec: IndexSpec) -> StoredIndex:
    """The kind of an index that stores locations. Raises: OptionError: it stores none."""
    index = index_for(spec).stored
    if index is None:
        raise OptionError(
            f"index type {spec.index_type} stores nothing: there is nothing to build, drop or verify",
            culprit=spec.index_type,
            hint="it answers from the base files themselves",
        )
    return index


def advice_of(index_type: IndexType) -> KindAdvice:
    """What a kind says to the adviser; nothing that it needs has to be installed."""
    advice: KindAdvice = getattr(importlib.import_module(index_type.module), "ADVICE", STORED)
    return advice
