"""What a project's Python raises, as people should read it: the error, and the lines of the project that led to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from traceback import walk_tb
from typing import TYPE_CHECKING, Any

from ...errors import HeadwaterError
from ...plugins.errors import error_text, is_interrupt_or_out_of_memory
from ..ir.functions import PythonFunction

if TYPE_CHECKING:
    from .results import UnfitValueError

_MOST_LINES = 8
"""The most lines of a traceback that are shown; of a deep one the last."""


class ProcessExitError(BaseException):
    """A function was about to end its process, by `os._exit` or by running another program in it.

    No `Exception`, so that functions do not catch it by chance.
    """

    def __init__(self, name: str, arguments: Sequence[object]) -> None:
        given = ", ".join(map(repr, arguments))
        super().__init__(f"os.{name}({given:.100}) would end the whole process: raise an error instead")


class FunctionError(HeadwaterError):
    """The base class of errors of a project's functions. `function`: its name."""

    def __init__(self, function: str, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.function = function


class FunctionRaisedError(FunctionError):
    """A function has raised an error. `lines`: its traceback, as far as it is in `functions/`, the last call last."""

    def __init__(self, function: PythonFunction, cause: BaseException, what: str = "") -> None:
        self.lines = tuple(_lines(cause, function.code.texts))
        shown = "".join(f"\n  {line}" for line in self.lines)
        super().__init__(
            function.name, f"{function.name}{f' ({what})' if what else ''} raised {error_text(cause)}{shown}"
        )
        self.cause = cause


class FunctionResultError(FunctionError):
    """A function has returned what its step cannot take."""


class FunctionInputError(FunctionError):
    """A row holds what Python does not have, so a function cannot be given it."""

    def __init__(self, function: str, cause: str) -> None:
        super().__init__(function, f"{function} cannot be given the row: {cause}")
        self.cause = cause


class FunctionLoadError(FunctionError):
    """A module cannot be imported, or lacks the name. `what`: the error without the lines.

    `lines`: as of a FunctionRaisedError; `known`: the module's names.
    """

    def __init__(self, function: PythonFunction, cause: BaseException | None, known: tuple[str, ...] = ()) -> None:
        self.lines = tuple(_lines(cause, function.code.texts)) if cause is not None else ()
        self.known = known
        shown = "".join(f"\n  {line}" for line in self.lines)
        name = function.name.partition(":")[2]
        # A SyntaxError's own text has the name of the file without its folder.
        what = f"SyntaxError: {cause.msg}" if isinstance(cause, SyntaxError) else error_text(cause) if cause else ""
        said = f"cannot be loaded: {what}" if cause else f"is not there: its module has no {name!r}"
        super().__init__(function.name, f"{function.name} {said}{shown}")
        self.what = f"{function.name} {said}"
        self.cause = cause


def shown(value: Any) -> str:
    """A value as an error shows it."""
    try:
        return f"{value!r:.200}"
    except BaseException as error:  # of a `__repr__` of the project
        if is_interrupt_or_out_of_memory(error):
            raise
        return f"a {type(value).__name__}"


def unfit(value: Any, error: BaseException, name: str = "") -> UnfitValueError:
    """What to raise where a value of the project raises an error as it is read. `name`: of its column.

    Raises the error itself if it is of the machine.
    """
    if is_interrupt_or_out_of_memory(error):
        raise error
    from .results import UnfitValueError  # imported only here: `parse` loads no Arrow

    return UnfitValueError(f"{f'{name}: ' if name else ''}{shown(value)} cannot be read: {error_text(error)}")


def _lines(error: BaseException, texts: Mapping[str, str]) -> Iterator[str]:
    """`functions/text.py:12, in slug: return ...` of each call in the project's files."""
    places: list[tuple[str, int, str]] = [
        (frame.f_code.co_filename, line, frame.f_code.co_name)
        for frame, line in walk_tb(error.__traceback__)
        if frame.f_code.co_filename in texts
    ]
    if isinstance(error, SyntaxError) and error.filename is not None and error.filename in texts:
        places.append((error.filename, error.lineno or 1, ""))
    for path, line, name in places[-_MOST_LINES:]:
        lines = texts[path].splitlines()
        text = lines[line - 1].strip() if 0 < line <= len(lines) else ""
        yield f"{path}:{line}{f', in {name}' if name and name != '<module>' else ''}{f': {text}' if text else ''}"
