"""Start sooner: imported first by processes of ours (jobs, the command line, helpers), for what it does.

* They do without pandas (:mod:`lakeindex.without_pandas`): they are never given any of its objects.
* Once the modules are loaded, no garbage is looked for among them (:func:`loaded`), nor at the end of the process.
"""

from __future__ import annotations

import gc

from lakeindex import without_pandas


def loaded() -> None:
    """All modules are there: what they hold is no garbage."""
    gc.freeze()


without_pandas.for_good()
