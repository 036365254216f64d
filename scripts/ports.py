"""A port for a server of one's own. Standard library only."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
