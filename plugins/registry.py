"""Registries of plugins: one for each kind, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from typing import TYPE_CHECKING, Any

from .errors import (
    InvalidPluginError,
    OptionProblem,
    PluginConflictError,
    PluginOptionsError,
    UnknownPluginError,
    error_text_with_line,
    wrapping_errors,
)

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

_MOST_REMEMBERED = 64
"""The most valid options that a registration remembers. A process asks with the same options again and again."""

NO_OPTIONS: Mapping[str, Any] = {"type": "object", "additionalProperties": False}


@dataclass(frozen=True)
class Registration:
    """One plugin of a kind. `hookspecs.Register` describes the fields."""

    kind: str
    name: str
    factory: Callable[..., Any] | str
    options_schema: Mapping[str, Any] = field(default_factory=lambda: NO_OPTIONS)
    description: str = ""
    requires: Mapping[str, str] = field(default_factory=dict)
    needs_changelog: bool = False

    @property
    def missing(self) -> Mapping[str, str]:
        """Required modules that are not installed, each with the package for `pip install`."""
        return {module: package for module, package in self.requires.items() if not is_installed(module)}

    @property
    def origin(self) -> str:
        """Where the factory is defined, as `module:name`."""
        if isinstance(self.factory, str):
            return self.factory
        module = getattr(self.factory, "__module__", "?")
        return f"{module}:{getattr(self.factory, '__qualname__', type(self.factory).__name__)}"

    def load(self) -> Any:
        """The factory, imported if it is given as text. Raises InvalidPluginError if that fails."""
        if not isinstance(self.factory, str):
            return self.factory
        for module_name, package in self.missing.items():
            raise InvalidPluginError(
                f"the {self.kind} {self.name!r} needs the package {module_name}, which is not installed",
                f"pip install '{package}'",
            )
        module, _, attribute = self.factory.partition(":")
        if not module or not attribute:
            raise InvalidPluginError(
                f"the {self.kind} {self.name!r} cannot be loaded from {self.factory!r}",
                "a factory is written package.module:name",
            )
        with self._wrapping("loaded"):
            return getattr(import_module(module), attribute)

    def problems(self, options: Mapping[str, Any]) -> list[OptionProblem]:
        """The options that violate the schema, sorted. Raises InvalidPluginError if the schema is no JSON Schema."""
        # Imported here: jsonschema is slow to import, and most commands do not need it.
        from jsonschema import SchemaError
        from referencing.exceptions import Unresolvable

        try:
            errors = list(self._options_validator.iter_errors(dict(options)))
        except (SchemaError, Unresolvable) as error:
            problem = error.message if isinstance(error, SchemaError) else f"there is no {error.ref}"
            raise InvalidPluginError(
                f"the options schema of {self.kind} {self.name!r} is no JSON Schema: {problem}"
            ) from error
        return sorted((OptionProblem(tuple(error.absolute_path), error.message) for error in errors), key=str)

    @cached_property
    def _options_validator(self) -> Validator:
        """The validator of the options, made once: a run creates plugins again and again.

        Raises jsonschema's SchemaError.
        """
        from jsonschema import Draft7Validator

        Draft7Validator.check_schema(dict(self.options_schema))
        return Draft7Validator(dict(self.options_schema))

    @cached_property
    def _valid_options(self) -> set[str]:
        """The `repr` of options that passed validation: `True == 1`, but a schema distinguishes them."""
        return set()

    def create(self, options: Mapping[str, Any]) -> Any:
        """Validate `options` and make the plugin's object. Raises PluginOptionsError, InvalidPluginError."""
        text = repr(options)
        if text in self._valid_options:
            return self._made(self.load(), options)
        if problems := self.problems(options):
            raise PluginOptionsError(self.kind, self.name, problems)
        made = self.make(options)
        if len(self._valid_options) >= _MOST_REMEMBERED:
            self._valid_options.clear()
        self._valid_options.add(text)
        return made

    def make(self, options: Mapping[str, Any]) -> Any:
        """Make the plugin's object with `options` that were validated before. Raises InvalidPluginError."""
        factory = self.load()
        if not callable(factory):
            raise InvalidPluginError(
                f"the {self.kind} {self.name!r} cannot be made: {factory!r} is no function or class"
            )
        if problem := _misfit(factory, options):
            raise InvalidPluginError(
                f"the {self.kind} {self.name!r} cannot be made: {problem}",
                "the factory is called with the options as keyword arguments, as its schema allows them",
            )
        return self._made(factory, options)

    def _made(self, factory: Callable[..., Any], options: Mapping[str, Any]) -> Any:
        with self._wrapping("made", passing=Exception):
            return factory(**options)

    def _wrapping(self, what: str, passing: type[BaseException] | tuple[()] = ()) -> AbstractContextManager[None]:
        def failed(error: BaseException) -> InvalidPluginError:
            return InvalidPluginError(f"the {self.kind} {self.name!r} cannot be {what}: {error_text_with_line(error)}")

        return wrapping_errors(failed, passing)


class Registry(Mapping[str, Registration]):
    """All plugins of one kind (`assignor`, `store backend`, ...), by name, sorted."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._by_name: dict[str, Registration] = {}

    def __getitem__(self, name: str) -> Registration:
        """The plugin of this name. Raises UnknownPluginError, with suggestions."""
        try:
            return self._by_name[name]
        except KeyError:
            raise UnknownPluginError(self.kind, name, self._by_name) from None

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._by_name))

    def __len__(self) -> int:
        return len(self._by_name)

    def create(self, name: str, options: Mapping[str, Any] | None = None) -> Any:
        """The object of the plugin `name` with `options`. Raises UnknownPluginError, PluginOptionsError."""
        return self[name].create(options or {})

    def register(
        self,
        name: str,
        factory: Callable[..., Any] | str,
        options_schema: Mapping[str, Any] | None = None,
        description: str = "",
        *,
        requires: Mapping[str, str] | None = None,
        needs_changelog: bool = False,
    ) -> None:
        """The function that hooks get: see `hookspecs.Register`. Raises PluginConflictError."""
        if not isinstance(name, str) or not name:
            raise InvalidPluginError(f"a {self.kind} is registered under {name!r}, which is no name")
        schema = NO_OPTIONS if options_schema is None else options_schema
        if not isinstance(schema, Mapping):
            raise InvalidPluginError(f"the options schema of {self.kind} {name!r} is no JSON Schema: it is {schema!r}")
        registration = Registration(
            self.kind, name, factory, schema, description, dict(requires or {}), needs_changelog
        )
        if name in self._by_name:
            raise PluginConflictError(self.kind, name, (self._by_name[name].origin, registration.origin))
        self._by_name[name] = registration


def is_installed(module: str) -> bool:
    """Whether a module can be found. It is not imported."""
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):  # its package is missing, or blocked from being imported
        return False


def _misfit(factory: Callable[..., Any], options: Mapping[str, Any]) -> str:
    """Why `factory` cannot be called with `options`; empty if it can, or if its signature is unknown."""
    try:
        parameters = signature(factory)
    except (TypeError, ValueError):  # a callable written in C may have no signature
        return ""
    try:
        parameters.bind(**options)
    except TypeError as error:
        return str(error)
    return ""
