"""A call of the library does not load pandas, and leaves pyarrow as it would be without it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.scheduling import some_of

PROGRAM = """
import sys, threading
import pyarrow as pa
import lakeindex
from lakeindex import without_pandas
from lakeindex.errors import LakeIndexError
rows = [{"id": "a", "v": 1}, {"id": "b", "v": 2}]
table = lakeindex.create_table("t", schema=pa.schema([("id", pa.string()), ("v", pa.int64())]), key=["id"])
table.upsert(rows)
assert table.scan(where="v > 1").to_arrow().num_rows == table.get(["a"]).rows.num_rows == 1
try: table.upsert([{"no": 1}])
except LakeIndexError: pass
try: table.scan(where="no = 1").to_arrow()
except LakeIndexError: pass
with without_pandas.unasked(), without_pandas.unasked():
    pa.array([1])
assert "pandas" not in sys.modules and without_pandas._FINDER not in sys.meta_path
{then}
assert "pandas" in sys.modules and without_pandas._FINDER not in sys.meta_path
import pandas as pd
known = lambda: pa.array(pd.Series([1.0, None])).null_count == 1 and pa.table({"a": pd.Series([None, 1.0])})["a"].null_count == 1
assert known()
table.upsert(pd.DataFrame(rows))
assert known()
print("done")
"""
THEN = {
    "a time of nanoseconds is pandas'": "assert type(pa.scalar(1, pa.timestamp('ns')).as_py()).__name__ == 'Timestamp'",
    "a frame is asked of the table": "assert table.scan().to_pandas().shape == (2, 2)",
    "a process is forked while a call begins": """
import os, signal
with without_pandas._FINDER.lock:
    child = os.fork()
    if not child:
        signal.alarm(30)
        with without_pandas.unasked(): pa.array([1])
        os._exit("pandas" in sys.modules)
assert os.waitpid(child, 0)[1] == 0
pa.array([1])""",
    "a batch imports it while it is taken": """
def batches():
    import pandas as pd
    assert pa.array(pd.Series([1.0, None])).null_count == 1
    yield pd.DataFrame({"id": ["c"], "v": [3]})
    assert pa.array(pd.Series([1.0, None])).null_count == 1
table.upsert(batches())
assert table.get(["c"]).rows.num_rows == 1""",
    "another thread imports it within the call": """
def other():
    import pandas as pd
    assert pa.array(pd.Series([1.0, None])).null_count == 1
    seen.append(1)
seen = []
with without_pandas.unasked():
    thread = threading.Thread(target=other); thread.start(); thread.join()
    assert seen
    with without_pandas.unasked(): pa.array([1])
    assert pa.array(sys.modules["pandas"].Series([1.0, None])).null_count == 1""",
}


@pytest.mark.parametrize(
    "case",
    some_of(
        THEN,
        lambda case: case not in ("a frame is asked of the table", "another thread imports it within the call"),
        pytest.mark.slow,
    ),
)
@pytest.mark.few(1)
def test_pandas_is_loaded_when_somebody_wants_it(case: str, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    program = PROGRAM.replace("{then}", THEN[case])
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == ("done", 0), done.stderr
