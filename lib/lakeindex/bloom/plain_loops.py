"""The loops of :mod:`lakeindex.bloom.kernels` over whole columns (numpy), for few keys."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from lakeindex.hashing.plain_murmur import Alike, Bytes, Offsets, Words, alike


def add_keys(data: Bytes, offsets: Offsets, m: np.uint32, k: int, rows: Offsets, bits: Bytes) -> None:
    """Set the bits of each key ``i`` in filter row ``rows[i]``."""
    flat, width = bits.reshape(-1), bits.shape[1]
    for keys in alike(data, offsets):
        for place in _places(keys, m, k):
            mask = np.uint8(1) << (place & np.uint32(7)).astype(np.uint8)
            np.bitwise_or.at(flat, rows[keys.rows] * width + (place >> np.uint32(3)), mask)


def probe_keys(data: Bytes, offsets: Offsets, m: np.uint32, k: int, bits: Bytes, out: npt.NDArray[np.bool_]) -> None:
    """``out[i]``: whether some filter row holds all positions of key ``i``."""
    for keys in alike(data, offsets):
        held = np.ones((len(bits), len(keys.rows)), np.uint8)
        for place in _places(keys, m, k):
            held &= bits[:, place >> np.uint32(3)] >> (place & np.uint32(7)).astype(np.uint8)
        out[keys.rows] = held.any(axis=0)


def _places(keys: Alike, m: np.uint32, k: int) -> Iterator[Words]:
    """The ``k`` positions of each key, one after the other; see :mod:`lakeindex.bloom.kernels`."""
    hashes = np.zeros(len(keys.rows), np.uint32)
    for _ in range(k):
        hashes = keys.hashes(hashes)
        yield np.where(hashes.view(np.int32) < 0, -hashes, hashes) % m
