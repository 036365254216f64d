"""Sizes that keep the code readable: modules, functions, jobs, DAG files."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted((ROOT / "lib/lakeindex").rglob("*.py"))
LONGEST_MODULE = 500
FULLEST_FOLDER = 14
LONGEST_FUNCTION = 60
LONGEST_KERNEL = 100


def lines(path: Path) -> int:
    return len(path.read_text().splitlines())


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT / "lib")))
def test_module_fits_a_sitting(path: Path) -> None:
    assert lines(path) <= LONGEST_MODULE
    text = path.read_text()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            body = (node.end_lineno or 0) - node.lineno + 1
            assert body <= longest(node, text), f"{node.name} has {body} lines"


@pytest.mark.parametrize(
    "folder", sorted({path.parent for path in MODULES}), ids=lambda p: str(p.relative_to(ROOT / "lib"))
)
def test_a_folder_is_seen_at_a_glance(folder: Path) -> None:
    """Without folders below it; one that has them shows its modules by those."""
    modules = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
    has_folders = any(path.parent.parent == folder for path in MODULES)
    assert has_folders or len(modules) <= FULLEST_FOLDER


def test_the_architecture_names_every_concept() -> None:
    page = (ROOT / "docs/architecture.md").read_text()
    tree = page.partition("## Layers")[2].partition("```")[2].partition("```")[0]
    concepts = {path.relative_to(ROOT / "lib/lakeindex").parts[0].removesuffix(".py") for path in MODULES} - {
        "__init__"
    }
    assert {name for name in concepts if name not in tree} == set()


def longest(function: ast.FunctionDef, module: str) -> int:
    """A compiled kernel is one loop, because that is what compiles to one."""
    is_kernel = any("njit" in ast.unparse(decorator) for decorator in function.decorator_list)
    is_kernel |= f"= compiled({function.name}, " in module
    return LONGEST_KERNEL if is_kernel else LONGEST_FUNCTION


def test_jobs_are_doors_and_dags_are_wiring() -> None:
    jobs = [p for p in (ROOT / "jobs").glob("*.py") if p.name != "__init__.py"]
    assert {p.stem for p in jobs} == {
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

    code = "import sys, lakeindex; print([m for m in ('numpy', 'pyarrow', 'pyspark', 'numba', 'pandas') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT / "lib")
    assert done.stdout.strip() == "[]"
