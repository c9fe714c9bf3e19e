"""Errors of a project's Python code, as users read them: the error, and the project's lines that led to it."""

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
"""The most lines of a traceback that are shown: the last ones."""


class ProcessExitError(BaseException):
    """A function tried to end its process, with `os._exit` or by running another program in its place.

    It is no `Exception`, so that functions do not catch it by chance.
    """

    def __init__(self, name: str, arguments: Sequence[object]) -> None:
        given = ", ".join(map(repr, arguments))
        super().__init__(f"os.{name}({given:.100}) would end the whole process: raise an error instead")


class FunctionError(HeadwaterError):
    """Base class of errors of a project's functions. `function`: its name."""

    def __init__(self, function: str, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.function = function


class FunctionRaisedError(FunctionError):
    """A function has raised an error. `lines`: its traceback within `functions/`, the last call last."""

    def __init__(self, function: PythonFunction, cause: BaseException, what: str = "") -> None:
        self.lines = tuple(_lines(cause, function.code.texts))
        shown = "".join(f"\n  {line}" for line in self.lines)
        super().__init__(
            function.name, f"{function.name}{f' ({what})' if what else ''} raised {error_text(cause)}{shown}"
        )
        self.cause = cause


class FunctionResultError(FunctionError):
    """A function has returned a value that its step does not accept."""


class FunctionInputError(FunctionError):
    """A row has a value that Python does not have, so a function cannot be called with it."""

    def __init__(self, function: str, cause: str) -> None:
        super().__init__(function, f"{function} cannot be given the row: {cause}")
        self.cause = cause


class FunctionLoadError(FunctionError):
    """A module cannot be imported, or does not have the name. `what`: the error without the lines.

    `lines`: as in FunctionRaisedError. `known`: the module's names.
    """

    def __init__(self, function: PythonFunction, cause: BaseException | None, known: tuple[str, ...] = ()) -> None:
        self.lines = tuple(_lines(cause, function.code.texts)) if cause is not None else ()
        self.known = known
        shown = "".join(f"\n  {line}" for line in self.lines)
        name = function.name.partition(":")[2]
        # The text of a SyntaxError has the name of the file without its folder.
        what = f"SyntaxError: {cause.msg}" if isinstance(cause, SyntaxError) else error_text(cause) if cause else ""
        problem = f"cannot be loaded: {what}" if cause else f"does not exist: its module has no {name!r}"
        super().__init__(function.name, f"{function.name} {problem}{shown}")
        self.what = f"{function.name} {problem}"
        self.cause = cause


def short_repr(value: Any) -> str:
    """The `repr` of a value for an error, at most 200 characters."""
    try:
        return f"{value!r:.200}"
    except BaseException as error:  # from a `__repr__` of the project
        if is_interrupt_or_out_of_memory(error):
            raise
        return f"a {type(value).__name__}"


def unfit_value(value: Any, error: BaseException, name: str = "") -> UnfitValueError:
    """The error to raise if a value of the project raises an error while it is read. `name`: of its column.

    Raises the error itself if it is Ctrl-C or a lack of memory.
    """
    if is_interrupt_or_out_of_memory(error):
        raise error
    from .results import UnfitValueError  # imported here: `parse` loads no Arrow

    return UnfitValueError(f"{f'{name}: ' if name else ''}{short_repr(value)} cannot be read: {error_text(error)}")


def _lines(error: BaseException, texts: Mapping[str, str]) -> Iterator[str]:
    """`functions/text.py:12, in slug: return ...` of each call in the project's files."""
    locations: list[tuple[str, int, str]] = [
        (frame.f_code.co_filename, line, frame.f_code.co_name)
        for frame, line in walk_tb(error.__traceback__)
        if frame.f_code.co_filename in texts
    ]
    if isinstance(error, SyntaxError) and error.filename is not None and error.filename in texts:
        locations.append((error.filename, error.lineno or 1, ""))
    for path, line, name in locations[-_MOST_LINES:]:
        lines = texts[path].splitlines()
        text = lines[line - 1].strip() if 0 < line <= len(lines) else ""
        yield f"{path}:{line}{f', in {name}' if name and name != '<module>' else ''}{f': {text}' if text else ''}"
