"""The Python functions of a project as generated code declares them."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import resolve_name
from pathlib import Path

from ...unusable_paths import OutsideProjectError, is_outside

# The code of a project's `functions/`, as text: so it travels to executors, which share no disk with the driver.

FOLDER = "functions"
"""The package of a project that holds its functions."""


@dataclass(frozen=True)
class PythonCode:
    """Modules of `functions/`: path relative to the project, such as `functions/text.py`, and text, by path."""

    files: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of_project(cls, root: Path, modules: Iterable[str]) -> PythonCode:
        """These modules of the project, and all modules of `functions/` that they import, directly or not.

        A module that is missing or is no Python is left out: whoever loads it will say so. Raises
        OutsideProjectError, OSError, UnicodeDecodeError.
        """
        texts = _Texts(lambda path: _read(root, path))
        return cls(tuple((path, texts[path]) for path in sorted(_reached(modules, texts))))

    @classmethod
    def beside(cls, file: str) -> PythonCode:
        """The modules that `headwater compile` has put beside generated code. Raises OSError."""
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
        """That of the files on which a module depends: it changes with the code that the module's functions run."""
        texts = _Texts(self.texts.get)
        return _digest([(path, self.texts[path]) for path in sorted(_reached([module], texts))])

    def path_of(self, module: str) -> str | None:
        """The file of a module; None if there is none."""
        return next((path for path in _paths(module) if path in self.texts), None)


@dataclass(frozen=True)
class PythonFunction:
    """A function or class that the YAML names: `functions.module:name`, and the code that has it."""

    name: str
    code: PythonCode = field(default_factory=PythonCode, repr=False)

    @property
    def module(self) -> str:
        """Its module, such as `functions.text`."""
        return self.name.partition(":")[0]

    @property
    def digest(self) -> str:
        """That of all the code that it runs, without installed packages."""
        return self.code.digest_of(self.module)


class _Texts:
    """The texts of files, each read once; None for those that are not there."""

    def __init__(self, read: Callable[[str], str | None]) -> None:
        self._read = read
        self._known: dict[str, str | None] = {}

    def find(self, module: str) -> str | None:
        """The path of a module that is there."""
        return next((path for path in _paths(module) if self._text(path) is not None), None)

    def __getitem__(self, path: str) -> str:
        return self._text(path) or ""

    def _text(self, path: str) -> str | None:
        if path not in self._known:
            self._known[path] = self._read(path)
        return self._known[path]


def _paths(module: str) -> tuple[str, str]:
    base = module.replace(".", "/")
    return f"{base}.py", f"{base}/__init__.py"


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


def _reached(modules: Iterable[str], texts: _Texts) -> set[str]:
    """The files of these modules, of the packages that they are in, and of all that they import."""
    found: set[str] = set()
    left = list(modules)
    while left:
        module = left.pop()
        if "." in module:
            left.append(module.rpartition(".")[0])
        path = texts.find(module)
        if path is not None and path not in found:
            found.add(path)
            package = module if path.endswith("/__init__.py") else module.rpartition(".")[0]
            left += (each for each in _imported(texts[path], package) if _is_own(each))
    return found


def _is_own(module: str) -> bool:
    return module == FOLDER or module.startswith(f"{FOLDER}.")


def _imported(text: str, package: str) -> Iterator[str]:
    """The modules that a module may import, anywhere in its text; nothing for what is no Python."""
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            try:
                module = resolve_name("." * node.level + (node.module or ""), package)
            except ImportError:  # beyond the project: the import will fail, and say so
                continue
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


# Python functions that expressions call, as `functions:` of headwater.yml declares them.


@dataclass(frozen=True)
class Udf:
    """A function by the name that expressions call. `arguments`, `returns`: types of Spark SQL, the former by name.

    `arrow`: it is given an array of Arrow for each argument, with the rows of many calls, and returns one.
    """

    name: str
    function: PythonFunction
    arguments: Mapping[str, str]
    returns: str
    arrow: bool = False

    @property
    def signature(self) -> str:
        """`slug(title string) string`, for people."""
        taken = ", ".join(f"{name} {type_}" for name, type_ in self.arguments.items())
        return f"{self.name}({taken}) {self.returns}"
