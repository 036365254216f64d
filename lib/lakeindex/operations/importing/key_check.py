"""Whether the keys of a source fit into a table, before there is one: each row has a key, and no key is there twice.
And whether files that hold a column of their folders' names say the same in it.

Only these columns are read, those that keys and partition paths are made of and those of folders. Of each key a hash
of 64 bits stays, in a file of this machine for each part of the source; where hashes are alike, keys are read again.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field
from msgspec.structs import replace

from lakeindex.errors import SchemaMismatchError
from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import one_array
from lakeindex.operations.check_base_files import hashes_of, repeated_hashes, save_hashes
from lakeindex.operations.importing.sources import CURE, Source, SourceKind
from lakeindex.options.types import CsvFormat, InputFormat
from lakeindex.run.input_rows import repeated_text
from lakeindex.stages.stage_input.input_pieces import read_pieces
from lakeindex.stages.stage_input.inputs import InputFile, Split, split_inputs
from lakeindex.stages.stage_input.text_files import without_bad_values
from lakeindex.tasks.memory_bound import current_bound, current_share, piece_bytes
from lakeindex.tasks.runner import Runner, run_tasks
from lakeindex.write.keys.key_generators import KeyGenerator, KeySpec, first_problem
from lakeindex.write.types.schema_fit import fit_batch

_EXAMPLES: Final = 10
_BYTES_A_KEY: Final = 512
"""Of memory, for each hash that is looked at at once: if all of them are alike, their keys are there, too."""
_MOST_AT_ONCE: Final = 16_000_000
_LEAST_AT_ONCE: Final = 100_000
_TITLE: Final = "import: keys of the source"


class RepeatedKey(Frozen):
    """A key that is in a source more than once.

    Attributes:
        key: record key.
        partition: its partition path; under a global index that of its first row.
        rows: how many rows have it.
        files: which files these are in.
    """

    key: str
    partition: str
    rows: int
    files: tuple[str, ...]


class KeysFound(Frozen):
    """What the keys of a source are.

    Attributes:
        rows: rows of the source.
        bad: rows that have no key or path, or a value that cannot be read.
        first_bad: the first of them, in words.
        partitions: rows by partition path.
        of_files: partition paths of each file's rows.
        repeated: keys that are there more than once.
        surplus: rows beyond the first of their key.
        examples: some of these keys.
    """

    rows: int
    bad: int
    first_bad: str | None
    partitions: Mapping[str, int]
    of_files: Mapping[InputFile, frozenset[str]]
    repeated: int
    surplus: int
    examples: tuple[RepeatedKey, ...]


class _Part(Frozen):
    """Rows of a source that one task reads."""

    split: Split
    hashes: Path


class _Look(Frozen):
    """How keys are made.

    Attributes:
        table: the table's columns.
        columns: of them those that keys are made of, and those that folders are named by.
    """

    source: Source
    table: pa.Schema
    columns: pa.Schema
    keys: KeySpec
    wanted: InputFormat
    csv: CsvFormat
    is_global: bool

    def keyed(self, split: Split) -> Iterator[tuple[pa.Array, pa.Array, pa.Array]]:
        """Of each piece of a split: record keys, partition paths, and what is wrong with a row (else null)."""
        generator, names = KeyGenerator(self.keys), frozenset(self.columns.names)
        for piece in self._pieces(split):
            rows, bad = without_bad_values(piece, split.file, 0)
            _check_known(rows, self.table, split.file)
            theirs = rows.select(sorted(names & frozenset(rows.column_names)))
            fitted = fit_batch(theirs, self.columns, may_lack=names)
            keyed = generator.keys_of(fitted.columns)
            problem = first_problem(bad, fitted.null_problem, keyed.problem)
            if self.source.kind is SourceKind.FILES:
                _check_folders(fitted.columns, problem, split.file)
            yield keyed.record_key, keyed.partition_path, problem

    def _pieces(self, split: Split) -> Iterator[pa.Table]:
        names = list(self.columns.names)
        if self.source.rows is not None:
            for batch in self.source.rows([split.file], names):
                yield pa.Table.from_batches([batch])
            return
        yield from read_pieces(
            replace(split, columns=names), self.table, self.wanted, piece_bytes(current_share()), csv=self.csv
        )

    def lookup(self, record_key: pa.Array, partition: pa.Array) -> pa.Array:
        """What must be there once: a key in the whole table, or in its partition."""
        if self.is_global or not self.keys.partition_fields:
            return record_key
        return pc.binary_join_element_wise(partition, record_key, "\0")


class _Counted(Struct):
    rows: int = 0
    bad: int = 0
    first_bad: str | None = None
    partitions: Counter[str] = field(default_factory=Counter)


def look_at_keys(
    source: Source,
    keys: KeySpec,
    columns: pa.Schema,
    runner: Runner,
    *,
    wanted: InputFormat,
    csv: CsvFormat,
    is_global: bool,
) -> KeysFound:
    """Look at all keys of a source.

    Args:
        columns: of the table.
        is_global: a key has to be there once in the whole table, not in its partition.

    Raises:
        InputError: a file cannot be read.
        SchemaMismatchError: a value that the table's type has not got, or another one than that of the folder's name.
    """
    asked = dict.fromkeys([*keys.columns, *source.partitions])
    needed = pa.schema([columns.field(name).with_nullable(True) for name in asked])
    look = _Look(source, columns, needed, keys, wanted, csv, is_global)
    with tempfile.TemporaryDirectory(prefix="lakeindex-import-") as folder:
        splits = [Split(f) for f in source.files] if source.rows is not None else split_inputs(source.files, wanted)
        parts = [_Part(split, Path(folder) / f"{number}.npy") for number, split in enumerate(splits)]
        counted = run_tasks(runner, partial(_count, look), parts, _TITLE)
        repeated, surplus, examples = _repeated(look, parts, runner)
    total: Counter[str] = Counter()
    of_files: dict[InputFile, set[str]] = {}
    for part, one in zip(parts, counted, strict=True):
        total.update(one.partitions)
        of_files.setdefault(part.split.file, set()).update(one.partitions)
    return KeysFound(
        rows=sum(one.rows for one in counted),
        bad=sum(one.bad for one in counted),
        first_bad=next((one.first_bad for one in counted if one.first_bad is not None), None),
        partitions=dict(sorted(total.items())),
        of_files={file: frozenset(paths) for file, paths in of_files.items()},
        repeated=repeated,
        surplus=surplus,
        examples=examples,
    )


def _check_known(rows: pa.Table, table: pa.Schema, file: InputFile) -> None:
    """Raises: SchemaMismatchError: rows have other fields than the first ones of their file, by which JSON is typed."""
    try:
        fit_batch(rows.slice(0, 0), table, may_lack=frozenset(table.names))
    except SchemaMismatchError as error:
        raise SchemaMismatchError(
            f"{file.place!r}, behind its first rows: {error.message}",
            culprit=error.culprit,
            hint=f"{CURE}; nothing was made",
        ) from None


def _check_folders(rows: pa.Table, problem: pa.Array, file: InputFile) -> None:
    """Raises: SchemaMismatchError: a row says something else than the name of its folder; readers differ in whom they
    believe.
    """
    for name, text in file.constants:
        column = rows.column(name).filter(problem.is_null())
        said = repeated_text(text, column.type, 1)[0]
        alike = column.is_null() if text is None else pc.fill_null(pc.equal(column, said), fill_value=False)
        place = pc.index(alike, value=False).as_py()
        if place >= 0:
            raise SchemaMismatchError(
                f"column {name!r} of {file.place!r} is {column[place].as_py()!r}, and its folder says {text!r}",
                culprit=name,
                hint="Spark, Hive and DuckDB believe the folder: leave the column out of the files to have it so, too; "
                "or make the table with lakeindex create and bulk-insert the folder, which takes what the files say",
            )


def _count(look: _Look, part: _Part) -> _Counted:
    """Leave the hashes of a part's keys, and say what its rows are."""
    found, hashes, first = _Counted(), [], part.split.first_row
    for record_key, partition, problem in look.keyed(part.split):
        count = len(problem)
        bad = count - problem.null_count
        if bad and found.first_bad is None:
            row = int(np.flatnonzero(problem.is_valid().to_numpy(zero_copy_only=False))[0])
            found.first_bad = f"row {first + found.rows + row} of {part.split.file.place!r}: {problem[row].as_py()}"
        good = problem.is_null() if bad else None
        paths = partition if good is None else partition.filter(good)
        for entry in pc.value_counts(paths).to_pylist():
            found.partitions[entry["values"]] += entry["counts"]
        found.rows += count
        found.bad += bad
        wanted = look.lookup(record_key, partition)
        hashes.append(hashes_of(one_array(wanted if good is None else wanted.filter(good))))
    save_hashes(part.hashes, hashes)
    return found


def _repeated(look: _Look, parts: Sequence[_Part], runner: Runner) -> tuple[int, int, tuple[RepeatedKey, ...]]:
    """How many keys are there more than once, how many rows they have beyond one each, and some of them."""
    at_once = min(max(current_bound() // _BYTES_A_KEY, _LEAST_AT_ONCE), _MOST_AT_ONCE)
    count = surplus = 0
    examples: list[RepeatedKey] = []
    stored = [np.load(part.hashes, mmap_mode="r", allow_pickle=False) for part in parts]
    for hashes, holders in repeated_hashes([part.hashes for part in parts], at_once):
        if len(examples) < _EXAMPLES:  # until some are known, the keys themselves are compared
            tables = run_tasks(runner, partial(_rows_with, look, hashes), [parts[n] for n in holders], _TITLE)
            keys, rows, some = _grouped(tables, [parts[n].split.file.place for n in holders])
            examples += some
        else:
            keys, rows = len(hashes), sum(_count_of(one, hashes) for one in stored)
        count += keys
        surplus += rows - keys
    return count, surplus, tuple(examples[:_EXAMPLES])


def _count_of(stored: np.ndarray, hashes: np.ndarray) -> int:
    return int((np.searchsorted(stored, hashes, "right") - np.searchsorted(stored, hashes, "left")).sum())


def _rows_with(look: _Look, hashes: np.ndarray, part: _Part) -> pa.Table:
    """Keys of a part with one of these hashes."""
    found = []
    for record_key, partition, problem in look.keyed(part.split):
        good = problem.is_null()
        keys, paths = one_array(record_key.filter(good)), one_array(partition.filter(good))
        lookup = one_array(look.lookup(keys, paths))
        mine = pa.array(np.isin(hashes_of(lookup), hashes))
        table = pa.table([lookup.filter(mine), keys.filter(mine), paths.filter(mine)], names=["lookup", "key", "path"])
        found.append(table.cast(_KEY_ROWS))
    return pa.concat_tables([_KEY_ROWS.empty_table(), *found])


_KEY_ROWS: Final = pa.schema([("lookup", pa.large_string()), ("key", pa.large_string()), ("path", pa.large_string())])


def _grouped(tables: Sequence[pa.Table], files: Sequence[str]) -> tuple[int, int, list[RepeatedKey]]:
    """How many keys are there more than once, how many rows have one of them, and the first of these keys."""
    rows = pa.concat_tables(
        [table.append_column("file", pa.repeat(number, table.num_rows)) for number, table in enumerate(tables)]
    )
    groups = rows.group_by("lookup").aggregate([([], "count_all"), ("key", "min"), ("path", "min")])
    twice = groups.filter(pc.greater(groups.column("count_all"), 1))
    some = twice.sort_by([("key_min", "ascending"), ("lookup", "ascending")]).slice(0, _EXAMPLES)
    theirs = rows.filter(pc.is_in(rows.column("lookup"), some.column("lookup").combine_chunks()))
    pairs = theirs.group_by(["lookup", "file"]).aggregate([]).to_pylist()
    where = {one: sorted({files[pair["file"]] for pair in pairs if pair["lookup"] == one}) for one in
             some.column("lookup").to_pylist()}  # fmt: skip
    found = [
        RepeatedKey(one["key_min"], one["path_min"], one["count_all"], tuple(where[one["lookup"]]))
        for one in some.to_pylist()
    ]
    return twice.num_rows, pc.sum(twice.column("count_all")).as_py() or 0, found
