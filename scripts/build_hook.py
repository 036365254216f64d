"""Compiles the loops of the library when a wheel is built or a checkout is installed (a build hook of hatchling).

A machine that has no C compiler takes the package ``ziglang`` for the build. Where there is none either, the wheel has
no library, fits every platform, and its loops run in numpy. ``HATCH_BUILD_NO_HOOKS=true`` skips all of it.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_FOLDER: Final = "hashing"
_ZIG: Final = "ziglang>=0.13"
_ZIG_MACHINES: Final = ("x86_64", "aarch64", "arm64", "AMD64")
"""Processors of which ``ziglang`` has wheels for each system."""


def _compile_loops(root: str) -> ModuleType:
    """The library's own module, without the library."""
    path = Path(root) / "lib" / "lakeindex" / _FOLDER / "compile_loops.py"
    spec = importlib.util.spec_from_file_location("compile_loops", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _tag() -> str:
    """The library needs nothing of the system but its loader: neither a C library nor a Python of one kind."""
    machine = platform.machine()
    if sys.platform == "linux":
        return f"py3-none-manylinux_2_17_{machine}.musllinux_1_1_{machine}"
    if sys.platform == "darwin":
        return f"py3-none-macosx_{'11_0' if machine == 'arm64' else '10_13'}_{machine}"
    return f"py3-none-{'win_amd64' if sys.platform == 'win32' else sys.platform}"


class LoopsHook(BuildHookInterface[Any]):
    """What hatchling calls."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """What the build needs beside hatchling."""
        loops = _compile_loops(self.root)
        is_made = not loops.problem_with(loops.library()) or loops.compilers()
        return [] if is_made or platform.machine() not in _ZIG_MACHINES else [_ZIG]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and put the library into the wheel; of an editable installation it stays beside its source."""
        loops = _compile_loops(self.root)
        if sys.platform == "darwin":
            os.environ.setdefault("MACOSX_DEPLOYMENT_TARGET", "11.0" if platform.machine() == "arm64" else "10.13")
        path = loops.library()
        try:
            if loops.problem_with(path):
                loops.make()
        except (OSError, RuntimeError) as error:
            self.app.display_warning(f"{path.name} was not made, its loops will run in numpy: {error}")
            return
        if version == "standard":
            build_data["force_include"][str(path)] = f"lakeindex/{_FOLDER}/{path.name}"
            build_data["pure_python"] = False
            build_data["tag"] = _tag()
