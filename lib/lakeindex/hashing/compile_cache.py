"""How loops are compiled (numba): for one signature, without the interpreter's lock, cached beside their module.

numba and the first compiled function take a second to load. So loops stand in modules of their own, and those who use
them import those late (:mod:`lakeindex.hashing.loops`): a process that has little to do does without. Compiled code is
cached by the file of the kernel: after a change of a helper, touch the modules whose kernels use it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, Final, TypeVar, cast

import numba

_F = TypeVar("_F", bound=Callable[..., Any])

READ_BYTES: Final = numba.types.Array(numba.uint8, 1, "C", readonly=True)
READ_OFFSETS: Final = numba.types.Array(numba.int64, 1, "C", readonly=True)


def njit_inline(function: _F) -> _F:
    """Compile as a helper of kernels (typed: numba's decorators are not)."""
    return cast(_F, numba.njit(inline="always")(function))


def njit_kernel(*signature: Any) -> Callable[[_F], _F]:
    """Compile for one signature, without the interpreter's lock; the machine code is cached beside the module, in
    the user's cache, or, where neither can be written, not at all.
    """

    def decorate(function: _F) -> _F:
        types = numba.void(*signature)
        try:
            compiled = numba.njit(types, nogil=True, cache=True, boundscheck=False)(function)
        except RuntimeError as error:
            if "no locator available" not in str(error):
                raise
            compiled = numba.njit(types, nogil=True, boundscheck=False)(function)
        return cast(_F, compiled)

    return decorate


def compiled(kernel: _F, *signature: Any) -> _F:
    """A plain function and those of its module that it calls, compiled as :func:`njit_kernel` does it."""
    return njit_kernel(*signature)(_with_compiled_helpers(kernel))


def _with_compiled_helpers(function: _F) -> _F:
    plain = cast(FunctionType, function)
    names = dict(plain.__globals__)
    for name in plain.__code__.co_names:
        if isinstance(names.get(name), FunctionType):
            names[name] = njit_inline(_with_compiled_helpers(names[name]))
    return cast(_F, FunctionType(plain.__code__, names, plain.__name__, plain.__defaults__, plain.__closure__))
