from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from lakeindex.bloom import marks
from lakeindex.errors import ObjectNotFoundError, StorageError
from lakeindex.files import footer_cache
from lakeindex.files.footer_cache import CACHE_FOLDER, FooterCache
from lakeindex.files.footers import Footer
from lakeindex.model import BaseFile
from lakeindex.options.types import FilterType, WriteConfig
from lakeindex.storage.port import Listing
from tests.folder_storage import FolderStorage


@pytest.fixture
def folder(tmp_path: Path) -> FolderStorage:
    return FolderStorage(tmp_path)


@pytest.fixture(autouse=True)
def _nothing_remembered() -> Iterator[None]:
    footer_cache._remembered.clear()
    yield
    footer_cache._remembered.clear()


def base_file(number: int, version: int = 0, partition: str = "us") -> BaseFile:
    return BaseFile(
        partition, f"{number:08d}-0000-4000-8000-000000000000-0", f"2026112101534{version:04d}", "0-0-0", 1_000 + number
    )


def footer_of(number: int, filter_type: FilterType = FilterType.DYNAMIC_V0) -> Footer:
    keys = pa.array([f"key-{number}-{i:03d}" for i in range(20)])
    entries = marks.footer_of_keys(keys, WriteConfig(filter_type=filter_type))
    return Footer(
        20, (15, 5), entries[marks.MIN_KEY], entries[marks.MAX_KEY],
        entries[marks.FILTER].encode(), entries.get(marks.FILTER_TYPE), key_value={"x": "y"},
    )  # fmt: skip


def loaded(folder: FolderStorage, files: list[BaseFile]) -> dict[str, Footer]:
    """Everything, as another process would load it."""
    footer_cache._remembered.clear()
    cache = FooterCache(folder)
    found = {}
    for path, (footer, where) in cache.load(files).items():
        file = next(file for file in files if file.path == path)
        assert footer.filter_text is None
        whole = cache.load_filter(where, file)
        assert whole is not None
        assert whole.without_filter() == footer
        found[path] = whole
    return found


def side_files(folder: FolderStorage, suffix: str = "") -> list[str]:
    return [found.path for found in folder.list(CACHE_FOLDER) if found.path.endswith(suffix)]


def test_what_was_added_is_loaded(folder: FolderStorage) -> None:
    files = [base_file(n) for n in range(3)] + [base_file(3, partition=""), base_file(4, partition="a/ü=%2F")]
    footers = [footer_of(n) for n in range(4)] + [footer_of(4, FilterType.SIMPLE)]
    where = FooterCache(folder).add(list(zip(files, footers, strict=True)))
    assert where in side_files(folder)
    assert loaded(folder, files) == {f.path: footer for f, footer in zip(files, footers, strict=True)}
    assert loaded(folder, files[:1]) == {files[0].path: footers[0]}


def test_footer_without_filter_or_range(folder: FolderStorage) -> None:
    bare = Footer(7, (7,), problem="footer has no key range; footer has no bloom filter")
    FooterCache(folder).add([(base_file(1), bare)])
    assert side_files(folder, ".filters") == []
    assert loaded(folder, [base_file(1)]) == {base_file(1).path: bare}


def test_nothing_is_known_of_other_files(folder: FolderStorage) -> None:
    cache = FooterCache(folder)
    assert cache.load([base_file(1)]) == {}
    cache.add([(base_file(1), footer_of(1))])
    assert cache.load([base_file(2)]) == {}
    assert cache.load([replace(base_file(1), size_bytes=5)]) == {}
    assert cache.load([base_file(1, version=1)]) == {}
    assert cache.load([base_file(1, partition="eu")]) == {}
    assert cache.load([]) == {}
    assert cache.add([]) is None


def test_facts_take_one_request_and_a_filter_another(folder: FolderStorage) -> None:
    files = [base_file(n) for n in range(5)]
    where = FooterCache(folder).add([(file, footer_of(n)) for n, file in enumerate(files)])
    assert where is not None
    footer_cache._remembered.clear()
    folder.requests.clear()
    cache = FooterCache(folder)
    cache.load(files)
    assert [kind for kind, _ in folder.requests] == ["list_folder", "read"]
    folder.requests.clear()
    FooterCache(folder).load_filter(where, files[2])
    assert len(folder.requests) == 1


@pytest.mark.parametrize("suffix", [".facts.parquet", ".filters"])
@pytest.mark.parametrize("damage", ["deleted", "emptied", "cut", "flipped", "replaced"])
def test_damaged_side_file_is_passed_over(folder: FolderStorage, suffix: str, damage: str) -> None:
    file = base_file(1)
    cache = FooterCache(folder)
    where = cache.add([(file, footer_of(1))])
    assert where is not None
    footer_cache._remembered.clear()
    (path,) = side_files(folder, suffix)
    raw = bytearray(folder.read(path))
    if damage == "deleted":
        folder.delete(path)
    else:
        raw[len(raw) // 2] ^= 1
        content = {"emptied": b"", "cut": bytes(raw[:-9]), "flipped": bytes(raw), "replaced": b"x" * len(raw)}[damage]
        folder.write(path, content)
    known = cache.load([file])
    assert (file.path in known) == (suffix == ".filters")
    assert cache.load_filter(where, file) is None
    # and what is read anew is found again
    again = FooterCache(folder).add([(file, footer_of(1))])
    assert again is not None
    whole = FooterCache(folder).load_filter(again, file)
    assert whole == footer_of(1)


@given(st.integers(0), st.integers(0, 7))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_flipped_bit_anywhere_never_changes_an_answer(folder: FolderStorage, place: int, bit: int) -> None:
    for path in side_files(folder):
        folder.delete(path)
    files = [base_file(n) for n in range(3)]
    FooterCache(folder).add([(file, footer_of(n)) for n, file in enumerate(files)])
    for path in side_files(folder):
        raw = bytearray(folder.read(path))
        raw[place % len(raw)] ^= 1 << bit
        folder.write(path, bytes(raw))
        footer_cache._remembered.clear()
        cache = FooterCache(folder)
        for n, file in enumerate(files):
            for footer, where in [v for p, v in cache.load(files).items() if p == file.path]:
                assert footer == footer_of(n).without_filter()
                assert cache.load_filter(where, file) in (None, footer_of(n))
        raw[place % len(raw)] ^= 1 << bit
        folder.write(path, bytes(raw))


def test_foreign_files_in_the_folder_are_passed_over(folder: FolderStorage) -> None:
    folder.write(f"{CACHE_FOLDER}/readme.txt", b"hello")
    folder.write(f"{CACHE_FOLDER}/x-00000000.facts.parquet", b"")
    folder.write(f"{CACHE_FOLDER}/y-{0x3610A686:08x}.facts.parquet", b"hello")  # right checksum, no Parquet
    FooterCache(folder).add([(base_file(1), footer_of(1))])
    assert loaded(folder, [base_file(1)]) == {base_file(1).path: footer_of(1)}


def test_side_files_of_another_release_are_passed_over(folder: FolderStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    FooterCache(folder).add([(base_file(1), footer_of(1))])
    monkeypatch.setattr(footer_cache, "_SCHEMA", footer_cache._SCHEMA.append(pa.field("more", pa.int64())))
    assert loaded(folder, [base_file(1)]) == {}


def test_many_side_files_are_joined(folder: FolderStorage) -> None:
    files = [base_file(n) for n in range(30)]
    for n, file in enumerate(files):
        FooterCache(folder).add([(file, footer_of(n))])
    assert len(side_files(folder, ".facts.parquet")) == 30
    first = loaded(folder, files)
    assert len(side_files(folder, ".facts.parquet")) == 1
    assert len(side_files(folder, ".filters")) == 30
    assert first == loaded(folder, files) == {file.path: footer_of(n) for n, file in enumerate(files)}


def test_joining_drops_replaced_versions_and_their_filters(folder: FolderStorage) -> None:
    versions = [base_file(1, version) for version in range(30)]
    for version, file in enumerate(versions):
        FooterCache(folder).add([(file, footer_of(version))])
    assert set(loaded(folder, [versions[0]])) == {versions[0].path}  # wanted: kept, with the two newest
    assert len(side_files(folder, ".filters")) == 3
    assert set(loaded(folder, versions)) == {versions[0].path, versions[28].path, versions[29].path}


def test_what_is_dropped_leaves_the_rest_as_it_was(folder: FolderStorage) -> None:
    """Of side files that are needed by half, by less, and whole: each filter is found where it is then."""
    for kept, gone in (
        ({0, 3, 6, *range(8, 16)}, 1),
        ({1, 6, 9, 12, 15}, 2),
        ({0, 2, 4, 6, 8, 9, 10, 11}, 0),
        (set(range(16)), 0),
        (set(), 2),
    ):
        root = folder.root / str(sorted(kept))
        root.mkdir()
        store = FolderStorage(root)
        files = [base_file(n) for n in range(16)]
        for some in (files[:8], files[8:]):
            FooterCache(store).add([(file, footer_of(int(file.file_id[:8]))) for file in some])
        blobs = set(side_files(store, ".filters"))
        chosen = [file for n, file in enumerate(files) if n in kept]
        assert FooterCache(store).keep_only(chosen) == 16 - len(kept)
        assert FooterCache(store).keep_only(chosen) == 0
        assert loaded(store, files) == {file.path: footer_of(int(file.file_id[:8])) for file in chosen}
        assert len(blobs - set(side_files(store, ".filters"))) == gone, kept


class ReadOnly(FolderStorage):
    def create(self, path: str, data: bytes) -> None:
        raise StorageError(f"cannot write {path} ({len(data)} bytes)", culprit=path)

    def delete(self, path: str) -> None:
        raise StorageError(f"cannot delete {path}", culprit=path)


class Unreadable(FolderStorage):
    def read(self, path: str) -> bytes:
        raise ObjectNotFoundError(path, culprit=path)

    def list_folder(self, prefix: str = "") -> Listing:
        raise StorageError(f"cannot list {prefix}", culprit=prefix)


def test_storage_that_cannot_be_written_is_no_error(folder: FolderStorage) -> None:
    for n in range(30):
        FooterCache(folder).add([(base_file(n), footer_of(n))])
    stuck = ReadOnly(folder.root)
    assert FooterCache(stuck).add([(base_file(1), footer_of(1))]) is None
    assert len(FooterCache(stuck).load([base_file(n) for n in range(30)])) == 30


def test_storage_that_cannot_be_read_is_no_error(folder: FolderStorage) -> None:
    where = FooterCache(folder).add([(base_file(1), footer_of(1))])
    assert where is not None
    footer_cache._remembered.clear()
    stuck = Unreadable(folder.root)
    assert FooterCache(stuck).load([base_file(1)]) == {}
    assert FooterCache(stuck).load_filter(where, base_file(1)) is None


def test_memory_for_remembered_side_files_is_bounded(folder: FolderStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(footer_cache, "_REMEMBERED", 3)
    for n in range(6):
        FooterCache(folder).add([(base_file(n), footer_of(n))])
    assert len(loaded(folder, [base_file(n) for n in range(6)])) == 6
    assert len(footer_cache._remembered) == 3
