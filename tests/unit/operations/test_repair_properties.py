"""Lost properties: made again of the backup, of what is written elsewhere and of what is said; nothing is guessed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from lakeindex import open_table
from lakeindex.api.table import LakeTable
from lakeindex.cli import main
from lakeindex.errors import TableCorruptError, TableNotFoundError, UsageError
from lakeindex.format.java_properties import parse_properties
from lakeindex.operations.repair_properties import Source
from tests.builders import Row, as_hudis, batch_of, content_of, make_table
from tests.unit.operations.test_repair import FIRST, as_nobodys, live_of, table_of_two, tree
from tests.unit.operations.test_repair_files import table_of_archived

pytestmark = pytest.mark.usefixtures("time_leaps")
FIELDS = {"key": "id", "partition": "day", "ordering": "ts"}
VERSION = "hoodie.write.table.version"
NOT_MADE_AGAIN = ("hoodie.table.create.schema",)
"""Says what columns an empty table has: this one has commits, which say it."""


def file_of(table: LakeTable) -> Path:
    return Path(table.uri) / ".hoodie/hoodie.properties"


def lose(table: LakeTable) -> dict[str, str]:
    """Take the properties away; what they said."""
    said = dict(parse_properties(file_of(table).read_bytes()))
    file_of(table).unlink()
    return {key: text for key, text in said.items() if key not in NOT_MADE_AGAIN}


def goes_on(table: LakeTable) -> None:
    table.upsert(batch_of([Row("a", "x", 9, "late")]), batch_id="after")
    report = table.check()
    assert report.ok, report.violations


@pytest.mark.parametrize(
    ("version", "names"),
    [("6", ()), ("6", ("files", "record_index")), ("8", ("files",)), ("9", ("files", "column_stats"))],
)
def test_every_property_is_as_it_was(tmp_path: Path, version: str, names: tuple[str, ...]) -> None:
    """Version, name, time zone and metadata table are found; what is bound is where it is; fields are said."""
    table = table_of_two(tmp_path, version, names, "RECORD_INDEX" if "record_index" in names else "BLOOM")
    content = content_of(table)
    said = lose(table)
    with pytest.raises(TableNotFoundError, match="repair properties"):
        table.check()
    before = tree(table)
    planned = table.repair_properties(**FIELDS)
    assert (planned.source, planned.dry_run) == (Source.REBUILT, True)
    assert dict(planned.entries) == said
    assert planned.rows_compared > 0
    assert tree(table) == before
    done = table.repair_properties(**FIELDS, apply=True)
    assert done.kept is None, "there was nothing"
    assert parse_properties(file_of(table).read_bytes()) == said
    assert not file_of(table).with_name("hoodie.properties.backup").exists()
    assert content_of(table) == content
    if names:
        assert table.metadata_verify().ok
    assert table.repair_properties(**FIELDS, apply=True).source is Source.WHOLE
    goes_on(table)


def test_a_table_whose_rows_do_not_say_their_keys_is_compared_by_its_paths(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", hoodie__populate__meta__fields="false", hoodie__index__type="SIMPLE")
    table.upsert(batch_of([Row("a", "x", 1, "1"), Row("b", "y", 1, "1")]))
    said = lose(table)
    wrong = {"key": "id", "partition": "v", "ordering": "ts"}
    virtual = {"hoodie.populate.meta.fields": "false"}
    with pytest.raises(UsageError, match="partition path"):
        table.repair_properties(**wrong, properties=virtual, apply=True)
    done = table.repair_properties(**FIELDS, properties=virtual, apply=True)
    assert (dict(done.entries), done.rows_compared) == (said, 2)
    assert table.read(meta=False).num_rows == 2


def test_a_whole_backup_is_taken_as_it_is(tmp_path: Path) -> None:
    table = table_of_two(tmp_path)
    whole = file_of(table).read_bytes()
    backup = file_of(table).with_name("hoodie.properties.backup")
    backup.write_bytes(whole)
    file_of(table).write_bytes(whole[: len(whole) // 2])
    done = table.repair_properties(apply=True)
    assert done.source is Source.BACKUP
    assert file_of(table).read_bytes() == whole
    assert not backup.exists()
    kept = Path(str(done.kept).removeprefix("file://"))
    assert (kept / ".hoodie/hoodie.properties").read_bytes() == whole[: len(whole) // 2]
    goes_on(table)


def test_properties_that_are_cut_off_are_kept_and_made_again(tmp_path: Path) -> None:
    table = table_of_two(tmp_path, "9", ("files",))
    whole = file_of(table).read_bytes()
    said = dict(parse_properties(whole))
    file_of(table).write_bytes(whole[:100])
    with pytest.raises(TableCorruptError):
        table.read(meta=False)
    done = table.repair_properties(**FIELDS, apply=True)
    kept = Path(str(done.kept).removeprefix("file://"))
    assert (kept / ".hoodie/hoodie.properties").read_bytes() == whole[:100]
    assert {**dict(done.entries), NOT_MADE_AGAIN[0]: said[NOT_MADE_AGAIN[0]]} == said
    goes_on(table)


def test_what_nothing_shows_has_to_be_said(tmp_path: Path) -> None:
    table = table_of_two(tmp_path, "9")
    lose(table)
    options = {VERSION: "9"}
    for missing, given, opened in (
        ("version", FIELDS, {}),
        ("record key", {"partition": "day", "ordering": "ts"}, options),
        ("ordering field", {"key": "id", "partition": "day"}, options),
    ):
        with pytest.raises(UsageError, match=f"nothing shows .*{missing}"):
            table.repair_properties(**given, options=opened, apply=True)
    for said in ({"options": {VERSION: "6"}}, {"properties": {"hoodie.table.version": "nine"}}):
        with pytest.raises(UsageError, match="another timeline"):
            table.repair_properties(**FIELDS, **said, apply=True)
    for wrong in ({"key": "v"}, {"partition": "v"}, {"partition": None}):
        with pytest.raises(UsageError, match="and the fields that are given make"):
            table.repair_properties(**{**FIELDS, **wrong}, options=options, apply=True)
    with pytest.raises(UsageError, match="fields that are given make"):
        table.repair_properties(
            **FIELDS, options={**options, "hoodie.datasource.write.hive_style_partitioning": "true"}, apply=True
        )
    assert not file_of(table).exists()
    with pytest.raises(TableNotFoundError):
        LakeTable(str(tmp_path / "nothing")).repair_properties(**FIELDS)
    table.repair_properties(**FIELDS, options=options, apply=True)
    goes_on(table)


def test_what_is_said_may_not_contradict_what_is_written(tmp_path: Path) -> None:
    """The metadata table has the version; what is said of it may be left out, or be the same, as an option or a property."""
    for said in ("options", "properties"):
        table = table_of_two(tmp_path / said, "6", ("files",))
        lose(table)
        key = VERSION if said == "options" else "hoodie.table.version"
        before = tree(table)
        with pytest.raises(UsageError, match="given as 8, and the metadata table has 6"):
            table.repair_properties(**FIELDS, **{said: {key: "8"}}, apply=True)
        assert tree(table) == before
        assert table.repair_properties(**FIELDS, **{said: {key: "6"}}).entries["hoodie.table.version"] == "6"


def test_a_metadata_table_that_does_not_agree_goes(tmp_path: Path) -> None:
    table = table_of_two(tmp_path, "9", ("files", "column_stats"))
    lose(table)
    for one in (Path(table.uri) / ".hoodie/metadata/files").glob(".*.log.*"):
        one.write_bytes(one.read_bytes()[:-30])
    done = table.repair_properties(**FIELDS, apply=True)
    assert "taken away" in done.notes[0]
    kept = Path(str(done.kept).removeprefix("file://"))
    assert list((kept / ".hoodie/metadata/files").glob(".*.log.*"))
    assert not (Path(table.uri) / ".hoodie/metadata/files").exists()
    table.metadata_build(["files"])
    goes_on(table)


def test_a_table_that_lakeindex_never_wrote_to(tmp_path: Path) -> None:
    """Nothing is bound: index and merge mode are Hudi's defaults, or what is said."""
    table = make_table(tmp_path / "t", hoodie__write__table__version="6")
    table.upsert(batch_of(FIRST), batch_id="one")
    as_hudis(table)
    said = lose(table)
    with pytest.raises(UsageError, match="version"):
        table.repair_properties(**FIELDS)
    done = table.repair_properties(
        **FIELDS, options={VERSION: "6"}, properties={"hoodie.database.name": "shop"}, apply=True
    )
    differ = {key for key, text in done.entries.items() if said.get(key) != text}
    assert differ == {"hoodie.database.name", "hoodie.table.checksum"}
    goes_on(table)


def test_the_command(tmp_path: Path) -> None:
    table = table_of_two(tmp_path)
    run, command = CliRunner(), ["repair", "properties", table.uri, "--key", "id", "--partition", "day"]
    assert "not lost" in run.invoke(main, command).output
    lose(table)
    failed = run.invoke(main, [*command, "--ordering", "ts"])
    assert failed.exit_code == 2
    assert "version" in failed.output
    command += ["--ordering", "ts", "-o", f"{VERSION}=9", "--property", "hoodie.database.name=a=b"]
    assert "nothing was written" in run.invoke(main, command).output
    done = json.loads(run.invoke(main, [*command, "--apply", "--json"]).output)
    assert done["entries"]["hoodie.database.name"] == "a=b"
    goes_on(table)


@pytest.mark.parametrize("version", ["6", "9"])
@pytest.mark.parametrize("case", ["a partition has no metadata", "a file is lost"])
def test_a_metadata_table_that_alone_knows_of_more_files_stays(tmp_path: Path, version: str, case: str) -> None:
    """Their commits were archived: without it their rows would be gone, and nothing would say so."""
    table = table_of_archived(tmp_path, version)
    content, folder = content_of(table), Path(table.uri.removeprefix("file://"))
    lost = live_of(table, "x") if case == "a file is lost" else folder / "w/.hoodie_partition_metadata"
    lost.unlink()
    (folder / ".hoodie/hoodie.properties").unlink()
    done = table.repair_properties(**FIELDS, apply=True)
    assert (done.source, done.entries["hoodie.table.metadata.partitions"]) == (Source.REBUILT, "files,record_index")
    (note,) = done.notes
    assert "names files that no reader of the folders finds, such as" in note
    again = open_table(table.uri)
    mended = again.repair(apply=True)
    assert mended.ok
    if case == "a file is lost":
        assert [one.path for one in mended.files] == [f"x/{lost.name}"]
    else:
        assert [(one.kind, one.culprit) for one in mended.mends] == [("partition", "w/.hoodie_partition_metadata")]
        assert content_of(again) == content
    assert again.check().ok
    assert again.metadata_verify().ok


def test_a_metadata_table_that_alone_knows_of_a_lost_file_stays_whatever_else_is_wrong(tmp_path: Path) -> None:
    table = table_of_archived(tmp_path, "9")
    lost = live_of(table, "x")
    as_nobodys(live_of(table, "y"))  # it names no such file
    lost.unlink()
    Path(f"{table.uri.removeprefix('file://')}/.hoodie/hoodie.properties").unlink()
    done = table.repair_properties(**FIELDS, apply=True)
    assert done.entries["hoodie.table.metadata.partitions"] == "files,record_index"
    assert f"such as x/{lost.name}" in done.notes[0]
    found = open_table(table.uri).repair()
    assert f"x/{lost.name}" in {one.culprit for one in (*found.mends, *found.unmended)}
