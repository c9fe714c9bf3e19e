"""Reads expressions over one row, with the Python functions that they call.

A call becomes a column: in `upper(slug(title))` Python computes the column `slug(title)`, of the type that the function
is declared to return, and SQL the rest. So whoever judges or computes SQL knows nothing of Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot.tokens import Token, TokenType

from ...diagnostics import Diagnostics
from ...reading.nodes import Scalar
from ..column_names import column_name
from ..determinism import check, is_of_one_row
from ..expressions import Expression, FunctionCall, Ref, Scope, resolve
from ..sql import Call, Parsed, arguments, calls, closing, parse, parse_sql
from .declared import Udfs

_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET})


def read(scalar: Scalar, scope: Scope, diagnostics: Diagnostics) -> Expression | None:
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
