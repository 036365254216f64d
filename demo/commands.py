"""The environment's commands, as the demos call them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

BIN: Final = Path(sys.executable).parent


def lakeindex(env: Mapping[str, str], *words: str) -> dict[str, Any]:
    """A lakeindex command's JSON; its failure ends the demo."""
    done = subprocess.run(
        [str(BIN / "lakeindex"), *words, "--json"], env=env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"lakeindex {words[0]} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found
