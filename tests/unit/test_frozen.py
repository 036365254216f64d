"""Values: frozen, and compared by their fields, or by some."""

from __future__ import annotations

import copy
import pickle
from operator import eq, ne
from typing import ClassVar

import pytest
from msgspec.structs import replace

from lakeindex.frozen import ComparedInPart, Frozen


class Held(ComparedInPart):
    aside: ClassVar = frozenset({"store"})
    name: str
    store: object = None


class Other(ComparedInPart):
    aside: ClassVar = frozenset({"store"})
    name: str
    store: object = None


class Plain(Frozen, order=True):
    name: str
    size: int = 0


def test_what_is_set_aside_makes_no_other_value():
    one, same, another = Held("a", object()), Held("a", object()), Held("b")
    assert (eq(one, same), ne(one, same)) == (True, False)  # two functions
    assert hash(one) == hash(same)
    assert (eq(one, another), ne(one, another)) == (False, True)
    assert len({one, same, another}) == 2


def test_values_of_two_types_differ():
    assert (eq(Held("a"), Other("a")), ne(Held("a"), Other("a"))) == (False, True)
    assert Held("a") != "a"


@pytest.mark.parametrize("value", [Plain("a", 1), Held("a")])
def test_values_are_frozen_and_travel(value: Plain | Held):
    with pytest.raises(AttributeError):
        value.name = "b"
    assert pickle.loads(pickle.dumps(value)) == copy.deepcopy(value) == value
    assert replace(value, name="b") != value


def test_values_with_an_order_have_that_of_their_fields():
    assert sorted([Plain("b"), Plain("a", 2), Plain("a", 1)]) == [Plain("a", 1), Plain("a", 2), Plain("b")]
