"""Counts by partition, and the texts that are bound."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeindex.errors import OptionError
from lakeindex.index.bucket_options import (
    COUNT_OPTION,
    FIELDS_OPTION,
    KEY_RULE_OPTION,
    RULES_OPTION,
    BucketLayout,
    KeyRule,
    exact_rule,
    format_rules,
    layout_of,
    parse_rules,
    spec_of,
)
from lakeindex.model import IndexSpec, IndexType

PATHS = st.text(st.characters(exclude_characters="\n\r\x85  ", exclude_categories=["Cs"]), max_size=12)


def test_the_first_rule_that_is_found_counts() -> None:
    layout = BucketLayout(4, parse_rules(r"\d{4}-(06-(01|17|18)|11-(01|10|11)),256; ^eu,8 ;u,16;"))
    assert layout.count_of("dt=2024-06-17/h=1") == 256
    assert layout.count_of("eu") == 8
    assert layout.count_of("us") == 16
    assert layout.count_of("asia") == 4


def test_digits_are_ascii_as_in_java() -> None:
    assert BucketLayout(4, parse_rules(r"^\d$,8")).count_of("٣") == 4


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "a,b",
        "a,1,2",
        ",3",
        "a,0",
        "a,-1",
        "(?u)a,3",
        "a,1;;b,2",
        "(,3",
        r"\Qa\E,3",
        "[a&&b],3",
        r"a\Z,3",
        "[[a],3",
        "a,100000000",
    ],
)
def test_bad_rules_are_refused(text: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_rules(text)
    assert caught.value.hint


@given(PATHS, PATHS)
def test_an_exact_rule_is_found_in_its_partition_only(path: str, other: str) -> None:
    layout = BucketLayout(1).with_partitions({path: 2})
    assert layout.count_of(path) == 2
    assert layout.count_of(other) == (2 if other == path else 1)
    assert parse_rules(format_rules(layout.rules)) == layout.rules


def test_exact_rules_have_no_separators() -> None:
    assert exact_rule("a,b;c.d") == r"^a\x2Cb\x3Bc\x2Ed$"
    assert exact_rule("region=us/dt=2024-01-01") == "^region=us/dt=2024-01-01$"


def test_a_partition_that_is_changed_again_has_one_rule() -> None:
    layout = BucketLayout(4, parse_rules("^e,8")).with_partitions({"eu": 16}).with_partitions({"eu": 2, "us": 3})
    assert layout.rules == (("^eu$", 2), ("^us$", 3), ("^e", 8))
    assert layout.with_count(5) == BucketLayout(5)


def test_bound_texts_round_trip() -> None:
    layout = BucketLayout(8, parse_rules("^e,8"), ("id", "k2"), KeyRule.HUDI_0_15)
    assert layout_of(spec_of(layout)) == layout
    assert layout_of(IndexSpec(IndexType.BUCKET)) == BucketLayout(256)


@pytest.mark.parametrize(
    ("key", "text"), [(COUNT_OPTION, "0"), (COUNT_OPTION, "many"), (KEY_RULE_OPTION, "2.x"), (RULES_OPTION, "x")]
)
def test_bad_bound_texts_are_refused(key: str, text: str) -> None:
    with pytest.raises(OptionError, match="cannot"):
        layout_of(IndexSpec(IndexType.BUCKET, ((key, text),)))


def test_fields_are_not_trimmed_to_nothing() -> None:
    assert layout_of(IndexSpec(IndexType.BUCKET, ((FIELDS_OPTION, ""),))).fields == ()
