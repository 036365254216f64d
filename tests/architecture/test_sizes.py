"""Sizes that keep the code readable: modules, functions, jobs, DAG files."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted((ROOT / "lib/lakeindex").rglob("*.py"))
LONGEST_MODULE = 700
FULLEST_FOLDER = 14
LONGEST_FUNCTION = 60
LONGEST_KERNEL = 100


def lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def test_modules_and_functions_fit_a_sitting() -> None:
    too_long = [f"{path}: {lines(path)} lines" for path in MODULES if lines(path) > LONGEST_MODULE]
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                body = (node.end_lineno or 0) - node.lineno + 1
                if body > longest(node):
                    too_long.append(f"{path}: {node.name} has {body} lines")
    assert MODULES
    assert too_long == []


def test_folders_are_seen_at_a_glance() -> None:
    """Those without folders below them; one that has them shows its modules by those."""
    folders = {path.parent for path in MODULES}
    modules = Counter(path.parent for path in MODULES if path.name != "__init__.py")
    leaves = folders - {folder.parent for folder in folders}
    assert {folder: modules[folder] for folder in leaves if modules[folder] > FULLEST_FOLDER} == {}


def test_the_architecture_names_every_concept() -> None:
    page = (ROOT / "docs/architecture.md").read_text()
    tree = page.partition("## Layers")[2].partition("```")[2].partition("```")[0]
    concepts = {path.relative_to(ROOT / "lib/lakeindex").parts[0].removesuffix(".py") for path in MODULES} - {
        "__init__"
    }
    assert {name for name in concepts if name not in tree} == set()


def longest(function: ast.FunctionDef) -> int:
    """The plain form of a compiled loop is one loop, as that is."""
    is_kernel = any(ast.unparse(decorator).startswith("compiled(") for decorator in function.decorator_list)
    return LONGEST_KERNEL if is_kernel else LONGEST_FUNCTION


def test_jobs_are_doors_and_dags_are_wiring() -> None:
    jobs = [p for p in (ROOT / "jobs").glob("*.py") if p.name != "__init__.py"]
    assert {p.stem for p in jobs} == {
        "command",
        "stage_input",
        "index_lookup",
        "bloom_check",
        "verify_keys",
        "merge_write",
        "upsert",
    }
    assert max(map(lines, jobs)) <= 40
    assert max(map(lines, (ROOT / "dags").glob("*.py"))) <= 80


def test_importing_the_package_is_light() -> None:
    import subprocess
    import sys

    code = "import sys, lakeindex; print([m for m in ('numpy', 'pyarrow', 'pyspark', 'pandas') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT / "lib")
    assert done.stdout.strip() == "[]"
