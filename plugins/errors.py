"""The errors of plugins: one that cannot be loaded, is unknown, or is used wrongly."""

from __future__ import annotations

import importlib
import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from opcode import opname
from pathlib import Path
from traceback import extract_tb, walk_tb

import pluggy

from ..errors import HeadwaterError
from ..suggestions import closest

_LOADING = frozenset(Path(str(file)).parent for file in (__file__, importlib.__file__, pluggy.__file__))
"""Modules whose lines are no place in a plugin: they import or call it."""


class PluginError(HeadwaterError):
    """The base class of errors of plugins."""


class UnknownPluginError(PluginError):
    """No plugin of this kind has this name. `suggestions`: known names that look like it, best first."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind = kind
        self.name = name
        self.known = tuple(sorted(known))
        self.suggestions = closest(name, self.known, most=3)
        guess = f"did you mean {' or '.join(self.suggestions)}? " if self.suggestions else ""
        super().__init__(f"there is no {kind} {name!r}", f"{guess}known: {', '.join(self.known) or 'none'}")


class PluginConflictError(PluginError):
    """Two plugins of a kind have the same name. `origins`: the two functions that register it."""

    def __init__(self, kind: str, name: str, origins: tuple[str, str]) -> None:
        super().__init__(
            f"the {kind} {name!r} is registered twice: {origins[0]} and {origins[1]}",
            "rename one, or leave a plugin out with -p no:<name>",
        )
        self.kind = kind
        self.name = name
        self.origins = origins


class PluginImportError(PluginError):
    """A plugin's module cannot be imported, for a `reason`. The cause is chained. `local`: it is the project's own."""

    def __init__(self, name: str, cause: BaseException, *, local: bool = False) -> None:
        missing = cause.name if isinstance(cause, ModuleNotFoundError) else None
        hint = None
        if missing and f"{name}.".startswith(f"{missing}."):
            hint = "`plugins` in headwater.yml has modules by dotted name: plugins.mine is plugins/mine.py"
        self.reason = told(cause)
        super().__init__(f"plugin {name} cannot be imported: {self.reason}", hint)
        self.name = name
        self.local = local


class InvalidPluginError(PluginError):
    """A plugin that does not fit the hooks: an unknown hook, an unknown argument of one, an invalid schema."""


def is_of_the_machine(error: BaseException) -> bool:
    """Whether what ends a call is no error of the code that was called: want of memory, or Ctrl-C.

    Python raises Ctrl-C between any two instructions, or in the signal's handler, as with a SparkContext, which sets
    its own. A KeyboardInterrupt of another `raise` statement is the code's own.
    """
    if not isinstance(error, KeyboardInterrupt):
        return isinstance(error, MemoryError)
    frames = list(walk_tb(error.__traceback__))
    handler = getattr(signal.getsignal(signal.SIGINT), "__code__", None)
    if not frames or any(frame.f_code is handler for frame, _ in frames):
        return True
    last = frames[-1][0]
    return opname[last.f_code.co_code[last.f_lasti]] != "RAISE_VARARGS"


def named(error: BaseException) -> str:
    """An error's type, and its message if it has one."""
    try:
        message = str(error)
    except Exception:  # a plugin's own error class may fail in `__str__`
        message = ""
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def told(error: BaseException) -> str:
    """An error of a plugin's own code in one line: its message, and the line of the plugin that raised it."""
    what = named(error)
    if isinstance(error, SyntaxError):  # says where itself
        return what
    own = [frame for frame in extract_tb(error.__traceback__) if _is_own(frame.filename)]
    return f"{what} ({own[-1].filename}:{own[-1].lineno})" if own else what


def _is_own(file: str) -> bool:
    return not file.startswith("<") and Path(file).parent not in _LOADING


@dataclass(frozen=True)
class OptionProblem:
    """What is wrong with one option. `path`: keys and indexes from the options down to it."""

    path: tuple[str | int, ...]
    message: str

    def __str__(self) -> str:
        return f"{'.'.join(str(step) for step in self.path)}: {self.message}" if self.path else self.message


class PluginOptionsError(PluginError):
    """Options that a plugin's schema refuses."""

    def __init__(self, kind: str, name: str, problems: Sequence[OptionProblem]) -> None:
        super().__init__(f"bad options of {kind} {name}: {'; '.join(str(problem) for problem in problems)}")
        self.kind = kind
        self.name = name
        self.problems = tuple(problems)
