"""Write the reference of docs/api.md from the library's docstrings; ``--check`` only says whether it is up to date.

Each part stands between two markers. The first one has the level of its headings, the object, and its members:
``<!-- made by scripts/api_page.py: 2 api.table.LakeTable upsert read -->``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import griffe
from docs_docstrings import DocstringMarkup

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs/api.md"

_MARKED: Final = re.compile(r"<!-- made by scripts/api_page\.py: (\d) (\S+)((?: \w+)*) -->\n.*?<!-- end -->", re.DOTALL)
_WIDTH: Final = 100
_TITLES: Final = {"parameters": "Arguments", "returns": "Returns", "raises": "Raises", "attributes": "Attributes"}


@cache
def library() -> griffe.Module:
    extensions = griffe.load_extensions(DocstringMarkup, "unpack_typeddict")
    paths = [str(ROOT / "lib")]
    found = griffe.load("lakeindex", search_paths=paths, extensions=extensions, docstring_parser="google")
    assert isinstance(found, griffe.Module)
    return found


def reference(level: int, path: str, members: list[str]) -> str:
    """An object and its members as Markdown."""
    found = library()[path]
    parts = list(_of(level, found))
    for name in members:
        parts += _of(level + 1, found[name])
    return "\n\n".join(parts)


def _of(level: int, found: griffe.Object) -> Iterator[str]:
    yield f"{'#' * level} {found.name}"
    if isinstance(found, griffe.Function):
        yield f"```text\n{_signature(found)}\n```"
    for section in found.docstring.parsed if found.docstring is not None else ():
        kind, value = section.kind.value, section.value
        if kind == "text":
            yield str(value).strip()
        elif kind in _TITLES:
            yield f"{_TITLES[kind]}:"
            before = {one.name: one for one in _inherited(found)} if kind == "attributes" else {}
            every = {**before, **{one.name: one for one in value}}.values() if before else value
            yield "\n".join(_line(kind, one) for one in every)
        else:
            raise ValueError(f"{found.path}: a section of kind {kind}")


def _inherited(found: griffe.Object) -> Iterator[Any]:
    """Attributes that the classes describe which a class is made from."""
    for base in found.resolved_bases if isinstance(found, griffe.Class) else ():
        for section in base.docstring.parsed if base.docstring is not None else ():
            yield from section.value if section.kind.value == "attributes" else ()


def _line(kind: str, one: Any) -> str:
    """A line of a list, however many its description has."""
    text = " ".join(str(one.description).split())
    name = {"raises": one.annotation, "returns": None}.get(kind, getattr(one, "name", None))
    return f"- {text}" if name is None else f"- `{name}`: {text}"


def _signature(found: griffe.Function) -> str:
    """As it is written, without ``self``, a line an argument if it is long."""
    parts, keyword_only = [], False
    for one in found.parameters:
        if one.name == "self":
            continue
        if one.kind is griffe.ParameterKind.keyword_only and not keyword_only:
            parts.append("*")
            keyword_only = True
        stars = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}.get(one.kind, "")
        kind = "" if one.annotation is None else f": {one.annotation}"
        default = "" if one.default is None or stars else f"{' = ' if kind else '='}{one.default}"
        parts.append(f"{stars}{one.name}{kind}{default}")
    end = "" if found.returns is None else f" -> {found.returns}"
    whole = f"{found.name}({', '.join(parts)}){end}"
    return (
        whole if len(whole) <= _WIDTH else "\n".join([f"{found.name}(", *(f"    {one}," for one in parts), f"){end}"])
    )


def with_reference(text: str) -> str:
    """A page's text with the reference anew between its markers."""

    def made(match: re.Match[str]) -> str:
        head = f"<!-- made by scripts/api_page.py: {match[1]} {match[2]}{match[3]} -->"
        return f"{head}\n\n{reference(int(match[1]), match[2], match[3].split())}\n\n<!-- end -->"

    return _MARKED.sub(made, text)


def main() -> int:
    """Write, or check; 1 if a check finds the page stale."""
    text = PAGE.read_text(encoding="utf-8")
    fresh = with_reference(text)
    if "--check" in sys.argv:
        return int(fresh != text)
    PAGE.write_text(fresh, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
