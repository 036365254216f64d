"""The command line: ``lakeindex COMMAND TABLE ...``. Starts fast: data libraries load when a command runs."""

from lakeindex.cli.program import main, run

__all__ = ["main", "run"]
