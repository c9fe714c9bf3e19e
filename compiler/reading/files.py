"""The YAML files of a project, and values from environment variables."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from jinja2 import nodes

from ...runtime.environment import LookedUp
from ...unusable_paths import is_outside
from ..diagnostics import Diagnostics, Position, did_you_mean
from .source import SourceFile

# Finds the YAML files of a project and reads them safely.
#
# Files behind symbolic links to outside of the project are rejected, and so are large files, and files that are not
# regular (reading a pipe would never end).

SUFFIXES = (".yml", ".yaml")
"""The suffixes of YAML files, in any case."""

_ALIKE = 0.8
"""The minimal similarity of a file's name to the name of a missing file, for a hint."""
_MAX_BYTES = 2_000_000
_MAX_TOTAL_BYTES = 20_000_000


class ProjectFiles:
    """Finds and reads the files below one root. `sources`: the texts of the files read, by name."""

    def __init__(self, root: Path, diagnostics: Diagnostics) -> None:
        self.sources: dict[str, str] = {}
        self._root = root
        self._diagnostics = diagnostics
        self._left = _MAX_TOTAL_BYTES

    def required(self, stem: str, hint: str) -> SourceFile | None:
        """The file `<stem>.yml` (or `.yaml`) of the root; None, with a diagnostic, if it is missing or unreadable."""
        existing = [stem + suffix for suffix in SUFFIXES if os.path.lexists(self._root / (stem + suffix))]
        if not existing:
            name = f"{stem}.yml"
            hint = did_you_mean(name, beside(self._root / name), _ALIKE) or hint
            self._diagnostics.add("HW001", Position(name), f"There is no {name} in this folder.", hint)
            return None
        if len(existing) > 1:
            message = f"There is also {existing[0]} in this folder."
            self._diagnostics.add("HW007", Position(existing[1]), message, "Remove one.")
        return self.read(existing[0])

    def below(self, folder: str) -> list[SourceFile]:
        """All readable YAML files below a folder of the root, sorted by name. The folder may be missing."""
        names: list[str] = []
        top = self._root / folder
        if not self._stays_inside(top, folder):
            return []
        for directory, folders, files in os.walk(top):
            here = Path(directory)
            # `os.walk` silently skips linked folders, so their files would seem to be missing.
            for linked in [name for name in folders if (here / name).is_symlink()]:
                message = "Folders that are symbolic links are not followed."
                self._diagnostics.add("HW002", Position(self._name(here / linked)), message, "Move the files here.")
            # In place: `os.walk` continues with the folders in this list.
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            names += [self._name(here / name) for name in files if is_yaml(name)]
        return [source for name in sorted(names) if (source := self.read(name)) is not None]

    def read(self, name: str) -> SourceFile | None:
        """The file's text; None, with a diagnostic, if it cannot be read or is not allowed."""
        path = self._root / name
        at = Position(name)
        if not self._stays_inside(path, name):
            return None
        try:
            status = path.stat()
            # Opening a named pipe would wait for its writer.
            if not stat.S_ISREG(status.st_mode):
                self._diagnostics.add("HW006", at, "This is not a regular file.")
                return None
            limit = min(_MAX_BYTES, self._left)
            if status.st_size > limit:
                self._too_large(at, status.st_size)
                return None
            # One byte more than the limit, because the file may have grown since `stat`.
            with path.open("rb") as file:
                content = file.read(limit + 1)
        except OSError as error:
            self._diagnostics.add("HW006", at, f"This file cannot be read: {error.strerror or error}.")
            return None
        if len(content) > limit:
            self._too_large(at, len(content))
            return None
        self._left -= len(content)
        return self._decoded(name, content)

    def _too_large(self, at: Position, size: int) -> None:
        if size > _MAX_BYTES:
            message = f"The file has {size:,} bytes; the maximum is {_MAX_BYTES:,}."
        else:
            message = f"With this file the project's YAML has more than {_MAX_TOTAL_BYTES:,} bytes."
        self._diagnostics.add("HW003", at, message, "Split the file; put data into seeds.")

    def _decoded(self, name: str, content: bytes) -> SourceFile | None:
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            column = error.start - content.rfind(b"\n", 0, error.start)
            hint = "Save the file as UTF-8."
            self._diagnostics.add("HW004", Position(name, line, column), "This is not UTF-8 from here on.", hint)
            return None
        self.sources[name] = text
        return SourceFile(name, text)

    def _stays_inside(self, path: Path, name: str) -> bool:
        if is_outside(self._root, path):
            self._diagnostics.add(
                "HW002", Position(name), "This is outside of the project.", "Copy it into the project."
            )
            return False
        return True

    def _name(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()


def is_yaml(name: str) -> bool:
    """Whether a file with this name is read as YAML. Hidden files are not read, because editors create them."""
    return name.lower().endswith(SUFFIXES) and not name.startswith(".")


def beside(file: Path) -> list[str]:
    """The files of the same folder; empty if it cannot be listed."""
    try:
        return sorted(os.listdir(file.parent))
    except (OSError, ValueError):  # a missing or unreadable folder, or an invalid path
        return []


# Values of a profile from environment variables.
#
# They behave like ordinary strings and numbers. Generated code contains the lookup instead of the value, and reads the
# environment when it runs.

FUNCTION = "env_var"


@dataclass(frozen=True)
class Lookup:
    """`env_var(name)`, or `env_var(name, default)`."""

    name: str
    default: str | None = None


class FromEnvironment(LookedUp):
    """A string of literal parts and lookups. `at`: the `file:line` of the template."""

    parts: tuple[str | Lookup, ...]
    at: str

    def __new__(cls, value: str, parts: Sequence[str | Lookup], at: str) -> Self:
        """Make the string with its parts."""
        text = super().__new__(cls, value)
        text.parts, text.at = tuple(parts), at
        return text

    def __reduce__(self) -> tuple[Any, ...]:
        """Support copies and pickles."""
        return type(self), (str(self), self.parts, self.at)


class NumberFromEnvironment(int):
    """A whole number from one lookup: `env_var('CLIENTS') | int`."""

    lookup: Lookup
    at: str

    def __new__(cls, value: int, lookup: Lookup, at: str) -> Self:
        """Make the number with its lookup."""
        number = super().__new__(cls, value)
        number.lookup, number.at = lookup, at
        return number

    def __reduce__(self) -> tuple[Any, ...]:
        """Support copies and pickles, like FromEnvironment."""
        return type(self), (int(self), self.lookup, self.at)


class DurationFromEnvironment(int):
    """The milliseconds of a duration with lookups in its text."""

    text: FromEnvironment

    def __new__(cls, value: int, text: FromEnvironment) -> Self:
        """Make the number of milliseconds with its text."""
        milliseconds = super().__new__(cls, value)
        milliseconds.text = text
        return milliseconds

    def __reduce__(self) -> tuple[Any, ...]:
        """Support copies and pickles, like FromEnvironment."""
        return type(self), (int(self), self.text)


def comes_from_environment(value: Any) -> bool:
    """Whether a value, or any value in its lists and mappings, comes from the environment."""
    if isinstance(value, FromEnvironment | NumberFromEnvironment | DurationFromEnvironment):
        return True
    if isinstance(value, dict):
        return any(map(comes_from_environment, value.values()))
    return isinstance(value, list | tuple) and any(map(comes_from_environment, value))


def reads_environment(tree: nodes.Node) -> bool:
    """Whether an expression calls `env_var`."""
    return any(isinstance(node, nodes.Name) and node.name == FUNCTION for node in _names(tree))


def lookup(tree: nodes.Node) -> Lookup | None:
    """The lookup, if an expression is just a call of `env_var`; otherwise None."""
    if not isinstance(tree, nodes.Call) or not isinstance(tree.node, nodes.Name) or tree.node.name != FUNCTION:
        return None
    given = [*tree.args, *(keyword.value for keyword in tree.kwargs)]
    texts = [node.value for node in given if isinstance(node, nodes.Const) and isinstance(node.value, str)]
    return Lookup(*texts) if len(texts) == len(given) <= 2 else None


def number(tree: nodes.Node) -> Lookup | None:
    """The lookup, if an expression is `env_var(...) | int`; otherwise None."""
    if isinstance(tree, nodes.Filter) and tree.name == "int" and not tree.args and tree.node is not None:
        return lookup(tree.node)
    return None


def _names(tree: nodes.Node) -> Iterator[nodes.Node]:
    yield tree
    yield from tree.find_all(nodes.Name)
