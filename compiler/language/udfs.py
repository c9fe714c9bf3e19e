"""Python functions of a project: found in its modules, declared for expressions, and checked in calls."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlglot.tokens import Token, TokenType

from ...runtime.expressions.terms import UntypedError, is_number, widest
from ...runtime.expressions.types import canonical
from ...runtime.ir.functions import FOLDER, PythonCode, PythonFunction, Udf
from ...runtime.python_functions.errors import FunctionLoadError
from ...runtime.python_functions.loading import load
from ...unusable_paths import OutsideProjectError, is_outside
from ..diagnostics import Diagnostics, Position, did_you_mean
from ..entries import flag, named, pairs, scalar
from ..reading.source import MappingNode, ScalarNode
from .determinism import check, is_of_one_row
from .expressions import Expression, FunctionCall, Ref, Scope, column_name, resolve
from .functions import SPARK_NAMES
from .sql import Call, Parsed, Sql, arguments, calls, closing, may_be_called, parse, parse_sql
from .type_checker import TypeChecker

# Python functions that the YAML names as `functions.module:name`.

_MAX_BYTES = 500_000
"""The maximal size of a module, which limits the time and memory of `parse`."""
_MAX_LISTED = 12
"""The maximal number of names in a hint."""


@dataclass(frozen=True)
class FoundFunction:
    """A function or class, with the code it depends on. `loaded`: the object; None if modules are not imported."""

    function: PythonFunction
    loaded: Any = None


@dataclass(frozen=True)
class ProjectFunctions:
    """The Python functions of the project in the folder `root`. `imports`: modules are imported to be checked."""

    root: Path
    imports: bool
    diagnostics: Diagnostics

    def find(self, name: ScalarNode) -> FoundFunction | None:
        """The function with this name. None if an error was reported: it is missing, or its module fails."""
        if not isinstance(name.value, str):
            return None
        if not name.text.startswith(f"{FOLDER}."):
            message = f"'{name.text}' is not in the folder `{FOLDER}/`. Only that folder is sent to the executors."
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
        """Whether an object can be called with this number of arguments; otherwise reports it.

        `arguments`: their names, for the message. `what`: the caller, such as "`reduce` calls its function".
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
            message = f"{given}; '{name.text}' does not take these: {error}."
            self.diagnostics.add("HW530", name.position, message, f"Its parameters are {inspect.signature(called)}.")
            return False
        return True


def is_defined(function: ScalarNode, root: Path, diagnostics: Diagnostics) -> bool:
    """Whether the project's files define a function; otherwise reports it. Imports nothing."""
    module, _, name = function.text.partition(":")
    path = root.joinpath(*module.split("."))
    file = next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)
    start = function.position_at(0, len(module))
    if file is None:
        diagnostics.add("HW305", start, f"There is no module '{module}'.", f"Add {module.replace('.', '/')}.py.")
        return False
    if is_outside(root, file):
        report_outside(file.relative_to(root).as_posix(), start, diagnostics)
        return False
    try:
        with file.open("rb") as source:
            content = source.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise ValueError(f"it has more than {_MAX_BYTES:,} bytes")
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
    """The modules that a function depends on. None if an error was reported: one of them cannot be read."""
    try:
        return PythonCode.of_project(root, [function.text.partition(":")[0]])
    except OutsideProjectError as error:
        report_outside(error.filename, function.position, diagnostics)
    except (OSError, UnicodeDecodeError) as error:
        message = f"'{function.text}', or a module that it imports, cannot be read: {error}."
        diagnostics.add("HW312", function.position, message, "Save modules in UTF-8.")
    return None


def report_outside(file: str, position: Position, diagnostics: Diagnostics) -> None:
    """Report a Python file behind a link to outside of the project, because a copy of the project would lack it."""
    diagnostics.add("HW002", position, f"The file '{file}' is outside of the project.", "Copy it into the project.")


def _listed(body: Sequence[ast.stmt]) -> str | None:
    """A hint with the public functions and classes of a module."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    names = [node.name for node in body if isinstance(node, kinds) and not node.name.startswith("_")]
    return f"It has {', '.join(names)}." if 0 < len(names) <= _MAX_LISTED else None


def _defined(body: Sequence[ast.AST]) -> Iterator[str]:
    """Names that a module's statements may define, also in `if` and `try`; `*` for a star import."""
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


# `functions:` of headwater.yml: Python functions with names for expressions.

Udfs = Mapping[str, Udf | None]
"""Declared functions by their names in lower case; None for a declaration with a reported error."""


def declared_udfs(project: MappingNode, functions: ProjectFunctions, diagnostics: Diagnostics) -> Udfs:
    """The functions declared in headwater.yml. Reports mistakes that the schema cannot find."""
    udfs: dict[str, Udf | None] = {}
    names: dict[str, str] = {}
    for name, body in named(project, "functions"):
        if isinstance(name.value, str) and _is_free(name, names, diagnostics):
            udfs[name.text.lower()] = _udf(name, body, functions)
    return udfs


def _is_free(name: ScalarNode, names: dict[str, str], diagnostics: Diagnostics) -> bool:
    """Whether expressions can call a function by this name; otherwise reports it."""
    word = name.text.lower()
    twin = names.setdefault(word, name.text)
    if twin != name.text:
        message = f"'{name.text}' and '{twin}' are the same function to Spark SQL."
    elif word in SPARK_NAMES:
        message = f"'{name.text}' is already a function of Spark SQL."
    elif not may_be_called(word):
        message = f"'{name.text}' is a keyword of SQL, which cannot be called."
    else:
        return True
    diagnostics.add("HW421", name.position, message, "Give it another name.")
    return False


def _udf(name: ScalarNode, body: MappingNode, functions: ProjectFunctions) -> Udf | None:
    path, returns = scalar(body, "udf"), _type(scalar(body, "returns"))
    arguments = {key.text: _type(type_) for key, type_ in pairs(body, "arguments")}
    function = functions.find(path) if path is not None else None
    if path is None or function is None:
        return None
    what = f"Expressions call '{name.text}'"
    fits = functions.fits(path, function.loaded, tuple(arguments), what)
    types = {key: type_ for key, type_ in arguments.items() if type_ is not None}
    if not fits or returns is None or not types or len(types) < len(arguments):
        return None
    return Udf(name.text, function.function, types, returns, flag(body, "arrow", False))


def _type(type_: ScalarNode | None) -> str | None:
    """The canonical type; None if it is wrong, which the schema's check has reported."""
    try:
        return canonical(type_.text) if type_ is not None else None
    except ValueError:
        return None


# Expressions over one row, with the Python functions they call.
#
# A call becomes a column: in `upper(slug(title))` Python computes the column `slug(title)`, of the declared return
# type, and SQL the rest. So neither the type checker nor the engines of SQL need to know about Python.

_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET})


def read(scalar: ScalarNode, scope: Scope, diagnostics: Diagnostics) -> Expression | None:
    """The expression over one row in a scalar; None, with diagnostics, if it is wrong."""
    parsed = parse(scalar, diagnostics, scope.udfs.keys())
    if parsed is None or not is_of_one_row(parsed, diagnostics):
        return None
    allowed = check(parsed, diagnostics, udfs=scope.udfs.keys())
    refs, complete = resolve(parsed, scope, diagnostics)
    if not allowed or not complete:
        return None
    return FunctionCalls.read(parsed, refs, scope.udfs, diagnostics).expression(0, len(parsed.sql.text))


@dataclass(frozen=True)
class FunctionCalls:
    """The calls of Python functions in a parsed text, outer calls before those in their arguments.

    `refs`: the columns of the text. Makes expressions from parts of it.
    """

    parsed: Parsed
    refs: tuple[Ref, ...]
    udfs: Udfs
    diagnostics: Diagnostics
    calls: tuple[Call, ...]

    @classmethod
    def read(cls, parsed: Parsed, refs: tuple[Ref, ...], udfs: Udfs, diagnostics: Diagnostics) -> FunctionCalls:
        """The calls of functions in `udfs`."""
        return cls(parsed, refs, udfs, diagnostics, tuple(call for call in calls(parsed) if call.name in udfs))

    def expression(self, start: int, end: int) -> Expression | None:
        """The expression at `text[start:end]`; None if a call in it is wrong, which is reported.

        An outer call becomes one reference, and replaces the references in its arguments: `slug(a) || b` has the
        references `slug(a)` and `b`.
        """
        refs = [ref for ref in self.refs if start <= ref.start < end]
        function_calls: list[FunctionCall] = []
        behind = start
        for call in self.calls:
            if not behind <= call.start < end:
                continue
            behind = self._end(call)
            function = self._call(call)
            if function is None:
                return None
            function_calls.append(function)
            result = Ref(call.start, behind, "value", function.column)
            refs = [result, *(ref for ref in refs if not result.start <= ref.start < result.end)]
        moved = sorted(Ref(ref.start - start, ref.end - start, ref.role, ref.name) for ref in refs)
        return Expression(self.parsed.sql[start:end], tuple(moved), calls=tuple(function_calls))

    def _call(self, call: Call) -> FunctionCall | None:
        tokens, sql = self.parsed.tokens, self.parsed.sql
        udf = self.udfs[call.name]
        spans = arguments(tokens[call.index + 2 : closing(tokens, call.index + 1)])
        if udf is None or not self._is_called_once(call) or not all(map(self._is_value, spans)):
            return None
        if len(spans) != len(udf.arguments):
            given = f"{len(spans)} argument{'' if len(spans) == 1 else 's'}"
            message = f"'{udf.name}' is called with {given}; it takes {len(udf.arguments)}."
            self.diagnostics.add("HW422", sql.position(call.start, self._end(call)), message, f"It is {udf.signature}.")
            return None
        taken = [self.expression(span[0].start, span[-1].end + 1) for span in spans]
        valid = tuple(argument for argument in taken if argument is not None)
        if len(valid) < len(taken):
            return None
        return FunctionCall(udf, valid, column_name(sql.text[call.start : self._end(call)]))

    def _is_called_once(self, call: Call) -> bool:
        """Whether a function is called once per row; otherwise reports it."""
        if not _is_in_lambda(self.parsed.tokens, call.index):
            return True
        message = f"'{call.name}' is called for each element; a Python function is called once per row."
        hint = "Declare a function that takes and returns the whole array, or `explode` the array before."
        self.diagnostics.add("HW422", self.parsed.sql.position(call.start, call.end), message, hint)
        return False

    def _is_value(self, span: Sequence[Token]) -> bool:
        return (
            parse_sql(self.parsed.sql[span[0].start : span[-1].end + 1], self.diagnostics, self.udfs.keys()) is not None
        )

    def _end(self, call: Call) -> int:
        """The end of a call in the text, exclusive."""
        return int(self.parsed.tokens[closing(self.parsed.tokens, call.index + 1)].end) + 1


def _is_in_lambda(tokens: Sequence[Token], index: int) -> bool:
    """Whether a token is in the body of a lambda: behind an arrow in the same argument."""
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


# Types of expressions that call Python functions, and of the arguments.


def typed_expressions(
    expressions: Sequence[Expression], scope: Scope, checker: TypeChecker, diagnostics: Diagnostics
) -> list[Expression | None]:
    """The expressions with their types, and with arguments cast to the declared types.

    None for an expression with an argument of a wrong type, which is reported.
    """
    inner = with_results(scope, (call for expression in expressions for call in expression.calls))
    types = iter(checker.types([(part, inner) for expression in expressions for part in _parts(expression)]))
    return [_fitted(_typed(expression, types), diagnostics) for expression in expressions]


def typed_calls(
    calls: Sequence[FunctionCall], scope: Scope, checker: TypeChecker, diagnostics: Diagnostics
) -> list[FunctionCall] | None:
    """The calls with arguments cast to the declared types; None if one has a wrong type, which is reported."""
    arguments = [argument for call in calls for argument in call.arguments]
    inner = with_results(scope, calls)
    types = iter(checker.types([(part, inner) for argument in arguments for part in _parts(argument)]))
    fitted = [_fitted_call(_typed_call(call, types), diagnostics) for call in calls]
    valid = [call for call in fitted if call is not None]
    return valid if len(valid) == len(fitted) else None


def with_results(scope: Scope, calls: Iterable[FunctionCall]) -> Scope:
    """The scope with the columns of the results of calls, and of those in their arguments."""
    results = {inner.column: inner.udf.returns for call in calls for inner in call.every}
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
    return replace(call, arguments=tuple(_typed(argument, types) for argument in call.arguments))


def _fitted(expression: Expression, diagnostics: Diagnostics) -> Expression | None:
    calls = [_fitted_call(call, diagnostics) for call in expression.calls]
    valid = tuple(call for call in calls if call is not None)
    return replace(expression, calls=valid) if len(valid) == len(calls) else None


def _fitted_call(call: FunctionCall, diagnostics: Diagnostics) -> FunctionCall | None:
    arguments = []
    for (name, declared), argument in zip(call.udf.arguments.items(), call.arguments, strict=True):
        fitted = _fitted(argument, diagnostics)
        if fitted is None:
            return None
        if argument.type is not None and not _widens(argument.type, declared):
            message = f"'{call.udf.name}' takes {name} of type {declared}; this has type {argument.type}."
            hint = f"Cast it: `cast(... as {declared})`. It is {call.udf.signature}."
            diagnostics.add("HW423", argument.position, message, hint)
            return None
        given = fitted if argument.type in (None, declared) else _cast(fitted, declared)
        arguments.append(replace(given, named=column_name(given.sql.text)))
    return replace(call, arguments=tuple(arguments))


def _widens(given: str, declared: str) -> bool:
    """Whether Spark SQL implicitly casts a type to the declared one. Only numbers are cast."""
    if given == declared:
        return True
    try:
        return is_number(given) and is_number(declared) and widest((given, declared)) == declared
    except UntypedError:
        return False


def _cast(expression: Expression, type_: str) -> Expression:
    """The expression, cast to a wider type. The added text has the offsets of the expression's ends."""
    sql = expression.sql
    before, behind = "cast(", f" as {type_})"
    offsets = (*sql.offsets[:1] * len(before), *sql.offsets, *sql.offsets[-1:] * len(behind))
    refs = tuple(Ref(ref.start + len(before), ref.end + len(before), ref.role, ref.name) for ref in expression.refs)
    whole = Sql(sql.scalar, f"{before}{sql.text}{behind}", offsets)
    return Expression(whole, refs, type_, expression.calls)
