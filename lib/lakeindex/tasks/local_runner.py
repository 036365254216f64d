"""The in-process runner: tasks on threads. Arrow, Parquet and the filter kernels release the interpreter lock; where
there are so many small files that Python itself is most of the work, other processes help.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from copy import copy
from typing import Any

from lakeindex.tasks.helpers import LEAST_FILES, current_helpers
from lakeindex.tasks.memory_bound import GATE, current_bound, held_by
from lakeindex.tasks.progress_bars import NoProgress, Progress
from lakeindex.threads import having_cores, usable_cores


class LocalRunner:
    """Runs tasks on threads of this process; a task begins when what it will hold fits into ``lakeindex.memory``.

    Args:
        slots: tasks at once; 0 means one a core.
        progress: told about every map and every finished task.
    """

    def __init__(self, slots: int = 0, progress: Progress | None = None) -> None:
        self._slots = slots or usable_cores()
        self._progress = progress if progress is not None else NoProgress()
        self._files = 0

    @property
    def slots(self) -> int:
        return self._slots

    @property
    def is_started(self) -> bool:
        return True

    def nearby(self) -> LocalRunner:
        return self

    def for_files(self, files: int) -> LocalRunner:
        if files < LEAST_FILES:
            return self
        other = copy(self)
        other._files = files  # noqa: SLF001 - its own class
        return other

    def map(self, function: Callable[[Any], Any], tasks: Sequence[Any], title: str) -> list[Any]:
        bound, helpers = current_bound(), current_helpers() if self._files else None
        if helpers is not None and len(tasks) > 1:
            helpers.start(self._files, self._slots, function)

        left = list(tasks)

        def run(task: Any) -> Any:
            with GATE.holding(held_by(task), bound), having_cores(lambda: self._slots // len(left)):
                found = function(task) if helpers is None else helpers.run(function, task)
            left.pop()
            return found

        with self._progress.step(title, len(tasks)) as advance:
            if len(tasks) == 1 or self._slots == 1:
                results = []
                for task in tasks:
                    results.append(run(task))
                    advance()
                return results
            with ThreadPoolExecutor(self._slots, thread_name_prefix="lakeindex") as pool:
                futures = [pool.submit(copy_context().run, run, task) for task in tasks]
                try:
                    results = []
                    for future in futures:
                        results.append(future.result())
                        advance()
                    return results
                finally:
                    for future in futures:
                        future.cancel()
