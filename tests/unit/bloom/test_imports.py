from __future__ import annotations

import subprocess
import sys


def test_numba_is_loaded_only_when_keys_are_hashed() -> None:
    """It takes half a second and more, and most commands hash nothing."""
    modules = "lakeindex.bloom, lakeindex.bloom.marks, lakeindex.index.registry, lakeindex.index.bucket, lakeindex.index.key_match, lakeindex.write.keys.keys"
    code = f"import {modules}, lakeindex.files.footer_cache, sys; print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "False"
