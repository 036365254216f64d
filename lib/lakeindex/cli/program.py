"""The root command, the modules of its commands, and how it ends: outcomes become stdout, stderr and an exit code here
only.

With ``--json`` stdout gets exactly one JSON object, whatever happens; without, results go to stdout and failures to
stderr. Exit codes are those of the error tree (:mod:`lakeindex.errors`); wrong usage is 2, an interrupt 130.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
import traceback
from collections.abc import Sequence
from importlib import import_module
from keyword import iskeyword
from typing import Any, Final, NoReturn

import click

from lakeindex.errors import DEBUG_VARIABLE, LakeIndexError, in_our_words, show_warnings
from lakeindex.frozen import Frozen
from lakeindex.model import VERSION
from lakeindex.showing.json_values import json_of
from lakeindex.time_spent import begin_with_process

ERROR_SCHEMA_VERSION: Final = 1
INTERRUPTED: Final = 130


# "class" is the word of the JSON object, but a keyword here
class Failure(Frozen):
    """A failure as it is shown."""

    kind: str
    message: str
    culprit: str | None
    hint: str | None
    exit_code: int

    def as_dict(self) -> dict[str, Any]:
        """The ``error`` of ``docs/schemas/error.json``."""
        found = json_of(self)
        return {"class": found.pop("kind"), **found}

    @staticmethod
    def of(error: BaseException) -> Failure:
        if isinstance(error, LakeIndexError):
            return Failure(type(error).__name__, error.message, error.culprit, error.hint, error.exit_code)
        if isinstance(error, click.ClickException):
            return _of_usage(error)
        if isinstance(error, (click.Abort, KeyboardInterrupt)):
            return Failure("Interrupted", "interrupted", None, "the next run takes over what is there", INTERRUPTED)
        ours = in_our_words(error)
        if ours is not None:
            return Failure.of(ours)
        return Failure(type(error).__name__, str(error) or type(error).__name__, None, _debug_hint(), 1)


def _of_usage(error: click.ClickException) -> Failure:
    culprit = None
    hint = None
    if isinstance(error, click.BadParameter) and error.param is not None:
        culprit = error.param.opts[0] if isinstance(error.param, click.Option) else error.param.human_readable_name
    elif isinstance(error, click.NoSuchOption):
        culprit = error.option_name
    if isinstance(error, click.UsageError) and error.ctx is not None:
        hint = f"see `{error.ctx.command_path} --help`"
    return Failure("UsageError", error.format_message(), culprit, hint, 2)


def _debug_hint() -> str | None:
    return None if os.environ.get(DEBUG_VARIABLE) == "1" else f"set {DEBUG_VARIABLE}=1 for the traceback"


class LakeGroup(click.Group):
    """The root command; ends every invocation in the way described above.

    Attributes:
        homes: modules of commands that are loaded when they are asked for, by the names of the commands.
    """

    def __init__(self, *args: Any, **extra: Any) -> None:
        super().__init__(*args, **extra)
        self.homes: dict[str, str] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        return sorted({*self.commands, *self.homes})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command, whose module is loaded for it."""
        if cmd_name in self.homes and cmd_name not in self.commands:
            name = cmd_name.replace("-", "_")
            name += "_" * iskeyword(name)
            self.add_command(getattr(import_module(self.homes[cmd_name]), name), cmd_name)
        return super().get_command(ctx, cmd_name)

    def all_commands(self) -> dict[str, click.Command]:
        """All commands by name, loaded."""
        context = click.Context(self)
        found = {name: self.get_command(context, name) for name in self.list_commands(context)}
        return {name: command for name, command in found.items() if command is not None}

    # It always exits, where click's may return.
    def main(self, args: Sequence[str] | None = None, **extra: Any) -> NoReturn:  # type: ignore[override]
        show_warnings()
        if args is None:
            begin_with_process(os.getpid())
        given = list(sys.argv[1:] if args is None else args)
        extra["standalone_mode"] = False
        if given and not {"-h", "--help", "--version"} & set(given):
            from lakeindex.tasks import fast_start  # noqa: F401 - imported before what makes an Arrow array
        try:
            returned = super().main(given, **extra)
        except click.exceptions.NoArgsIsHelpError as asked:  # a group's name alone
            click.echo(asked.ctx.get_help())
            sys.exit(0)
        except BrokenPipeError:
            # the reader of our output went away (`lakeindex history ... | head`); nothing is left to say it to
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the last resort: no traceback for a user
            if os.environ.get(DEBUG_VARIABLE) == "1":
                traceback.print_exception(error, file=sys.stderr)
            sys.exit(_fail(Failure.of(error), as_json="--json" in given))
        sys.exit(returned if isinstance(returned, int) else 0)


def _fail(failure: Failure, *, as_json: bool) -> int:
    if as_json:
        click.echo(json.dumps({"schema_version": ERROR_SCHEMA_VERSION, "error": failure.as_dict()}))
    else:
        click.echo(f"{failure.kind}: {failure.message}", err=True)
        if failure.culprit and failure.culprit not in failure.message:
            click.echo(f"  at:   {failure.culprit}", err=True)
        if failure.hint:
            click.echo(f"  cure: {failure.hint}", err=True)
    return failure.exit_code


_COMMANDS: Final = {
    "lakeindex.cli.commands.create": ("create", "import", "options"),
    "lakeindex.cli.commands.write": (
        *("upsert", "apply", "insert", "bulk-insert", "overwrite", "update", "delete", "replace-where"),
        *("delete-partitions", "truncate"),
    ),
    "lakeindex.cli.commands.look": (
        *("tables", "inspect", "history", "check", "read", "changes", "get", "head", "advise", "report", "compare"),
        *("schema", "properties", "count", "files", "partitions"),
    ),
    "lakeindex.cli.commands.maintain": (
        *("clean", "archive", "maintain", "sync", "rollback", "rescale", "cluster", "index", "metadata"),
    ),
    "lakeindex.cli.commands.repair": ("repair",),
    "lakeindex.cli.commands.restore": ("savepoint", "restore"),
    "lakeindex.cli.commands.start": ("doctor", "dags", "demo"),
}
"""The commands, by the module that has them under their names; a module is loaded with the first command of it."""


@click.group(cls=LakeGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(VERSION, prog_name="lakeindex")
def main() -> None:
    """Row-level upserts into Apache Hudi copy-on-write tables, without a Hudi jar.

    TABLE is a path, a URL (s3://bucket/table) or a name in a catalog (glue://database/table); credentials, region and
    endpoint of a store come from the environment.

    Exit codes: 0 done; 2 wrong usage or option; 3 bad or missing input; 4 table refused; 5 conflict;
    6 broken invariant; 1 anything else.
    """


main.homes.update((name, module) for module, names in _COMMANDS.items() for name in names)


def run() -> None:
    """The command as the shell runs it. Behind its work nothing is taken apart that only a process that goes on would
    need taken apart: that takes a twentieth of the time of a small upsert.
    """
    try:
        main()
    except SystemExit as ended:
        if threading.active_count() > 1 or not isinstance(ended.code, int):
            raise
        atexit._run_exitfuncs()  # noqa: SLF001 - what `sys.exit` calls for what was registered
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except OSError:
            raise ended from None  # Python says so
        os._exit(ended.code)
