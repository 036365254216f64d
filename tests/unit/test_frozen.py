"""Values: frozen, and compared by their fields, or by some."""

from __future__ import annotations

import copy
import pickle
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
    assert one == same
    assert not one != same  # noqa: SIM202 - the two operators are two functions
    assert hash(one) == hash(same)
    assert one != another
    assert not one == another  # noqa: SIM201
    assert len({one, same, another}) == 2


def test_values_of_two_types_differ():
    assert Held("a") != Other("a")
    assert not Held("a") == Other("a")  # noqa: SIM201
    assert Held("a") != "a"


@pytest.mark.parametrize("value", [Plain("a", 1), Held("a")])
def test_values_are_frozen_and_travel(value: Frozen):
    with pytest.raises(AttributeError):
        value.name = "b"  # type: ignore[attr-defined]
    assert pickle.loads(pickle.dumps(value)) == copy.deepcopy(value) == value
    assert replace(value, name="b") != value


def test_values_with_an_order_have_that_of_their_fields():
    assert sorted([Plain("b"), Plain("a", 2), Plain("a", 1)]) == [Plain("a", 1), Plain("a", 2), Plain("b")]
