"""No coverage here: thousands of histories of code that other suites measure, each three times slower with it."""

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.no_cover)
