"""Paths inside a store: what is allowed, and nothing that could leave its root."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from lakeindex.errors import StorageError

TEMPORARY_PREFIX: Final = ".lakeindex-tmp-"
"""Temporary files of stores with folders start so. No reader takes them for data, and listings leave them out."""


def checked_path(path: str) -> str:
    """The path of an object, unchanged.

    Raises:
        StorageError: empty, absolute, or with a level that is empty, ``.`` or ``..``, or holds a NUL.
    """
    problem = _problem(path)
    if problem is not None:
        raise StorageError(
            f"path {path!r} {problem}",
            culprit=path,
            hint="paths are relative to the root of the store and stay below it",
        )
    return path


def checked_folder(prefix: str) -> str:
    """A folder's path without its trailing slash; ``""`` is the root. Raises: StorageError."""
    folder = prefix.removesuffix("/")
    return folder if folder == "" else checked_path(folder)


def absolute(uri: str) -> str:
    """A URL as it is, a path made absolute, with its links followed: one folder has one name."""
    return uri if "://" in uri else str(Path(uri).resolve())


def join(folder: str, name: str) -> str:
    """``folder/name``, or the name alone in the root."""
    return f"{folder}/{name}" if folder else name


def _problem(path: str) -> str | None:
    if path == "":
        return "is empty"
    if path.startswith("/"):
        return "is absolute"
    if "\x00" in path:
        return "holds a NUL character"
    for level in path.split("/"):
        if level in (".", ".."):
            return f"has the level {level!r}, which would leave its folder"
        if level == "":
            return "has an empty level"
    return None
