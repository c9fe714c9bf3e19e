"""The Python functions of a project, as generated code declares them."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from importlib.util import resolve_name
from pathlib import Path
from threading import Lock

from ...unusable_paths import OutsideProjectError, is_outside

# The code of a project's `functions/`, as text. It is sent to executors as text, because they share no disk with the
# driver.

FOLDER = "functions"
"""The package of a project with its functions."""


@dataclass(frozen=True)
class PythonCode:
    """Modules of `functions/`: pairs of a path relative to the project, such as `functions/text.py`, and a text."""

    files: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of_project(cls, root: Path, modules: Iterable[str]) -> PythonCode:
        """These modules of the project, and all modules of `functions/` that they import, directly or indirectly.

        Missing modules are omitted; loading them raises an error later. Raises OutsideProjectError, OSError,
        UnicodeDecodeError.
        """
        read = cache(partial(_read, root))
        return cls(tuple((path, read(path) or "") for path in sorted(_reached(modules, read))))

    @classmethod
    def beside(cls, file: str) -> PythonCode:
        """The modules that `headwater compile` wrote to the directory of generated code. Raises OSError."""
        folder = Path(file).parent
        paths = sorted(path.relative_to(folder).as_posix() for path in folder.joinpath(FOLDER).rglob("*.py"))
        return cls(tuple((path, folder.joinpath(path).read_text("utf-8")) for path in paths))

    @cached_property
    def texts(self) -> Mapping[str, str]:
        """The text of each file."""
        return dict(self.files)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all files, in hexadecimal."""
        return _digest(self.files)

    def digest_of(self, module: str) -> str:
        """The digest of the files on which a module depends. It changes with the code that its functions run."""
        return _digest([(path, self.texts[path]) for path in sorted(_reached([module], self.texts.get))])

    def path_of(self, module: str) -> str | None:
        """The path of a module. None if it does not exist."""
        return _path_of(module, self.texts.get)


@dataclass(frozen=True)
class PythonFunction:
    """A function or class in the YAML, `functions.module:name`, and the code that contains it."""

    name: str
    code: PythonCode = field(default_factory=PythonCode, repr=False)

    @property
    def module(self) -> str:
        """Its module, such as `functions.text`."""
        return self.name.partition(":")[0]

    @property
    def digest(self) -> str:
        """The digest of all its code, without installed packages."""
        return self.code.digest_of(self.module)


Read = Callable[[str], str | None]
"""The text of a file by its path. None if it does not exist."""


def _path_of(module: str, read: Read) -> str | None:
    base = module.replace(".", "/")
    return next((path for path in (f"{base}.py", f"{base}/__init__.py") if read(path) is not None), None)


def _read(root: Path, path: str) -> str | None:
    file = root / path
    if not file.is_file():
        return None
    if is_outside(root, file):
        raise OutsideProjectError(path)
    return file.read_text("utf-8")


def _digest(files: Iterable[tuple[str, str]]) -> str:
    digest = hashlib.sha256()
    for path, text in files:
        digest.update(f"{path}\0{len(text)}\0{text}".encode())
    return digest.hexdigest()


def _reached(modules: Iterable[str], read: Read) -> set[str]:
    """The paths of these modules, of their packages, and of all modules that they import, within `functions/`."""
    found: set[str] = set()
    left = list(modules)
    while left:
        module = left.pop()
        if "." in module:
            left.append(module.rpartition(".")[0])
        path = _path_of(module, read)
        if path is not None and path not in found:
            found.add(path)
            package = module if path.endswith("/__init__.py") else module.rpartition(".")[0]
            left += (each for each in _imported(read(path) or "", package) if _is_own(each))
    return found


def _is_own(module: str) -> bool:
    return module == FOLDER or module.startswith(f"{FOLDER}.")


# Before Python 3.11.8 and 3.12.2, parsers in two threads disturb each other: "SystemError: AST constructor recursion
# depth mismatch", python/cpython#106905.
_PARSER = Lock()


def _imported(text: str, package: str) -> Iterator[str]:
    """The modules that a module may import, anywhere in its text. Empty for text that is not valid Python."""
    try:
        with _PARSER:
            module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            try:
                source = resolve_name("." * node.level + (node.module or ""), package)
            except ImportError:  # outside the project: the import itself will raise an error
                continue
            yield source
            yield from (f"{source}.{alias.name}" for alias in node.names)


# Python functions for expressions, from the section `functions:` of headwater.yml.


@dataclass(frozen=True)
class Udf:
    """A function with its name in expressions. `arguments`: name -> Spark SQL type. `returns`: a Spark SQL type.

    `arrow`: whether it takes an Arrow array for each argument, with the rows of many calls, and returns an array.
    """

    name: str
    function: PythonFunction
    arguments: Mapping[str, str]
    returns: str
    arrow: bool = False

    @property
    def signature(self) -> str:
        """The signature as text for users, such as `slug(title string) string`."""
        taken = ", ".join(f"{name} {type_}" for name, type_ in self.arguments.items())
        return f"{self.name}({taken}) {self.returns}"
