"""``lakeindex apply`` at the command line."""

from __future__ import annotations

from pathlib import Path

from tests.builders import Row, batch_of, make_table
from tests.cli_support import lakeindex, validate


def test_changes_up_to_a_point_are_applied(tmp_path: Path) -> None:
    """Of a point neither, one or both may be said; what is left out of them stays out."""
    source, target = make_table(tmp_path / "src"), make_table(tmp_path / "dst")
    ends = [source.upsert(batch_of([Row(key, "x", 1, key)])).instant for key in "abc"]
    done = lakeindex("apply", target.uri, "--from", source.uri, "--until", ends[1], "--json")
    assert done.json["inserts"] == target.count() == 2
    assert lakeindex("apply", target.uri, "--from", source.uri, "--until", ends[1], "--json").json["noop"]
    assert lakeindex("apply", target.uri, "--from", source.uri, "--json").json["inserts"] == 1
    other = make_table(tmp_path / "other")
    words = ("apply", other.uri, "--from", source.uri, "--since", ends[0], "--until", ends[1], "--json")
    refused = lakeindex(*words)
    assert (refused.exit_code, refused.json["error"]["culprit"]) == (2, ends[0]), "what was before is not there"
    assert lakeindex(*words, "--force").exit_code == 0
    assert [row["id"] for row in other.read(meta=False).to_pylist()] == ["b"]


def test_a_table_follows_another_by_files_and_by_name(tmp_path: Path) -> None:
    source, target = make_table(tmp_path / "src"), make_table(tmp_path / "dst")
    source.upsert(batch_of([Row("a", "x", 1, "1"), Row("b", "x", 1, "1")]))
    feed = tmp_path / "feed.parquet"
    assert lakeindex("changes", source.uri, "--out", feed).exit_code == 0
    first = lakeindex("apply", target.uri, feed, "--json")
    validate("upsert", first.json)
    assert first.json["inserts"] == 2
    source.delete(batch_of([Row("a", "x", 1, None)]).select(["id", "day"]))
    done = lakeindex("apply", target.uri, "--from", source.uri, "--json")
    assert (done.json["deletes"], done.json["rows_in"]) == (1, 1)
    assert target.count() == source.count() == 1
    for again in ((feed,), ("--from", source.uri)):
        assert lakeindex("apply", target.uri, *again, "--json").json["noop"]
    for wrong in (
        (),
        (feed, "--from", source.uri),
        (feed, "--since", "20260101000000000"),
        (feed, "--until", "20990101000000000"),
    ):
        assert lakeindex("apply", target.uri, *wrong).exit_code == 2
    refused = lakeindex("upsert", target.uri, feed, "--json")
    assert refused.exit_code == 3
    assert "lakeindex apply TABLE FEED" in refused.error["hint"]
