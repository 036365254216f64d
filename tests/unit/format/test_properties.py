from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakeindex.errors import TableCorruptError
from lakeindex.format.java_properties import format_properties, parse_properties, table_checksum

# Java has no half surrogates on its own in a file it wrote from valid text
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@given(st.dictionaries(TEXTS, TEXTS, max_size=6))
@example({"": ""})
@example({"a b": " leading", "#k": "!v", "k=:": "v=:", "t\\": "\\u0041\t\n\f\r"})
@example({"emoji": "😀", "latin": "é", "last": "x\\"})
def test_parse_undoes_format(entries: dict[str, str]) -> None:
    assert parse_properties(format_properties(entries, comments=("one", "two"))) == entries


@given(st.binary(max_size=60))
def test_any_bytes_parse_or_are_refused(data: bytes) -> None:
    try:
        entries = parse_properties(data, "some.properties")
    except TableCorruptError:
        entries = {}
    assert parse_properties(format_properties(entries)) == entries


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("a=1\nb:2\nc 3\nd\te", {"a": "1", "b": "2", "c": "3", "d": "e"}),
        ("a = 1 \n", {"a": "1 "}),
        ("  a=1", {"a": "1"}),
        ("\fa\f=\f1", {"a": "1"}),
        ("# comment\n! other\n\n   # third\na=1", {"a": "1"}),
        ("a=one,\\\n   two", {"a": "one,two"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=x\\\n# not a comment", {"a": "x# not a comment"}),
        ("# a comment is never continued \\\na=1", {"a": "1"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("a\\ b\\=c=d", {"a b=c": "d"}),
        ("a=\\u00e9\\u4e2d", {"a": "é中"}),
        ("a=\\ud83d\\ude00", {"a": "😀"}),
        ("a=\\q\\:", {"a": "q:"}),
        ("a==b", {"a": "=b"}),
        ("a=b=c:d", {"a": "b=c:d"}),
        ("a=tail\\", {"a": "tail"}),
    ],
)
def test_grammar_of_java(text: str, entries: dict[str, str]) -> None:
    assert parse_properties(text.encode("latin-1")) == entries


def test_bytes_are_latin_1_as_java_reads_them() -> None:
    assert parse_properties(b"a=\xe9") == {"a": "é"}


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\uxyz1", "\\u123=b"])
def test_malformed_unicode_escape_is_refused(text: str) -> None:
    with pytest.raises(TableCorruptError) as caught:
        parse_properties(text.encode(), "p")
    assert caught.value.culprit == "p"


def test_values_stay_readable_for_readers_that_do_not_unescape() -> None:
    text = format_properties({"hoodie.x": "yyyy-MM-dd HH:mm", "json": '{"a":"b=c"}'}, comments=("made",))
    assert text == b'#made\nhoodie.x=yyyy-MM-dd HH:mm\njson={"a":"b=c"}\n'


# values that Hudi 0.15.0 and 1.2.0 wrote into the tables of tests/vectors
@pytest.mark.parametrize(
    ("database", "table", "checksum"),
    [("", "main", 650081280), ("", "cplx", 1378323296), ("", "np", 1726580205), ("", "mdt", 2002732260)],
)
def test_checksum(database: str, table: str, checksum: int) -> None:
    assert table_checksum(database, table) == checksum


def test_checksum_covers_the_database() -> None:
    assert table_checksum("db", "main") != table_checksum("", "main")
