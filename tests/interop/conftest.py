"""One warm process per Hudi release, shared by the whole session.

``LAKEINDEX_INTEROP=narrow`` runs each case of a test with one of the releases and table versions, in turns, instead of with all; a test
of one case keeps all of them. ``half``, ``third`` and ``sixth`` play such a test with one of them, too, and of the other cases one in
two, three or six, in turns by commit; ``.ci/run`` takes one of these. ``make interop`` alone runs all.
"""

from __future__ import annotations

import os
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts import interop_env
from tests.interop.hudi_client import HudiServer

SHARES = {"all": 1, "narrow": 1, "half": 2, "third": 3, "sixth": 6}
VERSIONS = ("0.15.0", "1.2.0")
WRITERS = {"0.15.0": ("0.15.0", 6), "1.2.0": ("1.2.0", 6), "1.2.0_v8": ("1.2.0", 8), "1.2.0_v9": ("1.2.0", 9)}
"""Who takes turns with us: a release, and the version of the tables that it writes."""


def _turn() -> int:
    """A number of this commit, by which cases take turns."""
    command = ["git", "rev-parse", "HEAD"]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return int(done.stdout.strip() or "0", 16)


def _chosen(turn: int, of_case: dict[str, pytest.Item]) -> str:
    """Who plays a case that several could."""
    return sorted(of_case)[turn % len(of_case)]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    choice = os.environ.get("LAKEINDEX_INTEROP", "all")
    if choice not in SHARES:
        raise pytest.UsageError(f"LAKEINDEX_INTEROP cannot be {choice!r}: {' | '.join(SHARES)}")
    if choice == "all":
        return
    cases: dict[str, dict[str, dict[str, pytest.Item]]] = defaultdict(lambda: defaultdict(dict))  # test, case, writer
    for item in items:
        callspec = getattr(item, "callspec", None)
        for writer in callspec.params.values() if callspec else ():
            if writer not in tuple(WRITERS):
                continue
            case = "-".join(part for part in callspec.id.split("-") if part != writer)
            cases[item.nodeid.partition("[")[0]][case][writer] = item
    share = SHARES[choice]
    first = _turn() if share > 1 else 0
    left_out = {
        item
        for number, of_test in enumerate(cases.values(), start=first)
        for turn, of_case in enumerate(of_test.values(), start=number)
        if len(of_test) > 1 or share > 1
        for writer, item in of_case.items()
        if writer != _chosen(turn, of_case)
    }
    shared = [item for item in items if item not in left_out and len(cases[item.nodeid.partition("[")[0]]) != 1]
    left_out |= {item for number, item in enumerate(shared, start=first) if number % share}
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def environment() -> None:
    """What Hudi runs in; made if it is not there."""
    try:
        interop_env.make()
    except interop_env.SetupError as error:
        pytest.fail(f"the interop environment cannot be made, so nothing was proved: {error}")


@pytest.fixture(scope="session")
def servers(environment: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, HudiServer]]:
    """Both releases; their sessions start at the same time."""
    quick = "LAKEINDEX_TURNS" not in os.environ  # hours of stories are worth compiling well
    running = {
        version: HudiServer(
            version, tmp_path_factory.mktemp(f"hudi-{version}"), "1500m" if quick else "3g", quick=quick
        )
        for version in VERSIONS
    }
    yield running
    for server in running.values():
        server.close()


@pytest.fixture(scope="session", params=list(WRITERS))
def hudi(request: pytest.FixtureRequest, servers: dict[str, HudiServer]) -> HudiServer:
    """Every test that asks for it runs with both releases, and with tables of every version."""
    release, table_version = WRITERS[request.param]
    return servers[release].writing(table_version)


@pytest.fixture(scope="session")
def emr(environment: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HudiServer]:
    """Hudi 1.0.2, which EMR 7.11 to 7.13 have, with tables of version 8, its default; for what a release may read otherwise."""
    server = HudiServer("1.0.2", tmp_path_factory.mktemp("hudi-1.0.2"))
    yield server.writing(8)
    server.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a test's tables go."""
    return tmp_path
