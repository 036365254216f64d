"""Loops that are compiled ahead of time (``loops.c``), each with a form in numpy or Python that gives the same answers.

The plain form does the work where the library is not there, is damaged, or does not fit this platform:
``lakeindex doctor`` says so. Here alone it is chosen which one runs.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple, ParamSpec

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeindex.hashing.compile_loops import library, problem_with

_P = ParamSpec("_P")

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]

_BYTES: Final = (np.dtype(np.uint8), 1)
CURE: Final = (
    "install the wheel of this platform, or, with cc on PATH or after `pip install ziglang`, run "
    "`python -m lakeindex.hashing.compile_loops`"
)


class Loaded(NamedTuple):
    """The library at a path, or why it is none."""

    path: Path
    functions: ctypes.CDLL | None
    problem: str


@functools.cache
def loaded() -> Loaded:
    """The library of this process."""
    path = library()
    problem = problem_with(path)
    if problem:
        return Loaded(path, None, problem)
    try:
        return Loaded(path, ctypes.CDLL(str(path)), "")
    except OSError as error:
        return Loaded(path, None, f"{path.name} cannot be loaded: {error}")


@functools.cache
def _function(name: str, c_types: tuple[Any, ...]) -> Callable[..., None] | None:
    found = getattr(loaded().functions, name, None)
    if found is not None:
        found.argtypes, found.restype = c_types, None
    return found


def compiled(signature: str) -> Callable[[Callable[_P, None]], Callable[_P, None]]:
    """Let the function of the same name in ``loops.c`` do the work, without the interpreter's lock.

    Args:
        signature: of each argument ``int``, or an array's element type with a star a dimension (``u1*``, ``i8**``); an
            array of bytes may be any object with a buffer. ``loops.c`` gets an address and the shape.
    """
    kinds = [(word.rstrip("*"), word.count("*")) for word in signature.split()]
    arrays = [(np.dtype(kind), dimensions) if dimensions else None for kind, dimensions in kinds]
    c_types: tuple[Any, ...] = ()
    for _, dimensions in kinds:
        c_types += (ctypes.c_void_p, *(ctypes.c_int64,) * dimensions) if dimensions else (ctypes.c_int64,)

    def decorate(plain: Callable[_P, None]) -> Callable[_P, None]:
        name = plain.__name__

        @functools.wraps(plain)
        def run(*args: _P.args, **kwargs: _P.kwargs) -> None:
            call = _function(name, c_types)
            if call is None:
                plain(*args, **kwargs)
                return
            passed: list[Any] = []
            value: Any
            for value, array in zip(args, arrays, strict=True):
                if array is None:
                    passed.append(value)
                    continue
                kind, dimensions = array
                if isinstance(value, np.ndarray):
                    shape = value.shape
                    fits = value.dtype == kind and value.ndim == dimensions and value.flags.c_contiguous
                else:
                    shape, fits = (memoryview(value).nbytes,), array == _BYTES
                if not fits:
                    raise TypeError(f"{name}: {getattr(value, 'dtype', 'bytes')} {shape} is no array of {kind}")
                passed += (pa.py_buffer(value).address, *shape)  # a fifth of the time of numpy's own address
            call(*passed)

        return run

    return decorate
