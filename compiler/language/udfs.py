"""Python functions that expressions call: declared, read, checked."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlglot.tokens import Token, TokenType

from ...runtime.ir.functions import FOLDER, PythonCode, PythonFunction, Udf
from ...runtime.python_functions.errors import FunctionLoadError
from ...runtime.python_functions.loading import load
from ...unusable_paths import OutsideProjectError, is_outside
from ..diagnostics import Diagnostics, Position, did_you_mean
from ..entries import flag, named, pairs, scalar
from ..reading.source import MappingNode, ScalarNode
from ..types import canonical
from .determinism import check, is_of_one_row
from .expressions import Expression, FunctionCall, Ref, Scope, column_name, resolve
from .functions import (
    AGGREGATES,
    FORBIDDEN,
    GENERATORS,
    NOT_OFFERED,
    OPERATORS,
    SCALAR_FUNCTIONS,
    SPARK_AGGREGATES,
    UNSAFE,
    WINDOW_FUNCTIONS,
    WORDS_WITHOUT_PARENTHESES,
)
from .judge import Judge
from .proven_types import UnprovenTypeError, is_number, widest
from .sql import Call, Parsed, Sql, arguments, calls, closing, may_be_called, parse, parse_sql

# Python functions that the YAML names as `functions.module:name`: whether they are there, and what they are.

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

    def find(self, name: ScalarNode) -> FoundFunction | None:
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

    def fits(self, name: ScalarNode, called: Any, arguments: Sequence[str], what: str) -> bool:
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


def is_defined(function: ScalarNode, root: Path, diagnostics: Diagnostics) -> bool:
    """Whether the project's files define a function; otherwise reports it. Nothing is imported."""
    module, _, name = function.text.partition(":")
    place = root.joinpath(*module.split("."))
    file = next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)
    start = function.position_at(0, len(module))
    if file is None:
        diagnostics.add("HW305", start, f"There is no module '{module}'.", f"Add {module.replace('.', '/')}.py.")
        return False
    if is_outside(root, file):
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


def code_of(function: ScalarNode, root: Path, diagnostics: Diagnostics) -> PythonCode | None:
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


# Reads `functions:` of headwater.yml: Python functions that expressions may call by a name of their own.

Udfs = Mapping[str, Udf | None]
"""Declared functions by their names in lower case; None where a declaration has an error, which has been reported."""

_OF_SPARK: frozenset[str] = frozenset().union(
    SCALAR_FUNCTIONS,
    OPERATORS,
    GENERATORS,
    WINDOW_FUNCTIONS,
    AGGREGATES,
    SPARK_AGGREGATES,
    FORBIDDEN,
    UNSAFE,
    NOT_OFFERED,
    WORDS_WITHOUT_PARENTHESES,
)


def declared_udfs(project: MappingNode, functions: ProjectFunctions, diagnostics: Diagnostics) -> Udfs:
    """The functions that headwater.yml declares. Mistakes that a schema cannot find are reported."""
    found: dict[str, Udf | None] = {}
    names: dict[str, str] = {}
    for name, body in named(project, "functions"):
        if isinstance(name.value, str) and _is_free(name, names, diagnostics):
            found[name.text.lower()] = _udf(name, body, functions)
    return found


def _is_free(name: ScalarNode, names: dict[str, str], diagnostics: Diagnostics) -> bool:
    """Whether expressions can call a function of this name; otherwise reports it."""
    word = name.text.lower()
    twin = names.setdefault(word, name.text)
    if twin != name.text:
        message = f"'{name.text}' and '{twin}' are the same function to Spark SQL."
    elif word in _OF_SPARK:
        message = f"'{name.text}' is a function of Spark SQL already."
    elif not may_be_called(word):
        message = f"'{name.text}' is a word of SQL, which cannot be called."
    else:
        return True
    diagnostics.add("HW421", name.position, message, "Give it another name.")
    return False


def _udf(name: ScalarNode, body: MappingNode, functions: ProjectFunctions) -> Udf | None:
    named_by, returns = scalar(body, "udf"), _type(scalar(body, "returns"))
    arguments = {key.text: _type(type_) for key, type_ in pairs(body, "arguments")}
    function = functions.find(named_by) if named_by is not None else None
    if named_by is None or function is None:
        return None
    what = f"Expressions call '{name.text}'"
    fits = functions.fits(named_by, function.loaded, tuple(arguments), what)
    types = {key: type_ for key, type_ in arguments.items() if type_ is not None}
    if not fits or returns is None or not types or len(types) < len(arguments):
        return None
    return Udf(name.text, function.function, types, returns, flag(body, "arrow", False))


def _type(type_: ScalarNode | None) -> str | None:
    """The canonical type; None if it is none, which has been reported."""
    try:
        return canonical(type_.text) if type_ is not None else None
    except ValueError:
        return None


# Reads expressions over one row, with the Python functions that they call.
#
# A call becomes a column: in `upper(slug(title))` Python computes the column `slug(title)`, of the type that the
# function is declared to return, and SQL the rest. So whoever judges or computes SQL knows nothing of Python.

_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET})


def read(scalar: ScalarNode, scope: Scope, diagnostics: Diagnostics) -> Expression | None:
    """The expression in a scalar, over one row; None, with diagnostics, if it is wrong."""
    parsed = parse(scalar, diagnostics, scope.udfs.keys())
    if parsed is None or not is_of_one_row(parsed, diagnostics):
        return None
    allowed = check(parsed, diagnostics, udfs=scope.udfs.keys())
    refs, complete = resolve(parsed, scope, diagnostics)
    if not allowed or not complete:
        return None
    return Calls.of(parsed, refs, scope.udfs, diagnostics).expression(0, len(parsed.sql.text))


@dataclass(frozen=True)
class Calls:
    """The calls of Python functions in a parsed text, and how to take expressions out of it. `refs`: its columns."""

    parsed: Parsed
    refs: tuple[Ref, ...]
    udfs: Udfs
    diagnostics: Diagnostics
    found: tuple[Call, ...]

    @classmethod
    def of(cls, parsed: Parsed, refs: tuple[Ref, ...], udfs: Udfs, diagnostics: Diagnostics) -> Calls:
        """Those of a text, outer ones before those in their arguments."""
        return cls(parsed, refs, udfs, diagnostics, tuple(call for call in calls(parsed) if call.name in udfs))

    def expression(self, start: int, end: int) -> Expression | None:
        """The expression at `text[start:end]`; None if a call in it is wrong, which is reported."""
        refs = [ref for ref in self.refs if start <= ref.start < end]
        made: list[FunctionCall] = []
        behind = start
        for call in self.found:
            if not behind <= call.start < end:
                continue
            behind = self._end(call)
            function = self._call(call)
            if function is None:
                return None
            made.append(function)
            inside = Ref(call.start, behind, "value", function.column)
            refs = [inside, *(ref for ref in refs if not inside.start <= ref.start < inside.end)]
        moved = sorted(Ref(ref.start - start, ref.end - start, ref.role, ref.name) for ref in refs)
        return Expression(self.parsed.sql[start:end], tuple(moved), calls=tuple(made))

    def _call(self, call: Call) -> FunctionCall | None:
        tokens, sql = self.parsed.tokens, self.parsed.sql
        udf = self.udfs[call.name]
        spans = arguments(tokens[call.index + 2 : closing(tokens, call.index + 1)])
        if udf is None or not self._may_stand(call) or not all(map(self._is_value, spans)):
            return None
        if len(spans) != len(udf.arguments):
            given = f"{len(spans)} argument{'' if len(spans) == 1 else 's'}"
            message = f"'{udf.name}' is called with {given}; it takes {len(udf.arguments)}."
            self.diagnostics.add("HW422", sql.position(call.start, self._end(call)), message, f"It is {udf.signature}.")
            return None
        taken = [self.expression(span[0].start, span[-1].end + 1) for span in spans]
        found = tuple(each for each in taken if each is not None)
        return (
            FunctionCall(udf, found, column_name(sql.text[call.start : self._end(call)]))
            if len(found) == len(taken)
            else None
        )

    def _may_stand(self, call: Call) -> bool:
        """Whether a call is made once for a row; otherwise reports it."""
        if not _is_in_lambda(self.parsed.tokens, call.index):
            return True
        message = f"'{call.name}' is called for each element; a Python function is called once for a row."
        hint = "Declare one that takes and returns the whole array, or `explode` the array before."
        self.diagnostics.add("HW422", self.parsed.sql.position(call.start, call.end), message, hint)
        return False

    def _is_value(self, span: Sequence[Token]) -> bool:
        return (
            parse_sql(self.parsed.sql[span[0].start : span[-1].end + 1], self.diagnostics, self.udfs.keys()) is not None
        )

    def _end(self, call: Call) -> int:
        """Where the text of a call ends."""
        return int(self.parsed.tokens[closing(self.parsed.tokens, call.index + 1)].end) + 1


def _is_in_lambda(tokens: Sequence[Token], index: int) -> bool:
    """Whether a token is in the body of a function of an element: behind an arrow among the same arguments."""
    depth, passed = 0, False
    for token in reversed(tokens[:index]):
        if token.token_type in _CLOSING:
            depth += 1
        elif token.token_type in _OPENING:
            depth, passed = (depth - 1, passed) if depth else (0, False)
        elif depth == 0 and token.token_type is TokenType.COMMA:
            passed = True
        elif depth == 0 and not passed and token.token_type is TokenType.ARROW:
            return True
    return False


# The types of expressions that call Python functions, and whether arguments fit those that are declared.


def judged(
    expressions: Sequence[Expression], scope: Scope, judge: Judge, diagnostics: Diagnostics
) -> list[Expression | None]:
    """The expressions with their types, and with arguments of the types that functions take.

    None for each one with an argument that does not fit, which is reported.
    """
    known = with_results(scope, (call for each in expressions for call in each.calls))
    types = iter(judge.types([(part, known) for each in expressions for part in _parts(each)]))
    return [_fitted(_typed(each, types), diagnostics) for each in expressions]


def judged_calls(
    calls: Sequence[FunctionCall], scope: Scope, judge: Judge, diagnostics: Diagnostics
) -> list[FunctionCall] | None:
    """The calls with arguments of the types that functions take; None if one does not fit, which is reported."""
    arguments = [argument for call in calls for argument in call.arguments]
    types = iter(judge.types([(part, with_results(scope, calls)) for each in arguments for part in _parts(each)]))
    found = [_fitted_call(_typed_call(call, types), diagnostics) for call in calls]
    fitting = [call for call in found if call is not None]
    return fitting if len(fitting) == len(found) else None


def with_results(scope: Scope, calls: Iterable[FunctionCall]) -> Scope:
    """The scope with the columns of the results of calls, and of those in their arguments."""
    results = {each.column: each.udf.returns for call in calls for each in call.every}
    return replace(scope, value={**scope.value, **results}) if results else scope


def _parts(expression: Expression) -> Iterator[Expression]:
    """The expression, and all arguments of its calls."""
    yield expression
    for call in expression.calls:
        for argument in call.arguments:
            yield from _parts(argument)


def _typed(expression: Expression, types: Iterator[str | None]) -> Expression:
    """The expression with its type and those of arguments, in the order of `_parts`."""
    typed = expression.typed(next(types))
    return replace(typed, calls=tuple(_typed_call(call, types) for call in typed.calls))


def _typed_call(call: FunctionCall, types: Iterator[str | None]) -> FunctionCall:
    return replace(call, arguments=tuple(_typed(each, types) for each in call.arguments))


def _fitted(expression: Expression, diagnostics: Diagnostics) -> Expression | None:
    calls = [_fitted_call(call, diagnostics) for call in expression.calls]
    found = tuple(call for call in calls if call is not None)
    return replace(expression, calls=found) if len(found) == len(calls) else None


def _fitted_call(call: FunctionCall, diagnostics: Diagnostics) -> FunctionCall | None:
    arguments = []
    for (name, declared), argument in zip(call.udf.arguments.items(), call.arguments, strict=True):
        fitted = _fitted(argument, diagnostics)
        if fitted is None:
            return None
        if argument.type is not None and not _widens(argument.type, declared):
            message = f"'{call.udf.name}' takes {name} of type {declared}; this is of type {argument.type}."
            hint = f"Cast it: `cast(... as {declared})`. It is {call.udf.signature}."
            diagnostics.add("HW423", argument.position, message, hint)
            return None
        given = fitted if argument.type in (None, declared) else _cast(fitted, declared)
        arguments.append(replace(given, named=column_name(given.sql.text)))
    return replace(call, arguments=tuple(arguments))


def _widens(given: str, declared: str) -> bool:
    """Whether Spark SQL makes a value one of the declared type by itself, beside one of that type: of numbers alone."""
    if given == declared:
        return True
    try:
        return is_number(given) and is_number(declared) and widest((given, declared)) == declared
    except UnprovenTypeError:
        return False


def _cast(expression: Expression, type_: str) -> Expression:
    """The expression as a wider type. What is put around it has the place of its ends."""
    sql = expression.sql
    before, behind = "cast(", f" as {type_})"
    offsets = (*sql.offsets[:1] * len(before), *sql.offsets, *sql.offsets[-1:] * len(behind))
    refs = tuple(Ref(ref.start + len(before), ref.end + len(before), ref.role, ref.name) for ref in expression.refs)
    whole = Sql(sql.scalar, f"{before}{sql.text}{behind}", offsets)
    return Expression(whole, refs, type_, expression.calls)
