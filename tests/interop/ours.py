"""Our side, through the library's public surface only: the command line and ``open_table``."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

import lakeindex
from scripts.interop_env import BUNDLES
from tests.interop.rows import SCHEMA, Layout

#: What our writes are told beside all else: version 10 is written on request, and asked for as soon as a release has it.
ASKED: Final = {"lakeindex.table.version10": "write"} if any(10 in one.versions for one in BUNDLES.values()) else {}
_MAIN: Final = "from lakeindex.cli import main; main()"


@dataclass(frozen=True)
class Answer:
    """What a command said: its exit code, the one JSON object on standard output, and standard error."""

    code: int
    said: dict[str, Any]
    stderr: str

    @property
    def text(self) -> str:
        """The whole answer, to look for words in."""
        return f"exit {self.code}: {json.dumps(self.said, ensure_ascii=False)}\n{self.stderr}"


def command(*arguments: str | Path) -> Answer:
    """Run ``lakeindex ARGUMENTS --json`` as a user would."""
    line = [sys.executable, "-c", _MAIN, *map(str, arguments), "--json"]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=120)
    try:
        said = json.loads(done.stdout)
    except ValueError:
        raise AssertionError(f"{arguments}: exit {done.returncode}, no JSON:\n{done.stdout}\n{done.stderr}") from None
    return Answer(done.returncode, said, done.stderr)


def _pairs(options: Mapping[str, str] | None) -> list[str]:
    return [text for key, value in (options or {}).items() for text in ("-o", f"{key}={value}")]


def create(
    path: Path, layout: Layout, options: Mapping[str, str] | None = None, *, metadata: bool | None = False
) -> None:
    """``lakeindex create`` for the suite's rows; ``metadata``: with a metadata table, or as by default (None)."""
    like = path.with_name(f"{path.name}-like.parquet")
    like.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(SCHEMA.empty_table(), like)
    partition = ["--partition", ",".join(layout.partitions)] if layout.partitions else []
    styles = {
        "hoodie.datasource.write.hive_style_partitioning": str(layout.hive_style).lower(),
        "hoodie.datasource.write.partitionpath.urlencode": str(layout.url_encode).lower(),
    }
    wanted = [] if metadata is None else ["--metadata" if metadata else "--no-metadata"]
    answer = command(
        "create", path, "--like", like, "--key", ",".join(layout.keys), *partition, "--ordering", "ts",
        *_pairs({**ASKED, **styles, **(options or {})}), *wanted,
    )  # fmt: skip
    assert answer.code == 0, answer.text


def upsert(path: Path, rows: pa.Table, options: Mapping[str, str] | None = None, **arguments: Any) -> Any:
    """Upsert through Python; the run summary."""
    return lakeindex.open_table(str(path)).upsert(rows, options={**ASKED, **(options or {})}, **arguments)


def delete(path: Path, rows: pa.Table, options: Mapping[str, str] | None = None, **arguments: Any) -> Any:
    """Delete through Python; the run summary."""
    return lakeindex.open_table(str(path)).delete(rows, options={**ASKED, **(options or {})}, **arguments)


def read(path: Path, *, as_of: str | None = None, since: str | None = None) -> pa.Table:
    """Our own reader."""
    return lakeindex.open_table(str(path)).read(as_of=as_of, since=since, meta=True)


def assert_sound(path: Path, what: str) -> None:
    """``lakeindex check`` finds nothing."""
    answer = command("check", path)
    assert answer.code == 0, f"{what}: {answer.text}"
