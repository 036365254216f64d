"""The notebooks of ``examples``, on a real kernel, as they are in the checkout."""

from __future__ import annotations

import asyncio
import re
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


@pytest.mark.slow
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
    assert any("upsert" in page and "seconds" in page for page in pages)


@pytest.mark.slow
def test_a_cell_that_fails_is_a_failure(kernel_home: Path) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("assert 1 == 2, 'not so'")])
    with pytest.raises(CellExecutionError, match="not so"):
        run(notebook, kernel_home)


CELLS = (
    "import lakeindex, pyarrow as pa",
    "table = lakeindex.create_table('t', pa.schema([('id', pa.string()), ('ts', pa.int64())]), key='id', ordering='ts')",
    "batch = pa.table({'id': ['a']})\n\ntable.upsert(batch)",
    "int('x')",
    "%env LAKEINDEX_DEBUG=1",
    "table.upsert(batch)",
    "%env LAKEINDEX_DEBUG=0",
    "from lakeindex.tasks import progress_bars; progress_bars.LateProgress.__init__.__defaults__ = (0.0,)",
    "table.upsert(pa.table({'id': ['a'], 'ts': [1]}))",
    "table.upsert(pa.table({'id': ['a'], 'ts': [2]}), progress=False)",
)


@pytest.mark.slow
def test_an_error_of_ours_is_one_frame_and_work_shows_a_bar(kernel_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a traceback of ours the cause, the cure and the caller's line stay; others are as they are."""
    for name in ("CI", "LAKEINDEX_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    cells = [nbformat.v4.new_code_cell(text, metadata={"tags": ["raises-exception"]}) for text in CELLS]
    done = run(nbformat.v4.new_notebook(cells=cells), kernel_home).cells
    errors = {at: out for at, cell in enumerate(done) for out in cell.outputs if out.output_type == "error"}
    assert sorted(errors) == [2, 3, 5]
    framed = errors[2]
    text = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(framed.traceback))
    assert framed.ename == "SchemaMismatchError"
    assert len(framed.traceback) < 12
    assert max(map(len, text.splitlines())) <= 100
    assert "\x1b[31m" in framed.traceback[0]  # red
    for wanted in ("SchemaMismatchError", "ts", "what to do: ", "every row needs", "at: line 3: table.upsert(batch)"):
        assert wanted in " ".join(line.strip("\N{BOX DRAWINGS LIGHT VERTICAL} ") for line in text.splitlines())
    assert "ValueError" in "".join(errors[3].traceback)
    assert "conductor" in "".join(errors[5].traceback)  # the whole of it
    bars = [out for out in done[8].outputs if out.output_type == "display_data"]
    assert bars
    assert {out.data["text/html"] for out in bars} == {""}  # gone with the step
    assert [out for out in done[9].outputs if out.output_type == "display_data"] == []
