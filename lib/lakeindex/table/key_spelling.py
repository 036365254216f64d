"""How a table of another writer spells its keys: what its stored rows show, and what has to be said.

Releases and operations of Hudi spell one key differently: complex keys of one field (``value``, ``field:value``) and
timestamps (microseconds, or a text in the writer's zone). Version 6 also leaves out what the fields of a custom key
generator are. A guess would store keys twice, so each spelling is compared with a sample of the rows.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from lakeindex.errors import LakeIndexError, OptionError, TableCorruptError, TableUnsupportedError
from lakeindex.frozen import Frozen
from lakeindex.model import BaseFile, IndexType, KeyGeneratorType
from lakeindex.options.option import (
    INDEX_OPTION,
    PARTITION_FIELDS_OPTION,
    TIMEBASED_PREFIX,
    TIMESTAMP_TEXT_OPTION,
    TIMESTAMP_ZONE_OPTION,
)
from lakeindex.options.types import Config, WriteConfig
from lakeindex.table import property_keys as keys
from lakeindex.table.binding import ENCODING_OPTION, BoundKeys, open_encoding
from lakeindex.table.handle import Table
from lakeindex.table.stored_keys import Compared, Example, Sample, compare_keys, compare_paths, sample_rows
from lakeindex.write.keys.java_text import is_instant
from lakeindex.write.keys.key_generators import (
    PARTITION_PATH_PART,
    RECORD_KEY_PART,
    TIMESTAMP_PARTS,
    KeySpec,
    PartitionKind,
    column_at,
)

_ZONE_STEP: Final = dt.timedelta(minutes=15)
_MOST_ZONES: Final = 4
_ENCODINGS: Final = {True: "bare `value`", False: "`field:value`"}
_MOST_TYPED_FIELDS: Final = 4
_OF_FOLDERS: Final = (keys.HIVE_STYLE[0], keys.URL_ENCODE[0])
"""What stored paths show, whatever the properties say of it: writers may be told otherwise by their options."""
_TIMEBASED: Final = (TIMEBASED_PREFIX, keys.OLD_TIMEBASED_PREFIX)


class Spelling(Frozen):
    """How a table's keys are spelled.

    Attributes:
        spec: with which every sampled row's key and path are as stored.
        has_rows: there were rows to compare.
    """

    spec: KeySpec
    has_rows: bool

    def typed(self, table: Table) -> Table:
        """The table with the types of its partition fields, where a custom key generator's were found."""
        if table.properties.key_generator is not KeyGeneratorType.CUSTOM:
            return table
        types = tuple(kind.value for _, kind in self.spec.partition_fields)
        return replace(table, properties=replace(table.properties, partition_types=types or None))

    def bound(self, config: Config) -> BoundKeys:
        """What is to be bound of it, beside what was given."""
        texts = self.spec.timestamp_texts
        found = {key: text for key, text in config.key_options if key != PARTITION_FIELDS_OPTION}
        if texts:
            found[TIMESTAMP_TEXT_OPTION] = "true"
            if len(texts) == 1:
                found[TIMESTAMP_PARTS] = next(iter(texts))
        encoding = self.spec.complex_new_encoding if self.spec.encoding_is_open else None
        return BoundKeys(encoding, tuple(sorted(found.items())))


def given_properties(table: Table, config: Config) -> dict[str, str]:
    """What is known of the table's keys, with what the options add.

    Raises:
        OptionError: an option contradicts the properties, or names other partition fields.
    """
    entries = table.key_properties()
    for key, text in config.key_options:
        known = entries.get(key)
        if key == PARTITION_FIELDS_OPTION:
            fields = [one.partition(":") for one in text.split(",")]
            if tuple(name.strip() for name, _, _ in fields) != table.properties.partition_fields:
                raise _bad(key, text, f"the partition fields are {', '.join(table.properties.partition_fields)}")
            if table.properties.key_generator is not KeyGeneratorType.CUSTOM:
                raise _bad(key, text, "only the fields of a custom key generator have types")
        if known is not None and known != text and key not in _OF_FOLDERS:
            raise _bad(key, text, f"the table has {known}; leave the option out")
        entries[key] = text
    return entries


def _bad(key: str, text: str, hint: str) -> OptionError:
    return OptionError(f"option {key} cannot be {text!r}", culprit=key, hint=hint)


def spec_given(table: Table, config: Config) -> KeySpec:
    """How keys are made as properties and options say. Raises: OptionError, TableUnsupportedError."""
    entries = given_properties(table, config)
    if _types_are_open(table, config):  # as times, if it is said how: which of them are is found by the paths
        kind = "TIMESTAMP" if any(key.startswith(_TIMEBASED) for key in entries) else "SIMPLE"
        entries[PARTITION_FIELDS_OPTION] = ",".join(f"{name}:{kind}" for name in table.properties.partition_fields)
    return KeySpec.from_properties(entries, complex_new_encoding=config.complex_key_new_encoding)


def spelling_of(
    table: Table, spec: KeySpec, samples: Sequence[Sample], config: Config, *, may_lie_elsewhere: bool
) -> Spelling:
    """The spelling that fits the stored rows.

    Args:
        spec: as properties and options say.
        config: options of its first write by us.
        may_lie_elsewhere: an update may have left a row in another partition than its columns say.

    Raises:
        OptionError: an option contradicts the stored rows, or they do not tell what nobody said.
        TableUnsupportedError: keys or paths are made in another way.
        TableCorruptError: two spellings are mixed.
    """
    has_rows = any(one.rows.num_rows for one in samples)
    if not has_rows:
        if spec.encoding_is_open and config.complex_key_new_encoding is None and table.properties.populate_meta_fields:
            key = spec.record_key_fields[0]
            raise open_encoding(f"table {table.name} has no row yet; its record key {key!r}", key)
        if _types_are_open(table, config):
            raise _open_types(table, "no row yet that would show them")
        _check_folders_said(table, config)
        return Spelling(spec, has_rows=False)
    spec = _fitting_keys(table, spec, samples, config)
    return Spelling(_fitting_paths(table, spec, samples, config, may_lie_elsewhere=may_lie_elsewhere), has_rows=True)


def _check_folders_said(table: Table, config: Config) -> None:
    """No row shows folders that are otherwise than the properties say. Raises: OptionError."""
    said = {key: str(text).lower() for key, text in table.properties.entries.items() if key in _OF_FOLDERS}
    for key, text in config.key_options:
        if key in _OF_FOLDERS and text != (said.get(key) or "false"):
            where = keys.PROPERTIES_PATH
            raise _bad(key, text, f"the table has no row yet that would show it: leave it out, or set it in {where}")


def shown_spec(table: Table, files: Sequence[BaseFile], schema: pa.Schema) -> KeySpec | None:
    """How the keys of an unbound table are made by what some of its rows show; None where they show none of ours."""
    options = WriteConfig()
    try:
        spec = spec_given(table, options)
        samples = sample_rows(table, files, spec, schema) if files else []
        return spelling_of(table, spec, samples, options, may_lie_elsewhere=True).spec
    except LakeIndexError:
        return None


def check_bound(table: Table, spec: KeySpec, samples: Sequence[Sample], *, may_lie_elsewhere: bool) -> None:
    """Refuse a bound table whose rows, as another writer has stored them, are not spelled as it is bound.

    Raises:
        TableCorruptError: a stored key or path is not what is made of its columns.
    """
    stored = compare_keys(samples, spec)
    if not stored.fits:
        others = [one for one in _key_choices(spec, samples) if compare_keys(samples, one).same.any()]
        fitting = "".join(f"; some fit {_named(one)}" for one in others if _named(one) != _named(spec))
        raise _otherwise(table, "record key", stored.example, f"the table is bound to {_named(spec)}{fitting}")
    paths = compare_paths(samples, spec)
    if not (paths.fits or (may_lie_elsewhere and paths.same.any())):
        raise _otherwise(table, "partition path", paths.example, "the table is bound to another spelling")


def _otherwise(table: Table, what: str, example: Example | None, why: str) -> TableCorruptError:
    assert example is not None
    return TableCorruptError(
        f"table {table.name}: the {what} {example.stored!r} is stored in {example.file.path}, "
        f"{example.made!r} is made of its columns: {why}",
        culprit=example.file.path,
        hint="another writer spells keys differently, and an upsert would store them twice: roll its commits back and "
        "give it the same options, or rewrite its rows",
    )


def _named(spec: KeySpec) -> str:
    names = [_ENCODINGS[spec.complex_new_encoding] + " record keys"] if spec.encoding_is_open else []
    if spec.timestamp_texts:
        names.append(f"timestamps as texts in {spec.timestamp_zone}")
    return " and ".join(names) or "timestamps as numbers"


def _first_fit(
    choices: Sequence[KeySpec], compare: Callable[[KeySpec], Compared]
) -> tuple[KeySpec | None, list[Compared]]:
    found: list[Compared] = []
    for choice in choices:
        found.append(compare(choice))
        if found[-1].fits:
            return choice, found
    return None, found


def _fitting_keys(table: Table, spec: KeySpec, samples: Sequence[Sample], config: Config) -> KeySpec:
    if not table.properties.populate_meta_fields:
        return spec
    choices = _key_choices(spec, samples)
    fit, compared = _first_fit(choices, lambda choice: compare_keys(samples, choice))
    if fit is not None:
        _check_given(fit, spec, config)
        return fit
    if len(choices) > 1 and np.logical_or.reduce([one.same for one in compared]).all():
        raise _mixed(choices, compared)
    example = compared[0].example
    assert example is not None
    zones = _zones_of(spec, samples) if len(choices) > 1 else []
    if zones:
        raise OptionError(
            f"table {table.name}: the record key {example.stored!r} is stored in {example.file.path}: "
            f"a timestamp as text in another zone than {spec.timestamp_zone}, whose text is "
            f"{_example_of(compared[-1])!r}",
            culprit=TIMESTAMP_ZONE_OPTION,
            hint=f"say the time zone of the JVM that wrote it, with the offset {' or '.join(zones)} then: "
            f"-o {TIMESTAMP_ZONE_OPTION}=...",
        )
    raise _unknown_keys(table, "record key", example)


def _example_of(compared: Compared) -> str | None:
    return None if compared.example is None else compared.example.made


def _unknown_keys(table: Table, what: str, example: Example, hint: str = "") -> TableUnsupportedError:
    return TableUnsupportedError(
        f"table {table.name}: the {what} {example.stored!r} is stored in {example.file.path}, "
        f"{example.made!r} is made of its columns",
        culprit=example.file.path,
        hint=hint
        or "its writer makes keys in another way, and an upsert would store them twice: write with Hudi, or "
        "copy the rows into a new table",
    )


def _key_choices(spec: KeySpec, samples: Sequence[Sample]) -> list[KeySpec]:
    """Spellings of record keys there can be, the one that is said first."""
    encodings = [spec.complex_new_encoding, not spec.complex_new_encoding] if spec.encoding_is_open else [False]
    texts = [spec.timestamp_texts]
    if _has_instants(spec.record_key_fields, samples):
        texts.append(spec.timestamp_texts ^ {RECORD_KEY_PART})
    if not spec.encoding_is_open:
        return [replace(spec, timestamp_texts=text) for text in texts]
    return [
        replace(spec, complex_new_encoding=encoding, timestamp_texts=text) for text in texts for encoding in encodings
    ]


def _has_instants(fields: Sequence[str], samples: Sequence[Sample]) -> bool:
    return any(is_instant(column_at(samples[0].rows, name).type) for name in fields) if samples else False


def _check_given(fit: KeySpec, spec: KeySpec, config: Config) -> None:
    """An option that the stored keys contradict. Raises: OptionError."""
    asked = config.complex_key_new_encoding
    if spec.encoding_is_open and asked not in (None, fit.complex_new_encoding):
        raise OptionError(
            f"option {ENCODING_OPTION} cannot be {str(asked).lower()}: "
            f"stored record keys are {_ENCODINGS[fit.complex_new_encoding]}",
            culprit=ENCODING_OPTION,
            hint="leave the option out",
        )
    _check_texts(fit, spec, config, RECORD_KEY_PART, "record keys")


def _check_texts(fit: KeySpec, spec: KeySpec, config: Config, part: str, what: str) -> None:
    said = dict(config.key_options).get(TIMESTAMP_TEXT_OPTION)
    is_text = part in fit.timestamp_texts
    if said is not None and fit.timestamp_texts != spec.timestamp_texts and (said == "true") is not is_text:
        raise OptionError(
            f"option {TIMESTAMP_TEXT_OPTION} cannot be {said}: timestamps in stored {what} are "
            f"{'texts' if is_text else 'numbers'}",
            culprit=TIMESTAMP_TEXT_OPTION,
            hint="leave the option out",
        )


def _mixed(choices: Sequence[KeySpec], compared: Sequence[Compared]) -> TableCorruptError:
    first, second = (one.example for one in compared[:2])
    assert first is not None
    assert second is not None
    field = ", ".join(choices[0].record_key_fields)
    what = "one-field complex key" if choices[0].encoding_is_open else "record key"
    return TableCorruptError(
        f"the table mixes two encodings of the {what} {field!r}: {second.stored!r} and {first.stored!r}",
        culprit=choices[0].record_key_fields[0],
        hint="its rows were written by releases or operations of Hudi that spell such keys differently; "
        "rewrite the table with one of them",
    )


def _zones_of(spec: KeySpec, samples: Sequence[Sample]) -> list[str]:
    """Offsets from UTC with which timestamps as texts fit the stored keys, each some and together all."""
    rest: np.ndarray | None = None
    found: list[str] = []
    for choice in (one for one in _key_choices(spec, samples) if RECORD_KEY_PART in one.timestamp_texts):
        for step in range(-56, 57):
            name = _offset_name(step * _ZONE_STEP)
            same = compare_keys(samples, replace(choice, timestamp_zone=name)).same
            if same.any():
                found.append(name)
                rest = same if rest is None else rest | same
        if rest is not None and rest.all():
            return found[:_MOST_ZONES]
    return []


def _offset_name(offset: dt.timedelta) -> str:
    minutes = int(abs(offset).total_seconds()) // 60
    return f"GMT{'-' if offset < dt.timedelta() else '+'}{minutes // 60}:{minutes % 60:02d}"


def _fitting_paths(
    table: Table, spec: KeySpec, samples: Sequence[Sample], config: Config, *, may_lie_elsewhere: bool
) -> KeySpec:
    choices = list(_path_choices(table, spec, samples, config))
    fit, compared = _first_fit(choices, lambda choice: compare_paths(samples, choice))
    if fit is None and may_lie_elsewhere:
        best = max(range(len(choices)), key=lambda n: int(compared[n].same.sum()))
        fit = choices[best] if compared[best].same.any() else None
    if fit is not None:
        _check_texts(fit, spec, config, PARTITION_PATH_PART, "partition paths")
        return fit
    raise _wrong_path(table, spec, samples, config, compared)


def _types_are_open(table: Table, config: Config) -> bool:
    """Whether nobody says what the partition fields of a custom key generator are."""
    properties = table.properties
    said = PARTITION_FIELDS_OPTION in dict(config.key_options) or properties.partition_types is not None
    return properties.key_generator is KeyGeneratorType.CUSTOM and bool(properties.partition_fields) and not said


def _open_types(table: Table, why: str) -> OptionError:
    fields = table.properties.partition_fields
    return OptionError(
        f"table {table.name} has a custom key generator and does not say the types of its partition fields "
        f"({', '.join(fields)}); it has {why}",
        culprit=PARTITION_FIELDS_OPTION,
        hint=f"say them once, as its other writers do: -o {PARTITION_FIELDS_OPTION}="
        f"{','.join(f'{name}:TYPE' for name in fields)} with SIMPLE or TIMESTAMP, and of TIMESTAMP fields "
        f"-o {TIMEBASED_PREFIX}timestamp.type=... -o {TIMEBASED_PREFIX}output.dateformat=...",
    )


def _path_choices(table: Table, spec: KeySpec, samples: Sequence[Sample], config: Config) -> Iterator[KeySpec]:
    """Spellings of partition paths there can be, the one that is said first."""
    fields = spec.partition_fields
    typed = [fields]
    if _types_are_open(table, config) and spec.time_options is not None and len(fields) <= _MOST_TYPED_FIELDS:
        kinds = itertools.product(PartitionKind, repeat=len(fields))
        typed = [tuple((name, kind) for (name, _), kind in zip(fields, some, strict=True)) for some in kinds]
    texts = [spec.timestamp_texts]
    if _has_instants([name for name, _ in fields], samples):
        texts.append(spec.timestamp_texts ^ {PARTITION_PATH_PART})
    for text in texts:
        for some in typed:
            yield replace(spec, partition_fields=some, timestamp_texts=text)


def _wrong_path(
    table: Table, spec: KeySpec, samples: Sequence[Sample], config: Config, compared: Sequence[Compared]
) -> LakeIndexError:
    """What is to be said of paths that no spelling fits."""
    example = compared[0].example
    assert example is not None
    hive, encoded = ((not now, now) for now in (spec.hive_style, spec.url_encode))
    for is_hive, is_encoded in ((hive[0], encoded[1]), (hive[1], encoded[0]), (hive[0], encoded[0])):
        other = replace(spec, hive_style=is_hive, url_encode=is_encoded)
        if compare_paths(samples, other).fits:
            now = zip(_OF_FOLDERS, (is_hive, is_encoded), (spec.hive_style, spec.url_encode), strict=True)
            said = [f"{key}={str(fits).lower()}" for key, fits, made in now if fits is not made]
            options = " ".join(f"-o {one}" for one in said)
            hint = (
                f"{' and '.join(said)} would fit: say so with the first write, {options}. "
                f"Other writers need it as an option of theirs, or in {keys.PROPERTIES_PATH}, which says otherwise"
            )
            return _unknown_keys(table, "partition path", example, hint)
    if _types_are_open(table, config):
        return _open_types(table, f"{example.stored!r} stored where {example.made!r} would be a path of plain fields")
    if compared[0].same.any():
        global_types = " or ".join(one for one in (IndexType.GLOBAL_BLOOM, IndexType.GLOBAL_SIMPLE))
        return OptionError(
            f"table {table.name}: a row lies in partition {example.stored!r} ({example.file.path}), and its columns "
            f"say {example.made!r}: its writer's index is global",
            culprit=INDEX_OPTION,
            hint=f"say so with the first write: -o {INDEX_OPTION}={global_types}",
        )
    hint = ""
    if spec.needs_time_options:
        hint = f"-o {TIMEBASED_PREFIX}timezone=... says the zone of its writer's JVM, if the table names none"
    return _unknown_keys(table, "partition path", example, hint)
