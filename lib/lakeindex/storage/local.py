"""The adapter for local disk: plain files.

Plain file calls rather than obstore's ``LocalStore``: that one refuses names that end in ``#`` and digits (legal in a
partition path), hides them in listings, never syncs, and costs a thread hop a call. What it does for atomicity is
done here the same way: the bytes go to a temporary file in the same folder, which is then renamed (replace) or
hard-linked (create-if-absent) to its name.
"""

from __future__ import annotations

import os
import secrets
import stat
import time
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from lakeindex.errors import ObjectExistsError, ObjectNotFoundError, StorageError, os_error_hint
from lakeindex.storage.paths import TEMPORARY_PREFIX, checked_folder, checked_path, file_uri, join
from lakeindex.storage.port import Listing, ObjectMeta, Pieces, Watched, no_conditional_writes
from lakeindex.threads import shared

_MKDIR_TRIES: Final = 5
_SYNCS_AT_ONCE: Final = 8
_TOGETHER_FROM: Final = 4


class LocalStorage:
    """A folder of local disk.

    Args:
        root: the folder; it need not exist before the first write.
    """

    def __init__(self, root: str) -> None:
        self._root = os.path.abspath(root)  # noqa: PTH100 - byte-exact: Path() would not change "..", "//" alike

    def __reduce__(self) -> tuple[object, ...]:
        return LocalStorage, (self._root,)

    def __repr__(self) -> str:
        return f"LocalStorage({self._root!r})"

    @property
    def root(self) -> str:
        return self._root

    @property
    def uri(self) -> str:
        """``file://`` and the folder; only ``%`` is encoded."""
        return file_uri(self._root)

    def list(self, prefix: str = "") -> list[ObjectMeta]:
        found: list[ObjectMeta] = []
        waiting = [checked_folder(prefix)]
        while waiting:
            level = self.list_folder(waiting.pop())
            found += level.objects
            waiting += level.folders
        return sorted(found)

    def list_folder(self, prefix: str = "") -> Listing:
        """One level below a folder; empty folders are listed, too."""
        folder = checked_folder(prefix)
        folders: list[str] = []
        objects: list[ObjectMeta] = []
        for entry in self._entries(folder):
            path = join(folder, entry.name)
            try:
                if entry.is_dir():
                    folders.append(path)
                elif not entry.name.startswith(TEMPORARY_PREFIX):
                    objects.append(_meta(path, entry.stat()))
            except FileNotFoundError:
                continue  # deleted since the folder was read
            except OSError as error:
                raise _failed("list", path, error) from error
        return Listing(tuple(sorted(folders)), tuple(sorted(objects)))

    def list_names(self, prefix: str = "") -> tuple[str, ...]:
        """Names of the objects one level below a folder, sorted, and of its folders; no file is looked at."""
        folder = checked_folder(prefix)
        try:
            names = sorted(os.listdir(f"{self._root}/{folder}" if folder else self._root))  # noqa: PTH208 - as below
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            raise _failed("list", folder, error) from error
        first = bisect_left(names, TEMPORARY_PREFIX)  # where temporary files would be, one behind the other
        if first < len(names) and names[first].startswith(TEMPORARY_PREFIX):
            return tuple([name for name in names if not name.startswith(TEMPORARY_PREFIX)])
        return tuple(names)

    def head(self, path: str) -> ObjectMeta:
        try:
            found = os.stat(self._full(path))  # noqa: PTH116 - a Path would be built for every call
        except (FileNotFoundError, NotADirectoryError):
            raise _missing(path) from None
        except OSError as error:
            raise _failed("head", path, error) from error
        if stat.S_ISDIR(found.st_mode):
            raise _missing(path)
        return _meta(path, found)

    def read(self, path: str) -> bytes:
        try:
            with open(self._full(path), "rb", buffering=0) as file:  # noqa: PTH123 - hot path
                return file.readall()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise _missing(path) from None
        except OSError as error:
            raise _failed("read", path, error) from error

    def read_range(self, path: str, start: int, length: int) -> bytes:
        try:
            descriptor = os.open(self._full(path), os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            raise _missing(path) from None
        except OSError as error:
            raise _failed("read", path, error) from error
        try:
            return _read_at(descriptor, start, length)
        except IsADirectoryError:
            raise _missing(path) from None
        except OSError as error:
            raise _failed("read", path, error) from error
        finally:
            os.close(descriptor)

    def create(self, path: str, data: bytes) -> None:
        """Write the object if it is absent; a hard link decides the race.
        Its bytes are durable before it has its name.
        """
        full = self._full(path)
        if os.path.lexists(full):
            raise ObjectExistsError(
                f"{path} exists", culprit=path
            )  # known before anything is written, let alone synced
        temporary = self._write_temporary(path, full, data, durable=True)
        try:
            os.link(temporary, full)
        except FileExistsError:
            raise ObjectExistsError(f"{path} exists", culprit=path) from None
        except OSError as error:
            raise _failed("create", path, error) from error
        finally:
            Path(temporary).unlink(missing_ok=True)

    def write(self, path: str, data: bytes | Pieces) -> None:
        full = self._full(path)
        temporary = self._write_temporary(path, full, data)
        try:
            os.replace(temporary, full)  # noqa: PTH105 - hot path
        except OSError as error:
            Path(temporary).unlink(missing_ok=True)
            raise _failed("write", path, error) from error

    def replace(self, path: str, data: bytes, etag: str) -> str:  # noqa: ARG002 - the port's
        raise no_conditional_writes(path, "a local disk")

    def delete(self, path: str) -> None:
        """Remove the object; its folder stays (see :func:`remove_empty_folders`)."""
        try:
            os.unlink(self._full(path))  # noqa: PTH108 - hot path
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return
        except OSError as error:
            raise _failed("delete", path, error) from error

    def sync(self, paths: Iterable[str]) -> None:
        """Fsync these objects and every folder from theirs up to the root: the folders may be new, too."""
        files = list(paths)
        self._fsync_all([(path, self._full(path)) for path in files], os.O_RDONLY)
        self._sync_up({path.rpartition("/")[0] for path in files})

    def sync_folders(self, folders: Iterable[str]) -> None:
        """Fsync these folders and all above them up to the root; one that is not there has nothing to lose."""
        self._sync_up(map(checked_folder, folders), missing_ok=True)

    def _sync_up(self, wanted: Iterable[str], *, missing_ok: bool = False) -> None:
        folders: set[str] = set()
        for folder in wanted:
            above = folder
            while above not in folders:
                folders.add(above)
                above = above.rpartition("/")[0]
        by_depth: dict[int, list[str]] = {}
        for folder in sorted(folders):
            by_depth.setdefault(folder.count("/") + 1 if folder else 0, []).append(folder)
        for depth in sorted(by_depth, reverse=True):
            pairs = [(folder, os.path.join(self._root, folder)) for folder in by_depth[depth]]  # noqa: PTH118
            self._fsync_all(pairs, os.O_RDONLY | os.O_DIRECTORY, missing_ok=missing_ok)

    def remove_empty_folders(self, prefix: str) -> None:
        top = checked_folder(prefix)
        if not top:
            raise StorageError("the root of a store is never removed", culprit=prefix)
        for folder, _, _ in os.walk(self._full(top), topdown=False):
            try:
                Path(folder).rmdir()
            except OSError:
                continue  # not empty, or gone

    def remove_temporary(self, prefix: str, older_than_seconds: float) -> int:
        removed = 0
        folder = checked_folder(prefix)
        limit = time.time() - older_than_seconds
        for entry in self._entries(folder):
            if not entry.name.startswith(TEMPORARY_PREFIX):
                continue
            try:
                if entry.stat().st_mtime < limit:
                    Path(entry.path).unlink(missing_ok=True)
                    removed += 1
            except FileNotFoundError:
                continue  # its writer finished
        return removed

    def _full(self, path: str) -> str:
        return f"{self._root}/{checked_path(path)}"

    def _entries(self, folder: str) -> tuple[os.DirEntry[str], ...]:
        try:
            with os.scandir(f"{self._root}/{folder}" if folder else self._root) as entries:
                return tuple(entries)
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            raise _failed("list", folder, error) from error

    def _write_temporary(self, path: str, full: str, data: bytes | Pieces, *, durable: bool = False) -> str:
        """Write the bytes beside their place; the folder is made if it is missing. Returns the temporary's path."""
        folder = full.rpartition("/")[0]
        temporary = f"{folder}/{TEMPORARY_PREFIX}{os.getpid()}-{secrets.token_hex(8)}"
        for left in reversed(range(_MKDIR_TRIES)):
            try:
                descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
                break
            except FileNotFoundError as error:
                # No folder yet, or somebody removed it while it was empty: once more.
                if not left:
                    raise _failed("write", path, error) from error
                os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - as above
            except OSError as error:
                raise _failed("write", path, error) from error
        pieces = Watched(data)
        try:
            with os.fdopen(descriptor, "wb", buffering=0) as file:
                for piece in pieces:
                    view = memoryview(piece)
                    while view:
                        view = view[file.write(view) :]
                if durable:
                    os.fsync(file.fileno())
        except BaseException as error:
            Path(temporary).unlink(missing_ok=True)
            if isinstance(error, OSError) and pieces.failure is None:
                raise _failed("write", path, error) from error
            raise
        return temporary

    def _fsync_all(self, pairs: Sequence[tuple[str, str]], flags: int, *, missing_ok: bool = False) -> None:
        """Fsync many, some at once: a file system writes what waits together as one."""

        def sync(pair: tuple[str, str]) -> None:
            try:
                self._fsync(*pair, flags)
            except ObjectNotFoundError:
                if not missing_ok:
                    raise

        if len(pairs) < _TOGETHER_FROM:
            for pair in pairs:
                sync(pair)
            return
        shared(sync, pairs, _SYNCS_AT_ONCE, "sync")

    def _fsync(self, path: str, full: str, flags: int) -> None:
        try:
            descriptor = os.open(full, flags | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            raise _missing(path) from None
        except OSError as error:
            raise _failed("sync", path, error) from error
        try:
            os.fsync(descriptor)
        except OSError as error:
            raise _failed("sync", path, error) from error
        finally:
            os.close(descriptor)


def _read_at(descriptor: int, start: int, length: int) -> bytes:
    parts: list[bytes] = []
    while length > 0:
        part = os.pread(descriptor, length, start)
        if not part:
            break
        parts.append(part)
        start += len(part)
        length -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _meta(path: str, found: os.stat_result) -> ObjectMeta:
    etag = f"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_size:x}"
    return ObjectMeta(path, found.st_size, found.st_mtime_ns // 1_000_000, etag)


def _missing(path: str) -> ObjectNotFoundError:
    return ObjectNotFoundError(f"{path} does not exist", culprit=path)


def _failed(what: str, path: str, error: OSError) -> StorageError:
    return StorageError(
        f"cannot {what} {path}: {error.strerror or error}",
        culprit=str(error.filename or path),
        hint=os_error_hint(error),
    )
