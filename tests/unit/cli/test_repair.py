"""``lakeindex repair`` at the command line."""

from __future__ import annotations

from pathlib import Path

from tests.cli_support import lakeindex, validate
from tests.unit.conductor.test_doubled_keys import doubled, stored


def test_a_dry_run_is_the_default_and_check_names_the_command(tmp_path: Path) -> None:
    table = doubled(tmp_path / "t", "BLOOM", within=False)
    before = stored(table)
    broken = lakeindex("check", table.uri, "--json")
    assert broken.exit_code == 6
    assert all("lakeindex repair keys" in one["hint"] for one in broken.json["violations"])
    plan = lakeindex("repair", "keys", table.uri)
    assert plan.exit_code == 0
    assert "nothing was written: --apply does it" in plan.stdout
    assert "a: stays in x/" in plan.stdout.replace("\n", "")
    assert stored(table) == before
    done = lakeindex("repair", "keys", table.uri, "--apply", "--keep", "newest", "--json")
    validate("repair-keys", done.json)
    assert (done.json["keys"], done.json["rows_removed"], done.json["keep"]) == (2, 3, "newest")
    again = lakeindex("repair", "keys", table.uri, "--json")
    validate("repair-keys", again.json)
    assert (again.json["keys"], again.json["found"], again.json["instant"]) == (0, [], None)
    assert lakeindex("check", table.uri).exit_code == 0
    assert "stored once in its partition" in lakeindex("repair", "keys", table.uri, "--apply").stdout
    assert lakeindex("repair", "keys", table.uri, "--keep", "best").exit_code == 2
