"""The command line in this process, and JSON schemas to hold its answers against."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
from click.testing import CliRunner

from lakeindex.cli import main

SCHEMAS = Path(__file__).parent.parent / "docs" / "schemas"


@dataclass(frozen=True)
class Answer:
    """How a command ended."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> dict[str, Any]:
        """The one JSON object on stdout."""
        assert len(self.stdout.strip().splitlines()) == 1, self.stdout
        loaded = json.loads(self.stdout)
        assert isinstance(loaded, dict)
        return loaded

    @property
    def error(self) -> dict[str, Any]:
        """The error of a failed command, checked against its schema."""
        validate("error", self.json)
        found = self.json["error"]
        assert isinstance(found, dict)
        assert found["exit_code"] == self.exit_code
        return found


def lakeindex(*args: object) -> Answer:
    """Run a command as the shell would."""
    result = CliRunner().invoke(main, [str(arg) for arg in args])
    return Answer(result.exit_code, result.stdout, result.stderr)


@cache
def schema_of(name: str) -> dict[str, Any]:
    """A JSON schema of ``docs/schemas``."""
    loaded: dict[str, Any] = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
    return loaded


def validate(name: str, value: dict[str, Any]) -> None:
    """Hold a JSON object against a schema."""
    jsonschema.Draft202012Validator(schema_of(name)).validate(value)
