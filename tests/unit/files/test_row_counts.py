"""Numbers of rows of many files: their footers are read once."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from lakeindex.files import footer_cache
from lakeindex.files.footer_cache import CACHE_FOLDER, FooterCache, rows_by_footer
from lakeindex.model import BaseFile
from lakeindex.storage.memory import Call, Fault, MemoryStorage


def put(store: MemoryStorage, number: int) -> BaseFile:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"_hoodie_record_key": pa.array(["k"] * (number % 3), pa.string())}), sink)
    data = sink.getvalue().to_pybytes()
    file = BaseFile("p", f"{number:08d}-0000-4000-8000-000000000000-0", "20260101000000001", "0-0-0", len(data))
    store.write(file.path, data)
    return file


def asked(store: MemoryStorage, files: list[BaseFile], *, keeps: bool) -> int:
    """Footers that are read, by a process that remembers nothing; the numbers are right."""
    footer_cache._remembered.clear()
    read: list[str] = []

    def hook(call: Call) -> Fault | None:
        if call.path.endswith("_20260101000000001.parquet"):
            read.append(call.path)
        return None

    store.hook = hook
    assert rows_by_footer(store, files, keeps=keeps) == [int(one.name[:8]) % 3 for one in files]
    store.hook = None
    return len(set(read))


def cached(store: MemoryStorage) -> list[str]:
    return [one.path for one in store.list_folder(CACHE_FOLDER).objects]


def test_footers_of_many_files_are_read_once() -> None:
    store = MemoryStorage()
    files = [put(store, number) for number in range(80)]
    assert asked(store, files, keeps=False) == len(files)
    assert cached(store) == [], "who only looks keeps nothing"
    assert asked(store, files[:30], keeps=True) == 30
    assert cached(store) == [], "so few are read again"
    assert asked(store, files[:40], keeps=True) == 40
    assert asked(store, files, keeps=True) == 40
    assert asked(store, files, keeps=False) == 0
    other = replace(files[0], size_bytes=files[0].size_bytes + 1)  # by name and size
    assert set(FooterCache(store, only_rows=True).load([other, *files])) == {one.path for one in files[1:]} | {
        files[0].path
    }
    assert FooterCache(store).load(files) == {}, "nothing is known of ranges and filters"


def test_what_is_kept_of_rows_takes_no_filter_away() -> None:
    store = MemoryStorage()
    old = f"{CACHE_FOLDER}/0.filters"
    store.write(old, b"x")
    for first in range(0, 40 * 26, 40):
        rows_by_footer(store, [put(store, first + number) for number in range(40)], keeps=True)
    assert old in cached(store)
    assert len([one for one in cached(store) if one.endswith(".rows.parquet")]) < 26
