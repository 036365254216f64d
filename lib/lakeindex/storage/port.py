"""The storage port: everything the library reads or writes goes through it.

Paths are relative to the store's root, ``/``-separated, never starting with ``/`` and never holding ``..``; they
are byte-exact on disk (spaces, ``%2F``, ``:``, non-ASCII). The contract, checked by one suite on every adapter:

* a write is whole or absent for every reader, and readable right after it returned; so is one whose pieces are made
  while it runs: if making them fails, nothing was written, and the error is raised as it was;
* ``create`` has exactly one winner among any number of racers; the losers get ``ObjectExistsError``;
* of any number of racers that ``replace`` one version of an object exactly one wins; the losers get
  ``ObjectChangedError``. Local disk and HDFS cannot do it, and raise ``NoConditionalWritesError``;
* a call that raises ``UnknownOutcomeError`` may or may not have happened: the caller reads back;
* ``delete`` of a missing object is no error; listing shows what is there, sorted by path;
* a power loss takes what was not synced: a new object is gone or whole after ``create``, and may be torn after
  ``write``; one that was replaced may be the old or the new one, or torn; one that was deleted may be back.
  Any subset, in no order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

from lakeindex.errors import NoConditionalWritesError
from lakeindex.frozen import Frozen

T = TypeVar("T")

Pieces: TypeAlias = Iterable[bytes | memoryview]
"""An object's bytes, one piece after the other: a file that does not fit into memory is made while it is written."""


class ObjectMeta(Frozen, order=True):
    """One listed object.

    Attributes:
        path: relative to the store's root.
        modified_ms: last modification, milliseconds since the epoch, UTC.
        etag: the store's version mark, if it gives one.
    """

    path: str
    size_bytes: int
    modified_ms: int = 0
    etag: str | None = None


class Listing(Frozen):
    """One level of a folder: names of sub-folders (relative to the root) and the objects."""

    folders: tuple[str, ...]
    objects: tuple[ObjectMeta, ...]


@runtime_checkable
class Storage(Protocol):
    """A root (a folder or a bucket prefix) and what can be done below it."""

    @property
    def uri(self) -> str:
        """The root, as a URL; ``open_storage(uri)`` in another process gives the same store."""

    def list(self, prefix: str = "") -> list[ObjectMeta]:
        """All objects below the folder ``prefix``, at any depth, sorted by path; empty if there is no such folder."""

    def list_folder(self, prefix: str = "") -> Listing:
        """One level below the folder ``prefix``; empty if there is none."""

    def head(self, path: str) -> ObjectMeta:
        """Size and mark of one object. Raises: ObjectNotFoundError."""

    def read(self, path: str) -> bytes:
        """The whole object. Raises: ObjectNotFoundError."""

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """At most ``length`` bytes from ``start``. Raises: ObjectNotFoundError."""

    def create(self, path: str, data: bytes) -> None:
        """Write the object only if it is absent. Raises: ObjectExistsError, UnknownOutcomeError."""

    def write(self, path: str, data: bytes | Pieces) -> None:
        """Write or replace the object, whole. Raises: UnknownOutcomeError."""

    def replace(self, path: str, data: bytes, etag: str) -> str:
        """Replace the object only if it still has this version mark; the mark of the new version.

        Raises: ObjectChangedError, UnknownOutcomeError, NoConditionalWritesError.
        """

    def delete(self, path: str) -> None:
        """Remove the object; no error if it is not there."""

    def sync(self, paths: Iterable[str]) -> None:
        """Make these objects and their folders durable (fsync on local disk; nothing on object stores)."""


class SyncsFolders(Protocol):
    """A store whose deletions wait in memory until they are synced."""

    def sync_folders(self, folders: Iterable[str]) -> None:
        """Make the entries of these folders, and of those above them, durable: what was deleted there stays so."""


class ListsNames(Protocol):
    """A store that is asked for the size and time of each file it lists, one by one."""

    def list_names(self, prefix: str = "") -> tuple[str, ...]:
        """Names, without the folder's, of the objects one level below a folder, sorted; those of folders may be among
        them.
        """


class read_once(Generic[T]):  # noqa: N801 - used as a decorator
    """A property that is read from a store when an object is first asked for it.

    ``functools.cached_property`` holds one lock for all objects of the class meanwhile, until Python 3.12: writers of
    one process would wait for each other's requests. Two threads that ask one object at once both read.
    """

    def __init__(self, read: Callable[[Any], T]) -> None:
        self._read = read
        self.__doc__ = read.__doc__

    def __set_name__(self, kind: type, name: str) -> None:
        self._name = name

    def __get__(self, of: Any, kind: type | None = None) -> T:
        value: T = self._read(of)
        vars(of)[self._name] = value
        return value


def no_conditional_writes(path: str, store: str) -> NoConditionalWritesError:
    """The error of a store that cannot ``replace``."""
    return NoConditionalWritesError(
        f"{store} cannot replace {path} only if it is unchanged",
        culprit=path,
        hint="conditional writes need an object store: s3://, gs://, az://",
    )


def joined(data: bytes | Pieces) -> bytes:
    return data if isinstance(data, bytes) else b"".join(data)


class Watched:
    """What is written, in pieces, for a client that reports any error as its own:
    ``failure`` is the one of making them.
    """

    def __init__(self, data: bytes | Pieces) -> None:
        self._pieces = (data,) if isinstance(data, bytes) else data
        self.failure: Exception | None = None

    def __iter__(self) -> Iterator[bytes | memoryview]:
        try:
            yield from self._pieces
        except Exception as error:
            self.failure = error
            raise
