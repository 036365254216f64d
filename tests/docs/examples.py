"""Runs what a page shows: its Python blocks, and the commands of its ``console`` blocks, which must print what the page says.

* Blocks of a page run in their order, in one folder and one Python namespace.
* A line of a console block that begins with ``$ `` is a command; what follows is its output. A line ``...`` stands for any
  lines. Times, sizes, bars, instants and names that are made anew each time are not compared.
* ``<!-- not run: WHY -->`` on the line above a block leaves it out.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from pytest_examples import CodeExample, find_examples

from lakeindex.cli import main

ANY = "..."
_CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NOT_RUN = re.compile(r"<!-- not run: (.+) -->")
_VARIES = (
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "ID"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)"), "TIME"),
    (re.compile(r"\b\d{17}\b"), "INSTANT"),
    (re.compile(r"\brun-\d{8}T\d{6}-[0-9a-f]{8}\b"), "RUN"),
    (re.compile(r"\b\d+\.\d+\b(?! ?%)( (s|B|KiB|MiB)\b)?|\b\d+ B\b"), "SIZE"),
    (re.compile("[━╸]+"), " "),
    (re.compile(r"\s+"), " "),
)


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a console block, and the output that the page shows."""

    line: int
    words: str
    output: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a page: a Python example, or commands; ``left_out`` says why it is not run."""

    line: int
    content: CodeExample | tuple[Command, ...]
    left_out: str | None


def blocks_of(page: Path) -> list[Block]:
    """The Python and console blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    lines = text.splitlines()

    def left_out(line: int) -> str | None:
        found = _NOT_RUN.fullmatch(lines[line - 2].strip()) if line >= 2 else None
        return None if found is None else found[1]

    examples = [one for one in find_examples(page) if not one.prefix.startswith("pycon")]  # doctests run where they are
    found = [Block(example.start_line, example, left_out(example.start_line)) for example in examples]
    for match in _CONSOLE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        found.append(Block(line, tuple(_commands(match[1].splitlines(), line + 1)), left_out(line)))
    return sorted(found, key=lambda block: block.line)


def _commands(lines: Sequence[str], first: int) -> Iterator[Command]:
    starts = [number for number, line in enumerate(lines) if line.startswith("$ ")]
    assert starts[:1] == [0], f"line {first}: a console block begins with a command"
    for start, stop in zip(starts, [*starts[1:], len(lines)], strict=True):
        end = start
        while lines[end].endswith("\\"):
            end += 1
        words = " ".join(line.removesuffix("\\").strip() for line in lines[start : end + 1]).removeprefix("$ ")
        yield Command(first + start, words, tuple(lines[end + 1 : stop]))


def run_page(page: Path) -> int:
    """Run a page's blocks in the present folder.

    Returns:
        How many blocks were run.

    Raises:
        AssertionError: a command failed, or printed something else; and whatever a Python block raises.
    """
    known: dict[str, Any] = {}
    ran = 0
    for block in blocks_of(page):
        if block.left_out is not None:
            continue
        ran += 1
        if isinstance(block.content, CodeExample):
            run_python(block.content, known)
            continue
        for command in block.content:
            _age(Path().glob("feed/**/*.parquet"))
            code, output = run_command(command.words)
            where = f"{page.name}:{command.line}: {command.words}"
            assert code == 0, f"{where}\nended with {code}\n{output}"
            assert matches(command.output, output.splitlines()), f"{where}\nprinted\n{output}"
    return ran


def _age(files: Iterable[Path]) -> None:
    """Who follows a page has had these files for minutes; what was written just now is read once more."""
    then = time.time() - 60
    for file in files:
        os.utime(file, (then, then))


def run_python(example: CodeExample, namespace: dict[str, Any]) -> None:
    """Run an example; a traceback names its file and line."""
    code = compile("\n" * example.start_line + example.source, str(example.path), "exec")
    exec(code, namespace)


def run_command(words: str) -> tuple[int, str]:
    """Exit code and output of a command, stdout before stderr; ``lakeindex`` runs in this process, all else in a shell."""
    if words.startswith("lakeindex ") and not re.search(r"[|;&<>]", words):
        result = CliRunner().invoke(main, _expanded(shlex.split(words)[1:]))
        return result.exit_code, result.stdout + result.stderr
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", words], env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def _expanded(words: Sequence[str]) -> list[str]:
    """Words with ``*`` patterns replaced by the files they match, as a shell does it."""
    found: list[str] = []
    for word in words:
        matching = sorted(str(path) for path in Path().glob(word)) if "*" in word else []
        found += matching or [word]
    return found


def matches(shown: Sequence[str], printed: Sequence[str]) -> bool:
    """Whether a command's output is what a page shows; a block that shows none says nothing of it."""
    wanted = [_masked(line) for line in shown if line.strip()]
    return not wanted or _matches(wanted, [_masked(line) for line in printed if line.strip()])


def _matches(wanted: Sequence[str], printed: Sequence[str]) -> bool:
    if not wanted:
        return not printed
    if wanted[0] == ANY:
        return any(_matches(wanted[1:], printed[start:]) for start in range(len(printed) + 1))
    return bool(printed) and wanted[0] == printed[0] and _matches(wanted[1:], printed[1:])


def _masked(line: str) -> str:
    for pattern, name in _VARIES:
        line = pattern.sub(name, line)
    return line.strip()
