"""A folder behind the storage port, as plain as can be: for tests of layers that only use the port."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from lakeindex.errors import ObjectExistsError, ObjectNotFoundError
from lakeindex.storage.port import Listing, ObjectMeta, Pieces, joined, no_conditional_writes


class FolderStorage:
    """Files below a folder; counts the requests by kind."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.requests: list[tuple[str, str]] = []

    @property
    def uri(self) -> str:
        return self.root.as_uri()

    def list(self, prefix: str = "") -> list[ObjectMeta]:
        self.requests.append(("list", prefix))
        return sorted(self._meta(path) for path in (self.root / prefix).rglob("*") if path.is_file())

    def list_folder(self, prefix: str = "") -> Listing:
        self.requests.append(("list_folder", prefix))
        folder = self.root / prefix
        found = sorted(folder.iterdir()) if folder.is_dir() else []
        return Listing(
            tuple(str(path.relative_to(self.root)) for path in found if path.is_dir()),
            tuple(self._meta(path) for path in found if path.is_file()),
        )

    def head(self, path: str) -> ObjectMeta:
        if not (self.root / path).is_file():
            raise ObjectNotFoundError(path, culprit=path)
        return self._meta(self.root / path)

    def read(self, path: str) -> bytes:
        self.requests.append(("read", path))
        try:
            return (self.root / path).read_bytes()
        except FileNotFoundError:
            raise ObjectNotFoundError(path, culprit=path) from None

    def read_range(self, path: str, start: int, length: int) -> bytes:
        return self.read(path)[start : start + length]

    def create(self, path: str, data: bytes) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        try:
            with (self.root / path).open("xb") as file:
                file.write(data)
        except FileExistsError:
            raise ObjectExistsError(path, culprit=path) from None

    def write(self, path: str, data: bytes | Pieces) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_bytes(joined(data))

    def replace(self, path: str, data: bytes, etag: str) -> str:
        raise no_conditional_writes(path, "a folder")

    def delete(self, path: str) -> None:
        (self.root / path).unlink(missing_ok=True)

    def sync(self, paths: Iterable[str]) -> None:
        for path in paths:
            assert (self.root / path).is_file(), path

    def _meta(self, path: Path) -> ObjectMeta:
        return ObjectMeta(str(path.relative_to(self.root)), path.stat().st_size)
