"""One option and an area of options: parsers, error messages and the tables of docs/options.md are made from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from lakeindex.model import IndexType
from lakeindex.options.types import WriteConfig

Bound: TypeAlias = dict[str, str]
"""Options that are bound with an index: name -> text."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option: the name users write, the field it sets, how its text is read, and what is valid.

    Attributes:
        key: the name.
        field: field of the area's class; of a core option, of the write's or the table's configuration.
        parse: value of a text; raises ValueError for what it does not know.
        valid: valid texts, in words.
        text: the meaning.
        bound: all writers must agree on it; it is bound when the table is created.
        bound_default: text that is bound if the option is not given.
        area: class that has the field; None: the write's or the table's configuration.
        bound_with: index types that it is bound for; with others it has no meaning.
        default: the value when the option is not given.
    """

    key: str
    field: str
    parse: Callable[[str], Any]
    valid: str
    text: str
    bound: bool = False
    bound_default: str = ""
    area: type | None = None
    bound_with: tuple[IndexType, ...] = ()
    default: Any = None


@dataclass(frozen=True, slots=True)
class OptionArea:
    """The options of an index kind.

    Attributes:
        title: heading in docs/options.md.
        config: frozen dataclass whose fields the options set; :meth:`lakeindex.options.types.Config.of` returns it.
        options: the rows.
        complete: what is bound, from what was given or stands as default, and the fields of the record key;
            raises OptionError. None: as it stands.
        check: raises OptionError where options of a write contradict each other; None: they cannot.
    """

    title: str
    config: type
    options: tuple[Option, ...]
    complete: Callable[[Bound, Sequence[str]], Bound] | None = None
    check: Callable[[WriteConfig], None] | None = None
