"""Python functions that the YAML names as `functions.module:name`: whether they are there, and what they are."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...runtime.python_functions.code import FOLDER, PythonCode, PythonFunction
from ...runtime.python_functions.errors import FunctionLoadError
from ...runtime.python_functions.loading import load
from ...unusable_paths import OutsideProjectError, leaves
from ..diagnostics import Diagnostics, Position, did_you_mean
from ..reading.nodes import Scalar

_MOST_BYTES = 500_000
"""Of a module: `parse` must end soon and stay small, whatever a project contains."""
_MOST_LISTED = 12
"""Names of a module in a hint."""


@dataclass(frozen=True)
class FoundFunction:
    """A function or class with the code that it depends on. `loaded`: itself; None where nothing is imported."""

    function: PythonFunction
    loaded: Any = None


@dataclass(frozen=True)
class ProjectFunctions:
    """The functions of the project in the folder `root`. `imports`: whether modules are imported to be checked."""

    root: Path
    imports: bool
    diagnostics: Diagnostics

    def find(self, name: Scalar) -> FoundFunction | None:
        """The function of this name. None if an error was reported: it is not there, or its module fails."""
        if not isinstance(name.value, str):
            return None
        if not name.text.startswith(f"{FOLDER}."):
            message = f"'{name.text}' is not in the folder `{FOLDER}/`, which is what travels to where a flow runs."
            self.diagnostics.add("HW305", name.position, message, f"Move it there: {FOLDER}.{name.text}.")
            return None
        if not is_defined(name, self.root, self.diagnostics):
            return None
        code = code_of(name, self.root, self.diagnostics)
        if code is None:
            return None
        function = PythonFunction(name.text, code)
        if not self.imports:
            return FoundFunction(function)
        try:
            return FoundFunction(function, load(function))
        except FunctionLoadError as error:
            hint = None if error.cause else did_you_mean(name.text.partition(":")[2], error.known)
            place = f" ({error.lines[-1]})" if error.lines else ""
            self.diagnostics.add("HW312", name.position, f"{error.what}{place}.", hint or "Fix it there.")
            return None

    def fits(self, name: Scalar, called: Any, arguments: Sequence[str], what: str) -> bool:
        """Whether something can be called with so many arguments; otherwise reports it.

        `arguments`: their names, for people. `what`: who calls it, such as "`reduce` calls its function".
        """
        if called is None:
            return True
        given = f"{what} with {', '.join(arguments)}" if arguments else f"{what} without arguments"
        if not callable(called):
            message = f"{given}; '{name.text}' is of type {type(called).__name__}."
            self.diagnostics.add("HW530", name.position, message, "Name a function of the module.")
            return False
        try:
            inspect.signature(called).bind(*arguments)
        except ValueError:  # of a built-in, which has no signature
            return True
        except TypeError as error:
            message = f"{given}; '{name.text}' cannot be called so: {error}."
            self.diagnostics.add("HW530", name.position, message, f"Its parameters are {inspect.signature(called)}.")
            return False
        return True


def is_defined(function: Scalar, root: Path, diagnostics: Diagnostics) -> bool:
    """Whether the project's files define a function; otherwise reports it. Nothing is imported."""
    module, _, name = function.text.partition(":")
    place = root.joinpath(*module.split("."))
    file = next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)
    start = function.position_at(0, len(module))
    if file is None:
        diagnostics.add("HW305", start, f"There is no module '{module}'.", f"Add {module.replace('.', '/')}.py.")
        return False
    if leaves(root, file):
        report_outside(file.relative_to(root).as_posix(), start, diagnostics)
        return False
    try:
        with file.open("rb") as source:
            content = source.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise ValueError(f"it has more than {_MOST_BYTES:,} bytes")
        body = ast.parse(content).body
    except (OSError, SyntaxError, ValueError) as error:
        diagnostics.add("HW305", start, f"The module '{module}' cannot be read as Python: {error}.")
        return False
    except (RecursionError, MemoryError):
        diagnostics.add("HW305", start, f"The module '{module}' cannot be read as Python: it is nested too deeply.")
        return False
    defined = set(_defined(body))
    if name not in defined and "*" not in defined:
        position = function.position_at(len(module) + 1, len(function.text))
        message = f"The module '{module}' defines no function or class '{name}'."
        diagnostics.add("HW305", position, message, did_you_mean(name, defined) or _listed(body))
        return False
    return True


def code_of(function: Scalar, root: Path, diagnostics: Diagnostics) -> PythonCode | None:
    """The modules on which a function depends. None if an error was reported: one of them cannot be read."""
    try:
        return PythonCode.of_project(root, [function.text.partition(":")[0]])
    except OutsideProjectError as error:
        report_outside(error.filename, function.position, diagnostics)
    except (OSError, UnicodeDecodeError) as error:
        message = f"'{function.text}', or a module that it imports, cannot be read: {error}."
        diagnostics.add("HW312", function.position, message, "Modules have to be written in UTF-8.")
    return None


def report_outside(file: str, position: Position, diagnostics: Diagnostics) -> None:
    """Report a Python file that a link brings in from elsewhere: it would not be in a copy of the project."""
    diagnostics.add("HW002", position, f"The file '{file}' leads out of the project.", "Copy it into the project.")


def _listed(body: Sequence[ast.stmt]) -> str | None:
    """What a module has that a flow could call, for a hint."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    names = [each.name for each in body if isinstance(each, kinds) and not each.name.startswith("_")]
    return f"It has {', '.join(names)}." if 0 < len(names) <= _MOST_LISTED else None


def _defined(body: Sequence[ast.AST]) -> Iterator[str]:
    """Names that a module's statements may define, also inside `if` and `try`; `*` if an import hides them."""
    left = list(body)
    while left:
        match node := left.pop():
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                yield from (alias.asname or alias.name for alias in names)
            case ast.Lambda():
                pass
            case _:
                left += ast.iter_child_nodes(node)
