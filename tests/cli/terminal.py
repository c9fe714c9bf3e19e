"""A real terminal, for what is shown on one."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence

_OF_THE_TERMINAL = {"NO_COLOR", "FORCE_COLOR", "COLUMNS", "TERM", "TTY_COMPATIBLE"}


def on_terminal(
    command: Sequence[str], columns: int, environment: Mapping[str, str] | None = None, typed: str = ""
) -> str:
    """What a command prints, stdout and stderr, on a terminal of so many columns that knows colours.

    `typed`: what the user types, which the terminal shows too.
    """
    own = {name: value for name, value in os.environ.items() if name not in _OF_THE_TERMINAL}
    own = {**own, "TERM": "xterm", **(environment or {})}
    screen, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    with subprocess.Popen(command, stdin=side, stdout=side, stderr=side, env=own) as process:
        os.close(side)
        os.write(screen, typed.encode())
        printed = b""
        while part := _read(screen):
            printed += part
        process.wait()
    os.close(screen)
    return printed.decode().replace("\r\n", "\n")


def _read(screen: int) -> bytes:
    """What has come; nothing at the end, which Linux tells by an error."""
    try:
        return os.read(screen, 65536)
    except OSError:
        return b""
