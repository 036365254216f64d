"""Write what docs/schemas lacks of the results' fields; ``--check`` only says whether something is lacking.

A field is declared once, in the class of its result: name and type, and under *Attributes* what it means. ``--json``
has it by that; this script puts it into the schema, and ``scripts/api_page.py`` on the page. What a schema says of a
field in other words, or more narrowly (a pattern, the values there are), stays as long as the field's type allows it.
"""

from __future__ import annotations

import inspect
import json
import sys
import types
from collections.abc import Mapping, Sequence
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import griffe

from lakeindex.frozen import Frozen

ROOT: Final = Path(__file__).resolve().parents[1]
SCHEMAS: Final = ROOT / "docs/schemas"

RESULTS: Final = {
    "advise": "operations.advise:Advice",
    "archive": "operations.table_services:ArchiveSummary",
    "changes": "operations.changes:ChangesSummary",
    "check": "operations.check_violations:CheckReport",
    "clean": "operations.table_services:CleanSummary",
    "compare": "report.compared_runs:Comparison",
    "count": "operations.look.live_files:TableCount",
    "create": "operations.create_table:CreatedTable",
    "demo": "cli.demo:DemoResult",
    "doctor": "cli.doctor:Diagnosis",
    "files": "operations.look.live_files:TableFiles",
    "get": "operations.rows.get:GetResult",
    "history": "operations.look.history:TableHistory",
    "import": "operations.importing.import_table:ImportSummary",
    "index-build": "operations.index:IndexBuilt",
    "index-drop": "operations.index:IndexDropped",
    "index-migrate": "operations.migrate_index:IndexMigrated",
    "index-status": "operations.index:IndexStatus",
    "index-verify": "operations.index:IndexVerified",
    "inspect": "operations.look.inspect:TableInspection",
    "maintain": "operations.maintain:MaintenanceSummary",
    "metadata-build": "operations.metadata:MetadataBuilt",
    "metadata-drop": "operations.metadata:MetadataDropped",
    "metadata-status": "operations.metadata:MetadataStatus",
    "metadata-verify": "operations.metadata:MetadataVerified",
    "partitions": "operations.look.live_files:TablePartitions",
    "properties": "operations.look.live_files:TableEntries",
    "read": "operations.rows.scan:ReadSummary",
    "repair": "operations.repair:RepairSummary",
    "repair-discard": "operations.repair_kept:RepairDiscarded",
    "repair-keys": "operations.repair_keys:KeysRepaired",
    "repair-properties": "operations.repair_properties:PropertiesRepaired",
    "report": "report.contents:RunReport",
    "report-history": "report.contents:TableReport",
    "cluster": "operations.cluster_run:ClusterSummary",
    "rescale": "operations.rescale_run:RescaleSummary",
    "rollback": "operations.table_services:RollbackSummary",
    "restore": "operations.restore:RestoreSummary",
    "savepoint-create": "operations.restore:SavepointSummary",
    "savepoint-delete": "operations.restore:SavepointSummary",
    "savepoint-list": "operations.restore:Savepoints",
    "schema": "operations.look.live_files:TableColumns",
    "sync": "catalogs.syncing:SyncSummary",
    "tables": "operations.look.find_tables:TablesFound",
    "upsert": "run.summary:RunSummary",
}
BESIDE: Final = ("schema_version", "error")
"""Fields of the JSON that its class does not have."""

_NULL: Final = {"type": "null"}
_KINDS: Final = {bool: "boolean", int: "integer", float: "number", str: "string", types.NoneType: "null"}
_LEAST: Final = {int: {"minimum": 0}, float: {"minimum": 0}}


def schema_of(kind: Any) -> dict[str, Any]:
    """What a class, or the type of a field, says of its JSON; nothing of a type that has no JSON of its own."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind in _KINDS:
        return {"type": _KINDS[kind], **_LEAST.get(kind, {})}
    if isinstance(kind, type) and issubclass(kind, Frozen):
        return _of_fields(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [one.value for one in kind]}
    if origin is Literal:
        return {"enum": list(inner)}
    if origin in (Union, types.UnionType):
        return _of_one_of(inner)
    if origin is tuple:
        return {"type": "array", "items": schema_of(inner[0])}
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": schema_of(inner[1])}
    return {}


def _of_one_of(kinds: Sequence[Any]) -> dict[str, Any]:
    if all(kind in _KINDS for kind in kinds):
        limits = {name: limit for kind in kinds for name, limit in _LEAST.get(kind, {}).items()}
        return {"type": [_KINDS[kind] for kind in kinds], **limits}
    return {"anyOf": [schema_of(kind) for kind in kinds]}


def _of_fields(kind: Any) -> dict[str, Any]:
    types_by_name, meanings = get_type_hints(kind), _meanings(kind)
    properties = {}
    for name in kind.__struct_fields__:
        meaning = {"description": meanings[name]} if name in meanings else {}
        properties[name] = {**schema_of(types_by_name[name]), **meaning}
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def _meanings(kind: Any) -> dict[str, str]:
    """What its docstring, and those of the classes that it is made from, say of the fields."""
    found: dict[str, str] = {}
    for one in reversed(kind.__mro__):
        for section in griffe.Docstring(inspect.cleandoc(one.__doc__ or "")).parse("google"):
            for field in section.value if section.kind.value == "attributes" else ():
                text = " ".join(field.description.split()).removesuffix(".")
                found[field.name] = text.replace("``", "").replace("None", "null")
    return found


def merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """A schema with what its class says and it does not."""
    if not _kinds(old) <= _kinds(new):
        return new
    if "anyOf" in old:
        return {**old, "anyOf": [one if one == _NULL else merged(one, new) for one in old["anyOf"]]}
    fresh = next((one for one in new.get("anyOf", ()) if one != _NULL), new)
    if "items" in fresh:
        return {**old, "items": merged(old.get("items", {}), fresh["items"])}
    if "properties" not in fresh:
        return old
    there, said = old.get("properties", {}), fresh["properties"]
    kept = {name: merged(one, said.get(name, one)) for name, one in there.items() if name in (*said, *BESIDE)}
    properties = {**kept, **{name: one for name, one in said.items() if name not in kept}}
    return {**old, "properties": properties, "required": [*properties]}


def _kinds(schema: dict[str, Any]) -> set[str]:
    """Kinds of JSON values that a schema allows."""
    if "anyOf" in schema:
        return set().union(*map(_kinds, schema["anyOf"]))
    if "enum" in schema or "const" in schema:
        return {_KINDS[type(one)] for one in schema.get("enum", [schema.get("const")])}
    named = schema.get("type", [*_KINDS.values(), "array", "object"])
    return ({named} if isinstance(named, str) else set(named)) | ({"integer"} if "number" in named else set())


def whole(name: str, kind: Any) -> str:
    """A file of docs/schemas, as it is or with what it lacks."""
    path = SCHEMAS / f"{name}.json"
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"lakeindex:{name}:1",
        "title": f"lakeindex {name.replace('-', ' ')} --json",
        "type": "object",
        "properties": {"schema_version": {"const": 1}},
        "additionalProperties": False,
    }
    old = json.loads(path.read_text(encoding="utf-8")) if path.exists() else head
    return json.dumps(merged(old, schema_of(kind)), indent=2) + "\n"


def main() -> int:
    """Write, or check; 1 if a check finds that a schema lacks something."""
    stale = []
    for name, link in RESULTS.items():
        module, _, kind = link.partition(":")
        path, text = SCHEMAS / f"{name}.json", whole(name, getattr(import_module(f"lakeindex.{module}"), kind))
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
            if "--check" not in sys.argv:
                path.write_text(text, encoding="utf-8")
    if stale:
        print(f"docs/schemas: {', '.join(stale)}")
    return int("--check" in sys.argv and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
