"""Start sooner: imported first by processes of ours (jobs, the command line, helpers), for what it does.

* They do without pandas (:mod:`lakeindex.without_pandas`): they are never given any of its objects.
* Where dateutil is not installed, pyarrow does not look for it again for each scalar that it makes.
* Garbage is looked for less often: most of what a start makes stays.
* Once the modules are loaded, no garbage is looked for among them (:func:`loaded`), nor at the end of the process.
"""

from __future__ import annotations

import gc
import sys
from importlib.util import find_spec
from typing import Final

from lakeindex import without_pandas

_OBJECTS: Final = 10_000
"""New ones between two collections."""


def loaded() -> None:
    """All modules are there: what they hold is no garbage."""
    gc.freeze()


gc.set_threshold(_OBJECTS)
if find_spec("dateutil") is None:
    sys.modules["dateutil"] = None  # type: ignore[assignment] # an import of it fails at once
without_pandas.for_good()
