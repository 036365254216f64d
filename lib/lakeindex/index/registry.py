"""Which index kind an index type is. An index that is not there is an error, never another one in its place."""

from __future__ import annotations

from typing import Final

from lakeindex.errors import OptionError
from lakeindex.index.bloom import BloomIndex
from lakeindex.index.protocol import FilterIndex, Index
from lakeindex.model import IndexType

INDEXES: Final[dict[IndexType, Index]] = {
    IndexType.BLOOM: BloomIndex(is_global=False),
    IndexType.GLOBAL_BLOOM: BloomIndex(is_global=True),
}


def index_for(index_type: IndexType | str) -> Index:
    """The kind of an index type.

    Raises:
        OptionError: there is no such index; the message says which there are.
    """
    for known, index in INDEXES.items():
        if known.value == str(index_type).upper():
            return index
    raise OptionError(
        f"index type {str(index_type)!r} is not there",
        culprit="hoodie.index.type",
        hint=f"valid: {', '.join(INDEXES)}",
    )


def filter_index_for(index_type: IndexType | str) -> FilterIndex:
    """The kind of an index type that narrows by filters.

    Raises:
        OptionError: there is no such index, or it has no filters.
    """
    index = index_for(index_type)
    if not isinstance(index, FilterIndex) or not index.traits.needs_filters:
        raise OptionError(
            f"index type {str(index_type)!r} has no bloom filters to check",
            culprit="hoodie.index.type",
            hint=f"with filters: {', '.join(t for t, i in INDEXES.items() if i.traits.needs_filters)}",
        )
    return index
