"""Base files by listing, whatever the timeline says of them."""

from __future__ import annotations

from collections.abc import Iterable

from lakeindex.format.file_names import METADATA_FOLDER, parse_base_path
from lakeindex.model import BaseFile
from lakeindex.storage.port import ObjectMeta, Storage


def all_base_files(storage: Storage) -> list[BaseFile]:
    """Every base file below the table's folder, tables nested in it left out."""
    top = storage.list_folder("")
    objects = list(top.objects)
    for folder in top.folders:
        if folder != METADATA_FOLDER:
            objects += _without_nested_tables(storage.list(folder))
    return _base_files(objects)


def base_files_in(storage: Storage, partitions: Iterable[str]) -> list[BaseFile]:
    """Every base file of some partitions."""
    return [file for path in sorted(set(partitions)) for file in _base_files(storage.list_folder(path).objects)]


def _base_files(objects: Iterable[ObjectMeta]) -> list[BaseFile]:
    parsed = (parse_base_path(one.path, one.size_bytes) for one in objects)
    return [file for file in parsed if file is not None]


def _without_nested_tables(objects: list[ObjectMeta]) -> list[ObjectMeta]:
    inner = f"/{METADATA_FOLDER}/"
    roots = tuple({one.path.partition(inner)[0] + "/" for one in objects if inner in one.path})
    return [one for one in objects if not one.path.startswith(roots)] if roots else objects
