"""What processes of ours leave out at their start."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys
import {first}
import pyarrow as pa
pa.array([1])
before = "pandas" in sys.modules
frame = pa.table({{"a": [1]}}).to_pandas()
print(before, type(frame).__module__.partition(".")[0])
"""


@pytest.mark.parametrize(
    ("first", "said"), [("lakeindex.runners.job_arguments", "False pandas"), ("lakeindex.api", "True pandas")]
)
def test_a_job_does_without_pandas_until_it_is_wanted(first: str, said: str) -> None:
    pytest.importorskip("pandas")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(first=first)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == said


def test_a_command_that_writes_does_without_pandas() -> None:
    program = "import sys; from lakeindex.cli import main\ntry: main(['upsert', 'none', 'none.parquet'])\nexcept SystemExit as end: print(end.code, 'pandas' in sys.modules, 'pyarrow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split()[1:] == ["False", "True"]
