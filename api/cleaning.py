"""Removes what Headwater has made of a project: generated code, and the stores on this machine."""

from __future__ import annotations

import shutil
from pathlib import Path

from ..runtime.progress.resets.full_refresh import forget_state
from ..runtime.spark.clients import local_state
from ..runtime.state.directories.beside import found_with_beside
from ..runtime.state.directories.directory import StateDirectory
from .code import TARGET
from .files import CheckedFiles
from .selection import Selection
from .target import Target


class Cleaning:
    """Cleans the selected topologies; without a selection, all that this project has or had."""

    def __init__(self, files: CheckedFiles, selection: Selection, target: Target) -> None:
        self._files = files
        self._selection = selection
        self._target = target

    def cleanable(self, *, state: bool) -> tuple[Path, ...]:
        """See `Project.cleanable`."""
        generated = [self._files.root / TARGET]
        if self._selection.narrows:
            generated = [self._files.root / TARGET / topology for topology in self._selection.topologies()]
        found = [path for path in generated if path.exists()]
        return (*found, *(directory.path for directory in (self._state_directories() if state else ())))

    def clean(self, *, state: bool) -> tuple[Path, ...]:
        """See `Project.clean`."""
        doomed = self.cleanable(state=state)
        directories = self._state_directories() if state else []
        forget_state(directories)
        for path in set(doomed) - {directory.path for directory in directories}:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        return doomed

    def _state_directories(self) -> list[StateDirectory]:
        state_dir, project = local_state(self._target.settings()), self._files.name
        topologies = self._selection.topologies() if self._selection.narrows else ("*",)
        return [
            directory
            for here in ([] if state_dir is None else [state_dir])
            for topology in topologies
            for directory in found_with_beside(here, f"{project}-{topology}")
        ]
