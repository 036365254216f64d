"""A bit of the metadata table's logs is wrong: who believes them is told, or finds what is right; nothing is hidden.

Logs have no checksum but those of the gzip blocks in them. What says whose a block is, and what it is, stands beside.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakeindex.errors import TableCorruptError
from lakeindex.metadata.metadata_table import FILES, RECORD_INDEX
from lakeindex.metadata.metadata_view import MetadataView
from lakeindex.storage.local import LocalStorage
from lakeindex.table.handle import Table
from tests.builders import Row, batch_of, make_table
from tests.scheduling import some_of
from tests.unit.metadata.located import located

KEYS = [f"k{number}" for number in range(30)]
EMPTY = 1_000
"""More bytes than a log has that begins a file group and holds no record."""
HEAD = 400
"""Bytes of a log in which its first block says what it is."""


@pytest.fixture(scope="module", params=some_of([6, 9], {9}.__contains__, pytest.mark.slow))
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with a compacted part of its metadata table, and logs behind it."""
    where = tmp_path_factory.mktemp("bits") / "t"
    table = make_table(where, hoodie__write__table__version=str(request.param), hoodie__index__type="RECORD_INDEX")
    table.upsert(batch_of([Row(key, "d", 1, "a") for key in KEYS[:10]]))
    table.metadata_build([FILES, RECORD_INDEX])
    table.upsert(batch_of([Row(key, "d", 2, "b") for key in KEYS[5:20]]))
    table.upsert(batch_of([Row(key, "e", 3, "c") for key in KEYS[20:]]))
    return where


def view_of(folder: Path) -> MetadataView:
    table = Table.open(LocalStorage(str(folder)))
    found = table.metadata_view(table.load_timeline())
    assert found is not None
    return found


def said(folder: Path) -> tuple[object, object]:
    """What a reader takes for the table's files, and for the places of its keys."""
    view = view_of(folder)
    return view.listing(), located(view, KEYS)


def logs(folder: Path) -> Iterator[Path]:
    for partition in (FILES, RECORD_INDEX):
        listed = (folder / ".hoodie/metadata" / partition).iterdir()
        yield from sorted(path for path in listed if ".log." in path.name and not path.name.endswith(".crc"))


def spots(data: bytes) -> Iterator[tuple[int, int]]:
    """Places of the bytes that say a block's instant and kind, each with a bit, or all that matter."""
    for match in re.finditer(rb"\d{17,20}", data[:HEAD]):
        yield from ((at, at % 2 * 2) for at in range(match.start(), match.end(), 9))
    kind = len(b"#HUDI#") + 8 + 4 + 3  # behind the magic, the length and the version, the last byte of an int
    yield from ((kind, bit) for bit in range(3))


@pytest.mark.few(1)
def test_a_wrong_bit_in_what_a_block_is_hides_nothing(folder: Path) -> None:
    right, refused = said(folder), 0
    for path in logs(folder):
        data = path.read_bytes()
        for at, bit in spots(data):
            path.write_bytes(data[:at] + bytes([data[at] ^ (1 << bit)]) + data[at + 1 :])
            try:
                assert said(folder) == right, (path.name, at, bit)
            except TableCorruptError:
                refused += 1
        path.write_bytes(data)
    assert said(folder) == right
    assert refused > 20


@pytest.mark.few(0)
def test_a_name_that_is_another_one_in_the_schema_of_a_block_is_damage(folder: Path) -> None:
    right, named = said(folder), set[str | None]()
    for path in logs(folder):
        data = path.read_bytes()
        for name in (b"filesystemMetadata", b"isDeleted", b"recordIndexMetadata", b"fileIdEncoding"):
            for match in re.finditer(rb'"' + name + rb'"', data[:20_000]):
                path.write_bytes(data[: match.start() + 1] + b"X" + data[match.start() + 2 :])
                try:
                    assert said(folder) == right, (path.name, name)
                except TableCorruptError as error:
                    named.add(error.culprit)
        path.write_bytes(data)
    assert {Path(str(one)).name for one in named} <= {path.name for path in logs(folder)}
    assert len(named) > 2


def test_a_log_of_the_files_that_is_gone_is_missed(folder: Path) -> None:
    with_records = [path for path in logs(folder) if path.parent.name == FILES and path.stat().st_size > EMPTY]
    assert len(with_records) == 2
    for path in with_records:
        data = path.read_bytes()
        path.unlink()
        with pytest.raises(TableCorruptError, match="says nothing of commit"):
            view_of(folder).listing()
        path.write_bytes(data)
