"""Docstrings for the site: what is reStructuredText in them becomes Markdown (an extension of mkdocstrings' griffe)."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_ROLE = re.compile(r":(?:func|class|meth|mod|attr|data|exc):`~?([^`]+)`")
_ALONE = re.compile(r"(?m)^ *::\n")
_LITERAL = re.compile(r"(?m)::$")
_MARKUP = re.compile(r"``([^`]+)``")


def as_markdown(text: str) -> str:
    """A docstring's text with roles and double backticks as code, and without the colons that
    announce a literal block.
    """
    text = _ALONE.sub("", text)
    return _LITERAL.sub(":", _MARKUP.sub(r"`\1`", _ROLE.sub(r"`\1`", text)))


class DocstringMarkup(Extension):
    """Rewrites every docstring when it has been loaded."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rewrite one."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
