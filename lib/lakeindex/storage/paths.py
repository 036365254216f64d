"""Where things are: paths and URLs as people write them, and paths inside a store, which never leave its root."""

from __future__ import annotations

import os
import re
from typing import Final, TypeAlias
from urllib.parse import unquote

from lakeindex.errors import OptionError, StorageError

Place: TypeAlias = str | os.PathLike[str]
"""A path or URL as a caller gives it."""

OBJECT_SCHEMES: Final = frozenset({"s3", "s3a", "gs", "az", "abfs", "abfss"})
_SCHEMES: Final = OBJECT_SCHEMES | {"file", "hdfs", "memory"}
_ALSO_S3: Final = ("s3a", "s3n")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_PLAIN: Final = re.compile(r"(?:/[A-Za-z0-9_=-][A-Za-z0-9_=.-]*)+")
"""Most paths: in their one form already."""
_DRIVE: Final = re.compile(r"/?[A-Za-z]:[/\\]|\\\\")
"""How absolute paths of Windows begin."""
_INSTEAD: Final = {
    **dict.fromkeys(("s3n", "oss", "cos", "obs", "r2", "minio"), "s3://bucket/path, with AWS_ENDPOINT_URL"),
    **dict.fromkeys(("gcs", "gcp"), "gs://bucket/path"),
    **dict.fromkeys(
        ("wasb", "wasbs", "adl", "azure", "adls", "onelake"),
        "abfss://container@account.dfs.core.windows.net/path, or az://container/path",
    ),
    **dict.fromkeys(("webhdfs", "swebhdfs", "viewfs"), "hdfs://namenode:port/path"),
    **dict.fromkeys(("glue", "hive", "hives"), "the table's folder: what a catalog names is there already"),
    "dbfs": "the place behind it, such as s3://bucket/path; a cluster of Databricks mounts it at /dbfs/...",
    "http": "the store's own URL, such as s3://bucket/path, with AWS_ENDPOINT_URL",
    "https": "the store's own URL, such as s3://bucket/path or az://container/path",
}
"""What to write in the place of a scheme that has no store."""

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


def plain(place: Place, base: str = "") -> str:
    """A path or URL in the one form in which everything is derived from it: an absolute path, or
    ``scheme://authority/path``, without ``.``, ``..``, doubled and trailing slashes.

    ``~`` is the home folder. ``file:`` URLs become paths, and are percent-decoded; no others are, as Hadoop does not.
    One slash behind the scheme is read as Hadoop and ``pathlib`` mean it.

    Args:
        place: as a caller gives it.
        base: what a relative path is relative to; by default the working folder.

    Raises:
        OptionError: it is empty, has a scheme without a store, or lacks its bucket.
    """
    text = os.fspath(place)
    if _PLAIN.fullmatch(text):
        return text
    if not text.strip() or "\x00" in text:
        raise OptionError(
            f"a path cannot be {text!r}", culprit=text, hint="give a path, or a URL such as s3://bucket/t"
        )
    found = _SCHEME.fullmatch(text)
    scheme = found[1].lower() if found else ""
    if _DRIVE.match(text):
        raise OptionError(
            f"{text!r} is a path of Windows, where lakeindex does not run",
            culprit=text,
            hint="give the path as this machine has it, in WSL for example /mnt/c/data",
        )
    if not found or (scheme not in _SCHEMES and not found[2].startswith("/")):
        return _local(_at_home(text), base)
    if scheme not in _SCHEMES:
        instead = _INSTEAD.get(scheme)
        raise OptionError(
            f"unknown scheme {scheme!r} in {text!r}: there is no store for it",
            culprit=text,
            hint=f"write {instead}"
            if instead
            else f"known: a path, file://, s3://, gs://, az://, abfss://, hdfs://; if it is a path, write ./{text}",
        )
    return _of_url(scheme, found[2], text)


def absolute(place: Place, base: str = "") -> str:
    """As :func:`plain`, with links of a path followed: one folder has one name."""
    found = plain(place, base)
    return found if "://" in found else os.path.realpath(found)


def file_uri(path: str) -> str:
    """The URL of a path of :func:`plain`; only ``%`` is encoded, without which it would be another path."""
    return f"file://{path.replace('%', '%25')}"


def hadoop_location(place: str) -> str:
    """A place of :func:`plain` as Hadoop takes it and as catalogs hold it: of a file, too, nothing is encoded."""
    found = plain(place)
    return found if "://" in found else f"file://{found}"


def place_of_location(location: str) -> str:
    """Inverse of :func:`hadoop_location`, for one slash or three behind ``file:``."""
    scheme, sign, path = location.partition(":")
    return f"/{path.lstrip('/')}" if sign and scheme.lower() == "file" and path.startswith("/") else location


def _at_home(text: str) -> str:
    if not text.startswith("~"):
        return text
    found = os.path.expanduser(text)  # noqa: PTH111 - a Path would lose nothing, but say RuntimeError
    if found == text:
        user = text.partition("/")[0]
        hint = f"write ./{text} if that is its name"
        raise OptionError(f"{user!r} in {text!r} is nobody's home folder here", culprit=text, hint=hint)
    return found


def _local(text: str, base: str) -> str:
    joined = os.path.join(base, text) if base else text  # noqa: PTH118 - byte-exact, as the next
    # above a link is another folder than its name says
    found = os.path.realpath(joined) if ".." in joined.split("/") else os.path.abspath(joined)  # noqa: PTH100
    return f"/{found.lstrip('/')}"


def _of_url(scheme: str, rest: str, text: str) -> str:
    if scheme == "file":
        host, slash, path = rest[2:].partition("/") if rest.startswith("//") else ("", rest[:1], rest[1:])
        path = unquote(path, errors="surrogateescape")
        if host not in ("", "localhost") or slash != "/" or _DRIVE.match(path) or "\x00" in path:
            hint = "write file:///path, of this machine"
            raise OptionError(f"{text!r} names no path of this machine", culprit=text, hint=hint)
        return _local(f"/{path}", "")
    named = rest.removeprefix("//") if rest.startswith("//") else rest.removeprefix("/")
    authority, _, path = named.partition("/")
    if scheme == "hdfs" and not rest.startswith("//") and ":" not in authority:
        authority, path = "", named  # Hadoop's spelling of a path on the default file system
    if not rest.startswith("/") or (not authority and scheme != "hdfs"):
        what = "NAME" if scheme == "memory" else "bucket"
        raise OptionError(f"no {what} in {text!r}", culprit=text, hint=f"write {scheme}://{what}/path")
    levels: list[str] = []
    for level in path.split("/"):
        if level == ".." and not levels:
            raise OptionError(f"{text!r} leaves its bucket", culprit=text, hint="write it without '..'")
        if level == "..":
            levels.pop()
        elif level not in ("", "."):
            levels.append(level)
    return "/".join((f"{scheme}://{authority}", *levels))


def with_one_scheme(uri: str) -> str:
    """A path or URL; ``s3a://`` and ``s3n://`` are Hadoop's names of ``s3://``."""
    scheme, separator, rest = uri.partition("://")
    return f"s3://{rest}" if separator and scheme in _ALSO_S3 else uri


def names_of(uri: str) -> tuple[str, ...]:
    """A path or URL, and what else its store is called."""
    scheme, separator, rest = uri.partition("://")
    other = {"s3": "s3a", "s3a": "s3"}.get(scheme)
    return (uri, f"{other}://{rest}") if separator and other else (uri,)


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


def is_on_this_machine(uri: str) -> bool:
    """Whether what is read and written at a path or URL crosses no network, as far as the name tells."""
    return plain(uri).partition("://")[0] == "memory" or is_local_disk(uri)


def is_local_disk(uri: str) -> bool:
    """Whether what is written at a path or URL waits in this machine's memory until it is synced."""
    return "://" not in plain(uri)
