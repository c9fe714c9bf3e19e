"""Imports a project's functions from their text, in the driver, in executors and in the compiler.

A version of the code has its own modules, with the version in their names: `functions_3f2a….text`. So one process can
run two projects, or two versions of a project; Spark reuses its Python workers. In these modules, import statements
anywhere resolve `functions` to the same version.
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

_VERSIONED_NAME = re.compile(rf"{FOLDER}_[0-9a-f]{{16}}(\.|$)")
_LOADING = RLock()
"""Locked while modules are imported: threads of a run may need the same ones."""

_EXIT_FUNCTIONS = ("_exit", "execv", "execve")
"""The functions of `os` that end a process at once. All others that do so call one of these."""


def load(function: PythonFunction) -> Any:
    """The function or class. A version of the code is run once in a process. Raises FunctionLoadError."""
    name = function.name.partition(":")[2]
    try:
        module = _Version(function.code).module(function.module)
    except BaseException as error:  # SystemExit too: a module may call `sys.exit`
        if isinstance(error, KeyboardInterrupt) and is_interrupt_or_out_of_memory(error):
            raise
        raise FunctionLoadError(function, error) from error
    try:
        return getattr(module, name)
    except AttributeError:
        known = tuple(attribute for attribute in vars(module) if not attribute.startswith("_"))
        raise FunctionLoadError(function, None, known) from None


def is_versioned(module: str) -> bool:
    """Whether `load` has imported a module of this name."""
    return _VERSIONED_NAME.match(module) is not None


class _Version:
    """The modules of one version of the code, kept in `sys.modules`."""

    def __init__(self, code: PythonCode) -> None:
        self._code = code
        self._root = f"{FOLDER}_{code.digest[:16]}"

    def module(self, name: str) -> ModuleType:
        """A module by its name in the project; imported on first use."""
        own = self._root + name.removeprefix(FOLDER)
        with _LOADING:
            module = sys.modules.get(own)
            return module if module is not None else self._import_module(name, own)

    def _import_module(self, name: str, own: str) -> ModuleType:
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
        _guard_exit_functions()
        text = self._code.texts[path]
        module.__file__ = path
        exec(compile(text, path, "exec", dont_inherit=True), module.__dict__)

    def _is_package(self, name: str) -> bool:
        folder = f"{name.replace('.', '/')}/"
        return any(path.startswith(folder) for path in self._code.texts)

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 - the names of `__import__`
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
        for name_ in wanted:
            below = f"{FOLDER}.{rest}.{name_}" if rest else f"{FOLDER}.{name_}"
            if not hasattr(module, name_) and (self._code.path_of(below) or self._is_package(below)):
                self.module(below)
        return module


def _guard_exit_functions() -> None:
    """Make `os._exit` and similar functions raise ProcessExitError if a project's functions call them.

    Such a call would end a run, or tests, without a message and with any exit code. Other code may end this process,
    and any code may end a forked process.
    """
    for name in _EXIT_FUNCTIONS:
        call = getattr(os, name, None)
        if call is not None and not hasattr(call, "guarded_in"):
            setattr(os, name, _guarded(name, call))


def _guarded(name: str, call: Callable[..., NoReturn]) -> Callable[..., NoReturn]:
    own = os.getpid()

    @wraps(call)
    def ending(*arguments: Any, **keywords: Any) -> NoReturn:
        if os.getpid() == own and _called_by_functions(sys._getframe(1)):
            raise ProcessExitError(name, arguments)
        call(*arguments, **keywords)

    vars(ending)["guarded_in"] = own
    return ending


def _called_by_functions(frame: FrameType | None) -> bool:
    """Whether a function of a project is among the callers."""
    while frame is not None:
        if is_versioned(str(frame.f_globals.get("__name__"))):
            return True
        frame = frame.f_back
    return False
