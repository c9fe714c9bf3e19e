"""Where clients stand: the rack and the tags of each one's host, as the profile has them."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from functools import cache

from ...errors import HeadwaterError
from ..topology import Settings
from .clients import Client

PATIENCE_S = 10.0
"""How long a script may take for one host."""


class RackScriptError(HeadwaterError):
    """The profile's script did not tell the rack of a host: `script`, `host`, `cause`."""

    def __init__(self, script: str, host: str, cause: str) -> None:
        super().__init__(f"{script} tells no rack of {host}: {cause}", "it is called with a host, and prints a rack")
        self.script = script
        self.host = host
        self.cause = cause


class Racks:
    """Racks and tags by host. A virtual client has no host of its own, and is found by its name."""

    def __init__(self, settings: Settings) -> None:
        self._racks = settings.racks
        self._script = settings.rack_script
        self._tags = settings.client_tags

    def rack(self, client: Client) -> str | None:
        """The rack, None where the profile has none. Raises RackScriptError."""
        host = _place(client)
        return _printed(self._script, host) if self._script else self._racks.get(host)

    def tags(self, client: Client) -> Mapping[str, str]:
        """Tag -> value."""
        return self._tags.get(_place(client), {})


def _place(client: Client) -> str:
    return client.name if client.executor is None else client.executor.host


@cache
def _printed(script: str, host: str) -> str:
    """What the script prints, asked once for each host."""
    try:
        ended = subprocess.run([script, host], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RackScriptError(script, host, str(error)) from error
    rack = ended.stdout.strip()
    if ended.returncode or not rack:
        raise RackScriptError(script, host, ended.stderr.strip() or f"exit code {ended.returncode}, nothing printed")
    return rack
