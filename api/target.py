"""The chosen target with its log and state directory, and the generated code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..compiler.emit.manifest import manifest
from ..compiler.emit.target import emit
from ..compiler.model.project import TO_KAFKA
from ..compiler.outcomes import Compiled, InvalidProjectError, Parsed
from ..compiler.target_settings import settings_of, with_pems
from ..runtime.chosen_plugins import ChosenPlugins, log_of, origin_of
from ..runtime.cluster.spark.job import local_state
from ..runtime.generated_code import load_runner
from ..runtime.ir.topology import Settings, Topology
from ..runtime.kafka.worker import positions_to_forget
from ..runtime.log.placed_log import PlacedLog
from ..runtime.state.directory import check_same_log_for, log_location
from .files import CheckedFiles, Selection

if TYPE_CHECKING:
    from ..runtime.cluster.spark.on_demand import SparkOnDemand

# The chosen target of profiles.yml: its settings, its log, and the location of its stores.


class Target:
    """The target of a project, with its log and state directory, for writing and for reading.

    Writing needs a project without errors. For reading, only headwater.yml and profiles.yml must be valid.
    """

    def __init__(self, files: CheckedFiles) -> None:
        self._files = files

    def settings(self) -> Settings:
        """The settings for writing, with absolute paths. Raises InvalidProjectError."""
        self._files.require_valid()
        return self.settings_to_read()

    def settings_to_read(self) -> Settings:
        """The settings for reading: errors in other files do not matter. Raises InvalidProjectError."""
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
        return log_location(log.name, log.options)

    def state_dir(self) -> Path | None:
        """The folder of the stores, see `local_state`. Raises InvalidProjectError."""
        return local_state(self.settings_to_read())

    @contextmanager
    def forgetting(self, applications: Iterable[str]) -> Iterator[None]:
        """For a removal of applications: remove their positions in Kafka after it. Raises errors of Kafka before it."""
        settings = self.settings_to_read()
        mirrors = [name for name in applications if settings.kafka and name == f"{self._files.name}-{TO_KAFKA}"]
        clusters = with_pems(settings, self._files.root).kafka if mirrors else {}
        forgets = [positions_to_forget(clusters, name) for name in mirrors]
        yield
        for forget in forgets:
            forget()

    def plugins(self) -> ChosenPlugins:
        """The plugins of the target and of its topologies' stores. Raises InvalidProjectError, PluginError."""
        return ChosenPlugins(origin_of(self.settings_to_read()))

    def _log(self, settings: Settings) -> PlacedLog:
        """Raise OtherLogError if stores on this machine belong to another log."""
        log, state_dir = log_of(settings), local_state(settings)
        if state_dir is not None:
            check_same_log_for(state_dir, self._files.applications(), log.identity(), self.log_place())
        return log


# The generated code of the selected topologies, in `target/`.

TARGET = "target"


class GeneratedCode:
    """Generates code, anew at each call."""

    def __init__(self, files: CheckedFiles, selection: Selection) -> None:
        self._files = files
        self._selection = selection

    def compile(self, *, check: bool = True) -> Compiled:
        """See `Project.compile`."""
        if not self._files.untyped.diagnostics.has_errors:
            _ = self._selection.ids  # an unknown selector is reported before Spark is started
        checked = self._files.typed
        fields = self._files.parsed_fields()
        left_to_spark = checked.left_to_spark
        if checked.diagnostics.has_errors:
            if check:
                raise InvalidProjectError(Parsed(**fields))
            return Compiled(**fields, left_to_spark=left_to_spark)
        content = manifest(checked.loaded, self._files.resources, checked.topologies)
        written = emit(self._files.root / TARGET, self._selection.graphs(), settings_of(checked.loaded), content)
        return Compiled(
            **fields, graphs=checked.topologies, emitted=written, manifest=content, left_to_spark=left_to_spark
        )

    def topologies(self) -> list[Topology]:
        """The selected topologies as their code declares them. Raises what `compile` does."""
        return [load_runner(emitted.runner).topology for emitted in self.compile().emitted]


class Part:
    """A part of `Project`: with the other parts it shares the files, the selection and Spark."""

    def __init__(self, files: CheckedFiles, selection: Selection, spark: SparkOnDemand) -> None:
        self._files = files
        self._selection = selection
        self._spark = spark
        self._target = Target(files)
        self._code = GeneratedCode(files, selection)
