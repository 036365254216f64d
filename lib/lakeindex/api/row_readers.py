"""The methods of a table that read rows lazily."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lakeindex.api.batch_data import PointInTime, point_text
from lakeindex.api.own_stores import in_its_stores
from lakeindex.options.parse import Options, option_texts
from lakeindex.raw_errors import doors

if TYPE_CHECKING:
    from lakeindex.api.changes import Changes
    from lakeindex.api.scan import Scan
    from lakeindex.predicates.predicate import Condition


@doors
class RowReaders:
    """What :class:`~lakeindex.api.table.LakeTable` has for reading rows.

    Attributes:
        uri: the table's folder, a path or URL.
        storage_options: endpoint, region, credentials.
    """

    uri: str
    storage_options: Mapping[str, str]

    @in_its_stores
    def scan(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: Condition | None = None,
        partitions: Sequence[str] | None = None,
        as_of: PointInTime | None = None,
        since: PointInTime | None = None,
        meta: bool = False,
        options: Options | None = None,
    ) -> Scan:
        """Rows of the table, lazily: ``.to_arrow()``, ``.to_batches()``, ``.to_pandas()``, ``.to_polars()``,
        ``.to_duckdb()``, ``.to_dataset()``, ``.to_spark(session)``, ``.count()``, ``.explain()``.

        >>> orders.scan(columns=["id", "amount"], where="region = 'eu' AND amount > 3").to_arrow().to_pylist()
        [{'id': 'a', 'amount': 3.5}]
        >>> orders.scan(where="id IN ('a', 'x')").explain().keys
        2

        Args:
            columns: columns to return, in this order; the table's, if not given.
            where: a condition as SQL has it behind WHERE, or a pyarrow expression. Partitions, files and row groups
                that cannot hold such a row are not read; record keys of a text go through the index.
            partitions: only rows of these partition paths.
            as_of: an instant, an ISO time or a datetime, inclusive: rows as they were then.
            since: an instant, an ISO time or a datetime, exclusive: only rows written after it.
            meta: Hudi's five meta columns come first, where ``columns`` does not say what is wanted.
            options: options that the index needs; ``hoodie.metadata.enable=false`` lists folders.
        """
        from lakeindex.api.scan import Scan, names_of
        from lakeindex.commands.scan.request import ScanRequest

        request = ScanRequest(
            columns=names_of(columns, "columns"),
            where=where,
            partitions=names_of(partitions, "partitions"),
            as_of=point_text(as_of, "as_of"),
            since=point_text(since, "since"),
            meta=meta,
            options=option_texts(options or {}),
        )
        return Scan(self.uri, request, self.storage_options)

    @in_its_stores
    def changes(
        self,
        *,
        since: PointInTime | None = None,
        until: PointInTime | None = None,
        columns: Sequence[str] | None = None,
        meta: bool = False,
        options: Options | None = None,
    ) -> Changes:
        """What happened to the rows between two points in time: inserts, updates (before and after) and deletes.

        >>> first = orders.history()[-1].instant
        >>> changed = orders.changes(since=first).to_arrow()
        >>> changed.select(["id", "_change_type"]).to_pylist()
        [{'id': 'b', '_change_type': 'delete'}]

        Args:
            since: an instant, an ISO time or a datetime, exclusive; the beginning, if not given.
            until: an instant, an ISO time or a datetime, inclusive; what is completed now, if not given. The next feed
                begins at ``.until`` of the result.
            columns: columns to return, before ``_change_type`` and ``_commit_instant``; the table's, if not given.
            meta: Hudi's five meta columns come first, where ``columns`` does not say what is wanted.
            options: ``hoodie.metadata.enable=false`` lists folders.

        Raises:
            UsageError: a point that the history does not reach (the earliest is said), or an order that is none.
        """
        from dataclasses import replace

        from lakeindex.api.changes import Changes
        from lakeindex.api.scan import names_of
        from lakeindex.commands.changes.feed import ChangesRequest, resolved

        asked = ChangesRequest(
            since=point_text(since, "since"),
            until=point_text(until, "until"),
            columns=names_of(columns, "columns"),
            meta=meta,
            options=option_texts(options or {}),
        )
        first, last = resolved(self.uri, asked)
        return Changes(self.uri, first, last, replace(asked, since=first, until=last), self.storage_options)
