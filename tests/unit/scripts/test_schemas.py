"""The schemas of the results' JSON come from their classes, and what they say more narrowly stays."""

from __future__ import annotations

import json
import runpy
from collections.abc import Mapping
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import jsonschema

from lakeindex.frozen import Frozen
from lakeindex.showing.json_result import JsonResult, TableResult
from lakeindex.showing.json_values import json_of

program = runpy.run_path(str(Path(__file__).resolve().parents[3] / "scripts" / "schemas.py"))
schema_of, merged, whole, RESULTS = (program[name] for name in ("schema_of", "merged", "whole", "RESULTS"))


class Colour(StrEnum):
    RED = "red"


class Leaf(Frozen):
    """A leaf.

    Attributes:
        size: in bytes; None if ``nobody``
            knows.
    """

    size: int | None
    colour: Colour
    share: float = 0.5


class Tree(TableResult):
    """A tree.

    Attributes:
        leaves: by size.
    """

    leaves: tuple[Leaf, ...]
    best: Leaf | None
    named: Mapping[str, int]
    kind: Literal["oak", "elm"]
    flag: bool | None = None


SAID = schema_of(Tree)


def test_the_schemas_have_every_field_of_their_results() -> None:
    kinds = {
        name: getattr(import_module(f"lakeindex.{link.split(':')[0]}"), link.split(":")[1])
        for name, link in RESULTS.items()
    }
    stale = [
        name for name, kind in kinds.items() if whole(name, kind) != (program["SCHEMAS"] / f"{name}.json").read_text()
    ]
    assert stale == [], "run scripts/schemas.py"
    names, todo = set(), [JsonResult]
    while todo:
        inner = todo.pop().__subclasses__()
        todo += inner
        names |= {one.__name__ for one in inner if one.__module__.startswith("lakeindex.")}
    parts = {"CatalogSynced", "GetReport", "HistoryEntry", "StepSummary"}
    of_python = {"ScanReport", "IndexCompacted"}
    assert names - {kind.__name__ for kind in kinds.values()} == {"TableResult", *parts, *of_python}


def test_a_class_says_names_types_and_meanings() -> None:
    best = Leaf(None, Colour.RED)
    jsonschema.Draft202012Validator(SAID).validate(
        json.loads(json.dumps(json_of(Tree("t", "u", (Leaf(3, Colour.RED), best), best, {"a": 1}, "elm"))))
    )
    said = SAID["properties"]
    assert list(said) == SAID["required"] == ["table", "uri", "leaves", "best", "named", "kind", "flag"]
    assert said["uri"] == {"type": "string", "description": "where it is"}
    assert said["leaves"]["description"] == "by size"
    leaf = said["leaves"]["items"]["properties"]
    assert leaf["size"] == {"type": ["integer", "null"], "minimum": 0, "description": "in bytes; null if nobody knows"}
    assert (leaf["colour"], leaf["share"]) == ({"enum": ["red"]}, {"type": "number", "minimum": 0})
    assert [one.get("type") for one in said["best"]["anyOf"]] == ["object", "null"]
    assert said["named"] == {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}}
    assert (said["kind"], said["flag"]) == ({"enum": ["oak", "elm"]}, {"type": ["boolean", "null"]})


def test_what_a_schema_says_more_narrowly_stays_and_what_it_lacks_comes() -> None:
    def with_leaf(**fields: Any) -> dict[str, Any]:
        inner = {"type": "object", "properties": fields, "required": [*fields], "additionalProperties": False}
        return {**SAID, "properties": {**SAID["properties"], "leaves": {"type": "array", "items": inner}}}

    def leaf_of(schema: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = merged(schema, SAID)["properties"]["leaves"]["items"]
        return found

    narrow = {"type": "integer", "minimum": 1, "description": "other words"}
    found = leaf_of(with_leaf(colour={"enum": ["red"], "description": "of it"}, size=narrow, gone={"type": "string"}))
    assert found["required"] == [*found["properties"]] == ["colour", "size", "share"]
    assert found["properties"]["size"] == narrow
    for wrong in ({"type": "string"}, {"type": ["integer", "string"]}, {"enum": [1, "a"]}, {}):
        assert (
            leaf_of(with_leaf(size=wrong))["properties"]["size"] == leaf_of(with_leaf())["properties"]["size"] != wrong
        )
    assert merged(SAID, SAID) == SAID
    beside = {**SAID, "properties": {"schema_version": {"const": 1}, **SAID["properties"], "error": {"type": "null"}}}
    assert list(merged(beside, SAID)["properties"]) == ["schema_version", *SAID["properties"], "error"]


def test_a_new_result_has_a_schema_by_its_class_alone() -> None:
    made = json.loads(whole("grow-trees", Tree))
    assert made["title"] == "lakeindex grow trees --json"
    answer = Tree("t", "u", (), None, {}, "oak")
    jsonschema.Draft202012Validator(made).validate(answer.as_dict())
    assert list(answer.as_dict()) == made["required"]
