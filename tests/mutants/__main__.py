"""Put each seeded bug into a copy of the checkout and see whether the tests mapped to it catch it (``make mutants``).

Results are kept in ``.mutants/results.json``: a run that was stopped goes on where it was, and what did not change (bug, module,
mapped tests) is not run again. Exit 1 if a bug survived that is not known to, or a mapped test fails without any bug.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from tests.mutants.seeds import ROOT, Mutant, SeedError, load
from tests.mutants.trees import PASSED, Tree, on_each, trees

RESULTS = ROOT / ".mutants" / "results.json"
PAGE = Path(__file__).parent / "README.md"
MARK = "<!-- last run -->"
LIMIT_SECONDS = 600.0
Result = dict[str, object]


def main() -> int:
    """Run what has to be run, and report."""
    arguments = _arguments()
    chosen = [one for one in load() if _is_chosen(one, arguments.only)]
    kept = {} if arguments.anew or not RESULTS.exists() else json.loads(RESULTS.read_text())
    todo = [one for one in chosen if kept.get(one.id, {}).get("key") != one.key(ROOT)]
    print(f"{len(chosen)} seeded bugs, {len(todo)} to run", flush=True)
    if todo:
        with trees(arguments.workers) as places:
            if not arguments.no_baseline:
                _check_baseline(todo, places)
            _run_all(todo, places, kept)
    return _report(chosen, kept, page=arguments.page)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("only", nargs="*", help="ids or packages; default: all")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--anew", action="store_true", help="run all, whatever is known")
    parser.add_argument(
        "--no-baseline", action="store_true", help="do not check first that the tests pass without a bug"
    )
    parser.add_argument("--page", action="store_true", help="write the outcome into tests/mutants/README.md")
    return parser.parse_args()


def _is_chosen(mutant: Mutant, only: list[str]) -> bool:
    return not only or mutant.id in only or mutant.package in only


def _check_baseline(todo: list[Mutant], places: list[Tree]) -> None:
    """What fails without a bug catches nothing."""
    targets = sorted({target for one in todo for target in one.tests})
    print(f"{len(targets)} mapped tests or files without a bug", flush=True)
    outcome = places[0].run(targets, LIMIT_SECONDS * 6, first=False)
    if outcome.code != PASSED:
        sys.exit(f"mapped tests fail without any bug:\n{outcome.said}")


def _run_all(todo: list[Mutant], places: list[Tree], kept: dict[str, Result]) -> None:
    RESULTS.parent.mkdir(exist_ok=True)
    for number, (mutant, result) in enumerate(on_each(places, todo, _run_one), 1):
        kept[mutant.id] = result
        RESULTS.write_text(json.dumps(kept, indent=1))
        print(f"{number:4d} {result['outcome']:9} {result['seconds']:6} s  {mutant.id}  {result['by']}", flush=True)


def _run_one(mutant: Mutant, place: Tree) -> Result:
    started = time.monotonic()
    key = mutant.key(place.folder)
    with place.with_bug(mutant):
        outcome = place.run(mutant.tests, LIMIT_SECONDS, first=True)
    word, by = outcome.judged
    return {"key": key, "outcome": word, "by": by, "seconds": round(time.monotonic() - started, 1)}


def _report(chosen: list[Mutant], kept: dict[str, Result], *, page: bool) -> int:
    by_outcome: dict[str, list[Mutant]] = {"caught": [], "survived": [], "broken": []}
    chosen = [one for one in chosen if one.id in kept]
    for one in chosen:
        by_outcome[str(kept[one.id]["outcome"])].append(one)
    caught, odd = len(by_outcome["caught"]), by_outcome["broken"]
    for one in by_outcome["survived"]:
        print(f"survived: {one.id} ({one.file}): {one.why}" + (f" KNOWN: {one.survives}" if one.survives else ""))
    for one in odd:
        print(f"broken: {one.id}: {kept[one.id]['by']}")
    print(f"{caught} of {len(chosen)} caught")
    if page:
        _write_page(chosen, by_outcome["survived"], caught)
    return int(bool(odd) or any(not one.survives for one in by_outcome["survived"]))


def _write_page(chosen: list[Mutant], survived: list[Mutant], caught: int) -> None:
    commit = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    packages = sorted({one.package for one in chosen})
    lines = [
        f"{datetime.now(UTC):%Y-%m-%d}, at commit `{commit}`: **{caught} of {len(chosen)} caught**.",
        "",
        "| package | seeded | survived |",
        "|---|---|---|",
        *(
            f"| `{name}` | {sum(o.package == name for o in chosen)} | {sum(o.package == name for o in survived) or ''} |"
            for name in packages
        ),
        "",
        *(f"- `{one.id}` survived: {one.survives or 'no test sees it yet.'}" for one in survived),
    ]
    head = PAGE.read_text().partition(MARK)[0]
    PAGE.write_text(f"{head}{MARK}\n\n" + "\n".join(lines).rstrip() + "\n")


if __name__ == "__main__":
    try:
        code = main()
    except SeedError as error:
        sys.exit(str(error))
    sys.exit(code)
