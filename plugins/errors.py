"""Errors of plugins: not loadable, unknown, or used wrongly."""

from __future__ import annotations

import importlib
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from opcode import opname
from pathlib import Path
from traceback import extract_tb, walk_tb

import pluggy

from ..errors import HeadwaterError
from ..suggestions import closest

_LOADERS = frozenset(Path(str(file)).parent for file in (__file__, importlib.__file__, pluggy.__file__))
"""Folders of modules that import and call plugins. Their lines are never the location of a plugin's error."""


class PluginError(HeadwaterError):
    """Base class of plugin errors."""


class UnknownPluginError(PluginError):
    """No plugin of this kind has this name. `suggestions`: similar names, best first."""

    def __init__(self, kind: str, name: str, names: Iterable[str]) -> None:
        self.kind = kind
        self.name = name
        known = sorted(names)
        self.suggestions = closest(name, known, most=3)
        guess = f"did you mean {' or '.join(self.suggestions)}? " if self.suggestions else ""
        super().__init__(f"there is no {kind} {name!r}", f"{guess}known: {', '.join(known) or 'none'}")


class PluginConflictError(PluginError):
    """Two plugins of a kind have the same name. `origins`: the two registered factories, as `module:name`."""

    def __init__(self, kind: str, name: str, origins: tuple[str, str]) -> None:
        super().__init__(
            f"the {kind} {name!r} is registered twice: {origins[0]} and {origins[1]}",
            "rename one, or disable a plugin with -p no:<name>",
        )
        self.origins = origins


class PluginImportError(PluginError):
    """A plugin's module cannot be imported, for `reason`.

    The cause is chained. `local`: it is the project's own module.
    """

    def __init__(self, name: str, cause: BaseException, *, local: bool = False) -> None:
        missing = cause.name if isinstance(cause, ModuleNotFoundError) else None
        hint = None
        if missing and f"{name}.".startswith(f"{missing}."):
            hint = "`plugins` in headwater.yml lists modules by dotted name: plugins.mine is plugins/mine.py"
        self.reason = error_text_with_line(cause)
        super().__init__(f"plugin {name} cannot be imported: {self.reason}", hint)
        self.name = name
        self.local = local


class InvalidPluginError(PluginError):
    """A plugin that does not fit the hooks: an unknown hook, an unknown argument of a hook, an invalid schema."""


def is_interrupt_or_out_of_memory(error: BaseException) -> bool:
    """Whether the cause is Ctrl-C or a lack of memory, and not the code that was called.

    Python raises the KeyboardInterrupt of Ctrl-C between any two instructions, or in the signal's handler (a
    SparkContext installs its own). A KeyboardInterrupt from a `raise` statement elsewhere is the called code's own.
    """
    if not isinstance(error, KeyboardInterrupt):
        return isinstance(error, MemoryError)
    frames = list(walk_tb(error.__traceback__))
    handler = getattr(signal.getsignal(signal.SIGINT), "__code__", None)
    if not frames or any(frame.f_code is handler for frame, _ in frames):
        return True
    last = frames[-1][0]
    return opname[last.f_code.co_code[last.f_lasti]] != "RAISE_VARARGS"


@contextmanager
def wrapping_errors(
    wrap: Callable[[BaseException], HeadwaterError],
    passing: type[BaseException] | tuple[type[BaseException], ...] = (),
) -> Iterator[None]:
    """Raise every error of the block, SystemExit too, as the one that `wrap` makes of it, with its cause chained.

    Ctrl-C, lack of memory and errors of the types in `passing` pass unchanged. For calls into plugins: for code that
    runs once a record, a plain `try` is faster.
    """
    try:
        yield
    except BaseException as error:
        if isinstance(error, passing) or is_interrupt_or_out_of_memory(error):
            raise
        raise wrap(error) from error


def error_text(error: BaseException) -> str:
    """The error's type, and its message if it has one."""
    try:
        message = str(error)
    except Exception:  # a plugin's own error class may fail in `__str__`
        message = ""
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def error_text_with_line(error: BaseException) -> str:
    """The same, followed by the plugin's line that raised the error: `ValueError: no (plugins/a.py:3)`."""
    text = error_text(error)
    if isinstance(error, SyntaxError):  # its message has the location
        return text
    own = [frame for frame in extract_tb(error.__traceback__) if _is_own(frame.filename)]
    return f"{text} ({own[-1].filename}:{own[-1].lineno})" if own else text


def _is_own(file: str) -> bool:
    return not file.startswith("<") and Path(file).parent not in _LOADERS


@dataclass(frozen=True)
class OptionProblem:
    """One invalid option. `path`: keys and indexes from the options down to it."""

    path: tuple[str | int, ...]
    message: str

    def __str__(self) -> str:
        return f"{'.'.join(str(key) for key in self.path)}: {self.message}" if self.path else self.message


class PluginOptionsError(PluginError):
    """Options that do not match the plugin's schema."""

    def __init__(self, kind: str, name: str, problems: Sequence[OptionProblem]) -> None:
        super().__init__(f"bad options of {kind} {name}: {'; '.join(str(problem) for problem in problems)}")
