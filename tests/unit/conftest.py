"""Shared by the tests of the commit protocol's modules."""

import pytest

from tests.unit.commit.protocol_support import World


@pytest.fixture
def world() -> World:
    return World()
