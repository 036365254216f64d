"""Another writer's table at our first write to it: which index do its files show, and what has to be asked?

Hudi keeps the index type in job options. One rule for all types: what the files show is taken,
what contradicts them is refused, what they cannot show and would make another table is asked for.

* **Buckets** show in the file ids, which begin with a number; count and hash fields in the stored keys
  (:mod:`.bucket_facts`). A new file group of any other index would be lost to the table's bucket writers,
  so no other type is taken.
* **Consistent hashing** shows in its own metadata, and is refused.
* **A record index** (Hudi's metadata table) may mean keys that are unique in the whole table,
  or only in their partition, or may serve readers alone: asked for. So is the type of a table that has no file yet.
* **Filters** in the footers serve BLOOM; a table without them is looked up by SIMPLE. Both give the same rows.

Nothing in the files tells whether keys are unique in the whole table (the global types, HBASE) or in their partition,
which is Hudi's own default and what is taken: who has it otherwise says so with the first write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lakeindex.errors import OptionError, TableUnsupportedError
from lakeindex.files.file_system_view import Snapshot
from lakeindex.files.footers import read_footer
from lakeindex.index.bucket.bucket import bucket_of
from lakeindex.model import BaseFile, IndexSpec, IndexType
from lakeindex.options.option_table import BY_KEY
from lakeindex.options.parse import parse_options
from lakeindex.options.types import WriteConfig
from lakeindex.table.binding import INDEX_OPTION, new_index
from lakeindex.table.bucket_facts import buckets_of_stored
from lakeindex.table.handle import Table

_HASHING_METADATA: Final = ".hoodie/.bucket_index/consistent_hashing_metadata"
_RECORD_INDEX: Final = "record_index"
_LIKELY_BUCKETS: Final = 100_000
_TELLING_GROUPS: Final = 4
"""One random file id in 44 begins with eight digits; so many never do together."""


def index_of_stored(table: Table, snapshot: Snapshot, config: WriteConfig) -> IndexSpec | None:
    """The index that a table of another writer's is bound to.

    Args:
        table: the table; nothing is done if it is bound.
        snapshot: its state.
        config: options of its first write by us.

    Returns:
        The index with its bound options; None if the table is bound.

    Raises:
        OptionError: the options contradict the files, or the files do not tell and the options do not say.
        TableUnsupportedError: the table has consistent-hashing buckets.
        TableCorruptError: the table's file groups are not a bucket index's, or its keys were placed by two rules.
    """
    if table.binding is not None:
        return None
    config = _with_properties(table, config)
    _refuse_consistent_hashing(table)
    files = snapshot.base_files_all()
    asked = config.index_type
    if are_buckets(files):
        if asked not in (None, IndexType.BUCKET):
            raise _no_buckets(table, files[0], asked)
        return buckets_of_stored(table, snapshot, config)
    if asked is IndexType.BUCKET:
        return buckets_of_stored(table, snapshot, config)
    return new_index(asked or _type_shown(table, files), config, table.properties.key_fields)


def are_buckets(files: Sequence[BaseFile]) -> bool:
    """Whether file groups are a bucket index's by their ids."""
    numbers = [bucket_of(file.file_id) for file in files]
    known = [number for number in numbers if number is not None]
    if not known or len(known) < len(numbers):
        return False
    return max(known) < _LIKELY_BUCKETS or len(known) >= _TELLING_GROUPS


def _with_properties(table: Table, config: WriteConfig) -> WriteConfig:
    """The options, with what ``hoodie.properties`` says of the index laid under them (neither Hudi
    release writes it there).
    """
    entries = table.properties.entries
    stated = {
        key: entries[key]
        for key, option in BY_KEY.items()
        if key == INDEX_OPTION or option.bound_with
        if entries.get(key)
    }
    if not stated:
        return config
    parsed = parse_options(stated)
    for key in stated:
        area, field = BY_KEY[key].area, BY_KEY[key].field
        asked, said = config.given(area, field), parsed.given(area, field)
        if asked not in (None, said):
            raise OptionError(
                f"option {key} cannot be {asked}: the table's properties say {said}",
                culprit=key,
                hint="leave the option out",
            )
        config = config.having(area, field, said)
    return config


def _refuse_consistent_hashing(table: Table) -> None:
    found = next(iter(table.storage.list(_HASHING_METADATA)), None)
    if found is not None:
        raise TableUnsupportedError(
            f"table {table.name} has buckets of consistent hashing (hoodie.index.bucket.engine=CONSISTENT_HASHING)",
            culprit=found.path,
            hint="only buckets of one count are written, as by Hudi on copy-on-write tables; "
            "write to it with Hudi, or copy its rows into a new table",
        )


def _no_buckets(table: Table, file: BaseFile, asked: object) -> OptionError:
    return OptionError(
        f"option {INDEX_OPTION} cannot be {asked}: the file groups of table {table.name} are buckets ({file.path})",
        culprit=INDEX_OPTION,
        hint=f"leave the option out: the table is then written as {IndexType.BUCKET}, as its other writers do; "
        f"`lakeindex index migrate --to {asked}` changes the index for good",
    )


def _type_shown(table: Table, files: Sequence[BaseFile]) -> IndexType:
    properties = table.properties
    metadata = (*properties.metadata_partitions, *properties.metadata_partitions_inflight)
    if _RECORD_INDEX in metadata:
        raise _ask(
            f"table {table.name} has Hudi's record index, which does not say in what keys are unique",
            f"{IndexType.RECORD_INDEX} or {IndexType.GLOBAL_BLOOM} (a key once in the table), "
            f"or {IndexType.BLOOM} (once in its partition)",
        )
    if not files:
        raise _ask(
            f"table {table.name} was made by another writer and has no file yet that would show its index",
            ", ".join(IndexType),
        )
    spread = (files[0], files[len(files) // 2], files[-1])
    has_filters = any(read_footer(table.storage, file).filter_text is not None for file in spread)
    return IndexType.BLOOM if has_filters else IndexType.SIMPLE


def _ask(what: str, choices: str) -> OptionError:
    return OptionError(
        what, culprit=INDEX_OPTION, hint=f"say it once, as its other writers do: -o {INDEX_OPTION}=TYPE with {choices}"
    )
