"""The Python functions of a project, as generated code declares them."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import resolve_name
from pathlib import Path

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
        texts = _Texts(lambda path: _read(root, path))
        return cls(tuple((path, texts[path]) for path in sorted(_reached(modules, texts))))

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
        texts = _Texts(self.texts.get)
        return _digest([(path, self.texts[path]) for path in sorted(_reached([module], texts))])

    def path_of(self, module: str) -> str | None:
        """The path of a module. None if it does not exist."""
        return next((path for path in _paths(module) if path in self.texts), None)


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


class _Texts:
    """The texts of files by path. A file is read once. A missing file has an empty text."""

    def __init__(self, read: Callable[[str], str | None]) -> None:
        self._read = read
        self._known: dict[str, str | None] = {}

    def find(self, module: str) -> str | None:
        """The path of a module. None if it does not exist."""
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
    """The paths of these modules, of their packages, and of all modules that they import, within `functions/`."""
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
    """The modules that a module may import, anywhere in its text. Empty for text that is not valid Python."""
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
            except ImportError:  # outside the project: the import itself will raise an error
                continue
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


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
