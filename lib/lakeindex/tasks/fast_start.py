"""Start sooner: imported first by processes of ours (jobs, the command line, helpers), for what it does.

* pyarrow looks for pandas when it makes its first array, to know pandas' objects when it is given some. Importing it
  takes longer than a small batch, and these processes are never given any; where pandas is wanted later
  (``to_pandas``), pyarrow imports it then.
* Once the modules are loaded, no garbage is looked for among them (:func:`loaded`), nor at the end of the process.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder

import pyarrow as pa


class _NoPandas(MetaPathFinder):
    """Says that pandas is not installed."""

    # The protocol asks for all three.
    def find_spec(self, fullname: str, path: Sequence[str] | None, target: object = None) -> None:  # noqa: ARG002
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is left out at the start", name=fullname)


def loaded() -> None:
    """All modules are there: what they hold is no garbage."""
    gc.freeze()


if "pandas" not in sys.modules:
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)
