"""Options, parsed once at the edge: inside the library only the frozen ``WriteConfig`` and ``CreateConfig`` travel."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar

from lakeindex.errors import OptionError
from lakeindex.model import IndexSpec, IndexType
from lakeindex.options.foreign import NOTED_OPTIONS, NOTED_VALUES, REFUSED_OPTIONS
from lakeindex.options.option import Option
from lakeindex.options.option_table import (
    BY_KEY,
    CREATE_BY_KEY,
    KIND_AREAS,
    OPTIONS,
    TIMEBASED,
    TIMEBASED_PREFIX,
)
from lakeindex.options.types import Config, CreateConfig, WriteConfig

_C = TypeVar("_C", bound=Config)


def parse_options(pairs: Options | Iterable[tuple[str, Any]]) -> WriteConfig:
    """Typed configuration of a write from option names and texts.

    Raises:
        OptionError: an unknown name (the message names near ones) or a value that is not valid (it says what is).
    """
    given = option_texts(pairs)
    notes = tuple(_note(key, given.pop(key)) for key in sorted(given.keys() & NOTED_OPTIONS.keys()))
    config = _having(WriteConfig(notes=notes), _parse_pairs(given, BY_KEY))
    for area in dict.fromkeys(KIND_AREAS.values()):
        if area.check is not None:
            area.check(config)
    return config


def _having(config: _C, values: Iterable[tuple[Option, Any]]) -> _C:
    for option, value in values:
        config = config.having(option.area, option.field, value)
    return config


Options: TypeAlias = Mapping[str, str | bool | int | float]
"""Option names and values, as Python's callers give them."""


def option_texts(pairs: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> dict[str, str]:
    """Options as texts: from Python they may be bools and numbers, too.

    Raises:
        OptionError: a name that is no text, or a value that is neither text, bool nor number.
    """
    texts: dict[str, str] = {}
    for key, value in dict(pairs).items():
        if not isinstance(key, str):
            raise OptionError(f"an option cannot be named {key!r}", culprit=repr(key), hint="names must be texts")
        if isinstance(value, bool):
            texts[key] = str(value).lower()
        elif isinstance(value, (str, int, float)):
            texts[key] = str(value)
        else:
            hint = f"valid: {BY_KEY[key].valid}" if key in BY_KEY else "give a text, a bool or a number"
            raise OptionError(f"option {key} cannot be {value!r}", culprit=key, hint=hint)
    return texts


def _note(key: str, text: str) -> str:
    only = NOTED_VALUES.get(key)
    if only is not None and text.strip().upper() != only:
        raise OptionError(f"option {key} cannot be {text!r}", culprit=key, hint=f"valid: {only}; {NOTED_OPTIONS[key]}")
    return f"{key} changes nothing: {NOTED_OPTIONS[key]}"


def index_spec(index_type: IndexType, config: Config) -> IndexSpec:
    """The index type with the options that are bound with it: as given, else their defaults.

    Raises:
        OptionError: an option is given that has no meaning with this index type.
    """
    bound: list[tuple[str, str]] = []
    for option in OPTIONS:
        if not option.bound_with:
            continue
        value = config.given(option.area, option.field)
        if index_type in option.bound_with:
            bound.append((option.key, option.bound_default if value is None else _as_text(value)))
        elif value is not None:
            raise OptionError(
                f"option {option.key} has no meaning with index type {index_type}",
                culprit=option.key,
                hint=f"it belongs to {', '.join(option.bound_with)}",
            )
    return IndexSpec(index_type, tuple(sorted(bound)))


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def parse_create_options(pairs: Mapping[str, str] | Iterable[tuple[str, str]]) -> CreateConfig:
    """Typed configuration of a new table from option names and texts.

    Raises:
        OptionError: an unknown name, a value that is not valid, or two names of one thing with different values.
    """
    values: dict[tuple[type | None, str], tuple[Option, Any]] = {}
    timebased: dict[str, str] = {}
    for option, value in _parse_pairs(pairs, CREATE_BY_KEY):
        if option.field == TIMEBASED:
            timebased[option.key.removeprefix(TIMEBASED_PREFIX)] = value
            continue
        _, other = values.setdefault((option.area, option.field), (option, value))
        if other != value:
            raise OptionError(
                f"option {option.key} says {value}, another option for the same setting says {other}",
                culprit=option.key,
                hint="give one of the two",
            )
    return _having(CreateConfig(timebased=timebased), values.values())


def _parse_pairs(
    pairs: Mapping[str, str] | Iterable[tuple[str, str]], options: Mapping[str, Option]
) -> Iterator[tuple[Option, Any]]:
    for key, text in option_texts(pairs).items():
        option = options.get(key)
        if option is None:
            raise _unknown(key, options)
        try:
            yield option, option.parse(text)
        except ValueError:
            raise OptionError(f"option {key} cannot be {text!r}", culprit=key, hint=f"valid: {option.valid}") from None


def _unknown(key: str, options: Mapping[str, Option]) -> OptionError:
    if key in REFUSED_OPTIONS:
        return OptionError(f"option {key} is refused", culprit=key, hint=REFUSED_OPTIONS[key])
    if key in CREATE_BY_KEY:
        hint = "it is given when the table is created (`lakeindex create -o ...`) and is part of the table then"
    elif key in BY_KEY:
        hint = "it belongs to a write (`lakeindex upsert -o ...`), not to the table"
    else:
        near = difflib.get_close_matches(key, list(options), n=3, cutoff=0.5)
        hint = f"did you mean {', '.join(near)}?" if near else f"valid options: {', '.join(sorted(options))}"
    return OptionError(f"unknown option {key!r}", culprit=key, hint=hint)
