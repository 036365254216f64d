"""What DAGs import: ``from lakeindex.airflow import LakeIndexUpsertOperator``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakeindex.airflow.upsert_operator import LakeIndexUpsertOperator

__all__ = ["LakeIndexUpsertOperator"]


def get_provider_info() -> dict[str, Any]:
    """What Airflow asks a provider: for ``airflow providers``, and where the operators and links are.

    There is no connection type: jobs are submitted through the Spark provider's connection, and stores take their
    credentials from the environment (``docs/airflow.md``).
    """
    return {
        "package-name": "lakeindex",
        "name": "lakeindex",
        "description": "Row-level upserts into Apache Hudi copy-on-write tables, without a Hudi jar",
        "integrations": [
            {
                "integration-name": "lakeindex",
                "external-doc-url": "https://hudi.apache.org/",
                "tags": ["apache"],
            }
        ],
        "operators": [{"integration-name": "lakeindex", "python-modules": ["lakeindex.airflow.upsert_operator"]}],
        "extra-links": ["lakeindex.airflow.operator.RunReportLink", "lakeindex.airflow.operator.TableHistoryLink"],
    }


def __getattr__(name: str) -> Any:
    """Load the operator, and Airflow's Spark provider with it, when it is asked for."""
    if name in __all__:
        from lakeindex.airflow import upsert_operator

        return getattr(upsert_operator, name)
    raise AttributeError(f"module 'lakeindex.airflow' has no attribute {name!r}")
