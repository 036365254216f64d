"""The cluster that ``make test-cluster`` started, and the demo's flights on it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.airflow_api import Airflow
from demo.cluster import ClusterDemo
from scripts.cluster import Cluster


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    """The running cluster."""
    return Cluster(Path(os.environ["LAKEINDEX_CLUSTER_FOLDER"]))


@pytest.fixture(scope="module")
def flights(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterDemo]:
    """The table of flights on the cluster's store, with November's feed in it."""
    home = tmp_path_factory.mktemp("flights")
    demo = ClusterDemo(home, os.environ["LAKEINDEX_DEMO"], Airflow(cluster.layout.url("airflow")))
    summary = demo.prepare("2013-11")
    assert summary["inserts"] > 25_000
    yield demo
    wrong = [c for c in demo.comparisons if not c.holds]
    assert wrong == []
