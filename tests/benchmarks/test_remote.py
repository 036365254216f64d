"""Engines in environments of their own."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from benchmarks.peers.remote import Remote, RemoteError

_ENGINE = """
import json, sys
print(json.dumps({"ok": True, "result": None}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    if request["op"] == "die":
        sys.exit("out of memory")
    fine = request["op"] == "echo"
    print(json.dumps({"ok": fine, "result": request} if fine else {"ok": fine, "error": "no such op"}), flush=True)
"""


@pytest.fixture
def engine() -> Iterator[Remote]:
    remote = Remote([sys.executable, "-c", _ENGINE], {})
    yield remote
    remote.close()


def test_answers_and_refusals(engine: Remote) -> None:
    assert engine.call("echo", n=1) == {"op": "echo", "n": 1}
    with pytest.raises(RemoteError, match="no such op"):
        engine.call("other")
    assert engine.call("echo", n=2)["n"] == 2


def test_an_engine_that_dies_says_why(engine: Remote) -> None:
    with pytest.raises(RemoteError, match="out of memory"):
        engine.call("die")


def test_an_engine_that_cannot_start_says_why() -> None:
    with pytest.raises(RemoteError, match="no such module"):
        Remote([sys.executable, "-c", "raise SystemExit('no such module')"], {})
