"""Check a change in about a minute: its lint, and the tests that stand nearest to it.

    scripts/check.py            what differs from main, and what is not committed
    scripts/check.py HEAD~3     what differs from another commit

Nearest first: test modules that changed; the tests that catch the seeded bugs of a changed module
(``tests/mutants/catalogue``); test modules that import one; those of its folder. A test that has not begun after 60
seconds is left to ``make test``: an upsert passes through eighty modules, so most tests reach most of them.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.mutants import seeds  # noqa: E402 - the checkout's

SECONDS: Final = 60
#: What pytest ends with when the seconds are over; a failed test ends it with 1.
INTERRUPTED: Final = 2
LIBRARY: Final = "lib/lakeindex/"
ALWAYS: Final = ("tests/architecture/test_sizes.py", "tests/mutants/test_catalogue.py")


def changed(since: str) -> list[str]:
    """Python files that differ from a commit, or are new; not those that are gone."""
    commands = (
        ["git", "diff", "--name-only", "--diff-filter=d", "--merge-base", since],
        ["git", "ls-files", "--others", "--exclude-standard"],
    )
    said = [subprocess.run(each, cwd=ROOT, capture_output=True, text=True, check=True).stdout for each in commands]
    return sorted({name for text in said for name in text.split() if name.endswith(".py")})


def dotted(file: str) -> str:
    """The name by which a file of the library or of the tests is imported."""
    return file.removeprefix("lib/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def imports(text: str, module: str) -> bool:
    """Whether a module's text imports another, by either form."""
    parent, _, name = module.rpartition(".")
    return bool(
        re.search(rf"^\s*(?:from|import) {re.escape(module)}\b", text, re.MULTILINE)
        or re.search(rf"^\s*from {re.escape(parent)} import [^#]*\b{name}\b", text, re.MULTILINE)
    )


def nearest(files: list[str]) -> list[str]:
    """Tests of changed files, the nearest first: modules of tests, and tests of them."""
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in sorted((ROOT / "tests").rglob("test_*.py"))}
    modules = [dotted(file) for file in files if file.startswith((LIBRARY, "tests/"))]
    caught = [bug.tests for bug in seeds.load() if LIBRARY + bug.file in files]
    importing = [name for name, text in texts.items() if any(imports(text, module) for module in modules)]
    folders = {f"tests/unit/{file.removeprefix(LIBRARY).partition('/')[0]}/" for file in files if LIBRARY in file}
    beside = [name for name in texts if name.startswith(tuple(folders))] if folders else []
    ordered = [file for file in files if file in texts]
    ordered += [test for tests in caught for test in tests] + importing + beside
    return list(dict.fromkeys([*ordered, *ALWAYS]))


def main() -> int:
    """Check it; 1 if something is wrong."""
    since = sys.argv[1] if len(sys.argv) > 1 else "main"
    files = changed(since)
    if not files:
        print(f"no Python file differs from {since}")
        return 0
    programs = Path(sys.executable).parent
    lint = [[programs / "ruff", "check", *files], [programs / "ruff", "format", "--check", *files]]
    apart = re.search(r"^APART := (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    tests = [programs / "pytest", "-q", "-m", f"not ({apart[1] if apart else 'slow'} or spark or dag)"]
    tests += ["-n", "2", "--session-timeout", str(SECONDS), *nearest(files)]
    commands = [*lint, [programs / "python", "scripts/env.py", "run", "--", *tests]]
    *linted, tested = (subprocess.run([*map(str, each)], cwd=ROOT, check=False).returncode for each in commands)
    if tested == INTERRUPTED:
        print(f"no test that began failed; {SECONDS} s are over, the others are left to make test")
    return max(*linted, 0 if tested == INTERRUPTED else tested)


if __name__ == "__main__":
    sys.exit(main())
