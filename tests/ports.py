"""Ports for servers that tests start."""

from __future__ import annotations

import socket
from contextlib import ExitStack


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens on. Another process may take one before it is used."""
    with ExitStack() as taken:
        sockets = [taken.enter_context(socket.socket()) for _ in range(count)]
        for server in sockets:
            server.bind(("127.0.0.1", 0))
        return [server.getsockname()[1] for server in sockets]
