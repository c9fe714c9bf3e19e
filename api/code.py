"""The generated code of the selected topologies, in `target/`."""

from __future__ import annotations

from ..compiler.emit.manifest import manifest
from ..compiler.emit.target import emit
from ..compiler.outcomes import Compiled, InvalidProjectError, Parsed
from ..compiler.target_settings import settings_of
from ..runtime.generated_code import load_runner
from ..runtime.topology import Topology
from .files import CheckedFiles
from .selection import Selection

TARGET = "target"


class GeneratedCode:
    """Generates code. It is written again at each call."""

    def __init__(self, files: CheckedFiles, selection: Selection) -> None:
        self._files = files
        self._selection = selection

    def compile(self, *, check: bool = True) -> Compiled:
        """See `Project.compile`."""
        if not self._files.untyped.diagnostics.has_errors:
            _ = self._selection.ids  # an unknown selector is reported before Spark is started
        checked = self._files.typed
        found = self._files.found()
        left = checked.left_to_spark
        if checked.diagnostics.has_errors:
            if check:
                raise InvalidProjectError(Parsed(**found))
            return Compiled(**found, left_to_spark=left)
        content = manifest(checked.loaded, self._files.resources, checked.topologies)
        written = emit(self._files.root / TARGET, self._selection.graphs(), settings_of(checked.loaded), content)
        return Compiled(**found, graphs=checked.topologies, emitted=written, manifest=content, left_to_spark=left)

    def topologies(self) -> list[Topology]:
        """The selected topologies as their code declares them. Raises what `compile` does."""
        return [load_runner(emitted.runner).topology for emitted in self.compile().emitted]
