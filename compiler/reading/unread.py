"""Warnings of unread files, variables and environment variables.

A file counts as read if its name, or its folder's name, is in a file of the project that may open it, because a
function may build the path when it runs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from ...runtime.environment import OWN_VARIABLES, PREFIX
from ...suggestions import closest, guess
from ...unusable_paths import is_outside
from ..diagnostics import Diagnostics, Position, did_you_mean
from .files import SUFFIXES, ProjectFiles, is_yaml
from .source import MappingNode

_FOLDERS = {
    "topics": "Give it a name that ends in .yml, or move it elsewhere.",
    "topologies": "Give it a name that ends in .yml, or move it elsewhere.",
    "tests": "Tests are in files that end in .yml; name it as the `file` of a test, or move it elsewhere.",
    "seeds": "Name it as the `seed` of a topic, or move it elsewhere.",
    "functions": "Use one of its functions, import it in a module that is used, or move it elsewhere.",
}
"""The folders of a project, with hints for unread files in them."""

_ROOT_FILES = ("headwater.yml", "profiles.yml", "topics.yml", "topologies.yml", "tests.yml")
_READ = tuple(f"{stem}{suffix}" for stem in ("headwater", "profiles") for suffix in SUFFIXES)
_YAML_FOLDERS = ("topics", "topologies", "tests")
_ALIKE, _ALIKE_FOLDER = 0.8, 0.75
"""The minimal similarity of a name to one that is read, for a warning. Other files may be for other tools."""

_NOTES = re.compile(r"(readme|license|changelog|notice)\b|.*\.(md|rst|adoc)$|.*~$|thumbs\.db$", re.IGNORECASE)
"""Documents, and files left behind by editors and desktops."""

_MAX_FILES = 2_000
"""The maximal number of checked files of a folder, which limits the time of `parse`."""
_MAX_BYTES = 500_000
"""The maximal number of bytes searched in a Python file."""

_QUOTE = r"""(?:\\?"|''|')"""
_VARIABLE = re.compile(rf"""\bvar\s*\(\s*(?:{_QUOTE}([^"'\\]+){_QUOTE}\s*[,)])?""")
"""A call of `var` in a file, with any quotes, also within quotes of YAML; "" for an argument that is not a literal."""


class Unread:
    """Reports unread parts of a project. `files`: the files read. `paths`: of its seeds, as written."""

    def __init__(self, root: Path, files: ProjectFiles, paths: Collection[str], diagnostics: Diagnostics) -> None:
        self._root = root
        self._diagnostics = diagnostics
        tests = ProjectFiles(root, Diagnostics())  # their errors are reported by `headwater test`
        tests.below("tests")
        self._yaml = {**files.sources, **tests.sources}
        self._read = {self._resolved(name) for name in (*self._yaml, *paths)}

    def report_files(self) -> None:
        """Report unread files in the project's folders, and files beside them with similar names."""
        for folder in _FOLDERS:
            # The file may be named in a part with an error, such as a misspelt key.
            hidden = folder not in _YAML_FOLDERS and self._diagnostics.has_errors
            hidden |= folder == "seeds" and not all(map(os.path.exists, self._read))
            if not hidden and not is_outside(self._root, self._root / folder):
                self._report_in(folder)
        self._report_beside()

    def report_variables(self, declared: MappingNode | None, given: Collection[str]) -> None:
        """Report variables of headwater.yml and of the command line (`given`) that no file uses.

        Uses in parts that are not rendered count, too.
        """
        used = {name for text in self._yaml.values() for name in _VARIABLE.findall(text)}
        if "" in used:  # a name computed when it is rendered
            return
        names = set(declared or ())
        # The variable may be used in a part with an error, such as a misspelt name.
        for name in declared if declared is not None and not self._diagnostics.has_errors else ():
            if name not in used and declared is not None:
                hint = did_you_mean(name, sorted(used - names)) or "Remove it, or use it: {{ var('name') }}."
                self._unused(name, declared.key_position(name), hint)
        for name in given:
            if name not in names | used:
                hint = did_you_mean(name, sorted(names | used)) or "Remove it, or use it: {{ var('name') }}."
                self._unused(name, Position.option("--vars"), hint)

    def report_environment(self, environment: Collection[str]) -> None:
        """Report environment variables with Headwater's prefix that it does not read."""
        for name in sorted(environment):
            if name.startswith(PREFIX) and name not in OWN_VARIABLES and not any(name in text for text in self._texts):
                option = name.removeprefix(PREFIX).lower().replace("_", "-")
                instead = f"use the option --{option}." if option in ("profile", "target", "vars", "select") else None
                hint = instead or guess(name, OWN_VARIABLES, f"there are {' and '.join(OWN_VARIABLES)}.", _ALIKE)
                message = f"Nothing reads the environment variable {name}."
                self._diagnostics.add("HW038", Position.option(name), message, f"{hint[0].upper()}{hint[1:]}")

    def _unused(self, name: str, at: Position, hint: str) -> None:
        self._diagnostics.add("HW035", at, f"No file of the project uses the variable '{name}'.", hint)

    def _report_in(self, folder: str) -> None:
        """Report unread files of a folder and of folders below it, once per folder."""
        unread: dict[str, list[str]] = {}
        for name in self._below(folder):
            if self._resolved(name) not in self._read and not self._is_named(folder, name):
                unread.setdefault(name.rpartition("/")[0], []).append(name.rpartition("/")[2])
        for parent, (first, *more) in unread.items():
            others = f", and none of {len(more)} more in {parent}, such as {more[0]}" if len(more) > 1 else ""
            others = f", nor {more[0]} beside it" if len(more) == 1 else others
            self._diagnostics.add(
                "HW037", Position(f"{parent}/{first}"), f"Nothing reads this file{others}.", _FOLDERS[folder]
            )

    def _below(self, folder: str) -> Iterator[str]:
        """The names of files in a folder and below it, without hidden files and documents."""
        left = _MAX_FILES
        for directory, folders, files in os.walk(self._root / folder):
            folders[:] = sorted(name for name in folders if not name.startswith((".", "__pycache__")))
            here = Path(directory).relative_to(self._root).as_posix()
            for name in sorted(files):
                left -= 1
                if left < 0:
                    return
                if not name.startswith((".", "#")) and not _NOTES.match(name):
                    yield f"{here}/{name}"

    def _is_named(self, folder: str, name: str) -> bool:
        """Whether a file of the project may name a file. Topics and topologies are always read as YAML."""
        parent, _, file = name.rpartition("/")
        stem, suffix = os.path.splitext(file)
        if file == "__init__.py" or (folder in _YAML_FOLDERS and is_yaml(file)):  # read, or reported
            return True
        if folder in ("topics", "topologies"):
            return False
        if suffix == ".py":
            # Any module may import it. Modules of `tests` may be for pytest.
            word = re.compile(rf"\b{re.escape(stem)}\b")
            others = (*self._yaml.values(), *(text for module, text in self._python.items() if module != name))
            return folder == "tests" or any(map(word.search, others))
        if any(file in text for text in self._yaml.values()):
            return True
        parent_name = parent.rpartition("/")[2]
        return any(file in text or parent_name in text for text in self._python.values())

    def _report_beside(self) -> None:
        """Report files and folders beside headwater.yml with nearly the name of one that is read."""
        for name in sorted(os.listdir(self._root) if self._root.is_dir() else ()):
            path = self._root / name
            if name in (*_FOLDERS, *_READ) or name.startswith(".") or _NOTES.match(name):
                continue
            if path.is_dir():
                close = closest(name, _YAML_FOLDERS, likeness=_ALIKE_FOLDER)
                hint = f"Did you mean '{close[0]}'?" if close and self._holds_yaml(path) else None
            else:
                is_copy = name.lower().startswith(tuple(f"{file}." for file in _ROOT_FILES))
                close = () if is_copy else closest(name, _ROOT_FILES, likeness=_ALIKE)
                folder = close[0].rpartition(".")[0] if close else ""
                if folder in _FOLDERS:
                    hint = f"Move it into the folder '{folder}'."
                else:  # a missing required file was reported, with a hint at this name
                    exists = close and any(f"{folder}{suffix}" in self._yaml for suffix in SUFFIXES)
                    hint = f"Did you mean '{close[0]}'?" if exists else None
            if hint is not None:
                what = "this folder" if path.is_dir() else "this file"
                self._diagnostics.add("HW037", Position(name), f"Nothing reads {what}.", hint)

    def _holds_yaml(self, folder: Path) -> bool:
        """Whether a folder has YAML files, and no file of the project names it."""
        if any(re.search(rf"\b{re.escape(folder.name)}[./]", text) for text in self._texts):
            return False
        return any(is_yaml(path.name) for path in folder.iterdir())

    @cached_property
    def _python(self) -> dict[str, str]:
        """The texts of the project's Python files: beside headwater.yml, in functions, tests and plugins."""
        names = [path.name for path in self._root.glob("*.py")]
        for folder in ("functions", "tests", "plugins"):
            names += [name for name in self._below(folder) if name.endswith(".py")]
        texts = {}
        for name in names:
            path = self._root / name
            if path.is_file() and not is_outside(self._root, path):
                with suppress(OSError), path.open("rb") as file:
                    texts[name] = file.read(_MAX_BYTES).decode("utf-8", "replace")
        return texts

    @property
    def _texts(self) -> tuple[str, ...]:
        return (*self._yaml.values(), *self._python.values())

    def _resolved(self, name: str) -> str:
        return os.path.realpath(self._root / name)
