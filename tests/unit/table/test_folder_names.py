"""Another writer's folders that are otherwise than its table's properties say: refused with both spellings, and each cure works."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pyarrow as pa
import pytest

from lakeindex.api.table import LakeTable
from lakeindex.errors import OptionError, TableUnsupportedError
from tests.builders import as_hudis, make_table

HIVE, ENCODED = "hoodie.datasource.write.hive_style_partitioning", "hoodie.datasource.write.partitionpath.urlencode"
MERGE = {"hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING", "hoodie.index.type": "BLOOM"}
SCHEMA = pa.schema([("id", pa.string()), ("day", pa.string()), ("city", pa.string()), ("ts", pa.int64())])
LAYOUTS = list(itertools.product((False, True), repeat=2))


def rows(ts: int) -> pa.Table:
    return pa.table(
        {"id": ["a", "b", "c"], "day": ["x:y", "x:y", "plain"], "city": ["r=s", "t", "t"], "ts": [ts] * 3}, SCHEMA
    )


def foreign(folder: Path, stored: tuple[bool, bool], said: tuple[bool, bool], *, filled: bool = True) -> LakeTable:
    made = {
        "hoodie__write__complex__keygen__new__encoding": "true",
        HIVE.replace(".", "__"): str(stored[0]).lower(),
        ENCODED.replace(".", "__"): str(stored[1]).lower(),
    }
    table = make_table(folder, schema=SCHEMA, partitions=("day", "city"), **made)
    if filled:
        table.upsert(rows(1))
    path = as_hudis(table) / ".hoodie" / "hoodie.properties"
    set_properties(path, said)
    return LakeTable(table.uri)


def set_properties(path: Path, said: tuple[bool, bool]) -> None:
    text = path.read_text()
    for key, value in zip((HIVE, ENCODED), said, strict=True):
        text = re.sub(rf"{re.escape(key)}=\w+", f"{key}={str(value).lower()}", text)
    path.write_text(text)


@pytest.mark.few(0)
def test_each_contradiction_and_each_cure(tmp_path: Path) -> None:
    wrong = []
    for number, (stored, said) in enumerate(itertools.product(LAYOUTS, repeat=2)):
        table = foreign(tmp_path / str(number), stored, said)
        folders = sorted({file.partition for file in table.files()})
        if stored == said:
            table.upsert(rows(2), options=MERGE)
            continue
        with pytest.raises(TableUnsupportedError) as caught:
            table.upsert(rows(2), options=MERGE)
        assert not Path(table.uri, ".hoodie/.lakeindex/table.json").exists()
        shown = re.findall(r"'([^']*)'", caught.value.message)
        if not set(folders) & set(shown) or len(set(shown)) < 2:
            wrong.append((stored, said, caught.value.message))
        cure = dict(re.findall(r"-o (\S+)=(true|false)", caught.value.hint or ""))
        if cure != {
            key: str(is_so).lower()
            for key, is_so, not_so in zip((HIVE, ENCODED), stored, said, strict=True)
            if is_so is not not_so
        }:
            wrong.append((stored, said, caught.value.hint))
        if number % 2:
            set_properties(Path(table.uri, ".hoodie/hoodie.properties"), stored)  # the other cure
            cure = {}
        table.upsert(rows(2), options={**MERGE, **cure})
        table.upsert(rows(3))  # it is bound
        table.delete(where="day = 'x:y' AND city = 'r=s'")
        left = table.scan(where="city = 't'", columns=["id", "ts"]).to_arrow().sort_by("id").to_pylist()
        if left != [{"id": "b", "ts": 3}, {"id": "c", "ts": 3}] or table.count() != 2 or not table.check().ok:
            wrong.append((stored, said, left))
        if not {file.partition for file in table.files()} <= set(folders):
            wrong.append((stored, said, "other folders"))
    assert not wrong


def test_what_rows_do_not_show_is_not_believed(tmp_path: Path) -> None:
    stored = foreign(tmp_path / "stored", (True, False), (True, False))
    with pytest.raises(TableUnsupportedError, match=f"-o {HIVE}=true|{HIVE}=true would fit") as caught:
        stored.upsert(rows(2), options={**MERGE, HIVE: "false"})
    assert "day=x:y/city=r=s" in caught.value.message or "day=plain/city=t" in caught.value.message
    stored.upsert(rows(2), options={**MERGE, HIVE: "true"})
    with pytest.raises(OptionError, match="the table is bound to true"):
        stored.upsert(rows(2), options={HIVE: "false"})
    empty = foreign(tmp_path / "empty", (True, False), (True, False), filled=False)
    with pytest.raises(OptionError, match="no row yet"):
        empty.upsert(rows(2), options={**MERGE, HIVE: "false"})
    ours = make_table(tmp_path / "ours", schema=SCHEMA, partitions=("day",))
    with pytest.raises(OptionError, match="the table is bound to false"):
        ours.upsert(rows(1), options={HIVE: "true"})
