"""Imports a project's functions from their text, in the driver, in executors and in the compiler.

Each version of the code has modules of its own, whose names say which version it is: `functions_3f2a….text`. So two
projects, or two versions of one, can be in the same process, as Spark uses its Python workers again. In these modules
`functions` means their own version, in import statements wherever they are.
"""

from __future__ import annotations

import builtins
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from importlib.util import resolve_name
from threading import RLock
from types import FrameType, ModuleType
from typing import Any, NoReturn

from ...plugins.errors import is_interrupt_or_out_of_memory
from ..ir.functions import FOLDER, PythonCode, PythonFunction
from .errors import FunctionLoadError, ProcessExitError

_OF_A_VERSION = re.compile(rf"{FOLDER}_[0-9a-f]{{16}}(\.|$)")
_LOADING = RLock()
"""Held while modules are made, as threads of a run may need the same ones."""

_ENDING = ("_exit", "execv", "execve")
"""The functions of `os` that end a process at once; all others that do so call one of these."""


def load(function: PythonFunction) -> Any:
    """The function or class. Each version of the code is run once in a process. Raises FunctionLoadError."""
    name = function.name.partition(":")[2]
    try:
        module = _Version(function.code).module(function.module)
    except BaseException as error:  # also what ends a program: a module may call `sys.exit`
        if isinstance(error, KeyboardInterrupt) and is_interrupt_or_out_of_memory(error):
            raise
        raise FunctionLoadError(function, error) from error
    try:
        return getattr(module, name)
    except AttributeError:
        known = tuple(each for each in vars(module) if not each.startswith("_"))
        raise FunctionLoadError(function, None, known) from None


def is_of_a_version(module: str) -> bool:
    """Whether a module has one of the names under which `load` keeps those of a version."""
    return _OF_A_VERSION.match(module) is not None


class _Version:
    """The modules of one version of the code, which are kept in `sys.modules`."""

    def __init__(self, code: PythonCode) -> None:
        self._code = code
        self._root = f"{FOLDER}_{code.digest[:16]}"

    def module(self, name: str) -> ModuleType:
        """A module by the name that the project has for it; imported if it is not there yet."""
        own = self._root + name.removeprefix(FOLDER)
        with _LOADING:
            found = sys.modules.get(own)
            return found if found is not None else self._made(name, own)

    def _made(self, name: str, own: str) -> ModuleType:
        parent, _, last = name.rpartition(".")
        above = self.module(parent) if parent else None
        path = self._code.path_of(name)
        if path is None and name != FOLDER and not self._is_package(name):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        module = ModuleType(own)
        is_package = path is None or path.endswith("/__init__.py")
        module.__package__ = own if is_package else own.rpartition(".")[0]
        if is_package:
            module.__path__ = []
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": self._import}
        sys.modules[own] = module
        try:
            if path is not None:
                self._run(module, path)
        except BaseException:
            del sys.modules[own]
            raise
        if above is not None:
            setattr(above, last, module)
        return module

    def _run(self, module: ModuleType, path: str) -> None:
        _refuse_ends_of_process()
        text = self._code.texts[path]
        module.__file__ = path
        exec(compile(text, path, "exec", dont_inherit=True), module.__dict__)

    def _is_package(self, name: str) -> bool:
        folder = f"{name.replace('.', '/')}/"
        return any(path.startswith(folder) for path in self._code.texts)

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 - the words of `__import__`
        locals: Mapping[str, Any] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        """`__import__` of the project's modules."""
        package = (globals or {}).get("__package__") or ""
        absolute = resolve_name("." * level + name, package) if level else name
        root, _, rest = absolute.partition(".")
        if root not in (FOLDER, self._root):
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        module = self.module(f"{FOLDER}.{rest}" if rest else FOLDER)
        if not fromlist:
            return self.module(FOLDER)
        wanted = getattr(module, "__all__", ()) if "*" in fromlist else fromlist
        for each in wanted:
            below = f"{FOLDER}.{rest}.{each}" if rest else f"{FOLDER}.{each}"
            if not hasattr(module, each) and (self._code.path_of(below) or self._is_package(below)):
                self.module(below)
        return module


def _refuse_ends_of_process() -> None:
    """Have `os._exit` and its like raise ProcessExitError where a project's functions call them.

    Such a call would end a run, or tests, without a word and with any exit code. Other code may end this process, and
    anybody a process that was forked from it.
    """
    for name in _ENDING:
        call = getattr(os, name, None)
        if call is not None and not hasattr(call, "refused_in"):
            setattr(os, name, _refused(name, call))


def _refused(name: str, call: Callable[..., NoReturn]) -> Callable[..., NoReturn]:
    own = os.getpid()

    @wraps(call)
    def ending(*arguments: Any, **named: Any) -> NoReturn:
        if os.getpid() == own and _called_by_functions(sys._getframe(1)):
            raise ProcessExitError(name, arguments)
        call(*arguments, **named)

    vars(ending)["refused_in"] = own
    return ending


def _called_by_functions(frame: FrameType | None) -> bool:
    """Whether a function of a project is among the callers."""
    while frame is not None:
        if is_of_a_version(str(frame.f_globals.get("__name__"))):
            return True
        frame = frame.f_back
    return False
