"""Each door that has them passes them on: ``force`` takes what a foreign writer left, ``dry_run`` changes nothing, and of
``options`` one that there is not is refused.
"""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click
import pyarrow.parquet as pq
import pytest

from lakeindex.api.table import LakeTable
from lakeindex.cli import main
from lakeindex.errors import LakeIndexError, OptionError
from lakeindex.format.instants import next_instant_time
from tests.builders import Row, batch_of, make_table
from tests.cli_support import Answer, lakeindex
from tests.golden import made_once

FIRST, SECOND, THIRD = (
    [Row(key, "xy"[n % 2], n, str(n)) for n, key in enumerate(keys)] for keys in ("abc", "bcd", "ef")
)
NEW, OTHER = batch_of([Row("a", "x", 9, "9")]), batch_of([Row("g", "z", 9, "9")])
NEW_FILES = {"hoodie.parquet.small.file.limit": "0"}
FEW = {"hoodie.keep.min.commits": "2", "hoodie.cleaner.commits.retained": "1"}

Call = Callable[..., Any]
CALLS: Final[dict[str, Call]] = {
    "apply": lambda t, **how: t.apply(source_of(t).changes(), **how),
    "archive": lambda t, **how: t.archive(options=FEW, **how),
    "bulk_insert": lambda t, **how: t.bulk_insert(OTHER, **how),
    "clean": lambda t, **how: t.clean(1, **how),
    "cluster": lambda t, **how: t.cluster(progress=False, **how),
    "delete": lambda t, **how: t.delete(NEW, **how),
    "delete where": lambda t, **how: t.delete(where="ts < 2", **how),
    "delete_partitions": lambda t, **how: t.delete_partitions(["x"], **how),
    "index_migrate": lambda t, **how: t.index_migrate("SIMPLE", **how),
    "insert": lambda t, **how: t.insert(OTHER, **how),
    "insert_overwrite": lambda t, **how: t.insert_overwrite(NEW, **how),
    "insert_overwrite_table": lambda t, **how: t.insert_overwrite_table(NEW, **how),
    "metadata_build": lambda t, **how: t.metadata_build(**how),
    "repair": lambda t, **how: t.repair(["pending"], apply=True, **how),
    "repair_keys": lambda t, **how: t.repair_keys(apply=True, **how),
    "replace_where": lambda t, **how: t.replace_where(NEW, where="ts > 7 OR id = 'a'", **how),
    "rescale": lambda t, **how: t.rescale(3, progress=False, **how),
    "restore": lambda t, **how: t.restore(kept(t), **how),
    "rollback": lambda t, **how: t.rollback(newest(t), **how),
    "savepoint_create": lambda t, **how: t.savepoint_create(**how),
    "savepoint_delete": lambda t, **how: t.savepoint_delete(kept(t), **how),
    "truncate": lambda t, **how: t.truncate(**how),
    "update": lambda t, **how: t.update({"v": "'u'"}, where="ts < 2", **how),
    "upsert": lambda t, **how: t.upsert(NEW, **how),
}
WITH_OPTIONS: Final[dict[str, Call]] = {
    **CALLS,
    "advise": lambda t, **how: t.advise(NEW, **how),
    "archive": lambda t, **how: t.archive(**how),
    "changes": lambda t, **how: t.changes(**how).to_arrow(),
    "count": lambda t, **how: t.count(**how),
    "files": lambda t, **how: t.files(**how),
    "get": lambda t, **how: t.get(["a"], **how),
    "index_build": lambda t, **how: t.index_build("STATE", **how),
    "index_drop": lambda t, **how: t.index_drop("STATE", **how),
    "index_status": lambda t, **how: t.index_status("STATE", **how),
    "index_verify": lambda t, **how: t.index_verify("STATE", **how),
    "maintain": lambda t, **how: t.maintain(**how),
    "metadata_drop": lambda t, **how: t.metadata_drop(**how),
    "partitions": lambda t, **how: t.partitions(**how),
    "read": lambda t, **how: t.read(meta=False, **how),
    "repair_properties": lambda t, **how: t.repair_properties(**how),
    "scan": lambda t, **how: t.scan(**how).to_arrow(),
    "sync": lambda t, **how: t.sync("hive", **how),
}
COMMANDS: Final = {
    "apply": "{t} --from {source}",
    "archive": "{t} -o hoodie.keep.min.commits=2 -o hoodie.cleaner.commits.retained=1",
    "bulk-insert": "{t} {other}",
    "clean": "{t} --keep-commits 1",
    "cluster": "{t}",
    "delete": "{t} {new}",
    "delete-partitions": "{t} x",
    "index migrate": "{t} --to SIMPLE",
    "insert": "{t} {other}",
    "metadata build": "{t}",
    "overwrite": "{t} {new}",
    "repair keys": "{t} --apply",
    "replace-where": "{t} {new} --where ts>7_or_id='a'",
    "rescale": "{t} --buckets 3",
    "restore": "{t} --to {first} --yes",
    "rollback": "{t} {last}",
    "savepoint create": "{t}",
    "savepoint delete": "{t} {first}",
    "truncate": "{t}",
    "update": "{t} --set v='u' --where ts<2",
    "upsert": "{t} {new}",
}
"""Of each command its words; ``_`` stands for a space in one."""
PROGRAM: Final = "lakeindex "
ELSEWHERE: Final = {
    *("repair_discard", f"{PROGRAM}repair discard"),  # tests/unit/operations/test_repair.py
    f"{PROGRAM}import",  # it makes the table: tests/unit/operations/test_importing.py
    f"{PROGRAM}dags",  # overwrites files of DAGs
}


@made_once
def table_of(folder: Path, index: str) -> LakeTable:
    table = make_table(folder, hoodie__index__type=index)
    for rows in (FIRST, SECOND, THIRD):
        table.upsert(batch_of(rows), options=NEW_FILES if index == "BLOOM" else {})
    return table


def source_of(table: LakeTable) -> LakeTable:
    return table_of(Path(table.uri).parent / "source", "SIMPLE")


def kept(table: LakeTable) -> str:
    return str(table.history()[-1].instant)


def newest(table: LakeTable) -> str:
    return max(str(line.instant) for line in table.history() if line.state == "completed")


def command(table: LakeTable, name: str, *more: str, **how: bool) -> Answer:
    new, other = (Path(table.uri).parent / f"{one}.parquet" for one in ("new", "other"))
    pq.write_table(NEW, new)
    pq.write_table(OTHER, other)
    given = {"t": table.uri, "new": new, "other": other, "first": kept(table), "last": newest(table)}
    words = [word.replace("_", " ").format(source=source_of(table).uri, **given) for word in COMMANDS[name].split(" ")]
    return lakeindex(*name.split(), *words, *(f"--{flag.replace('_', '-')}" for flag in how if how[flag]), *more)


def done(table: LakeTable, door: str, **how: bool) -> None:
    """Through a method, or a command, ``lakeindex ...``. Raises: LakeIndexError: of a method."""
    if door.startswith(PROGRAM):
        answer = command(table, door.removeprefix(PROGRAM), **how)
        assert answer.exit_code == 0 or not how.get("force", True), answer
    else:
        CALLS[door](table, **how)


def commands_having(option: str, group: click.Group = main, before: str = PROGRAM) -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        one = group.get_command(context, name)
        if isinstance(one, click.Group):
            yield from commands_having(option, one, f"{before}{name} ")
        elif one is not None and any(option in parameter.opts for parameter in one.params):
            yield before + name


def having(argument: str) -> list[str]:
    methods = inspect.getmembers(LakeTable, inspect.isfunction)
    named = [name for name, method in methods if argument in inspect.signature(method).parameters]
    commands = commands_having(f"--{argument.replace('_', '-')}")
    return sorted({*named, *commands, "delete where"} - ELSEWHERE)


def prepared(folder: Path, door: str) -> LakeTable:
    table = table_of(folder / "t", "BUCKET" if "rescale" in door else "BLOOM")
    source_of(table)
    if door in {"savepoint_delete", f"{PROGRAM}savepoint delete"}:
        table.savepoint_create(kept(table))
    return table


def state(folder: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.mark.parametrize("door", having("dry_run"))
def test_a_dry_run_writes_nothing(tmp_path: Path, door: str) -> None:
    table = prepared(tmp_path, door)
    if door.startswith(PROGRAM):
        pq.write_table(NEW, tmp_path / "new.parquet")
        pq.write_table(OTHER, tmp_path / "other.parquet")
    before = state(tmp_path)
    done(table, door, dry_run=True)
    assert state(tmp_path) == before


@pytest.mark.parametrize("door", having("force"))
def test_what_another_writer_left_is_taken_by_force_only(tmp_path: Path, door: str) -> None:
    folder = prepared(tmp_path, door).uri
    left = next_instant_time(max(str(line.instant) for line in LakeTable(folder).history()), 0)
    for file in (f"{left}.commit.requested", f"{left}.inflight"):
        Path(folder, ".hoodie", file).write_text("{}")
    before = tmp_path / "before"
    shutil.copytree(folder, before)
    for force in (False, True):
        shutil.rmtree(folder)
        shutil.copytree(before, folder)
        with suppress(*(() if force else (LakeIndexError,))):
            done(LakeTable(folder), door, force=force)
        assert Path(folder, ".hoodie", f"{left}.inflight").exists() is not force, f"force={force}"


@pytest.mark.parametrize("door", [door for door in having("options") if not door.startswith(PROGRAM)])
def test_an_option_that_there_is_not_is_refused(tmp_path: Path, door: str) -> None:
    with pytest.raises(OptionError, match=r"unknown option 'hoodie\.parquet\.kodec' \(did you mean"):
        WITH_OPTIONS[door](prepared(tmp_path, door), options={"hoodie.parquet.kodec": "zstd"})


@pytest.mark.parametrize("door", sorted({*commands_having("-o")} & {PROGRAM + name for name in COMMANDS}))
def test_an_option_of_a_command_that_there_is_not_is_refused(tmp_path: Path, door: str) -> None:
    answer = command(prepared(tmp_path, door), door.removeprefix(PROGRAM), "-o", "hoodie.parquet.kodec=zstd")
    assert answer.exit_code == 2
    assert "unknown option 'hoodie.parquet.kodec'" in answer.stderr
