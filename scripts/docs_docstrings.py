"""Docstrings for the site: what is reStructuredText in them becomes Markdown (an extension of mkdocstrings' griffe)."""

from __future__ import annotations

import re
from typing import Any

from griffe import Attribute, Class, Extension, Function, Module, Object

_ROLE = re.compile(r":(?:func|class|meth|mod|attr|data|exc):`~?([^`]+)`")
_ALONE = re.compile(r"(?m)^ *::\n")
_LITERAL = re.compile(r"(?m)::$")
_DOOR = "api.table.LakeTable"
_ELSEWHERE = re.compile(r"[a-z_]+\.[a-z_]+")
_EXAMPLE = re.compile(r"(?m)^(?P<indent> *)>>> .*\n?(?:(?P=indent)\S.*\n?)*")
_MARKUP = re.compile(r"``([^`]+)``")


def as_markdown(text: str) -> str:
    """A docstring's text with roles and double backticks as code, examples as blocks of code, and without the colons
    that announce a literal block.
    """
    text = _LITERAL.sub(":", _MARKUP.sub(r"`\1`", _ROLE.sub(r"`\1`", _ALONE.sub("", text))))
    return _EXAMPLE.sub(_fenced, text)


def _fenced(match: re.Match[str]) -> str:
    """A doctest as a block of code: Markdown takes ``>>>`` for three quotes, one in the other."""
    indent, code = match["indent"], match[0].rstrip("\n")
    return f"{indent}```pycon\n{code}\n{indent}```\n"


class DocstringMarkup(Extension):
    """Rewrites every docstring when it has been loaded, and shows methods that are functions of other modules."""

    def on_package(self, *, pkg: Module, **_: Any) -> None:
        """Put the functions where the class names them: ``count = looking.count``."""
        kind = pkg[_DOOR]
        for name, member in list(kind.members.items()):
            value = str(member.value) if member.is_attribute else ""
            if _ELSEWHERE.fullmatch(value):
                function = pkg[f"api.{value}"]
                if isinstance(function, Function):
                    function.parameters[0].name = "self"
                    kind.set_member(name, function)
        for name in ("schema", "properties"):
            kind[name].docstring = pkg[f"api.looking.{name}"].docstring

    def on_class(self, *, cls: Class, **_: Any) -> None:
        """Give a typed dictionary the keys of those that it extends: ``unpack_typeddict``, which comes after this
        extension, takes a class's own alone, so that half of the arguments would be missing.
        """
        for base in cls.bases:
            extended = cls.parent.members.get(str(base)) if cls.parent is not None else None
            if not isinstance(extended, Class):
                continue
            known = extended.extra["unpack_typeddict"].get("_attributes", ())
            for attribute in (one for kind in known for one in kind):
                name, annotation, docstring = (attribute[key] for key in ("name", "annotation", "docstring"))
                if name not in cls.members:
                    cls.set_member(name, Attribute(name, annotation=annotation, docstring=docstring))

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
