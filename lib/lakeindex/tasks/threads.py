"""Tasks on threads of this process, without progress: what a service uses when its caller brings no runner."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any


class Threads:
    """The plainest runner."""

    @property
    def slots(self) -> int:
        """One task a core."""
        return os.cpu_count() or 1

    @property
    def is_started(self) -> bool:
        """Always."""
        return True

    def nearby(self) -> Threads:
        """Itself."""
        return self

    def for_files(self, files: int) -> Threads:  # noqa: ARG002 - the protocol's argument
        """Itself."""
        return self

    def map(self, function: Callable[[Any], Any], tasks: Sequence[Any], title: str) -> list[Any]:
        """``[function(t) for t in tasks]``, in order; the first failure is raised."""
        with ThreadPoolExecutor(self.slots, thread_name_prefix=title) as pool:
            futures = [pool.submit(copy_context().run, function, task) for task in tasks]
            return [future.result() for future in futures]
