"""The operators and functions of SQL: their operands, their types, and which of them cannot fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from sqlglot import exp

from .misread import SIGNS, name_of
from .terms import (
    LITERAL,
    LITERAL_NULL,
    OPAQUE,
    TIMES,
    USE_OTHERS,
    Term,
    calculated,
    is_decimal,
    is_number,
    is_written_out,
    untyped,
    widest,
)
from .types import NUMBERS, canonical

# A form of SQL: the operands in its tree, and the rule for its type.

Terms = Sequence[Term]
Rule = Callable[[Any, Terms], str]
"""The type of a tree, given its operands. Raises UntypedError."""


Chosen = Callable[[Any, Terms], Terms]
"""Some of the operands of a tree."""

Safe = Callable[[Any, Terms], bool]
"""Whether a tree cannot fail for any row, given operands that cannot."""


@dataclass(frozen=True)
class Form:
    """A kind of operator or function.

    `parts`: the arguments of the tree that are operands, in order. `settings`: further arguments, without influence on
    the type. `of_constants`: all operands may be literals, because it cannot fail. `always`: the type, if it does not
    depend on the operands. `together`: the operands that Spark casts to one type. `safe`: None if it may fail.
    `count`: how many operands a function that is read by its name may have.
    """

    rule: Rule
    parts: tuple[str, ...]
    settings: frozenset[str] = frozenset()
    of_constants: bool = False
    always: str = OPAQUE
    together: Chosen | None = None
    safe: Safe | None = None
    count: range | None = None

    def fits(self, tree: exp.Expr) -> bool:
        """Whether a tree has no other arguments."""
        given = {name for name, value in tree.args.items() if value not in (None, False, [], "")}
        return given <= {*self.parts, *self.settings} and (self.count is None or len(tree.expressions) in self.count)


def no_rule(tree: exp.Expr, terms: Terms) -> NoReturn:
    """Raise UntypedError: a form has no rule for operands of these types."""
    types = ", ".join("null" if term.type == "void" else term.type for term in terms)
    reason = f"the type of `{name_of(tree)}`{' of ' if types else ''}{types} is only known to Spark"
    mixed = len({term.type for term in terms if term.type != "void"}) > 1
    untyped(reason, "cast the operands to one type" if mixed else USE_OTHERS)


def only_spark(tree: exp.Expr, _terms: Terms) -> NoReturn:
    """The rule of a form whose types only Spark knows: raise UntypedError."""
    untyped(f"the type of `{name_of(tree)}` is only known to Spark")


def common(tree: exp.Expr, terms: Terms) -> str:
    """The type that Spark casts operands to: the widest type of numbers, else the one type of all."""
    types = [term.type for term in terms if term.type != "void"]
    if types and all(map(is_number, types)):
        return widest(types)
    if len(set(types)) != 1:
        no_rule(tree, terms)
    return types[0]


def compared(tree: exp.Expr, terms: Terms) -> str:
    """The same for a comparison, in which a string literal of a time counts as a time beside times."""
    times = {term.type for term in terms} & TIMES
    if len(times) == 1:
        (time,) = times
        terms = [Term(time, True) if term.constant and is_written_out(term.text, time) else term for term in terms]
    type_ = common(tree, terms)
    if not (is_number(type_) or type_ in TIMES or type_ in ("string", "boolean")):
        no_rule(tree, terms)
    return type_


# Operators, conditionals and casts.


def _calculation(tree: exp.Expr, terms: Terms) -> str:
    left, right = terms
    if not is_number(left.type) or not is_number(right.type):
        no_rule(tree, terms)
    return calculated(SIGNS[type(tree)], left, right)


def _negative(tree: exp.Expr, terms: Terms) -> str:
    (term,) = terms
    if not is_number(term.type):
        no_rule(tree, terms)
    return term.type


def _comparison(tree: exp.Expr, terms: Terms) -> str:
    compared(tree, terms)
    return "boolean"


def _logic(tree: exp.Expr, terms: Terms) -> str:
    if any(term.type not in ("boolean", "void") for term in terms):
        no_rule(tree, terms)
    return "boolean"


def _is(tree: exp.Expr, terms: Terms) -> str:
    """`x is null`, of any type; `x is true` of booleans."""
    literal = tree.args["expression"]
    if not isinstance(literal, exp.Null) and not (isinstance(literal, exp.Boolean) and terms[0].type == "boolean"):
        no_rule(tree, terms)
    return "boolean"


def _case(tree: exp.Expr, terms: Terms) -> str:
    """`case [value] when ... then ... [else ...] end`."""
    value = terms[: 1 if tree.args.get("this") else 0]
    results = _results(tree, terms)
    for condition in terms[len(value) : len(terms) - len(results)]:
        if value:
            compared(tree, [*value, condition])
        elif condition.type != "boolean":
            no_rule(tree, [condition])
    return common(tree, results)


def _results(tree: exp.Expr, terms: Terms) -> Terms:
    return terms[-len(tree.args["ifs"]) - bool(tree.args.get("default")) :]


def _if(tree: exp.Expr, terms: Terms) -> str:
    condition, *results = terms
    if condition.type != "boolean" or len(results) != 2:
        no_rule(tree, terms)
    return common(tree, results)


def _joined(tree: exp.Expr, terms: Terms) -> str:
    """Strings, and other values beside a string, which become strings."""
    types = {term.type for term in terms}
    if "string" not in types or not all(type_ in _JOINED or is_number(type_) for type_ in types):
        no_rule(tree, terms)
    return "string"


_JOINED = frozenset({"boolean", "string", *TIMES})
_CAST_TO_NUMBERS = frozenset({"boolean", "string"})
_CASTS: Mapping[str, frozenset[str]] = {
    "boolean": frozenset({"string"}),
    "date": frozenset({"string", "timestamp", "timestamp_ntz"}),
    "timestamp": frozenset({"string", "date", "timestamp_ntz"}),
    "timestamp_ntz": frozenset({"string", "date", "timestamp"}),
    "string": frozenset({"boolean", *TIMES}),
}
"""A type, and the types that are cast to it, besides numbers."""


def target(tree: exp.Expr) -> str:
    """The type that a cast gives; OPAQUE if no column can have it."""
    try:
        return canonical(tree.args["to"].sql("spark"))
    except ValueError:
        return OPAQUE


def _cast(tree: exp.Expr, terms: Terms) -> str:
    (term,) = terms
    wanted = target(tree)
    if wanted == OPAQUE:
        untyped("the type of a cast is only known to Spark")
    if term.constant and not is_written_out(term.text, wanted):
        untyped(
            "the result of a cast of literals is only known to Spark", LITERAL_NULL if term.type == "void" else LITERAL
        )
    if not term.constant and not _is_cast(term.type, wanted):
        untyped(f"`{name_of(tree)}` of {term.type} to {wanted} is only known to Spark")
    return wanted


def _is_cast(given: str, wanted: str) -> bool:
    if is_number(given):
        return is_number(wanted) or wanted in ("boolean", "string")
    return given == wanted or given in (_CAST_TO_NUMBERS if is_number(wanted) else _CASTS.get(wanted, ()))


# Operators that cannot fail for any row. A table may collapse its changes before an expression only if the expression
# cannot fail. Otherwise the end of an epoch would decide whether a value in between stops the run. The rules cover the
# usual parts of expressions over aggregates: ratios, comparisons and defaults. All others count as failing.

BROAD = frozenset({"float", "double"})
"""Types whose calculations do not overflow."""


def _kind(term: Term) -> str:
    return "decimal" if term.constant and is_decimal(term.type) else term.type


def _is_uncast(terms: Terms) -> bool:
    """Whether terms that are not null have one type. If they differ, Spark would cast, which may fail."""
    return len({_kind(term) for term in terms} - {"void"}) == 1


def _safe_comparison(_tree: exp.Expr, terms: Terms) -> bool:
    kinds = {_kind(term) for term in terms}
    return kinds <= NUMBERS or (len(kinds) == 1 and OPAQUE not in kinds)


def _safe_calculation(_tree: exp.Expr, terms: Terms) -> bool:
    types = {term.type for term in terms}
    return bool(types & BROAD) and all(map(is_number, types))


def _safe_division(tree: exp.Expr, terms: Terms) -> bool:
    whole = {term.type for term in terms} <= NUMBERS  # which Spark casts to doubles
    return _is_not_zero(terms[1]) and (whole or _safe_calculation(tree, terms))


def _is_not_zero(term: Term) -> bool:
    """Whether a term is null or another number than 0."""
    if isinstance(term.tree, exp.Nullif):
        value, zero = term.parts
        return value.safe and value.type in NUMBERS and zero.type == "int" and zero.text == "0"
    return term.not_zero


def _safe_logic(_tree: exp.Expr, terms: Terms) -> bool:
    return {term.type for term in terms} - {"void"} == {"boolean"}


def _safe_if(_tree: exp.Expr, terms: Terms) -> bool:
    return terms[0].type == "boolean" and _is_uncast(terms[1:])


_BOTH = ("this", "expression")


def _all(_tree: exp.Expr, terms: Terms) -> Terms:
    return terms


def _calculating(together: Chosen | None = None, safe: Safe | None = None) -> Form:
    return Form(_calculation, _BOTH, frozenset({"safe", "typed"}), together=together, safe=safe)


def _comparing(*parts: str, safe: Safe | None = None) -> Form:
    return Form(_comparison, parts, always="boolean", together=_all, safe=safe)


OPERATORS: Mapping[type[exp.Expr], Form] = {
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul), _calculating(_all, _safe_calculation)),
    exp.Div: _calculating(safe=_safe_division),
    exp.Mod: _calculating(_all),
    exp.IntDiv: _calculating(),
    **dict.fromkeys(
        (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ), _comparing(*_BOTH, safe=_safe_comparison)
    ),
    **dict.fromkeys((exp.And, exp.Or), Form(_logic, _BOTH, always="boolean", safe=_safe_logic)),
    exp.Not: Form(_logic, ("this",), always="boolean", safe=lambda _tree, terms: terms[0].type == "boolean"),
    **dict.fromkeys((exp.Cast, exp.TryCast), Form(_cast, ("this",), frozenset({"to", "safe"}), of_constants=True)),
    exp.Neg: Form(_negative, ("this",), of_constants=True),
    exp.Negative: Form(_negative, ("this",)),
    **dict.fromkeys((exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor), Form(only_spark, _BOTH)),
    exp.BitwiseNot: Form(only_spark, ("this",)),
    exp.Escape: Form(only_spark, _BOTH, always="boolean"),
    exp.Between: _comparing("this", "low", "high"),
    exp.In: _comparing("this", "expressions"),
    exp.Is: Form(
        _is,
        ("this",),
        frozenset({"expression"}),
        always="boolean",
        safe=lambda tree, _terms: isinstance(tree.expression, exp.Null),
    ),
    exp.Case: Form(_case, ("this", "ifs", "default"), together=_results),
    exp.If: Form(_if, ("this", "true", "false"), together=lambda _tree, terms: terms[1:], safe=_safe_if),
    exp.Coalesce: Form(common, ("this", "expressions"), together=_all, safe=lambda _tree, terms: _is_uncast(terms)),
    exp.Nullif: Form(lambda tree, terms: compared(tree, terms) and terms[0].type, _BOTH, safe=_safe_comparison),
    exp.DPipe: Form(_joined, _BOTH, frozenset({"safe"})),
    # Also a string literal with a quote in it, which sqlglot reads as two literals.
    exp.Concat: Form(_joined, ("expressions",), frozenset({"safe", "coalesce"}), of_constants=True),
}
