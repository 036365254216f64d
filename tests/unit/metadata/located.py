"""Where a record index says that keys are, as a dictionary."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lakeindex.metadata.metadata_view import MetadataView
from lakeindex.metadata.record_index import RecordLocation, find_locations


def located(view: MetadataView, keys: Sequence[str], data_partition: str | None = None) -> dict[str, RecordLocation]:
    """Locations by their keys; keys that are nowhere are left out."""
    found = find_locations(view, pa.array(keys, pa.string()), data_partition)
    assert list(found.rows) == sorted(found.rows)
    assert set(found.numbers) == set(range(len(found.locations)))
    return {keys[row]: found.locations[at] for row, at in zip(found.rows, found.numbers, strict=True)}
