"""The asset of a table: an event of it says what a run committed, and a consumer what there is to read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from airflow.sdk import Asset, AssetAlias

from lakeindex.airflow.dag_plan import DagPlan
from lakeindex.airflow.funnel import fates, funnel_text
from lakeindex.errors import LakeIndexError, UsageError
from lakeindex.format.instants import comparable
from lakeindex.frozen import Frozen
from lakeindex.storage.paths import file_uri, plain, with_one_scheme

TABLES_ALIAS: Final = "lakeindex-tables"
CATALOGS_ALIAS: Final = "lakeindex-catalogs"


def table_asset(name: str, uri: str) -> Asset:
    """The asset of a table; what a DAG that reads the table is scheduled on.

    Args:
        uri: its folder, an absolute path or a URL.
    """
    place = plain(uri)
    return Asset(name=name, uri=place if "://" in place else file_uri(place))


class ToldCommit(Frozen):
    """A commit that events tell of. Its changes are ``table.changes(since=commit.previous, until=commit.point)``.

    Attributes:
        previous: the point in time before it; None of the table's first write.
        completion_time: when it was completed; None on a table of version 6, which does not record it.
        batch_id: what it committed.
    """

    uri: str
    instant: str
    previous: str | None
    completion_time: str | None
    batch_id: str

    @property
    def point(self) -> str:
        """The point in time of the commit."""
        return self.completion_time or self.instant


def told_commits(events: Iterable[Any]) -> tuple[ToldCommit, ...]:
    """The commits that events of tables' assets tell of: each once, oldest first.

    A commit can be told of more than once: a task that was cleared, and is run again, tells of the same one. Within one
    run of a consumer it is left out here; over several runs, what is written under the commit's name (a batch id, a
    file) is written once.

    Args:
        events: of ``context["triggering_asset_events"][asset]``; those of runs that committed nothing are passed over.

    Raises:
        UsageError: no event of a commit says what was there before: they are of an older release, or the tasks that
            made them could not read the table, and their logs say why.
    """
    found: dict[tuple[str, str], ToldCommit] = {}
    half: list[Mapping[str, Any]] = []
    for extra in (event.extra for event in events):
        if not extra.get("instant"):
            continue
        if "previous" not in extra:
            half.append(extra)
            continue
        commit = ToldCommit(**{name: extra[name] for name in ToldCommit.__struct_fields__})
        found[with_one_scheme(commit.uri), commit.instant] = commit
    for extra in half:
        if (with_one_scheme(str(extra.get("uri"))), extra["instant"]) not in found:
            raise UsageError(
                f"the event of {extra['instant']} does not say the point before it",
                culprit=str(extra["instant"]),
                hint="let the task that upserts read the table, and clear it: it tells of the commit again; "
                "or read the changes since a point of your own",
            )
    return tuple(sorted(found.values(), key=lambda one: (comparable(one.point), comparable(one.instant))))


def announce_commit(plan: DagPlan, run: Mapping[str, Any], context: Mapping[str, Any]) -> dict[str, Any]:
    """Print the funnel, and make an event of the table's asset that says what was committed.

    The event goes to the outlet that is the table's asset, or to the alias :data:`TABLES_ALIAS`,
    which must be an outlet. By the alias a run that committed nothing makes no event.

    Returns:
        What the task returns as XCom: table, instant, batch id and the counts of rows by fate.
    """
    counts = fates(run)
    print(f"{plan.table}: {plan.uri}\n{funnel_text(run['stages'])}")  # noqa: T201 - Airflow's log
    print(f"{counts}\ncommitted: {run['instant'] or 'nothing'}")  # noqa: T201 - as above
    done = {"instant": run["instant"], "batch_id": plan.batch_id, **counts}
    points = _points_of(plan, run) if run["instant"] else None
    if points is not None:
        told = {**done, "uri": plan.uri, "noop": run["noop"], **points}
        asset = table_asset(plan.table, plan.uri)
        own = next((one for one in context["task"].outlets if isinstance(one, Asset) and one.uri == asset.uri), None)
        if own is not None:  # Airflow makes its event in any case
            context["outlet_events"][own].extra.update(told)
        else:
            context["outlet_events"][AssetAlias(TABLES_ALIAS)].add(asset, extra=told)
    return {"table": plan.table, **done}


def announce_sync(uri: str, options: Mapping[str, str], context: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Let catalogs know of a table, and make an event of its name in each (``glue://database/table``), by the alias
    :data:`CATALOGS_ALIAS`, which must be an outlet.

    Returns:
        What the task returns as XCom: what was done to each catalog.

    Raises:
        LakeIndexError: of a catalog or the table; the commit stands.
    """
    from lakeindex.airflow.files import sync_catalogs

    done = sync_catalogs(uri, options)
    for one in done:
        print(f"{one['catalog']} {one['name']} knows {one['instant']}: {one}")  # noqa: T201 - Airflow's log
        asset = Asset(name=f"{one['catalog']} {one['name']}", uri=f"{one['catalog']}://{one['name'].replace('.', '/')}")
        told = {key: one[key] for key in ("instant", "agrees", "created", "added", "moved", "dropped")}
        context["outlet_events"][AssetAlias(CATALOGS_ALIAS)].add(asset, extra={"uri": uri, **told})
    return done


def _points_of(plan: DagPlan, run: Mapping[str, Any]) -> dict[str, str | None] | None:
    """What an event says of a commit's place on the timeline; None if the commit is not part of the table any more.

    Nothing is said if the worker cannot read the table: the commit stands, and its event is due.
    """
    from lakeindex.operations.table_states import commit_points

    try:
        points = commit_points(plan.uri, run["instant"])
    except (LakeIndexError, OSError) as error:
        print(f"the event will not say the point before {run['instant']}: {error}")  # noqa: T201 - Airflow's log
        return {}
    if points is None:
        print(f"no event: {run['instant']} is not on the timeline any more")  # noqa: T201 - Airflow's log
        return None
    return {"completion_time": points.completion_time, "previous": points.previous}
