"""Frozen values as what JSON takes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec import field

from lakeindex.frozen import Frozen
from lakeindex.showing.json_values import json_of


class Colour(StrEnum):
    RED = "red"


class Leaf(Frozen):
    name: str
    size: int | float | None = None
    colour: Colour = Colour.RED


class Tree(Frozen):
    leaf: Leaf
    leaves: tuple[Leaf, ...] = ()
    named: Mapping[str, tuple[Leaf, ...]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    inner: Tree | None = None


LEAVES = st.builds(Leaf, st.text(max_size=3), st.none() | st.integers() | st.floats(allow_nan=False))
TREES = st.recursive(
    st.none(),
    lambda inner: st.builds(
        Tree,
        LEAVES,
        st.lists(LEAVES, max_size=2).map(tuple),
        st.dictionaries(st.text(max_size=2), st.lists(LEAVES, max_size=2).map(tuple), max_size=2),
        st.lists(st.text(max_size=3), max_size=2),
        inner,
    ),
    max_leaves=4,
)


@given(TREES.filter(bool))
def test_it_is_what_the_values_library_makes(tree: Tree) -> None:
    assert json_of(tree) == msgspec.to_builtins(tree)
    assert json.dumps(json_of(tree)) == json.dumps(msgspec.to_builtins(tree))


def test_containers_are_new() -> None:
    tree = Tree(Leaf("a"), named={"b": ()}, notes=["c"])
    found = json_of(tree)
    found["named"]["x"] = found["notes"].append("y")
    found["leaf"]["name"] = "z"
    assert tree == Tree(Leaf("a"), named={"b": ()}, notes=["c"])
