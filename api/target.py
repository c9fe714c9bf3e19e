"""The chosen target of profiles.yml: its settings, its log, and the place of its stores."""

from __future__ import annotations

from pathlib import Path

from ..runtime.chosen_plugins import ChosenPlugins, log_of, origin_of
from ..runtime.log.placed.log import PlacedLog
from ..runtime.spark.clients import local_state
from ..runtime.state.directories.known_log import check_known_by, place_of
from ..runtime.topology import Settings
from .files import CheckedFiles


class Target:
    """The target of a project, with its log and the place of its stores, for writing and for reading.

    Writing needs a project without errors. For reading, only headwater.yml and profiles.yml must be right.
    """

    def __init__(self, files: CheckedFiles) -> None:
        self._files = files

    def settings(self) -> Settings:
        """The settings for writing, with absolute paths. Raises InvalidProjectError."""
        self._files.require_valid()
        return self.settings_to_read()

    def settings_to_read(self) -> Settings:
        """The settings for reading, even if other files have errors. Raises InvalidProjectError."""
        return self._files.settings_to_read()

    def log(self) -> PlacedLog:
        """The log for writing, see `Project.log`."""
        log = self._log(self.settings())
        log.check()
        return log

    def log_to_read(self) -> PlacedLog:
        """The log for reading. Raises InvalidProjectError, OtherLogError."""
        return self._log(self.settings_to_read())

    def log_place(self) -> str:
        """The log's folder or URI, for messages. Raises InvalidProjectError."""
        log = self.settings_to_read().log
        return place_of(log.name, log.options)

    def state_dir(self) -> Path | None:
        """The folder of the stores, see `local_state`. Raises InvalidProjectError."""
        return local_state(self.settings_to_read())

    def plugins(self) -> ChosenPlugins:
        """Those that the target names, and the stores of its topologies. Raises InvalidProjectError, PluginError."""
        return ChosenPlugins(origin_of(self.settings_to_read()))

    def _log(self, settings: Settings) -> PlacedLog:
        """Raises OtherLogError if stores on this machine were made of another log."""
        log, state_dir = log_of(settings), local_state(settings)
        if state_dir is not None:
            check_known_by(state_dir, self._files.applications(), log.identity(), self.log_place())
        return log
