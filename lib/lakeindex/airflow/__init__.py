"""What DAGs import: ``from lakeindex.airflow import LakeIndexUpsertOperator``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakeindex.airflow.upsert_operator import LakeIndexUpsertOperator

__all__ = ["LakeIndexUpsertOperator"]


def __getattr__(name: str) -> Any:
    """Load the operator, and Airflow's Spark provider with it, when it is asked for."""
    if name in __all__:
        from lakeindex.airflow import upsert_operator

        return getattr(upsert_operator, name)
    raise AttributeError(f"module 'lakeindex.airflow' has no attribute {name!r}")
