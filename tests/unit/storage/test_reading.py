"""A store's object as a file."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeindex.storage import Storage
from lakeindex.storage.memory import MemoryStorage
from lakeindex.storage.storage_file import StorageFile

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("read"), st.integers(-1, 40)),
        st.tuples(st.just("seek"), st.integers(0, 40)),
        st.tuples(st.just("readinto"), st.integers(0, 40)),
    )
)


@given(data=st.binary(max_size=30), steps=STEPS)
def test_it_behaves_as_a_file_does(data: bytes, steps: list[tuple[str, int]]) -> None:
    store = MemoryStorage()
    store.write("x", data)
    ours, plain = StorageFile(store, "x"), io.BytesIO(data)
    for name, argument in steps:
        if name == "readinto":
            one, other = bytearray(argument), bytearray(argument)
            assert ours.readinto(one) == plain.readinto(other)
            assert one == other
        else:
            assert getattr(ours, name)(argument) == getattr(plain, name)(argument)
        assert ours.tell() == plain.tell()
    assert ours.readall() == plain.read()


def test_seeking() -> None:
    store = MemoryStorage()
    store.write("x", b"0123456789")
    file = StorageFile(store, "x", 10)
    assert file.seek(-3, io.SEEK_END) == 7
    assert file.seek(1, io.SEEK_CUR) == 8
    assert file.read() == b"89"
    assert (file.size(), file.readable(), file.seekable()) == (10, True, True)
    with pytest.raises(ValueError, match="negative"):
        file.seek(-1)
    with pytest.raises(ValueError, match="whence"):
        file.seek(0, 7)


def test_pyarrow_reads_parquet_from_every_store(storage: Storage) -> None:
    sink = io.BytesIO()
    table = pa.table({"k": ["a", "b", "c"], "n": [1, 2, 3]})
    pq.write_table(table, sink, row_group_size=2)
    storage.write("t.parquet", sink.getvalue())
    assert pq.ParquetFile(StorageFile(storage, "t.parquet")).read().equals(table)
    size = len(sink.getvalue())
    assert pq.ParquetFile(StorageFile(storage, "t.parquet", size)).read_row_group(1).num_rows == 1
