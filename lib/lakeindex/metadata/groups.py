"""Which file group of a partition of the metadata table has a key.

Source: ``HoodieTableMetadataUtil.mapRecordKeyToFileGroupIndex`` of Hudi 0.15 and 1.2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeindex.hashing.java_hash import string_hashes


def groups_of(keys: Sequence[str], count: int) -> list[int]:
    """The number of each key's file group.

    Args:
        count: how many groups there are: those on the table, whatever an option says.
    """
    if count == 1:
        return [0] * len(keys)
    return [int(one) for one in group_numbers(pa.array(keys, pa.string()), count)]


def group_numbers(keys: pa.Array, count: int) -> npt.NDArray[np.int32]:
    """As :func:`groups_of`, of an array of texts."""
    # Java's abs of the smallest int is itself, and its remainder has the sign of what is divided.
    hashes = np.abs(string_hashes(keys))
    found: npt.NDArray[np.int32] = np.abs(np.fmod(hashes, np.int32(count)))
    return found
