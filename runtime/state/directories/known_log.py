"""Checks that the log is the one that the stores of a state directory were made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ....errors import HeadwaterError
from ....readable_text import readable
from ....unusable_paths import unusable_paths_told
from .process_file import ProcessFile


class OtherLogError(HeadwaterError):
    """Stores were made of another log than the configured one. `path`: of the stores. `log`: its place, for people."""

    def __init__(self, path: Path, log: str) -> None:
        super().__init__(
            f"the stores in {path} were made of another log than the one at {log}: that log is missing, not mounted, "
            "or was moved or removed, or lacks its log.json",
            "put the log back, or correct `log:` in profiles.yml; `headwater clean --state` gives the stores up",
        )
        self.path = path
        self.log = log


def place_of(name: str, options: Mapping[str, Any]) -> str:
    """The place of a log for messages, from its plugin's name and options."""
    return readable(str(options.get("path") or options.get("uri") or name))


def check_known(path: Path, identity: str, log: str) -> None:
    """Refuse a log with this `identity` (empty: it has none) if the stores in `path` belong to another one.

    Raises OtherLogError.
    """
    found = ProcessFile.read(path)
    if found is not None and found.log and found.log != identity:
        raise OtherLogError(path, log)


@unusable_paths_told
def check_known_by(state_dir: Path, applications: Iterable[str], identity: str, log: str) -> None:
    """The same for the stores of these applications on all clients below a state directory of this machine.

    Raises OtherLogError, MachineError for a path that cannot be used.
    """
    for application in applications:
        for path in sorted(state_dir.glob(f"*/{application}")):
            check_known(path, identity, log)
