"""How commands end, whatever happens."""

from __future__ import annotations

import json
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from lakeindex import errors
from lakeindex.cli import main
from lakeindex.cli.program import LakeGroup
from tests.cli_support import lakeindex, validate


@click.group(cls=LakeGroup)
def root() -> None:
    """Stands for the real root command."""


@root.command()
@click.option("--json", "as_json", is_flag=True)
@click.option("--how", default="")
@click.pass_context
def end(ctx: click.Context, as_json: bool, how: str) -> None:
    """End in one way or another."""
    if how == "interrupt":
        raise KeyboardInterrupt
    if how == "bug":
        raise ZeroDivisionError("there is no half of nothing")
    if how == "six":
        ctx.exit(6)
    if how:
        raise getattr(errors, how)("it is wrong", culprit="file.parquet", hint="do it right")


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("UsageError", 2),
        ("OptionError", 2),
        ("InputError", 3),
        ("TableCorruptError", 4),
        ("BatchIdReusedError", 5),
        ("InvariantError", 6),
        ("StorageError", 1),
    ],
)
def test_errors_end_with_their_code(how: str, code: int):
    as_json = CliRunner().invoke(root, ["end", "--how", how, "--json"])
    shown = json.loads(as_json.stdout)
    validate("error", shown)
    assert shown["error"] == {
        "class": how,
        "message": "it is wrong",
        "culprit": "file.parquet",
        "hint": "do it right",
        "exit_code": code,
    }
    assert as_json.exit_code == code
    plain = CliRunner().invoke(root, ["end", "--how", how])
    assert (plain.exit_code, plain.stdout) == (code, "")
    assert all(part in plain.stderr for part in (how, "it is wrong", "file.parquet", "do it right"))


def test_an_exit_code_of_a_command_is_kept():
    assert CliRunner().invoke(root, ["end", "--how", "six"]).exit_code == 6
    assert CliRunner().invoke(root, ["end"]).exit_code == 0


def test_an_interrupt_ends_with_130():
    result = CliRunner().invoke(root, ["end", "--how", "interrupt", "--json"])
    assert result.exit_code == 130
    validate("error", json.loads(result.stdout))


def test_the_unexpected_has_no_traceback_unless_asked_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("LAKEINDEX_DEBUG", raising=False)
    result = CliRunner().invoke(root, ["end", "--how", "bug"])
    assert result.exit_code == 1
    assert "ZeroDivisionError: there is no half of nothing" in result.stderr
    assert "Traceback" not in result.stderr
    monkeypatch.setenv("LAKEINDEX_DEBUG", "1")
    result = CliRunner().invoke(root, ["end", "--how", "bug", "--json"])
    assert "Traceback" in result.stderr
    assert json.loads(result.stdout)["error"]["class"] == "ZeroDivisionError"


@pytest.mark.parametrize(
    ("args", "culprit"),
    [
        (["upsert", "t", "--json"], "INPUT..."),
        (["upsert", "t", "b.parquet", "--max-quarantined", "-1", "--json"], "--max-quarantined"),
        (["upsert", "t", "b.parquet", "--runner", "flink", "--json"], "--runner"),
        (["upsert", "t", "b.parquet", "--frobnicate", "--json"], "--frobnicate"),
        (["read", "t", "--json"], "--out"),
        (["create", "t", "--key", "id", "--json"], "--like"),
        (["rollback", "t", "--json"], "INSTANT"),
        (["frobnicate", "--json"], None),
    ],
)
def test_wrong_usage_is_json_too(args: list[str], culprit: str | None):
    answer = lakeindex(*args)
    assert answer.exit_code == 2
    assert answer.error["class"] == "UsageError"
    if culprit is not None:
        assert answer.error["culprit"] == culprit


def test_help_and_version_load_no_data_library():
    code = (
        "import sys\nfrom lakeindex.cli import main\n"
        "try:\n    main(['upsert', '--help'])\nexcept SystemExit as end:\n    assert end.code == 0, end.code\n"
        "heavy = {'pyarrow', 'numpy', 'pyspark', 'obstore', 'fastavro', 'pandas', 'rich'} & set(sys.modules)\n"
        "print(sorted(heavy), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert "--max-quarantined" in done.stdout


AS_THE_SHELL = """
import atexit, sys, threading

class Told:
    def __del__(self):
        print("taken apart")

told = Told()
atexit.register(print, "the end")
if sys.argv[1] == "beside a thread":
    threading.Thread(target=lambda: (threading.main_thread().join(), print("the thread"))).start()
sys.argv = ["lakeindex", *sys.argv[2:]]
from lakeindex.cli import run
run()
"""


@pytest.mark.parametrize(
    ("how", "words", "code", "said"),
    [
        ("alone", ["--version"], 0, ["the end"]),
        ("alone", ["frobnicate"], 2, ["the end"]),
        ("beside a thread", ["--version"], 0, ["the thread", "the end", "taken apart"]),
    ],
)
def test_the_command_does_what_is_left_to_do_and_ends(how: str, words: list[str], code: int, said: list[str]):
    command = [sys.executable, "-c", AS_THE_SHELL, how, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert [line for line in done.stdout.splitlines() if not line.startswith("lakeindex,")] == said
    assert ("version" in done.stdout, "frobnicate" in done.stderr) == (code == 0, code == 2)


def test_version():
    assert "0." in lakeindex("--version").stdout


def test_every_command_has_help():
    for command in (
        "create",
        "upsert",
        "delete",
        "inspect",
        "history",
        "check",
        "read",
        "rollback",
        "rescale",
        "options",
    ):
        answer = lakeindex(command, "--help")
        assert answer.exit_code == 0
        assert "--json" in answer.stdout


@pytest.mark.parametrize("words", [(), ("index",), ("metadata",), ("repair",)])
def test_a_group_alone_is_help_and_no_error(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(main, list(words))
    assert done.exit_code == 0
    assert done.stdout.startswith("Usage: ")
    assert not done.stderr
