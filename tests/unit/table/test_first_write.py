"""The first write into a table of Hudi 0.15, which does not store its payload class, names what cannot be followed: at every door."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq

from lakeindex.api.table import LakeTable
from lakeindex.errors import OptionError
from tests.cli_support import lakeindex
from tests.vectors_support import unpack_table

NOT_FOLLOWED = (
    "hoodie.compaction.payload.class", "AWSDmsAvroPayload", "Debezium", "OverwriteNonDefaultsWithLatestAvroPayload",
    "PartialUpdateAvroPayload", "Write to it with Hudi", "-o hoodie.write.record.merge.mode=EVENT_TIME_ORDERING",
    "-o hoodie.write.record.merge.mode=COMMIT_TIME_ORDERING",
)  # fmt: skip


def left_out(text: str) -> list[str]:
    plain = " ".join(text.split())
    return [one for one in NOT_FOLLOWED if one not in plain]


def test_every_door_says_it(tmp_path: Path) -> None:
    path = unpack_table("h0150_v6_main", tmp_path)
    table = LakeTable(str(path))
    rows = table.read(meta=False).slice(0, 1)
    field = rows.column_names[0]
    pq.write_table(rows, tmp_path / "batch.parquet")
    doors: dict[str, Callable[[], object]] = {
        "upsert": lambda: table.upsert(rows),
        "dry run": lambda: table.upsert(rows, dry_run=True),
        "insert": lambda: table.insert(rows),
        "bulk insert": lambda: table.bulk_insert(rows),
        "insert overwrite": lambda: table.insert_overwrite(rows),
        "insert overwrite table": lambda: table.insert_overwrite_table(rows),
        "delete": lambda: table.delete(rows),
        "delete by condition": lambda: table.delete(where=f"{field} IS NOT NULL"),
        "update": lambda: table.update(set={rows.column_names[-1]: "NULL"}, where=f"{field} IS NOT NULL"),
        "replace": lambda: table.replace_where(rows, where=f"{field} IS NOT NULL"),
        "truncate": table.truncate,
    }
    wrong: list[object] = []
    for door, write in doors.items():
        try:
            write()
        except OptionError as error:
            if missing := left_out(f"{error.message} {error.hint}"):
                wrong.append((door, missing))
        except Exception as error:  # noqa: BLE001 - each door is told of
            wrong.append((door, repr(error)))
        else:
            wrong.append((door, "taken"))
    commands = {
        "upsert": ("upsert", path, tmp_path / "batch.parquet"),
        "upsert --dry-run": ("upsert", path, tmp_path / "batch.parquet", "--dry-run"),
        "insert": ("insert", path, tmp_path / "batch.parquet"),
        "delete": ("delete", path, tmp_path / "batch.parquet"),
        "delete --where": ("delete", path, "--where", f"{field} IS NOT NULL"),
        "truncate": ("truncate", path),
    }
    for name, command in commands.items():
        for how in ((), ("--json",)):
            answer = lakeindex(*command, *how)
            said = answer.stderr if not how else json.dumps(answer.json, ensure_ascii=False)
            if answer.exit_code != 2 or left_out(said):
                wrong.append((name, how, answer.exit_code, left_out(said), said[:300]))
    refusal = table.inspect().refusal
    if refusal is None or left_out(f"{refusal.message} {refusal.hint}"):
        wrong.append(("inspect", refusal))
    assert not wrong
    assert not (path / ".hoodie" / ".lakeindex" / "table.json").exists()


def test_who_says_it_is_not_asked_again(tmp_path: Path) -> None:
    path = unpack_table("h0150_v6_main", tmp_path)
    table = LakeTable(str(path))
    rows = table.read(meta=False).slice(0, 1)
    table.upsert(rows, options={"hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING"})
    table.upsert(rows)
    table.delete(rows)
