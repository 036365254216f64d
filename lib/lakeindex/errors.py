"""The error tree: one root, one exit code a branch, and which errors may pass when the same is done again.

::

    LakeIndexError                      exit 1   anything else
    |-- UsageError                      exit 2   wrong usage
    |   `-- OptionError                          unknown option or value
    |-- InputError                      exit 3   bad or missing input
    |   |-- SchemaMismatchError                  the batch does not fit the table
    |   `-- QuarantineExceededError              more bad rows than allowed
    |       `-- KeysStoredError                  of rows that are only to be inserted
    |-- TableError                      exit 4   the table is refused
    |   |-- TableNotFoundError
    |   |-- TableExistsError
    |   |-- TableUnsupportedError                version, type or feature we do not write
    |   |-- ClockError                           a clock or time zone that does not fit the table
    |   |-- MetadataTableError                   a metadata table would go stale
    |   |-- TableCorruptError                    damaged timeline, file or footer
    |   |-- IndexNotBuiltError                   the index that the table is bound to has to be built first
    |   `-- IndexDamagedError                    a stored index does not agree with the table
    |-- ConflictError                   exit 5   another writer's work prevents this one
    |   |-- WriteConflictError                   another writer changed what this write planned to change
    |   |-- IndexChangedError                    a stored index was folded or built anew while it was read
    |   |-- FencedError                          a newer attempt or lock epoch exists
    |   |-- LockTimeoutError
    |   |-- PendingInstantError                  a foreign writer's instant is in flight
    |   `-- BatchIdReusedError                   same batch id, other input
    |-- InvariantError                  exit 6   an identity is broken; nothing was published
    |-- StorageError                    exit 1   the storage failed
    |   |-- AccessDeniedError                    the store or file system refuses who asks
    |   |-- ObjectNotFoundError
    |   |-- ObjectExistsError
    |   |-- ObjectChangedError                   replace-if-unchanged found another version, or none
    |   |-- NoConditionalWritesError             the store cannot replace an object if it is unchanged
    |   |-- HBaseTableError                      the table of an HBASE index is missing or unfit
    |   |-- HBaseUnavailableError                HBase does not answer
    |   |-- CatalogError                         a catalog does not answer, or refuses what it is told
    |   |   `-- CatalogChangedError              its entry is another than the one that was read
    |   `-- UnknownOutcomeError                  a write may or may not have happened
    `-- MachineError                    exit 1   the machine has no more memory or threads

Every message names the offending value, the file or instant, and the cure (``hint``).

What becomes of errors that are not ours: those of the machine (no permission, no space, no memory, no thread) are put
into our words; each door passes what it raises through here. Errors of what is done beside the work, or after its
commit, become notes (:func:`noted`): nothing that happens there may say of the work that it failed.
"""

from __future__ import annotations

import errno
import functools
import importlib
import logging
import os
import shutil
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, Final, ParamSpec, TypeVar

from lakeindex.without_pandas import unasked

DEBUG_VARIABLE: Final = "LAKEINDEX_DEBUG"
"""With the value 1 errors come with their tracebacks, on the command line and in a notebook."""

_FRAME_WIDTH: Final = 100
REPAIR_KEYS: Final = (
    "`lakeindex repair keys TABLE` says which copies there are and which of them stays, and with --apply deletes the "
    "others"
)
"""What to do about keys that are stored more than once."""

METADATA_ANEW: Final = (
    "build the metadata table anew: `lakeindex metadata drop TABLE`, then `lakeindex metadata build TABLE`"
)
"""What to do about a metadata table that is damaged or stale."""


class LakeIndexError(Exception):
    """Root of all errors raised on purpose.

    Args:
        message: what is wrong, with the offending value in it.
        culprit: the file, instant, option or row that caused the error, if there is one.
        hint: what to do about it.
    """

    exit_code: ClassVar[int] = 1
    transient: ClassVar[bool] = False
    """Doing the same again may go better: another writer ends, a store or the machine recovers."""

    def __init__(self, message: str, *, culprit: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.culprit = culprit
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def _render_traceback_(self) -> list[str]:
        """What IPython shows instead of a traceback: a frame with the cause, the cure, and the line of the caller."""
        if os.environ.get(DEBUG_VARIABLE) == "1":
            return traceback.format_exception(self)
        import io

        from rich.console import Console, Group
        from rich.panel import Panel
        from rich.text import Text

        said = {"": self.message, "what to do: ": self.hint, "at: ": self._line_of_the_caller()}
        if self.culprit and self.culprit not in self.message:
            said["where: "] = self.culprit
        lines = (Text.assemble((name, "bold"), text) for name, text in said.items() if text)
        foot = f"{DEBUG_VARIABLE}=1 shows the traceback"
        frame = Panel(Group(*lines), title=type(self).__name__, title_align="left", subtitle=foot, border_style="red")
        width = min(shutil.get_terminal_size((_FRAME_WIDTH, 24)).columns, _FRAME_WIDTH)
        drawn = io.StringIO()
        Console(file=drawn, width=width, force_terminal=True, force_jupyter=False, color_system="standard").print(frame)
        return drawn.getvalue().splitlines()

    def _line_of_the_caller(self) -> str | None:
        """The last line that is not the library's own before one that is."""
        found = None
        for frame in traceback.extract_tb(self.__traceback__):
            if Path(frame.filename).is_relative_to(Path(__file__).parent):
                break
            found = f"line {frame.lineno}: {frame.line}" if frame.line else None
        return found

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.culprit, self.hint))


def _rebuild(kind: type[LakeIndexError], message: str, culprit: str | None, hint: str | None) -> LakeIndexError:
    return kind(message, culprit=culprit, hint=hint)


class UsageError(LakeIndexError):
    """The call itself is wrong."""

    exit_code = 2


class OptionError(UsageError):
    """An option is unknown, or its value is not valid."""


class InputError(LakeIndexError):
    """The batch is missing, unreadable or wrong."""

    exit_code = 3


class SchemaMismatchError(InputError):
    """The batch's columns or types do not fit the table's."""


class QuarantineExceededError(InputError):
    """More rows are bad than the caller allows."""


class KeysStoredError(QuarantineExceededError):
    """They are good rows, which are to be inserted and whose keys are stored."""


class TableError(LakeIndexError):
    """The table is refused."""

    exit_code = 4


class TableNotFoundError(TableError):
    """No Hudi table at this place."""


class TableExistsError(TableError):
    """A table is there already."""


class TableUnsupportedError(TableError):
    """A table version, type or feature that is not written (or not read)."""


class ClockError(TableError):
    """A clock or a time zone that does not fit the table: instants taken from it would hide those of others."""


class MetadataTableError(TableUnsupportedError):
    """The table has a metadata table, which our commits would leave stale."""


class TableCorruptError(TableError):
    """A file, footer, instant or property is damaged."""


class IndexNotBuiltError(TableError):
    """A stored index is empty or incomplete and must be built. No other index replaces it."""


class IndexDamagedError(TableError):
    """A stored index does not agree with the table."""


class ConflictError(LakeIndexError):
    """The work of another writer, or of another attempt, prevents this one."""

    exit_code = 5
    transient = True


class WriteConflictError(ConflictError):
    """Another writer changed the file groups or keys that this write planned to change."""


class TimelineChangedError(ConflictError):
    """An instant was archived or rolled back between the listing of the timeline and the reading of its file."""


class IndexChangedError(ConflictError):
    """A file of a stored index was folded or taken back after the index was listed, before the file was read."""


class FencedError(ConflictError):
    """A newer attempt of this run, or a newer lock epoch, exists."""


class LockTimeoutError(ConflictError):
    """The table's lock could not be acquired in time."""


class PendingInstantError(ConflictError):
    """An instant of a foreign writer is in flight."""


class BatchIdReusedError(ConflictError):
    """The batch id was used already, with other input or for something else."""


class InvariantError(LakeIndexError):
    """An identity that must hold before publishing does not; nothing was published."""

    exit_code = 6


class StorageError(LakeIndexError):
    """The storage failed."""

    transient = True


class AccessDeniedError(StorageError):
    """The store or the file system refuses who asks: credentials or rights are missing or wrong."""

    transient = False


class MachineError(LakeIndexError):
    """The machine has no more memory or threads."""

    transient = True


class ObjectNotFoundError(StorageError):
    """No object at this path."""


class ObjectExistsError(StorageError):
    """Create-if-absent found an object."""


class ObjectChangedError(StorageError):
    """Replace-if-unchanged found another version of the object, or none."""


class NoConditionalWritesError(StorageError):
    """The store cannot replace an object only if it is unchanged."""


class UnknownOutcomeError(StorageError):
    """A write may or may not have happened (time-out, lost answer)."""


class HBaseUnavailableError(StorageError):
    """HBase's Thrift server, or HBase behind it, does not answer."""


class HBaseTableError(StorageError):
    """A table of HBase is missing, or is not fit to keep an index."""


class CatalogError(StorageError):
    """A catalog does not answer, or refuses what it is told."""


class CatalogChangedError(CatalogError):
    """An entry of a catalog is another than the one that was read."""


MOVED_FOR_SURE: Final = (WriteConflictError, TimelineChangedError, IndexChangedError)
MOVED_ERRORS: Final = (*MOVED_FOR_SURE, ObjectNotFoundError, TableCorruptError, MetadataTableError)
"""What reading or publishing may end with when the table or its index has moved meanwhile."""


def may_pass(error: BaseException) -> bool:
    """Whether doing the same again may go better. An error that is not of this tree may pass: nobody knows it."""
    return error.transient if isinstance(error, LakeIndexError) else True


def code_may_pass(exit_code: int) -> bool:
    """The same of a process of which no more than its end is known: some error with this exit code may pass, or none of
    this tree has it.
    """
    kinds = [kind for kind in _kinds(LakeIndexError) if kind.exit_code == exit_code]
    return not kinds or any(kind.transient for kind in kinds)


def _kinds(kind: type[LakeIndexError]) -> list[type[LakeIndexError]]:
    """A class and all below it."""
    return [kind, *(below for one in kind.__subclasses__() for below in _kinds(one))]


def clipped(text: str, most: int = 300) -> str:
    """A text as messages show it: its beginning, if it is long."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)"


def first_line(error: object) -> str:
    """The first line of what an error says, without what it trails along; its class, if it says nothing."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


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
    from lakeindex.time_spent import loading

    with loading():
        for name in _LIBRARIES:
            importlib.import_module(name)


def door(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """A function of the library's surface: what it raises goes through :func:`our_words`; it does not load pandas."""

    @functools.wraps(function)
    def inside(*arguments: _P.args, **named: _P.kwargs) -> _T:
        with our_words():
            _load_libraries()
            with unasked():
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
