"""Java's order of strings at the characters where it is another one than that of UTF-8 bytes."""

import itertools

import pyarrow as pa
import pytest

from lakeindex.hashing.java_strings import java_min_max, java_order_key

ODD = ("\ud7ff", "\ue000", "\uefff", "\uf000", "\uf8ff", "\uffff", "\U00010000", "\U0010ffff", "z")


def java(text: str) -> bytes:
    """UTF-16 units, as ``String.compareTo`` compares them."""
    return text.encode("utf-16-be")


@pytest.mark.parametrize(("one", "other"), list(itertools.permutations(ODD, 2)))
def test_two_strings_stand_as_in_java(one: str, other: str):
    assert (java_order_key(one) < java_order_key(other)) == (java(one) < java(other))
    ends = java_min_max(pa.array([one, other]))
    assert ends == (min(one, other, key=java), max(one, other, key=java))
