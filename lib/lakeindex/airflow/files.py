"""The few files a DAG's tasks look at: is the input there, what did a job leave behind.

The only module here that touches storage, and so the only one that loads a data library. Tasks import it when they
run; parsing a DAG file never does.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from lakeindex.airflow.tables import TableConf
from lakeindex.catalogs.places import is_catalog_url, located
from lakeindex.errors import ObjectNotFoundError, TableNotFoundError
from lakeindex.model import MergeMode
from lakeindex.pipeline import TABLE_PREFIX, default_checkpoints
from lakeindex.stages.stage_input.inputs import has_input
from lakeindex.storage import open_storage
from lakeindex.storage.paths import absolute, plain
from lakeindex.table.handle import Table

if TYPE_CHECKING:
    from lakeindex.telemetry.lineage import LineageFacets


def is_there(place: str) -> bool:
    """Whether stage 1 finds a file behind a path, a folder or a ``*`` pattern; none in a bucket that is not there. Of a
    table of Spark's only Spark knows.
    """
    if place.startswith(TABLE_PREFIX):
        return True
    place = plain(place)
    if not posixpath.basename(place):
        return False
    try:
        return has_input(place)
    except ObjectNotFoundError:
        return False


def read_json(root: str, path: str) -> dict[str, Any] | None:
    """A JSON object below ``root``; None if there is no such file, or no JSON object in it."""
    try:
        value = json.loads(open_storage(root).read(path))
    except (ObjectNotFoundError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def delete(root: str, path: str) -> None:
    """Remove a file below ``root``, if it is there."""
    open_storage(root).delete(path)


def lineage_facets(
    uri: str, inputs: Sequence[str], summary: Mapping[str, Any], options: Mapping[str, str]
) -> LineageFacets:
    """What OpenLineage is told of a run that ended well, as :func:`lakeindex.telemetry.lineage.facets_of_summary`."""
    from lakeindex.telemetry.lineage import facets_of_summary

    return facets_of_summary(uri, inputs, summary, options)


def merge_mode(uri: str) -> MergeMode | None:
    """How a table decides which version of a record wins; None if it does not say.

    Raises:
        TableError: the table is missing or damaged.
    """
    table = Table.open(open_storage(uri))
    return table.properties.declared_merge_mode if table.binding is None else table.binding.merge_mode


def placed(table: TableConf) -> TableConf:
    """A table whose file names one of a catalog, with the place that the catalog says; others as they are.

    Raises:
        LakeIndexError: the catalog does not answer, or knows no such table.
    """
    if not is_catalog_url(table.uri):
        return table
    uri = plain(located(table.uri))
    return replace(table, uri=uri, checkpoints=table.checkpoints or default_checkpoints(absolute(uri)))


def table_is_there(uri: str) -> bool:
    """Whether there is a table, readable or not."""
    try:
        Table.open(open_storage(located(uri)))
    except TableNotFoundError:
        return False
    return True


def maintenance_step(uri: str, step: str, checkpoints: str, options: Mapping[str, str]) -> dict[str, Any]:
    """Take one step of a table's maintenance in this process.

    Raises:
        LakeIndexError: it failed.
    """
    from lakeindex.api.table import LakeTable

    return LakeTable(uri).maintain([step], options=options, checkpoints=checkpoints).steps[0].as_dict()


def sync_catalogs(uri: str, options: Mapping[str, str]) -> list[dict[str, Any]]:
    """Let the catalogs that options name know of a table; what was done to each.

    Raises:
        LakeIndexError: it failed.
    """
    from lakeindex.api.table import LakeTable

    found: list[dict[str, Any]] = LakeTable(uri).sync(options=options).as_dict()["catalogs"]
    return found
