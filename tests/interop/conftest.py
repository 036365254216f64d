"""One warm process per Hudi release, shared by the whole session; it starts when a test asks for it.

A release plays with tables of the version that it makes by default, the newest one with the older versions, too. Which of
them play a case, ``LAKEINDEX_INTEROP`` says:

* ``all``, as pytest alone: all of them.
* ``versions``, as ``make interop``: one for each version of tables, the releases in turns by case.
* ``narrow``: one of them, in turns by case; all of them a test of one case.
* ``half``, ``third``, ``sixth``, one of which ``.ci/run`` takes: one of the newest release's and one other release's, in turns by
  case and commit, of tests of one case, too, and of the other cases one in two, three or six.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts import interop_env
from scripts.interop_env import BUNDLES
from tests.interop.hudi_client import HudiServer, in_zone
from tests.scheduling import turn_of_commit

SHARES = {"all": 1, "versions": 1, "narrow": 1, "half": 2, "third": 3, "sixth": 6}
*OLDER, NEWEST = BUNDLES
WRITERS = {
    f"{release}_v{version}": (release, version)
    for release, bundle in BUNDLES.items()
    for version in (bundle.versions if release == NEWEST else (bundle.default,))
}
"""Who takes turns with us: a release, and the version of the tables that it writes."""


def _chosen(turn: int, of_case: dict[str, pytest.Item], choice: str) -> set[str]:
    """Who plays a case that several could."""
    if choice != "versions":
        return {sorted(of_case)[turn % len(of_case)]}
    of_version: dict[int, list[str]] = defaultdict(list)
    for writer in of_case:
        of_version[WRITERS[writer][1]].append(writer)
    return {some[turn % len(some)] for some in of_version.values()}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    choice = os.environ.get("LAKEINDEX_INTEROP", "all")
    if choice not in SHARES:
        raise pytest.UsageError(f"LAKEINDEX_INTEROP cannot be {choice!r}: {' | '.join(SHARES)}")
    if choice == "all":
        return
    share = SHARES[choice]
    first = turn_of_commit() if share > 1 or choice == "versions" else 0
    left_out = set()
    players = (NEWEST, OLDER[first % len(OLDER)]) if share > 1 else tuple(BUNDLES)
    cases: dict[str, dict[str, dict[str, pytest.Item]]] = defaultdict(lambda: defaultdict(dict))  # test, case, writer
    for item in items:
        callspec = getattr(item, "callspec", None)
        for writer in callspec.params.values() if callspec else ():
            if writer not in tuple(WRITERS):
                continue
            if WRITERS[writer][0] not in players:
                left_out.add(item)
                continue
            case = "-".join(part for part in callspec.id.split("-") if part != writer)
            cases[item.nodeid.partition("[")[0]][case][writer] = item
    left_out |= {
        item
        for number, of_test in enumerate(cases.values(), start=first)
        for turn, of_case in enumerate(of_test.values(), start=number)
        if len(of_test) > 1 or share > 1 or choice == "versions"
        for writer, item in of_case.items()
        if writer not in _chosen(turn, of_case, choice)
    }
    shared = [item for item in items if item not in left_out and len(cases[item.nodeid.partition("[")[0]]) != 1]
    left_out |= {item for number, item in enumerate(shared, start=first) if number % share}
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session", autouse=True)
def where_hudi_is() -> Iterator[None]:
    with in_zone():
        yield


@pytest.fixture(scope="session")
def environment() -> None:
    """What Hudi runs in; made if it is not there."""
    try:
        interop_env.make()
    except interop_env.SetupError as error:
        pytest.fail(f"the interop environment cannot be made, so nothing was proved: {error}")


@pytest.fixture(scope="session")
def servers(environment: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, HudiServer]]:
    """All releases."""
    quick = "LAKEINDEX_TURNS" not in os.environ  # hours of stories are worth compiling well
    running = {
        version: HudiServer(
            version, tmp_path_factory.mktemp(f"hudi-{version}"), "1500m" if quick else "3g", quick=quick
        )
        for version in BUNDLES
    }
    yield running
    for server in running.values():
        server.close()


@pytest.fixture(scope="session", params=list(WRITERS))
def hudi(request: pytest.FixtureRequest, servers: dict[str, HudiServer]) -> HudiServer:
    """Every test that asks for it runs with all releases, and with tables of every version."""
    release, table_version = WRITERS[request.param]
    return servers[release].writing(table_version)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a test's tables go."""
    return tmp_path
