"""What becomes of errors that are not ours.

Those of the machine are put into our words (no permission, no space, no memory, no thread): each door passes what it
raises through here. Those of what is done beside the work or after its commit become notes (:func:`noted`): nothing
that happens to it may say of the work that it failed.
"""

from __future__ import annotations

import errno
import functools
import importlib
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, ParamSpec, TypeVar

from lakeindex.errors import AccessDeniedError, LakeIndexError, MachineError, StorageError, may_pass
from lakeindex.time_spent import loading

_T = TypeVar("_T")
_P = ParamSpec("_P")
_LIBRARIES: Final = ("numpy", "pyarrow", "pyarrow.compute", "pyarrow.parquet")
_NO_THREAD: Final = "can't start new thread"
_REFUSED: Final = frozenset({errno.EACCES, errno.EPERM})
_HINTS: Final = {
    errno.EACCES: "give the user who runs this the right to it: "
    "`ls -ld` of the file and the folders above say who has it",
    errno.EPERM: "give the user who runs this the right to it: "
    "`ls -ld` of the file and the folders above say who has it",
    errno.EROFS: "the file system is read-only; mount it to be written to",
    errno.ENOSPC: "free some space on this disk, then run it again",
    errno.EDQUOT: "free some space of this user's quota, then run it again",
    errno.EMFILE: "let a process have more open files (`ulimit -n`), or lower -o lakeindex.parallelism",
    errno.ENFILE: "the machine has no more open files to give; lower -o lakeindex.parallelism",
}


def os_error_hint(error: OSError) -> str | None:
    """What to do about an error of the operating system, if that can be said."""
    return None if error.errno is None else _HINTS.get(error.errno)


def in_our_words(error: BaseException) -> LakeIndexError | None:
    """The error of our tree that says what an error of the machine means; itself if it is ours;
    None if it is none of these.
    """
    if isinstance(error, LakeIndexError):
        return error
    if isinstance(error, MemoryError):
        return MachineError(
            f"there is no memory left ({error})" if str(error) else "there is no memory left",
            hint="lower -o lakeindex.memory or -o lakeindex.parallelism, or give the process more; then run it again",
        )
    if isinstance(error, RuntimeError) and _NO_THREAD in str(error):
        return MachineError(
            "the machine lets this process have no more threads",
            hint="lower -o lakeindex.parallelism, or raise the limit (`ulimit -u`, the container's pids limit)",
        )
    if isinstance(error, OSError) and (error.filename is not None or os_error_hint(error) is not None):
        path = None if error.filename is None else str(error.filename)
        what = error.strerror or type(error).__name__
        kind = AccessDeniedError if error.errno in _REFUSED else StorageError
        return kind(what if path is None else f"{path}: {what}", culprit=path, hint=os_error_hint(error))
    return None


def described(raised: BaseException) -> dict[str, object]:
    """An error as JSON values: class, message, culprit, hint, exit code, and whether it may pass (``transient``)."""
    error = in_our_words(raised) or raised
    said: dict[str, object] = {"error": type(error).__name__, "transient": may_pass(error)}
    if isinstance(error, LakeIndexError):
        told = {"message": error.message, "culprit": error.culprit, "hint": error.hint, "exit_code": error.exit_code}
        return {**said, **told}
    return {**said, "message": str(error), "culprit": None, "hint": None, "exit_code": 1}


@contextmanager
def our_words() -> Iterator[None]:
    """Raise errors of the machine as those of our tree; all others as they are."""
    try:
        yield
    except Exception as error:
        ours = in_our_words(error)
        if ours is None or ours is error:
            raise
        raise ours from error


@functools.cache
def _load_libraries() -> None:
    """Load what every call needs, in one piece."""
    with loading():
        for name in _LIBRARIES:
            importlib.import_module(name)


def door(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """A function of the library's surface: what it raises goes through :func:`our_words`."""

    @functools.wraps(function)
    def inside(*arguments: _P.args, **named: _P.kwargs) -> _T:
        with our_words():
            _load_libraries()
            return function(*arguments, **named)

    return inside


def doors(kind: type[_T]) -> type[_T]:
    """A class whose public methods and properties are doors."""
    for name, value in list(vars(kind).items()):
        if name.startswith("_"):
            continue
        if isinstance(value, property) and value.fget is not None:
            setattr(kind, name, property(door(value.fget), doc=value.__doc__))
        elif callable(value):
            setattr(kind, name, door(value))
    return kind


def noted(what: str, work: Callable[[], object]) -> tuple[str, ...]:
    """Do something that what was achieved, or is under way, does not depend on.

    Args:
        what: what is the case if it goes wrong: "the run's report could not be written".

    Returns:
        A note for the summary if it went wrong, whatever went wrong; else nothing.
    """
    try:
        work()
    except Exception as error:  # noqa: BLE001 - whatever it is: a run whose batch is committed did not fail
        return (f"{what}: {type(error).__name__}: {error}",)
    return ()


def show_warnings() -> None:
    """Let a program of ours print the library's warnings on stderr, unless it has logging set up.

    The library alone prints nothing: its logger ``lakeindex`` has a handler that does nothing.
    """
    log, plain = logging.getLogger("lakeindex"), logging.lastResort
    if plain is not None and not logging.getLogger().handlers and plain not in log.handlers:
        log.addHandler(plain)
