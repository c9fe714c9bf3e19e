"""The rack and the tags of each client's host, as the profile defines them."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from functools import cache

from ...errors import HeadwaterError
from ..topology import Settings
from .client import Client

PATIENCE_S = 60.0
"""How long a script may take for one host, in seconds."""

_SHOWN = 80


class RackScriptError(HeadwaterError):
    """The profile's script did not print the rack of a host: `script`, `host`, `cause`."""

    def __init__(self, script: str, host: str, cause: str) -> None:
        super().__init__(f"{script} tells no rack of {host}: {cause}", "it is called with a host, and prints a rack")
        self.script = script
        self.host = host
        self.cause = cause


class Racks:
    """Racks and tags by host. A virtual client has no host of its own; its name stands for one."""

    def __init__(self, settings: Settings, patience_s: float = PATIENCE_S) -> None:
        self._racks = settings.racks
        self._script = settings.rack_script
        self._tags = settings.client_tags
        self._patience_s = patience_s

    def rack(self, client: Client) -> str | None:
        """The rack; None if the profile has none. Raises RackScriptError."""
        host = _place(client)
        return _printed(self._script, host, self._patience_s) if self._script else self._racks.get(host)

    def tags(self, client: Client) -> Mapping[str, str]:
        """Tag -> value."""
        return self._tags.get(_place(client), {})


def _place(client: Client) -> str:
    return client.name if client.executor is None else client.executor.host


@cache
def _printed(script: str, host: str, patience_s: float) -> str:
    """The output of the script, which is called once for each host."""
    try:
        running = subprocess.Popen(
            [script, host],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            # A process group of its own, which can be killed with all children.
            start_new_session=True,
        )
    except OSError as error:
        raise RackScriptError(script, host, str(error)) from error
    with running:
        try:
            output, errors = running.communicate(timeout=patience_s)
        except BaseException as error:
            # The whole process group: a child of the script would keep the pipe open, and `with` would wait for it.
            os.killpg(running.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise RackScriptError(script, host, f"no answer within {patience_s:g} s") from error
            raise
    rack = output.strip()
    if running.returncode or not rack:
        raise RackScriptError(script, host, errors.strip() or f"exit code {running.returncode}, nothing printed")
    if not rack.isprintable() or "\ufffd" in rack:
        raise RackScriptError(script, host, f"{rack[:_SHOWN]!r} is not one line of text")
    return rack
