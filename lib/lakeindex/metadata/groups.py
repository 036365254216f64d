"""Which file group of a partition of the metadata table has a key.

Source: ``HoodieTableMetadataUtil.mapRecordKeyToFileGroupIndex`` of Hudi 0.15 and 1.2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lakeindex.hashing.java_hash import string_hashes


def groups_of(keys: Sequence[str], count: int) -> list[int]:
    """The number of each key's file group.

    Args:
        keys: keys of records.
        count: how many groups there are: those on the table, whatever an option says.
    """
    if count == 1:
        return [0] * len(keys)
    # Java's abs of the smallest int is itself, and its remainder has the sign of what is divided.
    hashes = np.abs(string_hashes(pa.array(keys, pa.string())))
    return [int(one) for one in np.abs(np.fmod(hashes, np.int32(count)))]
