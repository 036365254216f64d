"""Find equal keys among any number of files in bounded memory: 64-bit hashes on local disk, sorted by file.

Each file's hashes are sorted, so a range of hashes is one slice of every file; a set of files is worked through range
by range. Equal hashes only propose: the keys themselves are compared before anything is reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeindex.hashing.murmur import murmur

_ROWS_AT_ONCE: Final = 16_000_000
_SECOND_SEED: Final = 0x9747B28C
KeyHashes = npt.NDArray[np.uint64]


def hashes_of(keys: pa.Array) -> KeyHashes:
    """A 64-bit hash of each key: two 32-bit hashes, one seeding nothing of the other."""
    high = murmur(keys, 0).view(np.uint32).astype(np.uint64)
    low = murmur(keys, _SECOND_SEED).view(np.uint32).astype(np.uint64)
    return (high << np.uint64(32)) | low


def save_hashes(path: Path, parts: Sequence[KeyHashes]) -> None:
    """Leave the hashes of a file's keys, sorted, at ``path``."""
    hashes = np.concatenate([np.zeros(0, np.uint64), *parts])
    hashes.sort()
    np.save(path, hashes, allow_pickle=False)


def repeated_hashes(paths: Sequence[Path], rows_at_once: int = _ROWS_AT_ONCE) -> Iterator[tuple[KeyHashes, list[int]]]:
    """Hashes that occur more than once in these files together.

    Args:
        paths: files of :func:`save_hashes`.
        rows_at_once: hashes held in memory at once, about.

    Yields:
        For each range of hashes with repeated ones: those, and which files (by place in ``paths``) hold one.
    """
    stored = [np.load(path, mmap_mode="r", allow_pickle=False) for path in paths]
    ranges = max(1, -(-sum(len(one) for one in stored) // rows_at_once))
    bounds = [(2**64 * at) // ranges for at in range(1, ranges)]
    cuts = [[0, *(int(np.searchsorted(one, np.uint64(b))) for b in bounds), len(one)] for one in stored]
    for at in range(ranges):
        slices = [one[cut[at] : cut[at + 1]] for one, cut in zip(stored, cuts, strict=True)]
        joined = np.concatenate(slices) if slices else np.zeros(0, np.uint64)
        joined.sort()
        repeated = np.unique(joined[1:][joined[1:] == joined[:-1]])
        if len(repeated):
            yield repeated, [n for n, one in enumerate(slices) if np.isin(repeated, one, assume_unique=False).any()]
