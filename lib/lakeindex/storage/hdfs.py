"""The adapter for HDFS through hdfs-native (a client in Rust: no JVM, no libhdfs).

Cluster, high availability, user and Kerberos come from Hadoop's own files and variables (``HADOOP_CONF_DIR``,
``HADOOP_USER_NAME``, a ticket cache; docs/storage.md).

Every object is written to a temporary file in its folder, which is then renamed to its name: with overwrite to replace
it, without to create it, where the NameNode lets exactly one of several racers through. So an object is whole or absent
for every reader, which HDFS's own ``create`` does not give. When a rename's answer is lost and asked for again, its
source is gone: whether it happened is then unknown, and the caller reads back.
"""

from __future__ import annotations

import os
import queue
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, cast

import tenacity
from hdfs_native import Client, WriteOptions

from lakeindex.errors import (
    ObjectExistsError,
    ObjectNotFoundError,
    OptionError,
    StorageError,
    UnknownOutcomeError,
    first_line,
)
from lakeindex.storage.options import NO_OPTIONS, StoreOptions, TimeLimits
from lakeindex.storage.paths import TEMPORARY_PREFIX, checked_folder, checked_path
from lakeindex.storage.port import Listing, ObjectMeta, Pieces, Watched, no_conditional_writes

if TYPE_CHECKING:
    from hdfs_native import FileStatus

_READ_TRIES: Final = 3
"""A file that is replaced while it is read may lose its blocks: it is then opened anew."""

_ATTEMPTS: Final = "4"
"""How often a call is tried where no NameNode answers: some ten seconds, well inside the lock's lease.
Hadoop's 15 are minutes.
"""

_REPORT_SECONDS: Final = 3
"""How long a reader waits for a DataNode to report the last block of a file, each time it opens it."""

_CHUNK: Final = 512
"""Bytes of a checksum: every block but a file's last one is a multiple of it."""

_READS: Final = frozenset({"head", "list", "read"})

_WITH_ROWS: Final = 5
"""How many times longer a call may take that carries rows."""

_Found = TypeVar("_Found")


class _UnreportedError(RuntimeError):
    """No DataNode has reported the last block of a closed file yet."""


class HdfsStorage:
    """A folder of HDFS.

    Args:
        uri: ``hdfs://namenode:port/path``, ``hdfs://nameservice/path`` or, with ``fs.defaultFS`` set, ``hdfs:///path``;
            not percent-decoded. Names must not hold ``:``, which HDFS refuses.
        options: settings of the table handle; those with a ``.`` in the name are Hadoop's.

    Raises:
        OptionError: Hadoop's configuration does not say where the cluster is.
    """

    def __init__(self, uri: str, options: StoreOptions = NO_OPTIONS) -> None:
        self._options = options
        self._settings = tuple((name, value) for name, value in options.pairs if "." in name)
        self._uri = uri.rstrip("/")
        self._authority, slash, path = self._uri.removeprefix("hdfs://").partition("/")
        self._root = f"{slash}{path}"
        try:
            _client(self._authority, self._settings, os.getpid())
        except (RuntimeError, ValueError, OSError) as error:
            hint = (
                "write hdfs://namenode:port/path, or set HADOOP_CONF_DIR to the folder of "
                "core-site.xml and hdfs-site.xml"
            )
            raise OptionError(f"cannot open {uri}: {first_line(error)}", culprit=uri, hint=hint) from error

    def __reduce__(self) -> tuple[object, ...]:
        return HdfsStorage, (self._uri, self._options)

    def __repr__(self) -> str:
        return f"HdfsStorage({self._uri!r})"

    @property
    def uri(self) -> str:
        return self._uri

    def list(self, prefix: str = "") -> list[ObjectMeta]:
        return sorted(self._object(one) for one in self._statuses(checked_folder(prefix), deep=True) if not one.isdir)

    def list_folder(self, prefix: str = "") -> Listing:
        """One level below a folder; empty folders are listed, too."""
        statuses = list(self._statuses(checked_folder(prefix)))
        folders = sorted(self._relative(one.path) for one in statuses if one.isdir)
        return Listing(tuple(folders), tuple(sorted(self._object(one) for one in statuses if not one.isdir)))

    def head(self, path: str) -> ObjectMeta:
        full = self._full(path)
        with _translated("head", path):
            found = self._client.get_file_info(full)
        if found.isdir:
            raise _missing(path)
        return self._object(found)

    def read(self, path: str) -> bytes:
        full = self._full(path)
        return _tried_again(path, lambda: _opened(self._client, full).read())

    def read_range(self, path: str, start: int, length: int) -> bytes:
        full = self._full(path)

        def read() -> bytes:
            file = _opened(self._client, full)
            there = max(min(length, len(file) - start), 0)
            return file.read_range(start, there) if there else b""

        return _tried_again(path, read)

    def create(self, path: str, data: bytes) -> None:
        """Write the object if it is absent; a rename without overwrite decides the race."""
        self._put(path, data, overwrite=False)

    def write(self, path: str, data: bytes | Pieces) -> None:
        self._put(path, data, overwrite=True)

    def replace(self, path: str, data: bytes, etag: str) -> str:  # noqa: ARG002 - the port's
        raise no_conditional_writes(path, "HDFS")

    def delete(self, path: str) -> None:
        """Remove the object; its folder stays (see :meth:`remove_empty_folders`)."""
        full = self._full(path)
        try:
            self.head(path)  # a folder is none, also if it is empty
        except ObjectNotFoundError:
            return
        with _translated("delete", path):
            self._client.delete(full)

    def sync(self, paths: Iterable[str]) -> None:
        """Nothing to do: a closed file is on as many DataNodes as its replication says,
        and a rename in the NameNodes' log.
        """

    def remove_empty_folders(self, prefix: str) -> None:
        top = checked_folder(prefix)
        if not top:
            raise StorageError("the root of a store is never removed", culprit=prefix)
        below = [self._relative(one.path) for one in self._statuses(top, deep=True) if one.isdir]
        for folder in [*sorted(below, key=len, reverse=True), top]:
            with suppress(StorageError), _translated("remove", folder):
                self._client.delete(self._full(folder))  # not recursive: refused where somebody just wrote

    def remove_temporary(self, prefix: str, older_than_seconds: float) -> int:
        removed = 0
        limit = (time.time() - older_than_seconds) * 1000
        for one in self._statuses(checked_folder(prefix), temporary=True):
            if not one.isdir and one.modification_time < limit:
                with _translated("delete", one.path):
                    removed += self._client.delete(one.path)
        return removed

    @property
    def _client(self) -> _AnsweringClient:
        limits = TimeLimits.of(self._options)
        return _AnsweringClient(_client(self._authority, self._settings, os.getpid()), limits.all_tries.total_seconds())

    def _full(self, path: str) -> str:
        return f"{self._root}/{checked_path(path)}"

    def _relative(self, full: str) -> str:
        return full.removeprefix(f"{self._root}/")

    def _object(self, found: FileStatus) -> ObjectMeta:
        etag = f"{found.modification_time:x}-{found.length:x}"
        return ObjectMeta(self._relative(found.path), found.length, found.modification_time, etag)

    def _statuses(self, folder: str, *, deep: bool = False, temporary: bool = False) -> Iterator[FileStatus]:
        """What is below a folder: temporary files, or all but them."""
        full = f"{self._root}/{folder}" if folder else self._root or "/"
        try:
            with _translated("list", folder):
                for one in self._client.all_statuses(full, deep):
                    if one.path != full and _is_temporary(one.path) is temporary:
                        yield one
        except ObjectNotFoundError:
            return

    def _put(self, path: str, data: bytes | Pieces, *, overwrite: bool) -> None:
        full = self._full(path)
        temporary = f"{full.rpartition('/')[0]}/{TEMPORARY_PREFIX}{os.getpid()}-{secrets.token_hex(8)}"
        pieces = Watched(data)
        try:
            with _translated("write", path), self._client.create(temporary, WriteOptions(permission=0o644)) as file:
                for piece in pieces:
                    # a view would be taken item by item: ten times slower, and one of signed items not at all
                    file.write(bytes(piece))
            if overwrite:
                self._await_report(temporary)
            self._rename(temporary, path, overwrite=overwrite)
        except BaseException:
            with suppress(RuntimeError, OSError):
                self._client.delete(temporary)
            if pieces.failure is not None:
                raise pieces.failure from None
            raise

    def _await_report(self, temporary: str) -> None:
        """Wait for the last block before an object is replaced: else an object that is replaced more often than
        DataNodes report would never be readable. What is not reported in time, its readers wait for.
        """
        with suppress(RuntimeError, OSError):  # if there is no cluster any more, the rename tells
            _opened(self._client, temporary)

    def _rename(self, temporary: str, path: str, *, overwrite: bool) -> None:
        try:
            with _translated("write" if overwrite else "create", path, writing=True):
                self._client.rename(temporary, self._full(path), overwrite=overwrite)
        except ObjectNotFoundError as error:
            # the temporary file is not there: an earlier try of this rename may have moved it
            raise UnknownOutcomeError(f"cannot tell whether {path} was written", culprit=path) from error


class _Answering:
    """A client, file or stream whose calls end in time: hdfs-native waits for good for a server that takes a connection
    and says nothing. What still waits then is left to a thread that does not keep the process from ending.
    """

    def __init__(self, inner: Any, seconds: float) -> None:
        self._inner = inner
        self._seconds = seconds

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._inner, name)

        def within(*arguments: Any, **named: Any) -> Any:
            return answered(lambda: call(*arguments, **named), self._seconds)

        return within

    def __len__(self) -> int:
        return len(self._inner)

    def __enter__(self) -> Self:
        answered(self._inner.__enter__, self._seconds)
        return self

    def __exit__(self, *error: object) -> None:
        answered(lambda: self._inner.__exit__(*error), self._seconds)


class _AnsweringClient(_Answering):
    def all_statuses(self, full: str, deep: bool) -> list[FileStatus]:  # noqa: FBT001 - hdfs-native's own
        """What is listed: it is asked for while it is iterated over."""
        return answered(lambda: list(self._inner.list_status(full, deep)), self._seconds)

    def create(self, full: str, options: WriteOptions) -> _Answering:
        return self._with_rows(lambda: self._inner.create(full, options))

    def read(self, full: str) -> _Answering:
        return self._with_rows(lambda: self._inner.read(full))

    def _with_rows(self, call: Callable[[], Any]) -> _Answering:
        return _Answering(answered(call, self._seconds), self._seconds * _WITH_ROWS)


def answered(call: Callable[[], _Found], seconds: float) -> _Found:
    """What a call returns or raises. Raises: TimeoutError: nothing in so many seconds."""
    done: queue.SimpleQueue[tuple[_Found | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            done.put((call(), None))
        except BaseException as error:  # noqa: BLE001 - raised below
            done.put((None, error))

    threading.Thread(target=run, name="hdfs", daemon=True).start()
    try:
        found, error = done.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError(f"no answer in {seconds:g} s (LAKEINDEX_STORE_TIMEOUT)") from None
    if error is not None:
        raise error
    return cast(_Found, found)


@lru_cache(maxsize=16)
def _client(authority: str, settings: tuple[tuple[str, str], ...], _process: int) -> Client:
    """One client a cluster and process: a forked process must not speak on its parent's connections."""
    return Client(
        f"hdfs://{authority}" if authority else None, {**dict(settings), "dfs.client.failover.max.attempts": _ATTEMPTS}
    )


@tenacity.retry(
    retry=tenacity.retry_if_exception_type(_UnreportedError),
    wait=tenacity.wait_exponential(multiplier=0.005, max=0.2),
    stop=tenacity.stop_after_delay(_REPORT_SECONDS),
    reraise=True,
)
def _opened(client: Any, full: str) -> Any:
    """A file with all its blocks.

    A NameNode that closes files before their last block is reported (``dfs.namenode.file.close.num-committed-allowed``)
    leaves that block out of the length with which hdfs-native opens the file: it would be read as if it ended before.
    """
    file = client.read(full)
    there = len(file)
    if there % _CHUNK == 0 and client.get_file_info(full).length != there:
        raise _UnreportedError(f"its last block was not reported within {_REPORT_SECONDS} seconds")
    return file


@tenacity.retry(
    retry=tenacity.retry_if_exception(lambda error: isinstance(error.__cause__, RuntimeError)),
    stop=tenacity.stop_after_attempt(_READ_TRIES),
    reraise=True,
)
def _tried_again(path: str, read: Callable[[], _Found]) -> _Found:
    with _translated("read", path):
        return read()


def _is_temporary(path: str) -> bool:
    return path.rpartition("/")[2].startswith(TEMPORARY_PREFIX)


def _missing(path: str) -> ObjectNotFoundError:
    return ObjectNotFoundError(f"{path} does not exist", culprit=path)


@contextmanager
def _translated(what: str, path: str, *, writing: bool = False) -> Iterator[None]:
    """Raise hdfs-native's errors as ours: "exists" and "not found" are OSErrors,
    what the servers refuse is a RuntimeError.
    """
    try:
        yield
    except FileExistsError as error:
        raise ObjectExistsError(f"{path} exists", culprit=path) from error
    except FileNotFoundError as error:
        raise _missing(path) from error
    except (RuntimeError, ValueError, OSError) as error:
        said = first_line(error).partition(r"\n\tat ")[0]  # then Java's stack, in the same line
        if what in _READS and said.endswith("(is not a directory)"):
            raise _missing(path) from error  # below an object
        kind = UnknownOutcomeError if writing else StorageError
        raise kind(f"cannot {what} {path}: {said}", culprit=path) from error
