"""A store that is read, and never written to: what is written lands in a layer above it, which is read first."""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock

from lakeindex.errors import ObjectExistsError, ObjectNotFoundError
from lakeindex.storage.port import Listing, ObjectMeta, Pieces, Storage, no_conditional_writes


class OverlayStorage:
    """The contract of the port within one process; the store below stays as it is.

    Args:
        layer: takes what is written; empty at first.
    """

    def __init__(self, base: Storage, layer: Storage) -> None:
        self._base = base
        self._layer = layer
        self._gone: set[str] = set()
        self._lock = Lock()

    @property
    def uri(self) -> str:
        """That of the store below."""
        return self._base.uri

    def list(self, prefix: str = "") -> list[ObjectMeta]:
        return sorted(self._merged(self._base.list(prefix), self._layer.list(prefix)).values())

    def list_folder(self, prefix: str = "") -> Listing:
        below, above = self._base.list_folder(prefix), self._layer.list_folder(prefix)
        objects = self._merged(below.objects, above.objects)
        return Listing(tuple(sorted({*below.folders, *above.folders})), tuple(sorted(objects.values())))

    def _merged(self, below: Iterable[ObjectMeta], above: Iterable[ObjectMeta]) -> dict[str, ObjectMeta]:
        found = {one.path: one for one in below if one.path not in self._gone}
        return found | {one.path: one for one in above}

    def head(self, path: str) -> ObjectMeta:
        return self._of(path).head(path)

    def read(self, path: str) -> bytes:
        return self._of(path).read(path)

    def read_range(self, path: str, start: int, length: int) -> bytes:
        return self._of(path).read_range(path, start, length)

    def create(self, path: str, data: bytes) -> None:
        with self._lock:
            if path not in self._gone and self._is_below(path):
                raise ObjectExistsError(f"{path} exists", culprit=path)
            self._layer.create(path, data)

    def write(self, path: str, data: bytes | Pieces) -> None:
        self._layer.write(path, data)

    def replace(self, path: str, data: bytes, etag: str) -> str:
        del data, etag
        raise no_conditional_writes(path, "a dry run")

    def delete(self, path: str) -> None:
        with self._lock:
            self._gone.add(path)
            self._layer.delete(path)

    def sync(self, paths: Iterable[str]) -> None:
        """Nothing: what is written is thrown away."""

    def _is_below(self, path: str) -> bool:
        try:
            self._base.head(path)
        except ObjectNotFoundError:
            return False
        return True

    def _of(self, path: str) -> Storage:
        if path in self._gone:
            return self._layer
        try:
            self._layer.head(path)
        except ObjectNotFoundError:
            return self._base
        return self._layer
