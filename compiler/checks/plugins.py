"""Checks of plugins, and the catalog of installed plugins."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...plugins.errors import PluginImportError
from ...plugins.manager import PluginManager
from ...plugins.registry import Registry, is_installed
from ...runtime.assignment.rack_solver import WAY_OUT, has_solver, uses_solver
from ..diagnostics import Diagnostics, Position, did_you_mean
from ..entries import PluginUse, StoreModel
from ..language.udfs import code_of, is_defined
from ..model.project import AssignmentModel, ProjectModel
from ..reading.source import NOTES, MappingNode, Node, ScalarNode, SequenceNode
from ..reading.violations import instead_of_log
from ..target_settings import BUILTIN_LOGS

if TYPE_CHECKING:
    from ...runtime.serdes.serde import Serde

# Names defined outside of the YAML: plugins with their options, and Python functions of the project.

_WORDS = {
    "assignor": "assignor",
    "restore_strategy": "restore strategy",
    "store_backend": "store backend",
    "log": "log",
    "serde": "format",
}


class PluginCatalog:
    """The available plugins. Kinds: `assignor`, `restore_strategy`, `store_backend`, `log`, `serde`.

    `manager` makes a PluginManager without the plugins passed to it. Plugins are imported by the first call of a
    method.
    """

    def __init__(self, manager: Callable[[Collection[str]], PluginManager]) -> None:
        self._find = manager

    def names(self, kind: str) -> Collection[str]:
        """The names of the plugins of a kind."""
        return list(self._registry(kind))

    def options_schema(self, kind: str, name: str) -> Mapping[str, Any]:
        """The JSON Schema of a plugin's options. The schema of profiles covers those of the embedded log."""
        return {} if (kind, name) == ("log", "embedded") else self._registry(kind)[name].options_schema

    def missing(self, kind: str, name: str) -> Mapping[str, str]:
        """The modules that a plugin requires and that are not installed, with the arguments of `pip install`."""
        return self._registry(kind)[name].missing

    def needs_changelog(self, backend: str) -> bool:
        """Whether the stores of a backend can lose their rows with a process."""
        return self._registry("store_backend")[backend].needs_changelog

    def makes(self, kind: str, name: str, method: str) -> bool:
        """Whether a plugin's class has a method. For other factories the methods are unknown: True for backends."""
        factory = self._registry(kind)[name].load()
        return hasattr(factory, method) if isinstance(factory, type) else kind == "store_backend"

    def serde(self, name: str, options: Mapping[str, Any]) -> Serde:
        """A format of Kafka's records. Raises PluginError."""
        serde: Serde = self._registry("serde").create(name, options)
        return serde

    def has_rack_solver(self) -> bool:
        """Whether OR-Tools is installed."""
        return has_solver()

    def failures(self) -> Mapping[str, str]:
        """The project's modules that cannot be imported, with the reasons. Unless it is empty, call no other method.

        Raises PluginError for other plugins.
        """
        failed: dict[str, str] = {}
        # A round excludes the modules that have failed, so one run reports all of them.
        while True:
            try:
                self._find(failed)
            except PluginImportError as error:
                if not error.local:
                    raise
                failed[error.name] = error.reason
            else:
                return failed

    @cached_property
    def _registries(self) -> Mapping[str, Registry]:
        manager = self._find(())
        return {
            "assignor": manager.assignors,
            "restore_strategy": manager.restore_strategies,
            "restore_listener": manager.restore_listeners,
            "store_backend": manager.store_backends,
            "log": manager.logs,
            "serde": manager.serdes,
        }

    def _registry(self, kind: str) -> Registry:
        return self._registries[kind]


def check_plugins(
    model: ProjectModel, target: MappingNode | None, catalog: PluginCatalog, diagnostics: Diagnostics
) -> None:
    """Report unknown plugins, invalid options, missing packages, and stores without a changelog that need one."""
    for kind, use in _uses(model, target):
        names = catalog.names(kind)
        name = use.name.text
        if name not in names:
            message = f"There is no {_WORDS[kind]} '{name}'."
            available = f"Available are {', '.join(sorted(names))}. " if names else ""
            unlisted = f"{available}List your own module in headwater.yml, under 'plugins'."
            other = instead_of_log(name) if kind == "log" else None
            diagnostics.add("HW601", use.name.position, message, other or did_you_mean(name, names) or unlisted)
            written = target.get("log") if kind == "log" and target is not None else None
            if isinstance(written, MappingNode):  # the keys of an unknown log are unknown
                diagnostics.withdraw("HW201", [entry.key.position for entry in written.entries])
            continue
        _check_options(kind, use, catalog.options_schema(kind, name), diagnostics)
        _report_packages(kind, use, catalog.missing(kind, name), diagnostics)
    for topology in model.topologies.values():
        _check_racks(topology.assignment, catalog, diagnostics)
        saves = topology.restore is not None and _makes(catalog, "restore_strategy", topology.restore, "save")
        for store in topology.stores.values():
            _check_changelog(store, catalog, diagnostics)
            if saves and store.changelog and store.backend is not None:
                _check_copies(store.backend, catalog, diagnostics)


def check_packages(
    model: ProjectModel,
    target: MappingNode | None,
    diagnostics: Diagnostics,
    required: Mapping[tuple[str, str], Mapping[str, str]],
) -> None:
    """Report missing packages for the profile's lineage, for topics in Kafka and for plugins, without imports.

    `required`: kind and name of a plugin -> the modules that it needs, with the arguments of `pip install`.
    """
    for kind, use in _uses(model, target):
        packages = required.get((kind, use.name.text), {})
        missing = {module: package for module, package in packages.items() if not is_installed(module)}
        _report_packages(kind, use, missing, diagnostics)
    needed = {"lineage": ("openlineage", "openlineage-python", "lineage")}
    if model.read_from_kafka or model.written_to_kafka:
        needed["kafka"] = ("confluent_kafka", "confluent-kafka", "kafka")
    for key, (module, package, extra) in needed.items():
        if target is not None and key in target and not is_installed(module):
            message = f"`{key}` needs the package {package}, which is not installed."
            hint = f"Install it: pip install 'headwater[{extra}]'."
            diagnostics.add("HW610", target.key_position(key), message, hint)


def _report_packages(kind: str, use: PluginUse, missing: Mapping[str, str], diagnostics: Diagnostics) -> None:
    for module, package in missing.items():
        message = f"The {_WORDS[kind]} '{use.name.text}' needs the package {module}, which is not installed."
        diagnostics.add("HW610", use.name.position, message, f"Install it: pip install '{package}'.")


def _check_copies(backend: PluginUse, catalog: PluginCatalog, diagnostics: Diagnostics) -> None:
    if not _makes(catalog, "store_backend", backend, "load_copy"):
        message = f"Stores of the backend '{backend.name.text}' cannot be copied, so they have no snapshots."
        hint = "Choose a backend whose stores can be copied, such as 'lmdb', or another restore strategy."
        diagnostics.add("HW612", backend.name.position, message, hint)


def _makes(catalog: PluginCatalog, kind: str, use: PluginUse, method: str) -> bool:
    """Whether a plugin has a method. Missing plugins are reported elsewhere."""
    name = use.name.text
    if name not in catalog.names(kind) or catalog.missing(kind, name):
        return kind == "store_backend"
    return catalog.makes(kind, name, method)


def _check_changelog(store: StoreModel, catalog: PluginCatalog, diagnostics: Diagnostics) -> None:
    if store.changelog or store.backend is None:
        return
    name = store.backend.name
    if name.text in catalog.names("store_backend") and catalog.needs_changelog(name.text):
        message = f"'{name.text}' loses the rows of '{store.name.text}' if a process is killed: it has no changelog."
        hint = "Remove 'changelog: {enabled: false}', or choose a backend that keeps rows, such as 'lmdb'."
        diagnostics.add("HW611", name.position, message, hint)


def _check_racks(assignment: AssignmentModel, catalog: PluginCatalog, diagnostics: Diagnostics) -> None:
    settings, strategy = assignment.settings, assignment.rack_aware
    assignor = assignment.assignor.name.text if assignment.assignor is not None else settings.assignor.name
    costs = settings.rack_aware_traffic_cost, settings.rack_aware_non_overlap_cost
    if strategy is None or not uses_solver(assignor, strategy.text, *costs) or catalog.has_rack_solver():
        return
    message = f"The strategy '{strategy.text}' needs OR-Tools, which is not installed."
    diagnostics.add("HW610", strategy.position, message, f"Install it: {WAY_OUT}.")


def _uses(model: ProjectModel, target: MappingNode | None) -> Iterator[tuple[str, PluginUse]]:
    for topology in model.topologies.values():
        if topology.assignment.assignor is not None:
            yield "assignor", topology.assignment.assignor
        if topology.restore is not None:
            yield "restore_strategy", topology.restore
        for store in topology.stores.values():
            if store.backend is not None:
                yield "store_backend", store.backend
    for topic in model.topics.values():
        formats = (topic.kafka.key, topic.kafka.value) if topic.kafka is not None else ()
        yield from (("serde", use) for use in formats if use is not None)
    log = _log(target.get("log") if target is not None else None)
    if log is not None:
        yield "log", log


def _log(written: Node | None) -> PluginUse | None:
    """The log of a profile, see `target_settings`; None if it names no log."""
    name = (written.get("name") or written.get("type")) if isinstance(written, MappingNode) else written
    if not isinstance(name, ScalarNode) or not isinstance(name.value, str):
        return None
    if not isinstance(written, MappingNode):
        return PluginUse(name, None)
    if name.value in BUILTIN_LOGS and "name" not in written:
        entries = tuple(entry for entry in written.entries if entry.name not in ("type", *NOTES))
        return PluginUse(name, MappingNode(entries, written.position))
    options = written.get("options")
    return PluginUse(name, options if isinstance(options, MappingNode) else None)


def _check_options(kind: str, use: PluginUse, schema: Mapping[str, Any], diagnostics: Diagnostics) -> None:
    from jsonschema import Draft7Validator, SchemaError
    from referencing.exceptions import Unresolvable

    plugin = f"{_WORDS[kind]} '{use.name.text}'"
    options = use.options or MappingNode((), use.name.position)
    try:
        Draft7Validator.check_schema(dict(schema))
        errors = list(Draft7Validator(schema).iter_errors(options.to_python()))
    except (SchemaError, Unresolvable) as error:
        problem = error.message if isinstance(error, SchemaError) else f"there is no {error.ref}"
        diagnostics.add("HW602", use.name.position, f"The options schema of {plugin} is not a JSON Schema: {problem}.")
        return
    for violation in errors:
        path = list(violation.absolute_path)
        if path:
            message = f"The {plugin} does not accept the option: {violation.message}."
            diagnostics.add("HW602", _position(options, path), message)
        elif violation.validator == "additionalProperties" and "patternProperties" not in violation.schema:
            _report_unknown(plugin, options, list(violation.schema.get("properties", {})), diagnostics)
        else:
            message = f"The {plugin} does not accept its options: {violation.message}."
            diagnostics.add("HW602", use.name.position, message)


def _report_unknown(plugin: str, options: MappingNode, valid: Sequence[str], diagnostics: Diagnostics) -> None:
    """Report unknown options, for a schema that allows only the options it lists."""
    for entry in options.entries:
        if entry.name not in valid:
            listed = f"Its options are {', '.join(valid)}." if valid else "It has no options."
            hint = did_you_mean(entry.name, valid) or listed
            diagnostics.add("HW602", entry.key.position, f"The {plugin} has no option '{entry.name}'.", hint)


def _position(node: Node, path: list[str | int]) -> Position:
    """The position of the value at a path of keys and indexes."""
    for part in path:
        match node, part:
            case (MappingNode(), str()) if part in node:
                node = node[part]
            case SequenceNode(), int():
                node = node[part]
    return node.position


def check_functions(model: ProjectModel, root: Path, diagnostics: Diagnostics) -> None:
    """Report Python functions of seeds that the project's files do not define. Imports nothing."""
    for topic in model.topics.values():
        function = topic.seed.get("function") if topic.seed is not None else None
        if not isinstance(function, ScalarNode) or not isinstance(function.value, str):
            continue
        if is_defined(function, root, diagnostics):
            code_of(function, root, diagnostics)
