"""The adapter for object stores (S3, GCS, Azure) through obstore.

Region, endpoint and credentials come from the table handle's options, and what they leave out from the environment
(``AWS_*``, ``GOOGLE_*``, ``AZURE_*``; docs/storage.md). Plain HTTP is allowed to a loopback endpoint, and elsewhere
with ``AWS_ALLOW_HTTP=true`` or ``AZURE_ALLOW_HTTP=true``.

A create is a put with ``If-None-Match: *`` (GCS: ``x-goog-if-generation-match: 0``). When an answer is lost, the client
may send the request again and then be told that the object exists, although it is its own: "exists" and errors are
therefore judged by reading back.

obstore (0.12) sends all requests of a process by threads that it starts with the first one. A forked process is without
these threads and cannot start others: every call waits for good, also one of a new store. So where obstore was there
before a fork, the new process loads it anew, from a copy of its files: of one file, a process has one state only.
"""

from __future__ import annotations

import importlib
import itertools
import os
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from lakeindex.errors import (
    AccessDeniedError,
    ObjectChangedError,
    ObjectExistsError,
    ObjectNotFoundError,
    OptionError,
    StorageError,
    UnknownOutcomeError,
    first_line,
)
from lakeindex.frozen import Frozen
from lakeindex.storage.object_options import in_our_names, with_profile
from lakeindex.storage.options import LIMITS_PREFIX, NO_OPTIONS, StoreOptions, TimeLimits
from lakeindex.storage.paths import checked_folder, checked_path, plain
from lakeindex.storage.port import Listing, ObjectMeta, Pieces, Watched
from lakeindex.time_spent import loading

if TYPE_CHECKING:
    from obstore.store import ObjectStore


class Obstore(Frozen):
    """obstore's modules ``store`` and ``exceptions`` in this process; their classes are not those of the parent's."""

    store: Any
    errors: Any


class _Process:
    """What this process has of obstore.

    Args:
        home: the folder of its files, if they were loaded before the process was forked.
    """

    def __init__(self, home: Path | None = None) -> None:
        self.mutex = threading.Lock()
        self.found: Obstore | None = None
        self.home = home


_process = _Process()


def obstore_here() -> Obstore:
    """The modules, loaded when they are first asked for.

    Raises:
        StorageError: they cannot be loaded anew in a forked process.
    """
    if _process.found is None:
        with _process.mutex:
            if _process.found is None:
                _process.found = _loaded() if _process.home is None else _loaded_anew(_process.home)
    return _process.found


def _loaded() -> Obstore:
    with loading():
        return Obstore(importlib.import_module("obstore.store"), importlib.import_module("obstore.exceptions"))


def _loaded_anew(home: Path) -> Obstore:
    for name in [name for name in sys.modules if name.partition(".")[0] == "obstore"]:
        del sys.modules[name]
    folder = tempfile.mkdtemp(prefix="lakeindex-obstore-")
    try:
        shutil.copytree(home, Path(folder, "obstore"), ignore=shutil.ignore_patterns("*.pyi", "__pycache__"))
        sys.path.insert(0, folder)
        try:
            importlib.invalidate_caches()
            return _loaded()
        finally:
            sys.path.remove(folder)
    except (ImportError, OSError) as error:
        raise StorageError(
            f"a forked process cannot load obstore anew: {error}",
            culprit=folder,
            hint="let TMPDIR name a folder from which programs may run, or start processes by spawn",
        ) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _after_fork() -> None:
    global _process  # noqa: PLW0603 - a lock that a thread of the parent held would be held for good
    loaded = sys.modules.get("obstore")
    home = _process.home  # where a copy was loaded, its folder is gone
    _process = _Process(home if loaded is None or home is not None else Path(str(loaded.__file__)).parent)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


CONTROL_TIMEOUT: Final = timedelta(seconds=10)
"""Longest a create may take, all retries included: it must end well inside the lock's lease."""

_AT_ONCE_BYTES: Final = 32 * 1024 * 1024
"""What is larger is uploaded while it is made, in parts; what is smaller may need no more than one request."""

_AZURE_DOMAINS: Final = ("dfs.core.windows.net", "blob.core.windows.net")
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_S3_SCHEMES: Final = frozenset({"s3", "s3a"})
_AZURE_SCHEMES: Final = frozenset({"az", "abfs", "abfss"})
_PREFIXES: Final[Mapping[str, str]] = {
    **dict.fromkeys(_S3_SCHEMES, "aws_"),
    **dict.fromkeys(_AZURE_SCHEMES, "azure_"),
    "gs": "google_",
}
"""How names of options that are about a kind of store begin."""
_ENDPOINT_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "aws_": ("aws_endpoint_url_s3", "aws_endpoint_url", "aws_endpoint"),
    "azure_": ("azure_storage_endpoint", "azure_endpoint"),
}
"""What the endpoint may be called, as an option or, in capitals, in the environment;
first the name that counts for most.
"""
_STATUS: Final = re.compile(r"status code: ([0-9]{3})")
_REFUSED: Final = frozenset({"401", "403"})
_REFUSED_HINT: Final = "look at the credentials and what they allow; docs/storage.md says where they come from"
_MISSING: Final = "404"
_TOKEN_NAMES: Final = frozenset({"aws_session_token", "aws_token"})


class _Clients(NamedTuple):
    """obstore's, of one process."""

    process: int
    bulk: ObjectStore
    upload: ObjectStore
    control: ObjectStore


class ObjectStorage:
    """A bucket (or container) and a prefix in it.

    Args:
        uri: ``s3://bucket/prefix``, ``gs://bucket/prefix``, ``az://container/prefix`` or
            ``abfss://container@account.dfs.core.windows.net/prefix``, not percent-encoded.

    Raises:
        OptionError: the URL has no bucket, an option is unknown, or the environment lacks what the store needs.
    """

    def __init__(self, uri: str, options: StoreOptions = NO_OPTIONS) -> None:
        self._uri = plain(uri)
        self._options = options
        self._clients = self._connect()

    def _connect(self) -> _Clients:
        limits = TimeLimits.of(in_our_names(self._options, _PREFIXES[self._uri.partition("://")[0]]))
        tries = (limits, limits.for_uploads(), limits.within(CONTROL_TIMEOUT))
        return _Clients(os.getpid(), *(_connect(self._uri, self._options, one) for one in tries))

    def _of_this_process(self) -> _Clients:
        if self._clients.process != os.getpid():
            self._clients = self._connect()  # a forked process is without the threads of its parent's
        return self._clients

    @property
    def _bulk(self) -> ObjectStore:
        return self._of_this_process().bulk

    @property
    def _control(self) -> ObjectStore:
        return self._of_this_process().control

    def __reduce__(self) -> tuple[object, ...]:
        return ObjectStorage, (self._uri, self._options)

    def __repr__(self) -> str:
        return f"ObjectStorage({self._uri!r})"

    @property
    def uri(self) -> str:
        return self._uri

    def list(self, prefix: str = "") -> list[ObjectMeta]:
        folder = checked_folder(prefix)
        with _translated("list", f"{self._uri}/{folder}".rstrip("/")):
            listed = [_meta(one) for batch in self._bulk.list(_listed(folder)) for one in batch]
        return sorted(one for one in listed if _below(one.path, folder))

    def list_folder(self, prefix: str = "") -> Listing:
        folder = checked_folder(prefix)
        with _translated("list", f"{self._uri}/{folder}".rstrip("/")):
            found = self._bulk.list_with_delimiter(_listed(folder))
        folders = (name.rstrip("/") for name in found["common_prefixes"])
        objects = (_meta(one) for one in found["objects"])
        return Listing(
            tuple(sorted(name for name in folders if _below(name, folder))),
            tuple(sorted(one for one in objects if _below(one.path, folder))),
        )

    def head(self, path: str) -> ObjectMeta:
        with _translated("head", path):
            return _meta(self._bulk.head(checked_path(path)))

    def read(self, path: str) -> bytes:
        with _translated("read", path):
            return bytes(self._bulk.get(checked_path(path)).bytes())

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """At most ``length`` bytes from ``start``; stores refuse ranges beyond the end, so those ask for the size."""
        checked_path(path)
        if length <= 0:
            self.head(path)
            return b""
        try:
            with _translated("read", path):
                return bytes(self._bulk.get_range(path, start=start, length=length))
        except ObjectNotFoundError:
            raise
        except StorageError:
            size = self.head(path).size_bytes
            if start + length <= size:
                raise
            if start >= size:
                return b""
            with _translated("read", path):
                return bytes(self._bulk.get_range(path, start=start, end=size))

    def create(self, path: str, data: bytes) -> None:
        with _translated("create", path, writing=True):
            self._control.put(checked_path(path), data, mode="create", use_multipart=False)

    def write(self, path: str, data: bytes | Pieces) -> None:
        """Put the object; a multipart upload becomes visible when it is completed."""
        checked_path(path)
        pieces = Watched(data)
        body = _body(pieces)
        try:
            with _translated("write", path, writing=True):
                self._of_this_process().upload.put(path, body)
        except StorageError:
            if pieces.failure is not None:
                raise pieces.failure from None
            raise

    def replace(self, path: str, data: bytes, etag: str) -> str:
        """Put the object with ``If-Match``. Google goes by generations: that of the version with this ETag counts."""
        checked_path(path)
        mode: dict[str, str] = {"e_tag": etag}
        try:
            if self._uri.startswith("gs://"):
                with _translated("head", path):
                    found = self._control.head(path)
                if _meta(found).etag != etag or not found["version"]:
                    raise _changed(path)
                mode["version"] = found["version"]
            with _translated("replace", path, writing=True):
                # The stub wants a TypedDict as the mode.
                put = self._control.put(path, data, mode=mode, use_multipart=False)  # type: ignore[arg-type]
        except ObjectNotFoundError:
            raise _changed(path) from None
        return _quoted(put["e_tag"]) or ""

    def delete(self, path: str) -> None:
        try:
            with _translated("delete", path):
                self._bulk.delete(checked_path(path))
        except ObjectNotFoundError:
            return

    def sync(self, paths: Iterable[str]) -> None:
        """Nothing to do: an object store has answered only when the object is durable."""


def _body(pieces: Iterable[bytes | memoryview]) -> bytes | Iterator[bytes | memoryview]:
    """The whole object, or, of a large one, its pieces; errors of making them are raised as they are."""
    more = iter(pieces)
    some: list[bytes | memoryview] = []
    held = 0
    for piece in more:
        some.append(piece)
        held += len(piece)
        if held > _AT_ONCE_BYTES:
            return itertools.chain(some, more)
    return b"".join(some)


def _connect(uri: str, options: StoreOptions, limits: TimeLimits) -> ObjectStore:
    scheme, _, rest = uri.partition("://")
    bucket, _, prefix = rest.partition("/")
    options = in_our_names(options, _PREFIXES[scheme])
    if scheme in _S3_SCHEMES:
        options = with_profile(options)
    _check_endpoint(scheme, options)
    given: dict[str, Any] = {
        "prefix": prefix or None,
        "client_options": {
            "timeout": limits.whole,
            "read_timeout": limits.answer,
            "connect_timeout": limits.connect,
            "allow_http": _allow_http(scheme, options),
        },
        "retry_config": {"max_retries": 5, "retry_timeout": limits.all_tries},
        "config": _config(scheme, options),
    }
    given |= _own_credentials(scheme, given["config"])
    obstore = obstore_here()
    try:
        found: ObjectStore
        if scheme in _S3_SCHEMES:
            found = obstore.store.S3Store(bucket, **given)
        elif scheme == "gs":
            found = obstore.store.GCSStore(bucket, **given)
        else:
            container, _, host = bucket.partition("@")
            if host:
                given["account_name"] = _account_of(host, given["config"], uri)
            found = obstore.store.AzureStore(container, **given)
    except obstore.errors.BaseError as error:
        hint = "set the variables, or give the storage options, that docs/storage.md names for this store"
        raise OptionError(f"cannot open {uri}: {first_line(error)}", culprit=uri, hint=hint) from error
    return found


def _account_of(host: str, config: Mapping[str, str], uri: str) -> str:
    """The account that a host of Azure names; those of other clouds need their endpoint."""
    account, _, domain = host.partition(".")
    names = _ENDPOINT_NAMES["azure_"]
    if domain in ("", *_AZURE_DOMAINS) or any(name in config or os.environ.get(name.upper()) for name in names):
        return account
    raise OptionError(
        f"{uri!r} is on the host {host!r}, whose endpoint is not known",
        culprit=uri,
        hint="write abfss://container@ACCOUNT.dfs.core.windows.net/path, or set AZURE_STORAGE_ENDPOINT to the endpoint "
        "of another cloud",
    )


def _config(scheme: str, options: StoreOptions) -> dict[str, str]:
    """The options that are about this kind of store, by obstore's names.

    An endpoint is given under the name that wins: the environment may have another endpoint under that name.
    """
    own = _PREFIXES[scheme]
    others = tuple(prefix for prefix in {*_PREFIXES.values()} if prefix != own)
    config = {
        name if name.startswith(own) else f"{own}{name}": value
        for name, value in options.pairs
        if not name.startswith((*others, LIMITS_PREFIX)) and "." not in name and not name.endswith("allow_http")
    }
    endpoints = _ENDPOINT_NAMES.get(own, ())
    endpoint = next((config[name] for name in endpoints if name in config), None)
    if endpoint is None:
        return config
    return {name: value for name, value in config.items() if name not in endpoints} | {endpoints[0]: endpoint}


def _own_credentials(scheme: str, config: Mapping[str, str]) -> dict[str, Any]:
    """A key that was given goes without the session token that the environment may have for another one."""
    if scheme not in _S3_SCHEMES or "aws_access_key_id" not in config or not _TOKEN_NAMES.isdisjoint(config):
        return {}
    if not any(os.environ.get(name.upper()) for name in _TOKEN_NAMES):
        return {}
    key = {"access_key_id": config["aws_access_key_id"], "secret_access_key": config.get("aws_secret_access_key", "")}
    return {"credential_provider": lambda: {**key, "token": None, "expires_at": None}}


def _endpoint(scheme: str, options: StoreOptions) -> str:
    """Where the store is, if it is somewhere else than its kind says; "" where not."""
    names = _ENDPOINT_NAMES.get(_PREFIXES[scheme], ())
    inherited = (os.environ[name.upper()] for name in names if os.environ.get(name.upper()))
    return (_config(scheme, options).get(names[0]) if names else None) or next(inherited, "")


def _allow_http(scheme: str, options: StoreOptions = NO_OPTIONS) -> bool:
    """Whether plain HTTP was asked for, or the endpoint is on this machine."""
    own = _PREFIXES[scheme]
    if own not in _ENDPOINT_NAMES:
        return False
    said = next((options[name] for name in (f"{own}allow_http", "allow_http") if name in options), None)
    asked = (os.environ.get(f"{own}allow_http".upper(), "") if said is None else said).lower() == "true"
    return asked or urlsplit(_endpoint(scheme, options)).hostname in _LOOPBACK


def _check_endpoint(scheme: str, options: StoreOptions) -> None:
    """Refuse an endpoint of which the client would say no more than "builder error". Raises: OptionError."""
    endpoint, own = _endpoint(scheme, options), _PREFIXES[scheme].upper()
    place = urlsplit(endpoint)
    if endpoint and place.scheme not in ("http", "https"):
        raise OptionError(
            f"the endpoint {endpoint!r} has no http:// or https:// in front",
            culprit=_ENDPOINT_NAMES[own.lower()][0].upper(),
            hint=f"write https://{endpoint}, or http://{endpoint} with {own}ALLOW_HTTP=true",
        )
    if place.scheme == "http" and not _allow_http(scheme, options):
        raise OptionError(
            f"the endpoint http://{place.hostname} is plain HTTP, which is not asked for",
            culprit=_ENDPOINT_NAMES[own.lower()][0].upper(),
            hint=f"write https://, or set {own}ALLOW_HTTP=true (storage option {own.lower()}allow_http): rows go over "
            "the network as they are",
        )


def _listed(folder: str) -> str | None:
    return f"{folder}/" if folder else None


def _below(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/") if folder else path != ""


def _meta(found: Mapping[str, Any]) -> ObjectMeta:
    modified = int(found["last_modified"].timestamp() * 1000)
    return ObjectMeta(found["path"], found["size"], modified, _quoted(found.get("e_tag")))


def _quoted(etag: str | None) -> str | None:
    """An ETag with its quotes, which Azure leaves out of its listings."""
    return f'"{etag}"' if etag and '"' not in etag else etag


def _changed(path: str) -> ObjectChangedError:
    return ObjectChangedError(f"{path} changed", culprit=path)


@contextmanager
def _translated(what: str, path: str, *, writing: bool = False) -> Iterator[None]:
    """Raise obstore's errors as ours. Any other error of a write leaves open whether it happened.

    Of a listing that a store refuses, or of a bucket that is not there, obstore says so in its text only.
    """
    errors = obstore_here().errors
    try:
        yield
    except errors.AlreadyExistsError as error:
        raise ObjectExistsError(f"{path} exists", culprit=path) from error
    except errors.PreconditionError as error:
        raise _changed(path) from error
    except (errors.NotFoundError, FileNotFoundError) as error:
        raise ObjectNotFoundError(f"{path} does not exist", culprit=path) from error
    except (errors.BaseError, ValueError, OSError) as error:
        text = f"cannot {what} {path}: {first_line(error)}"
        if writing:
            raise UnknownOutcomeError(text, culprit=path) from error
        status = _STATUS.search(text)
        refused = isinstance(error, (errors.PermissionDeniedError, errors.UnauthenticatedError))
        if refused or (status and status[1] in _REFUSED):
            raise AccessDeniedError(text, culprit=path, hint=_REFUSED_HINT) from error
        if status and status[1] == _MISSING:
            raise ObjectNotFoundError(text, culprit=path) from error
        raise StorageError(text, culprit=path) from error
