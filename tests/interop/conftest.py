"""One warm process per Hudi release, shared by the whole session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts import interop_env
from tests.interop.hudi_client import HudiServer

VERSIONS = tuple(interop_env.BUNDLES)


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
    running = {version: HudiServer(version, tmp_path_factory.mktemp(f"hudi-{version}")) for version in VERSIONS}
    yield running
    for server in running.values():
        server.close()


@pytest.fixture(scope="session", params=VERSIONS)
def hudi(request: pytest.FixtureRequest, servers: dict[str, HudiServer]) -> HudiServer:
    """Every test that asks for it runs with both releases."""
    return servers[request.param]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a test's tables go."""
    return tmp_path
