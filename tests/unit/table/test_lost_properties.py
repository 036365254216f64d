"""``hoodie.properties`` that are lost or cut off: what is said of the table, and what is not."""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa
import pytest
from msgspec.structs import replace

from lakeindex.api.table import open_table
from lakeindex.errors import TableError, TableNotFoundError
from lakeindex.format.java_properties import parse_properties
from lakeindex.storage.memory import MemoryStorage
from lakeindex.table.properties import TableProperties, load_table_properties, parse_table_properties
from lakeindex.table.property_keys import PROPERTIES_BACKUP_PATH, PROPERTIES_PATH
from tests.builders import Row, batch_of, make_table
from tests.vectors_support import unpack_table

INSTANT = ".hoodie/20261121014835338.commit"


def typed(data: bytes) -> TableProperties:
    return replace(parse_table_properties(parse_properties(data)), entries={})


def files(tmp_path: Path) -> dict[str, bytes]:
    """Properties that Hudi 0.15 and 1.2 and lakeindex wrote, with a metadata table and without."""
    found = {}
    for name in ("h0150_v6_mdt", "h0150_v6_main", "h120_v6_mdt", "h120_v6_main"):
        found[name] = (unpack_table(name, tmp_path) / PROPERTIES_PATH).read_bytes()
    for version in ("6", "9"):
        table = make_table(tmp_path / f"t{version}", hoodie__write__table__version=version)
        path = Path(table.uri) / PROPERTIES_PATH
        found[f"ours {version}"] = path.read_bytes()
        table.upsert(batch_of([Row("a", "x", 1, "1")]))
        table.metadata_build(["column_stats"])
        found[f"ours {version} with a metadata table"] = path.read_bytes()
        assert parse_table_properties(parse_properties(path.read_bytes())).metadata_partitions
    return found


def test_a_file_that_is_cut_off_anywhere_is_not_another_table(tmp_path: Path) -> None:
    """Each prefix is refused, or says what the whole says: its metadata table, its ordering, its type."""
    wrong = []
    for name, data in files(tmp_path).items():
        store, whole = MemoryStorage.named(f"cut-{uuid.uuid4()}"), typed(data)
        store.write(INSTANT, b"{}")
        for end in range(len(data)):
            store.write(PROPERTIES_PATH, data[:end])
            try:
                found = replace(load_table_properties(store), entries={})
            except TableError:
                continue
            if found != whole:
                wrong.append((name, end, data[max(end - 40, 0) : end]))
        store.write(PROPERTIES_PATH, data)
        assert replace(load_table_properties(store), entries={}) == whole
    assert wrong == []


@pytest.mark.parametrize("version", ["6", "9"])
def test_a_table_without_its_properties_is_described_and_not_to_be_made_anew(tmp_path: Path, version: str) -> None:
    table = make_table(tmp_path / "orders", hoodie__write__table__version=version)
    table.upsert(batch_of([Row("a", "x", 1, "1")]))
    path = Path(table.uri) / PROPERTIES_PATH
    data = path.read_bytes()
    for left in (None, b"", data[: len(data) // 2]):
        path.unlink(missing_ok=True)
        if left is not None:
            path.write_bytes(left)
        with pytest.raises(TableError, match="1 instants are there") as lost:
            open_table(table.uri)
        hint = str(lost.value.hint)
        assert "create" not in hint
        assert "hoodie.table.name=orders" in hint
        assert f"hoodie.table.version={'6' if version == '6' else '8, 9 or 10'}" in hint
        checksum = parse_properties(data)["hoodie.table.checksum"]
        assert f"hoodie.table.checksum={checksum}" in hint
        with pytest.raises(TableError):
            make_table(table.uri)
    (Path(table.uri) / PROPERTIES_BACKUP_PATH).write_bytes(data)  # the cure: it is taken at once, or put back
    assert open_table(table.uri).count() == 1
    path.write_bytes(data)
    assert open_table(table.uri).upsert(batch_of([Row("b", "x", 1, "1")])).inserts == 1


def test_what_the_hint_says_opens_the_table(tmp_path: Path) -> None:
    """With the lines that it gives, and what only who made the table knows."""
    table = make_table(tmp_path / "orders", hoodie__write__table__version="6")
    table.upsert(batch_of([Row("a", "x", 1, "1")]))
    path = Path(table.uri) / PROPERTIES_PATH
    path.unlink()
    with pytest.raises(TableNotFoundError, match="no Hudi table can be opened") as lost:
        open_table(table.uri)
    words = str(lost.value.hint).replace(",", " ").split()
    lines = [word for word in words if "=" in word and word.startswith("hoodie.")]
    lines += [
        "hoodie.table.recordkey.fields=id",
        "hoodie.table.partition.fields=day",
        "hoodie.table.precombine.field=ts",
    ]
    path.write_text("".join(f"{line}\n" for line in lines))
    opened = open_table(table.uri)
    assert opened.scan().to_arrow().num_rows == 1
    assert opened.upsert(pa.table(batch_of([Row("a", "x", 2, "2")]))).updates == 1


def test_an_empty_folder_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError, match="no Hudi table") as nothing:
        open_table(str(tmp_path))
    assert "lakeindex create" in str(nothing.value.hint)
