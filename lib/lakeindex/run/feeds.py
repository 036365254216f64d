"""Feeds of changes that were applied to a table: each once, in the order of their source, and none left out.

``.hoodie/.lakeindex/applied/<source key>/<instant>-<until>.json`` says that with this instant the table is what the
source was at ``until``. It is written before the instant is completed, and counts while that is part of the table
(:func:`lakeindex.commit.ledger.counts`): so it follows the commit, and its rollback.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from lakeindex.commit.ledger import counts
from lakeindex.errors import FencedError, InputError, UsageError, clipped
from lakeindex.format.instants import comparable
from lakeindex.frozen import Frozen
from lakeindex.showing.json_values import from_known, json_of
from lakeindex.storage.paths import names_of
from lakeindex.storage.port import Storage
from lakeindex.timeline import records
from lakeindex.timeline.timeline import Timeline

FEED_KEY: Final = b"lakeindex.changes"
"""What of a feed's Arrow or Parquet schema says which changes it has."""
_FOLDER: Final = f"{records.OWN_FOLDER}/applied"
_BEFORE_ALL: Final = "0"
"""In the place of an instant: nothing was applied before, and nothing had to be committed."""
_Mark = tuple[str, str, str]
"""Instant, point and path of what was applied."""


class Feed(Frozen):
    """Which changes a feed has.

    Attributes:
        source: the table they are of; empty: unknown, and the feed is applied whatever came before.
        since: the point in time that it begins after; None: the beginning.
        until: the point in time that it reaches to, inclusive.
        unique_within: the source's columns of the partition path, if two partitions of it may have one key.
        paths_by: Hudi's properties by which the source then makes its partition paths.
    """

    source: str = ""
    since: str | None = None
    until: str = ""
    unique_within: tuple[str, ...] = ()
    paths_by: tuple[tuple[str, str], ...] = ()

    @property
    def batch_id(self) -> str | None:
        """The id of the batch that it is; None without a source."""
        if not self.source:
            return None
        return f"changes-{records.key_of(self.source)[:12]}-{self.since or 'start'}-{self.until}"

    @property
    def metadata(self) -> dict[bytes, bytes]:
        return {FEED_KEY: json.dumps(json_of(self)).encode()}

    @staticmethod
    def of(metadata: Mapping[bytes, bytes] | None) -> Feed | None:
        """What a schema says; None if it says nothing. Raises: InputError: what it says cannot be read."""
        text = (metadata or {}).get(FEED_KEY)
        if text is None:
            return None
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict) or not isinstance(found.get("source"), str):
            raise InputError(
                f"the feed says in {FEED_KEY.decode()} which changes it has, and that cannot be read: "
                f"{clipped(repr(text), 80)}",
                culprit=FEED_KEY.decode(),
                hint="make the feed anew with table.changes() or `lakeindex changes`",
            )
        within = tuple(found.get("unique_within") or ())
        paths_by = tuple((name, text) for name, text in found.get("paths_by") or ())
        return from_known(Feed, found | {"unique_within": within, "paths_by": paths_by})

    def doubled(self, what: str, key: str, key_fields: Sequence[str]) -> InputError:
        """The error where rows of several partitions of the source would be one row of a table."""
        within = self.unique_within
        return InputError(
            f"the feed has {what} of {self.source}, and here they would be one",
            culprit=key,
            hint=f"make the copy with {', '.join(within)} in its partition path and an index that is not global, or "
            f"with the key columns {','.join([*key_fields, *within])}",
        )


class Applied(Frozen):
    """How far a source is applied, and by which commit; empty if there was nothing to commit yet."""

    instant: str
    until: str


def applied(storage: Storage, timeline: Timeline, source: str) -> Applied | None:
    """How far a source is applied to a table; None: nothing of it is."""
    return _newest(storage, timeline, _marks(storage, source))


def _newest(storage: Storage, timeline: Timeline, marks: Sequence[_Mark]) -> Applied | None:
    for instant, until, _ in reversed(marks):
        if instant == _BEFORE_ALL or counts(storage, timeline, instant):
            return Applied("" if instant == _BEFORE_ALL else instant, until)
    return None


def _marks(storage: Storage, source: str) -> list[_Mark]:
    """What was applied, whether it counts or not, in order."""
    paths = [one.path for name in names_of(source) for one in storage.list_folder(_folder(name)).objects]
    names = ((*path.rpartition("/")[2].removesuffix(".json").partition("-"), path) for path in paths)
    marks = ((instant, until, path) for instant, _, until, path in names)
    return sorted(marks, key=lambda one: (comparable(one[0]), comparable(one[1])))


def _began(storage: Storage, timeline: Timeline, feed: Feed, marks: Sequence[_Mark]) -> str | None:
    """Where the first feed of a source began, if none counts any more. If there was none: where this one begins, as
    what was before may have been loaded otherwise; into a table without a commit nothing was.
    """
    found = records.load(storage, marks[0][2]) if marks else None
    if found:
        return found["since"]
    return feed.since if timeline.completed_writes else None


def check_follows(storage: Storage, timeline: Timeline, feed: Feed) -> Applied | None:
    """Make sure that a feed goes on where the ones before it ended.

    Returns:
        How far its source is applied, if all of the feed is; else None.

    Raises:
        UsageError: it leaves changes out, or begins before those that were applied.
    """
    if not feed.source:
        return None
    marks = _marks(storage, feed.source)
    done = _newest(storage, timeline, marks)
    at = _began(storage, timeline, feed, marks) if done is None else done.until
    if feed.since == at:
        return None
    if done is not None and comparable(feed.until) <= comparable(done.until):
        return done
    is_late = comparable(feed.since or "") > comparable(at or "")
    if done is None and not is_late:
        return None
    what = (
        "leaves out what was changed between"
        if is_late
        else "has changes again that were applied, and not the deletes of rows that came and went since"
    )
    raise UsageError(
        f"the feed of {feed.source} since {feed.since or 'the beginning'} does not go on where the last one ended, at "
        f"{at or 'the beginning'}: it {what}",
        culprit=feed.since or feed.source,
        hint=f"apply source.changes(since={at!r}), or at the command line `lakeindex apply TABLE --from "
        f"{feed.source}`, which begins there; force=True (--force) applies it all the same. If that table was made "
        "anew since, make this one anew, too",
    )


def check_still_follows(storage: Storage, timeline: Timeline, feed: Feed) -> None:
    """The same, when others have committed since the run began. Raises: FencedError: a feed of the same source."""
    try:
        done = check_follows(storage, timeline, feed)
    except UsageError as error:
        raise FencedError(error.message, culprit=error.culprit, hint=error.hint) from None
    if done is not None:
        raise FencedError(
            f"another run has applied the changes of {feed.source} until {done.until} meanwhile",
            culprit=done.instant,
            hint="nothing is left to be done",
        )


def mark_applied(storage: Storage, feed: Feed, instant: str) -> None:
    """Say that with an instant the feed is applied; it counts when that is completed."""
    path = f"{_folder(feed.source)}/{instant or _BEFORE_ALL}-{feed.until}.json"
    records.settle_record(storage, path, records.encode(json_of(feed)))


def _folder(source: str) -> str:
    return f"{_FOLDER}/{records.key_of(source)}"
