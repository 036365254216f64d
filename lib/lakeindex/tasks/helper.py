"""What a helper process does (:mod:`lakeindex.tasks.helpers`): tasks, until the process that started it is gone."""

from __future__ import annotations

import gc
import os
import pickle
import queue
import signal
import threading
from multiprocessing.connection import Connection
from typing import Final

from lakeindex.tasks import fast_start  # before anything that makes an Arrow array

# isort: split
from lakeindex.errors import LakeIndexError
from lakeindex.tasks.helpers import Answer

_LOOK_SECONDS: Final = 2.0
_OBJECTS: Final = 50_000
"""New ones between two collections."""


def serve(pipe: Connection) -> None:
    """Do what comes through a pipe: first what the work needs is loaded, then tasks. Does not return."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # a terminal sends it to all; the process that started this one decides
    messages: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(pipe, messages), daemon=True).start()
    pickle.loads(messages.get())  # noqa: S301 - of the process that started this one
    fast_start.loaded()
    gc.set_threshold(_OBJECTS)  # tasks leave little behind
    pipe.send_bytes(pickle.dumps(True))
    while True:
        answer = _answer(messages.get())
        try:
            pipe.send_bytes(answer)
        except OSError:
            os._exit(1)


def _listen(pipe: Connection, messages: queue.SimpleQueue[bytes]) -> None:
    """Hand over what comes. When nothing more can come this process ends, even in the middle of a task: the process
    that started it has died, and does not finish its own work either. (A process that was forked from that one may
    keep the other end open, so the parent's id is compared, too.)
    """
    parent = os.getppid()
    try:
        while os.getppid() == parent:
            if pipe.poll(_LOOK_SECONDS):
                messages.put(pipe.recv_bytes())
    except (EOFError, OSError):
        pass
    finally:
        os._exit(0)


def _answer(message: bytes) -> bytes:
    try:
        function, task = pickle.loads(message)  # noqa: S301 - as above
        return pickle.dumps((Answer.DONE, function(task)))
    except LakeIndexError as error:
        return pickle.dumps((Answer.REFUSED, error))
    except Exception:  # noqa: BLE001 - the asking process does it again, where it is raised as it is
        return pickle.dumps((Answer.NOT_DONE, None))
