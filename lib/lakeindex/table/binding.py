"""What is bound to a table for good, and could not be read off it: ``.hoodie/.lakeindex/table.json``.

Hudi keeps the index type, the encoding of one-field complex keys, the spelling of timestamps in keys and the types of a
custom key generator's partition fields in job options, not in the table; two writers that disagree on one of them
double keys. A table of ours has them from its creation: as one property of ``hoodie.properties``, so that they appear
together with the table or not at all, and in ``table.json``, which counts once it is there. Another writer's table is
bound at our first write to it.
``table.json`` is created once and never changed, and durable before anything follows from it. Should it be torn all the
same, the property says what it said, or on another writer's table the copy beside it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from lakeindex.errors import ObjectNotFoundError, OptionError, TableCorruptError, TableUnsupportedError
from lakeindex.frozen import Frozen
from lakeindex.model import VERSION, IndexSpec, IndexType, MergeMode
from lakeindex.options.option import INDEX_OPTION, PARTITION_FIELDS_OPTION
from lakeindex.options.option_table import BY_KEY, KEY_OPTIONS, KIND_AREAS, OPTIONS
from lakeindex.options.parse import index_spec
from lakeindex.options.types import Config, WriteConfig
from lakeindex.storage.port import Storage
from lakeindex.table import property_keys as keys
from lakeindex.table.properties import TableProperties
from lakeindex.timeline import records

BINDING_PATH: Final = ".hoodie/.lakeindex/table.json"
COPY_PATH: Final = ".hoodie/.lakeindex/table.copy.json"
BINDING_PROPERTY: Final = "lakeindex.table.binding"
BINDING_FORMAT: Final = 2
"""1: without ``key_options``, which a release that does not know them must not pass over."""

MERGE_OPTION: Final = "hoodie.write.record.merge.mode"
ENCODING_OPTION: Final = "hoodie.write.complex.keygen.new.encoding"


class TableBinding(Frozen):
    """Values that every writer of the table must share.

    Attributes:
        complex_key_new_encoding: how a complex key of one field is stored: ``True`` ``value``, ``False``
            ``field:value``, ``None`` as the stored keys show.
        partition_types: with the custom key generator, ``SIMPLE`` or ``TIMESTAMP`` per partition field.
        index_options: what is bound with the index type (option name, text), sorted.
        key_options: how keys are spelled, where the properties do not say it (option name, text), sorted.
        is_stated: somebody said the index type; else the files of another writer's table show it, and they do not
            show in what keys are unique.
    """

    index_type: IndexType
    merge_mode: MergeMode
    complex_key_new_encoding: bool | None = None
    partition_types: tuple[str, ...] | None = None
    created_by: str = ""
    index_options: tuple[tuple[str, str], ...] = ()
    key_options: tuple[tuple[str, str], ...] = ()
    is_stated: bool = False

    @property
    def index(self) -> IndexSpec:
        return IndexSpec(self.index_type, self.index_options)


class BoundKeys(Frozen):
    """How keys are spelled, as stored rows show it; fields as of :class:`TableBinding`."""

    complex_key_new_encoding: bool | None = None
    key_options: tuple[tuple[str, str], ...] = ()


def this_release() -> str:
    """Name and version of this library, for ``created_by``."""
    return f"lakeindex {VERSION}"


def format_binding(binding: TableBinding) -> bytes:
    return json.dumps(
        {
            "format": BINDING_FORMAT if binding.key_options else 1,
            "index_type": binding.index_type,
            "merge_mode": binding.merge_mode,
            "complex_key_new_encoding": binding.complex_key_new_encoding,
            "partition_types": None if binding.partition_types is None else list(binding.partition_types),
            "created_by": binding.created_by,
            "index_options": dict(binding.index_options),
            **({"key_options": dict(binding.key_options)} if binding.key_options else {}),
            **({"is_stated": True} if binding.is_stated else {}),
        },
        separators=(",", ":"),
    ).encode()


def parse_binding(data: bytes, source: str) -> TableBinding:
    """Read a binding.

    Raises:
        TableCorruptError: it is damaged.
        TableUnsupportedError: a newer release wrote it.
    """
    try:
        loaded = json.loads(data)
        written_as = int(loaded["format"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged(source, error) from None
    if written_as > BINDING_FORMAT:
        raise TableUnsupportedError(
            f"{source} has format {written_as}, this release knows {BINDING_FORMAT}",
            culprit=source,
            hint="use the release that wrote it, or a newer one",
        )
    try:
        return _from_json(loaded)
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(source, error) from None


def _from_json(loaded: dict[str, Any]) -> TableBinding:
    encoding, types = loaded["complex_key_new_encoding"], loaded["partition_types"]
    if not (encoding is None or isinstance(encoding, bool)):
        raise TypeError("complex_key_new_encoding")
    return TableBinding(
        IndexType(loaded["index_type"]),
        MergeMode(loaded["merge_mode"]),
        encoding,
        None if types is None else tuple(str(one) for one in types),
        str(loaded["created_by"]),
        _options(loaded, "index_options"),
        _options(loaded, "key_options"),
        bool(loaded.get("is_stated", False)),
    )


def _options(loaded: dict[str, Any], name: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((str(key), str(text)) for key, text in loaded.get(name, {}).items()))


def _damaged(source: str, error: Exception) -> TableCorruptError:
    return TableCorruptError(
        f"{source} is damaged: {error}", culprit=source, hint="restore it from a backup of the table"
    )


def load_binding(storage: Storage, properties: TableProperties) -> TableBinding | None:
    """The table's binding, or ``None`` if nothing is bound yet (another writer's table)."""
    data = _read(storage, BINDING_PATH)
    if data is not None and not records.is_torn(data):
        return parse_binding(data, BINDING_PATH)
    text = properties.entries.get(BINDING_PROPERTY)
    if text is not None:
        return parse_binding(text.encode(), BINDING_PROPERTY)
    copy = None if data is None else _read(storage, COPY_PATH)
    return None if copy is None or records.is_torn(copy) else parse_binding(copy, COPY_PATH)


def store_binding(storage: Storage, binding: TableBinding, *, keep_copy: bool = False) -> TableBinding:
    """Create ``table.json``; a torn one gives way.

    Args:
        keep_copy: whether the properties do not say it, too.

    Returns:
        The binding that counts: ours, or that of a writer who was first.
    """
    standing = _read(storage, BINDING_PATH)
    if standing is not None and not records.is_torn(standing):
        return parse_binding(standing, BINDING_PATH)
    standing = records.settle_record(storage, BINDING_PATH, format_binding(binding))
    if keep_copy:
        records.put(storage, COPY_PATH, standing)
        storage.sync([COPY_PATH])
    return parse_binding(standing, BINDING_PATH)


def state_index(storage: Storage, binding: TableBinding, *, keep_copy: bool) -> TableBinding:
    """Note that somebody has stated the index type of a binding; nothing else of it changes."""
    stated = replace(binding, is_stated=True)
    paths = [BINDING_PATH, COPY_PATH] if keep_copy else [BINDING_PATH]
    for path in paths:
        records.put(storage, path, format_binding(stated))
    storage.sync(paths)
    return stated


def torn_binding(storage: Storage) -> TableCorruptError | None:
    """What is to be said of a ``table.json`` that is torn, where nothing else tells what it said."""
    data = _read(storage, BINDING_PATH)
    if data is None or not records.is_torn(data):
        return None
    return TableCorruptError(
        f"{BINDING_PATH} is torn, and no copy of its content exists",
        culprit=BINDING_PATH,
        hint="the next write stores it anew: give it the index type and the merge mode that the table is written with",
    )


def _read(storage: Storage, path: str) -> bytes | None:
    try:
        return storage.read(path)
    except ObjectNotFoundError:
        return None


def resolve_binding(
    properties: TableProperties, bound: TableBinding | None, config: WriteConfig, index: IndexSpec | None = None
) -> TableBinding:
    """The binding a write with these options has to use.

    Args:
        index: of a bound table the index in force, if a rewrite has changed the bound one;
            of another the index that its files show.

    Raises:
        OptionError: an option differs from what is bound or stated, or the table needs a merge mode.
        TableUnsupportedError: the properties state a merge mode that is not ours, or another than the bound one.
    """
    merge_mode = _merge_mode(properties, bound, config.merge_mode)
    if bound is not None:
        now = index or bound.index
        _same(INDEX_OPTION, config.index_type, now.index_type)
        for key, text in index_spec(now.index_type, config).options:
            if config.given(BY_KEY[key].area, BY_KEY[key].field) is not None:
                _same(key, text, dict(now.options).get(key, text))
        if bound.complex_key_new_encoding is not None:
            _same(ENCODING_OPTION, config.complex_key_new_encoding, bound.complex_key_new_encoding)
        types = zip(properties.partition_fields, properties.partition_types or (), strict=False)
        typed = {PARTITION_FIELDS_OPTION: ",".join(f"{name}:{kind}" for name, kind in types)}
        _same_key_options(config, {**_DEFAULT_KEY_OPTIONS, **properties.entries, **typed, **dict(bound.key_options)})
        return bound
    new = index or new_index(config.index_type or properties.default_index, config, properties.key_fields)
    return TableBinding(
        index_type=new.index_type,
        index_options=new.options,
        merge_mode=merge_mode,
        complex_key_new_encoding=config.complex_key_new_encoding,
        partition_types=properties.partition_types,
        created_by=this_release(),
        key_options=config.key_options,
        is_stated=config.index_type is not None or INDEX_OPTION in properties.entries,
    )


_DEFAULT_KEY_OPTIONS: Final = {option.key: option.bound_default for option in OPTIONS if option.field == KEY_OPTIONS}


def _same_key_options(config: Config, known: Mapping[str, str]) -> None:
    for key, text in config.key_options:
        _same(key, text, known.get(key) or "nothing")


def new_index(index_type: IndexType, config: Config, key_fields: Sequence[str]) -> IndexSpec:
    """What is bound of an index that the table has from now on.

    Raises:
        OptionError: an option has no meaning with the type, or does not fit the record key.
    """
    spec = index_spec(index_type, config)
    area = KIND_AREAS.get(index_type)
    if area is None or area.complete is None:
        return spec
    return IndexSpec(index_type, tuple(sorted(area.complete(dict(spec.options), key_fields).items())))


def open_encoding(what: str, field: str) -> OptionError:
    """The error of a one-field complex key that nobody said the encoding of."""
    return OptionError(
        f"{what} is stored as `value` by Hudi 0.15 and as `{field}:value` by Hudi 1.2 at its defaults: "
        "a table with both would store keys twice",
        culprit=ENCODING_OPTION,
        hint=f"say which: -o {ENCODING_OPTION}=true stores `value`, as Hudi 0.15 writes it; false stores "
        f"`{field}:value`, as other releases do. A Hudi 1.2 that writes to the table is given the same option",
    )


def asks_for_index(config: WriteConfig) -> bool:
    """Whether a write says anything about the index, its type or its options."""
    given = (config.given(option.area, option.field) for option in OPTIONS if option.bound_with)
    return config.index_type is not None or any(value is not None for value in given)


def _merge_mode(properties: TableProperties, bound: TableBinding | None, asked: MergeMode | None) -> MergeMode:
    stated = properties.declared_merge_mode
    if stated is None and not properties.undeclared_merge:
        says = properties.stated_merge
        raise TableUnsupportedError(
            f"table {properties.name} merges records by {says}",
            culprit=says,
            hint="only event-time and commit-time ordering are written; write to it with Hudi",
        )
    mode = bound.merge_mode if bound is not None else stated or asked
    if mode is None:
        raise OptionError(
            f"table {properties.name} does not say which version of a record wins",
            culprit=MERGE_OPTION,
            hint=f"say it once: -o {MERGE_OPTION}={MergeMode.EVENT_TIME_ORDERING} (the greater "
            f"{'/'.join(properties.ordering_fields)} wins, also against stored rows) or -o {MERGE_OPTION}="
            f"{MergeMode.COMMIT_TIME_ORDERING} (the incoming row wins, as with Hudi 0.15's default payload). Hudi "
            f"0.15 does not store the payload class of such a table ({keys.PAYLOAD_CLASS[0]}). If its jobs name "
            "another than DefaultHoodieRecordPayload, EventTimeAvroPayload or OverwriteWithLatestAvroPayload, "
            "lakeindex cannot follow it: AWSDmsAvroPayload and the Debezium payloads delete rows by a column, "
            "OverwriteNonDefaultsWithLatestAvroPayload and PartialUpdateAvroPayload merge columns. "
            "Write to it with Hudi then",
        )
    if stated is not None and stated is not mode:
        raise TableUnsupportedError(
            f"table {properties.name} is bound to {mode}, but its properties now say {stated}",
            culprit=BINDING_PATH,
            hint="another writer changed how the table merges; agree on one before writing",
        )
    _same(MERGE_OPTION, asked, mode)
    if mode is MergeMode.EVENT_TIME_ORDERING and not properties.ordering_fields:
        raise OptionError(
            f"table {properties.name} has no ordering field, so event time cannot order its records",
            culprit=MERGE_OPTION,
            hint=f"use {MergeMode.COMMIT_TIME_ORDERING}",
        )
    return mode


_CHANGES: Final = {
    INDEX_OPTION: "`lakeindex index migrate TABLE --to {}` moves the table to another index",
    "hoodie.bucket.index.num.buckets": "`lakeindex rescale TABLE --buckets {}` rewrites the table",
}
"""What changes a bound value, if anything does."""


def _same(option: str, asked: object, bound: object) -> None:
    if asked is not None and asked != bound:
        raise OptionError(
            f"option {option} cannot be {_text(asked)}: the table is bound to {_text(bound)}",
            culprit=option,
            hint=f"leave the option out; {_CHANGES.get(option, 'a bound value cannot change').format(asked)}",
        )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
