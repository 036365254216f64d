"""The reading of one page header, in two forms like the walk over a footer; :mod:`lakeindex.parquet.pages` uses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from lakeindex.hashing.loops import Loop
from lakeindex.parquet.footer_walk import MOST_FIELD, Bytes, _unzigzag, _varint

Numbers = npt.NDArray[np.int64]

# what is kept of a header; HEADER_END is its place in the bytes, or one of the two below
HEADER_END, BODY_BYTES, CRC, HAS_CRC = 0, 1, 2, 3
PAGE_NUMBERS: Final = 4
CUT_SHORT: Final = -1
SENSELESS: Final = -2

_DEEPEST: Final = 8
_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 0, 1, 2, 3, 7, 8, 9, 10, 12
_BODY_FIELD: Final = 3
_CRC_FIELD: Final = 4


def _keep(depth: int, field: int, value: int, found: Numbers) -> None:
    if depth == 0 and field == _BODY_FIELD:
        found[BODY_BYTES] = value
    elif depth == 0 and field == _CRC_FIELD:
        found[CRC] = value
        found[HAS_CRC] = 1


def page_header(  # noqa: C901, PLR0911, PLR0912, PLR0915 - one loop, as compiled code wants it
    data: Bytes, start: int, found: Numbers
) -> None:
    """Read the PageHeader struct at ``start``; never beyond the bytes that are there."""
    left = [0] * _DEEPEST  # elements left of a list; -1: a struct
    kinds = [0] * _DEEPEST
    fields = [0] * _DEEPEST
    depth = 0
    left[0] = -1
    at = start
    found[HEADER_END] = CUT_SHORT
    found[BODY_BYTES] = -1
    found[CRC] = 0
    found[HAS_CRC] = 0
    while depth >= 0:
        if left[depth] >= 0:
            if left[depth] == 0:
                depth -= 1
                continue
            left[depth] -= 1
            kind = kinds[depth]
            in_list = True
        else:
            if at >= len(data):
                return
            head = int(data[at])
            at += 1
            kind = head & 15
            in_list = False
            if kind == _STOP:
                depth -= 1
                continue
            if head >> 4:
                fields[depth] += head >> 4
            else:
                coded, at = _varint(data, at)
                if at < 0:
                    return
                fields[depth] = _unzigzag(coded)
            if fields[depth] > MOST_FIELD or fields[depth] < -MOST_FIELD:
                found[HEADER_END] = SENSELESS
                return
        if kind in (_TRUE, _FALSE):
            at += 1 if in_list else 0
        elif kind == _BYTE:
            at += 1
        elif kind == _DOUBLE:
            at += 8
        elif kind == _BINARY:
            coded, at = _varint(data, at)
            if at < 0 or coded < 0 or coded > len(data) - at:
                return
            at += coded
        elif kind in (_LIST, _SET):
            if depth + 1 == _DEEPEST:
                found[HEADER_END] = SENSELESS
                return
            if at >= len(data):
                return
            head = int(data[at])
            at += 1
            count = head >> 4
            if count == 15:
                count, at = _varint(data, at)
            if at < 0 or count < 0 or count > len(data) - at:
                return
            depth += 1
            left[depth] = count
            kinds[depth] = head & 15
        elif kind == _STRUCT:
            if depth + 1 == _DEEPEST:
                found[HEADER_END] = SENSELESS
                return
            depth += 1
            left[depth] = -1
            fields[depth] = 0
        elif 4 <= kind <= 6:
            coded, at = _varint(data, at)
            if at < 0:
                return
            _keep(depth, fields[depth], _unzigzag(coded), found)
        else:
            found[HEADER_END] = SENSELESS
            return
        if at > len(data):
            return
    found[HEADER_END] = at


def _compiled() -> Callable[[Bytes, int, Numbers], None]:
    import numba

    from lakeindex.hashing.compile_cache import READ_BYTES, compiled

    run = compiled(page_header, READ_BYTES, numba.int64, numba.int64[::1])

    def over_bytes(data: Bytes, start: int, found: Numbers) -> None:
        run(np.frombuffer(data, np.uint8), start, found)  # type: ignore[call-overload]

    return over_bytes


PAGE_HEADER: Final = Loop(page_header, _compiled, 8_000)
"""The reading, by headers."""
