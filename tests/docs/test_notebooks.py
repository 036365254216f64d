"""The notebooks of ``examples``, on a real kernel, as they are in the checkout."""

from __future__ import annotations

import asyncio
import warnings
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


@pytest.fixture
def kernel_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a kernel and the notebook leave is here; the kernel is that of this environment."""
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "TMPDIR"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(name, str(tmp_path / name))
    return tmp_path


def run(notebook: NotebookNode, folder: Path) -> NotebookNode:
    client = NotebookClient(
        notebook, timeout=300, startup_timeout=300, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the client and its loop
        return asyncio.run(client.async_execute())


def shown(notebook: NotebookNode) -> list[str]:
    """What the code cells show, as text."""
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", ()))
    return [output.get("text") or output["data"].get("text/plain", "") for output in outputs]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_holds_no_outputs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)


@pytest.mark.timeout(400)
def test_the_first_hour(kernel_home: Path) -> None:
    done = run(nbformat.read(ROOT / "examples/first_hour.ipynb", as_version=4), kernel_home)
    texts = shown(done)
    assert any("found in their file" in text for text in texts)
    assert "returned" in texts[-1]  # DuckDB's answer
    pages = [
        output["data"]["text/html"]
        for cell in done.cells
        for output in cell.get("outputs", ())
        if "text/html" in output.get("data", {})
    ]
    assert any("upsert" in page and "of them start-up" in page for page in pages)


def test_a_cell_that_fails_is_a_failure(kernel_home: Path) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("assert 1 == 2, 'not so'")])
    with pytest.raises(CellExecutionError, match="not so"):
        run(notebook, kernel_home)
