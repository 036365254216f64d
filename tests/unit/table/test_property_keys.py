"""Every property of a table is followed, no matter, or refused by name; what nobody has heard of stops a write."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import lakeindex
from lakeindex.errors import LakeIndexError, TableUnsupportedError
from lakeindex.format.java_properties import parse_properties
from lakeindex.model import MergeMode
from lakeindex.options.types import UnknownProperties, Version10, WriteConfig
from lakeindex.table.binding import resolve_binding
from lakeindex.table.properties import parse_table_properties
from lakeindex.table.property_keys import INVENTORY, Treatment, unknown_properties, unwritable_properties
from lakeindex.table.refusals import check_writable
from tests.vectors_support import VECTORS

GOOD = {
    "hoodie.table.name": "t",
    "hoodie.table.type": "COPY_ON_WRITE",
    "hoodie.table.version": "6",
    "hoodie.table.recordkey.fields": "id",
    "hoodie.table.partition.fields": "p",
    "hoodie.table.precombine.field": "ts",
}
NEVER_HEARD_OF = {
    "hoodie.table.deletion.vectors": "true",
    "hoodie.table.keygenerator.salt": "7",
    "hoodie.table.row.order": "zorder",
    "hoodie.record.merge.when.null": "keep",
    "hoodie.datasource.write.recordkey.case": "lower",
    "hoodie.keygen.timebased.calendar": "julian",
    "hoodie.Table.Name": "t",
    "hoodie.table.name2": "t",
    "lakeindex.table.rule": "1",
    "vendor.merge": "theirs",
}
"""Names that no release has, or that none keeps in the properties of a table."""
EVENT, COMMIT = "EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"
DEFAULT, OVERWRITE = (
    f"org.apache.hudi.common.model.{name}" for name in ("DefaultHoodieRecordPayload", "OverwriteWithLatestAvroPayload")
)
EVENT_ID, COMMIT_ID = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5", "ce9acb64-bde0-424c-9b91-f6ebba25356d"
CUSTOM_ID = "00000000-0000-0000-0000-000000000000"
MERGE = "hoodie.record.merge.property."


def refusal(entries: dict[str, str]) -> TableUnsupportedError | None:
    try:
        properties = parse_table_properties({**GOOD, **entries})
        check_writable(properties, WriteConfig(version10=Version10.WRITE))
        said = properties.declared_merge_mode or (
            MergeMode.COMMIT_TIME_ORDERING if properties.undeclared_merge else None
        )
        resolve_binding(properties, None, WriteConfig(merge_mode=said))
    except TableUnsupportedError as error:
        return error
    return None


def stored_properties() -> Iterator[tuple[str, dict[str, str]]]:
    """Those of every table that Hudi wrote for a test."""
    for packed in sorted(VECTORS.glob("*/*.tar.*")):
        with tarfile.open(packed) as tar:
            for member in tar:
                if member.name.endswith("/hoodie.properties") and "/metadata/" not in member.name:
                    file = tar.extractfile(member)
                    assert isinstance(file, io.BufferedReader)
                    yield f"{packed.name}:{member.name}", parse_properties(file.read())


def test_no_property_that_a_release_writes_is_unknown() -> None:
    seen = list(stored_properties())
    assert len(seen) > 50
    unknown = {name: found for name, entries in seen if (found := list(unknown_properties(entries)))}
    assert not unknown
    refused = {name: why for name, entries in seen if (why := refusal(entries)) is not None}
    assert set(refused) <= {name for name in refused if "archive" in name}, refused


def test_what_nobody_has_heard_of_stops_a_write_by_name(tmp_path: Path) -> None:
    path, rows = tmp_path / "t", pa.table({"id": [1], "v": [1]})
    table = lakeindex.create_table(str(path), like=rows, key="id")
    table.upsert(rows)
    file = path / ".hoodie" / "hoodie.properties"
    before, done = file.read_text(), 1
    doors = {
        "upsert": lambda table: table.upsert(pa.table({"id": [1], "v": [9]})),
        "delete": lambda table: table.delete(pa.table({"id": [1]})),
        "insert": lambda table: table.insert(pa.table({"id": [9], "v": [9]})),
        "update": lambda table: table.update(set={"v": "9"}, where="id = 1"),
        "rollback": lambda table: table.rollback(table.history()[0].instant),
    }
    for key, value in NEVER_HEARD_OF.items():
        file.write_text(f"{before}{key}={value}\n")
        opened = lakeindex.open_table(str(path))
        assert opened.count() == done, key
        for door, write in doors.items():
            with pytest.raises(TableUnsupportedError, match=r"lakeindex\.unknown\.properties=accept") as caught:
                write(opened)
            assert (door, caught.value.culprit, value in caught.value.message) == (door, key, True)
        opened.upsert(pa.table({"id": [done + 1], "v": [1]}), options={"lakeindex.unknown.properties": "accept"})
        done += 1
    file.write_text(f"{before}hoodie.table.deletion.vectors=\n")
    lakeindex.open_table(str(path)).upsert(rows)  # an empty value counts as absent


def test_each_refused_property_is_refused_but_for_the_values_that_change_nothing() -> None:
    wrong = []
    for one in INVENTORY:
        if one.treatment is not Treatment.REFUSED or one.key.startswith("hoodie.table.format"):
            continue
        key = one.key.replace("*", "x")
        try:
            found = refusal({key: "never-heard-of"})
        except LakeIndexError as error:  # a flag that is none
            found = error if key in error.message else None  # type: ignore[assignment] # any of ours will do
        if found is None or (isinstance(found, TableUnsupportedError) and found.culprit != key):
            wrong.append((key, found))
        wrong += [
            (key, value, why) for value in one.but_for if (why := refusal({key: value})) is not None and key != META
        ]
    assert not wrong


META, FLAG = "hoodie.meta.fields.mode", "hoodie.populate.meta.fields"


@pytest.mark.parametrize("version", ["6", "8", "9", "10"])
def test_which_meta_columns_rows_store_is_all_or_none(version: str) -> None:
    cases = {
        ("ALL", None): True,
        ("ALL", "true"): True,
        ("NONE", None): False,
        ("NONE", "false"): False,
        ("none", "false"): False,
        (None, "false"): False,
        (None, None): True,
    }
    for (mode, flag), stored in cases.items():
        entries = {"hoodie.table.version": version, META: mode or "", FLAG: flag or ""}
        assert refusal(entries) is None, entries
        assert parse_table_properties({**GOOD, **entries}).populate_meta_fields is stored
    refused = [
        (mode, flag)
        for mode in ("COMMIT_TIME_ONLY", "FILE_NAME_ONLY", "COMMIT_TIME_AND_FILE_NAME", "SOME")
        for flag in ("", "false", "true")
    ]
    for mode, flag in [*refused, ("ALL", "false"), ("NONE", "true")]:
        found = refusal({"hoodie.table.version": version, META: mode, FLAG: flag})
        assert found is not None and found.culprit == META and mode in found.message, (mode, flag)  # noqa: PT018


def test_two_names_of_one_thing_that_say_two_things_are_refused() -> None:
    pairs = {
        "hoodie.table.ordering.fields": ("ts", "v", "hoodie.table.precombine.field"),
        "hoodie.record.merge.strategy.id": (EVENT_ID, COMMIT_ID, "hoodie.compaction.record.merger.strategy"),
        "hoodie.keygen.timebased.timezone": ("UTC", "GMT+1", "hoodie.deltastreamer.keygen.timebased.timezone"),
        "hoodie.table.keygenerator.type": ("SIMPLE", "COMPLEX", "hoodie.table.keygenerator.class"),
    }
    for newer, (value, other, older) in pairs.items():
        same = "org.apache.hudi.keygen.SimpleKeyGenerator" if older.endswith("class") else value
        assert refusal({newer: value, older: same}) is None, newer
        assert refusal({newer: other, older: same, "hoodie.table.version": "9"}) is None, newer
        found = refusal({newer: other, older: same})
        assert found is not None and other in found.message, newer  # noqa: PT018


def test_what_is_said_of_merging_has_to_agree() -> None:
    mode, payload, strategy = (
        "hoodie.record.merge.mode",
        "hoodie.compaction.payload.class",
        "hoodie.record.merge.strategy.id",
    )
    cases: list[tuple[str, dict[str, str], str | None]] = [
        ("9", {mode: EVENT}, EVENT),
        ("9", {mode: COMMIT, "hoodie.table.legacy.payload.class": "x.y.Z"}, COMMIT),
        ("8", {mode: EVENT, payload: DEFAULT, strategy: EVENT_ID}, EVENT),
        ("8", {mode: EVENT, payload: DEFAULT, strategy: CUSTOM_ID}, None),
        ("8", {mode: EVENT, payload: OVERWRITE}, None),
        ("8", {mode: COMMIT, payload: "x.y.Z", strategy: COMMIT_ID}, None),
        ("9", {mode: "CUSTOM", strategy: EVENT_ID}, None),
        ("9", {mode: "NEW_MODE"}, None),
        ("9", {mode: EVENT, strategy: COMMIT_ID}, None),
        ("6", {payload: OVERWRITE, strategy: EVENT_ID}, COMMIT),
        ("6", {payload: OVERWRITE.replace("org.apache.hudi", "com.uber.hoodie")}, COMMIT),
        ("6", {payload: OVERWRITE, mode: EVENT}, None),
        ("6", {strategy: CUSTOM_ID}, None),
        ("6", {strategy: COMMIT_ID}, COMMIT),
    ]
    for version, entries, wanted in cases:
        properties = parse_table_properties({**GOOD, "hoodie.table.version": version, **entries})
        assert properties.declared_merge_mode == wanted, entries
        found = refusal({"hoodie.table.version": version, **entries})
        assert (found is None) == (wanted is not None), entries
        assert found is None or all(one in found.message for one in entries.values()), found


def test_a_table_of_each_payload_class_is_followed_or_refused_by_name() -> None:
    """As Hudi 1.2 writes them: below version 9 the class, from there on what it stands for."""
    known = json.loads((VECTORS / "merging" / "properties.json").read_text())
    assert len(known) == 24
    followed = {name: found for name, entries in known.items() if (found := refusal(entries)) is None}
    plain = {f"{name}_v{version}" for name in ("default", "latest", "event_time") for version in (6, 8, 9)}
    assert set(followed) == plain | {"dms_v9", "mysql_v9"}
    for name, entries in known.items():
        if name not in followed:
            found = refusal(entries)
            assert found is not None
            assert any(word in found.message for word in ("AvroPayload", "IGNORE_DEFAULTS", "FILL_UNAVAILABLE")), name


def test_a_merge_property_is_known_whole_or_refused() -> None:
    field, marker = f"{MERGE}hoodie.payload.delete.field", f"{MERGE}hoodie.payload.delete.marker"
    both = {field: "Op", marker: "D"}
    assert refusal(both) is None
    assert parse_table_properties({**GOOD, **both}).delete_mark == ("Op", "D")
    for entries in (
        {field: "Op"},
        {marker: "D"},
        {**both, f"{MERGE}other": "x"},
        {"hoodie.payload.delete.field": "Op"},
    ):
        found = refusal(entries)
        assert found is not None and found.culprit in entries, entries  # noqa: PT018


def test_unknown_properties_are_accepted_on_request_and_refused_ones_are_not() -> None:
    accepting = WriteConfig(unknown_properties=UnknownProperties.ACCEPT)
    check_writable(parse_table_properties({**GOOD, **NEVER_HEARD_OF}), accepting)
    with pytest.raises(TableUnsupportedError, match=r"hoodie\.storage\.strategy\.class"):
        check_writable(parse_table_properties({**GOOD, "hoodie.storage.strategy.class": "x.Y"}), accepting)


def test_what_the_first_write_takes_of_the_index_from_the_properties_is_known() -> None:
    entries = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "4"}
    assert refusal(entries) is None


def test_blanks_and_capitals_of_a_value_make_no_difference() -> None:
    pair = ("hoodie.table.ordering.fields", "hoodie.table.precombine.field")
    for newer, older, differs in (
        ("a, b", "a,b", False),
        ("a ,b", "a, b", False),
        ("a,b", "b,a", True),
        ("", "a", False),
    ):
        found = list(unwritable_properties(dict(zip(pair, (newer, older), strict=True)), 6))
        assert bool(found) is differs, (newer, older)
    for value in ("false", "FALSE", " False "):
        assert not list(unwritable_properties({"hoodie.table.cdc.enabled": value}, 6))
