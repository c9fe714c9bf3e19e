"""Computes the values of Jinja expressions from their syntax trees.

Only the constructs with a case here are supported. An expression cannot reach an attribute of a Python object, call a
method or compile code. Every case limits the size of its result, so that expressions are quick and small.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import nodes

from ...hidden_values import hidden_value
from ..diagnostics import did_you_mean
from .violations import instead_of_call

MAX_CHARACTERS = 20_000
_MAX_BITS = 1_024
_MAX_ITEMS = 10_000

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "lteq": operator.le,
    "gt": operator.gt,
    "gteq": operator.ge,
    "in": lambda left, right: left in right,
    "notin": lambda left, right: left not in right,
}
_ARITHMETIC: dict[type[nodes.Node], Callable[[Any, Any], Any]] = {
    nodes.Add: operator.add,
    nodes.Sub: operator.sub,
    nodes.Mul: operator.mul,
    nodes.Div: operator.truediv,
    nodes.FloorDiv: operator.floordiv,
    nodes.Mod: operator.mod,
}
_FILTERS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "first": lambda items: items[0],
    "float": float,
    "int": int,
    "join": lambda items, separator="": _join(items, separator),
    "last": lambda items: items[-1],
    "length": len,
    "lower": lambda text: _text(text).lower(),
    "replace": lambda text, old, new: _replace(_text(text), _text(old), _text(new)),
    "string": lambda value: written(value),
    "trim": lambda text: _text(text).strip(),
    "upper": lambda text: _text(text).upper(),
}
_TESTS: dict[str, Callable[[Any], bool]] = {
    "boolean": lambda value: isinstance(value, bool),
    "mapping": lambda value: isinstance(value, Mapping),
    "none": lambda value: value is None,
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "sequence": lambda value: isinstance(value, (list, tuple)),
    "string": lambda value: isinstance(value, str),
}
_NOT_ALLOWED: dict[type[nodes.Node], str] = {
    nodes.Pow: "Powers are not allowed.",
    nodes.Slice: "Slices are not allowed.",
}
_REQUIRED = object()


class ExpressionError(Exception):
    """An expression without a value: code, message and hint of the diagnostic."""

    def __init__(self, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint


class Evaluator:
    """Computes expressions from a project's variables and the process's environment."""

    def __init__(self, variables: Mapping[str, Any], environment: Mapping[str, str] | None) -> None:
        self._variables = variables
        self._environment = environment

    def value(self, node: nodes.Node) -> Any:
        """The value of an expression's tree: a string, number, boolean or None, or lists and dictionaries of these.

        Raises ExpressionError.
        """
        try:
            return _bounded(self._value(node))
        except (TypeError, ValueError, ArithmeticError, LookupError) as error:
            raise ExpressionError("HW108", f"This expression fails: {error}.") from None

    def _value(self, node: nodes.Node) -> Any:
        match node:
            case nodes.Const():
                return node.value
            case nodes.List() | nodes.Tuple():
                return [self.value(item) for item in node.items]
            case nodes.Dict():
                return {_text(self.value(pair.key)): self.value(pair.value) for pair in node.items}
            case nodes.CondExpr():
                chosen = node.expr1 if self.value(node.test) else node.expr2
                return self.value(chosen) if chosen is not None else ""
            case nodes.And():
                return self.value(node.left) and self.value(node.right)
            case nodes.Or():
                return self.value(node.left) or self.value(node.right)
            case nodes.Not():
                return not self.value(node.node)
            case nodes.Neg():
                return -_number(self.value(node.node))
            case nodes.Pos():
                return _number(self.value(node.node))
            case nodes.Compare():
                return self._comparison(node)
            case nodes.Concat():
                return _join([self.value(item) for item in node.nodes], "")
            case nodes.Getitem() | nodes.Getattr():
                return self._item(node)
            case nodes.Call():
                return self._call(node)
            case nodes.Filter():
                return self._filter(node)
            case nodes.Test():
                return self._test(node)
            case nodes.Name():
                raise self._unknown_name(node.name)
            case nodes.BinExpr() if type(node) in _ARITHMETIC:
                return _arithmetic(node, self.value(node.left), self.value(node.right))
            case _:
                message = _NOT_ALLOWED.get(type(node), "This is not allowed.")
                raise ExpressionError("HW106", message)

    def _comparison(self, node: nodes.Compare) -> bool:
        left = self.value(node.expr)
        for operand in node.ops:
            right = self.value(operand.expr)
            if not _COMPARISONS[operand.op](left, right):
                return False
            left = right
        return True

    def _item(self, node: nodes.Getitem | nodes.Getattr) -> Any:
        holder = self.value(node.node)
        key = node.attr if isinstance(node, nodes.Getattr) else self.value(node.arg)
        if isinstance(node, nodes.Getattr) and not isinstance(holder, Mapping):
            raise ExpressionError("HW106", f"Attributes such as '{key}' are not allowed.")
        if isinstance(holder, Mapping) and key not in holder:
            raise ExpressionError("HW108", f"There is no key '{key}'.", did_you_mean(str(key), map(str, holder)))
        return holder[key]

    def _call(self, node: nodes.Call) -> Any:
        if not isinstance(node.node, nodes.Name):
            raise ExpressionError("HW106", "Only var() and env_var() can be called.")
        function = node.node.name
        if function not in ("var", "env_var"):
            raise self._unknown_name(function)
        name, default = self._arguments(node, function)
        if function == "var":
            if name in self._variables:
                return self._variables[name]
            if default is _REQUIRED:
                hint = did_you_mean(name, self._variables) or "Add it to vars in headwater.yml, or give a default."
                raise ExpressionError("HW102", f"There is no variable '{name}'.", hint)
        elif self._environment is None:
            hint = "Use `var('name')`; set it with `--vars` on the command line."
            raise ExpressionError("HW110", "env_var() is only allowed in profiles.yml.", hint)
        elif name in self._environment:
            hidden_value(self._environment[name])
            return self._environment[name]
        elif default is _REQUIRED:
            hint = did_you_mean(name, self._environment) or "Set it, or give a default."
            raise ExpressionError("HW103", f"The environment variable '{name}' is not set.", hint)
        return default

    def _arguments(self, node: nodes.Call, function: str) -> tuple[str, Any]:
        given = [self.value(argument) for argument in node.args]
        named = {keyword.key: self.value(keyword.value) for keyword in node.kwargs}
        default = named.pop("default", _REQUIRED) if len(given) < 2 else given.pop()
        if len(given) != 1 or named or node.dyn_args or node.dyn_kwargs or not isinstance(given[0], str):
            raise ExpressionError("HW108", f"{function}() takes a name in quotes, and optionally a default.")
        return given[0], default

    def _filter(self, node: nodes.Filter) -> Any:
        if node.name == "default":
            raise ExpressionError("HW106", "There is no filter 'default'.", "Give the default to var(): var('x', 1).")
        if node.name not in _FILTERS or node.node is None:
            hint = did_you_mean(node.name, _FILTERS) or f"Allowed are: {', '.join(_FILTERS)}."
            raise ExpressionError("HW106", f"The filter '{node.name}' is not allowed.", hint)
        if node.kwargs or node.dyn_args or node.dyn_kwargs:
            raise ExpressionError("HW106", "Filters take plain arguments only.")
        return _FILTERS[node.name](self.value(node.node), *(self.value(argument) for argument in node.args))

    def _test(self, node: nodes.Test) -> bool:
        if node.name not in _TESTS or node.args:
            raise ExpressionError(
                "HW106", f"The test '{node.name}' is not allowed.", f"Allowed are: {', '.join(_TESTS)}."
            )
        return _TESTS[node.name](self.value(node.node))

    def _unknown_name(self, name: str) -> ExpressionError:
        if name in self._variables:
            return ExpressionError("HW104", f"'{name}' is unknown here.", f"Write var('{name}').")
        if name in ("var", "env_var"):
            return ExpressionError("HW106", f"'{name}' can only be called.", f"Write {name}('name').")
        hint = instead_of_call(name) or did_you_mean(name, ("var", "env_var")) or "Use var('name')."
        return ExpressionError("HW104", f"'{name}' is unknown here.", hint)


def written(value: Any) -> str:
    """A value inside of a text, as in YAML and SQL. Raises ExpressionError for lists and dictionaries."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float() | str():
            return str(value)
        case _:
            raise ExpressionError("HW108", "A list or mapping is not allowed inside of a text.")


def _arithmetic(node: nodes.BinExpr, left: Any, right: Any) -> Any:
    if isinstance(node, nodes.Add):
        if isinstance(left, str) and isinstance(right, str):
            return left + right
        if isinstance(left, list) and isinstance(right, list):
            return left + right
    if isinstance(node, nodes.Mul) and not all(isinstance(side, (int, float)) for side in (left, right)):
        raise ExpressionError("HW106", "Only numbers can be multiplied.")
    return _ARITHMETIC[type(node)](_number(left), _number(right))


def _bounded(value: Any) -> Any:
    if isinstance(value, str) and len(value) > MAX_CHARACTERS:
        raise ExpressionError("HW107", f"This gives more than {MAX_CHARACTERS:,} characters.")
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise ExpressionError("HW107", f"This gives a number with more than {_MAX_BITS:,} bits.")
    if isinstance(value, list) and len(value) > _MAX_ITEMS:
        raise ExpressionError("HW107", f"This gives more than {_MAX_ITEMS:,} items.")
    return value


def _number(value: Any) -> int | float:
    if not isinstance(value, (int, float)):
        raise TypeError(f"a number is needed, not {value!r:.40}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a text is needed, not {value!r:.40}")
    return value


def _join(items: Any, separator: Any) -> str:
    # Check the size before building the text, so a short expression cannot exhaust the memory.
    texts = [written(item) for item in items]
    _check_size(sum(map(len, texts)) + len(_text(separator)) * len(texts))
    return str(separator).join(texts)


def _replace(text: str, old: str, new: str) -> str:
    _check_size(len(text) + text.count(old) * len(new))
    return text.replace(old, new)


def _check_size(characters: int) -> None:
    if characters > 2 * MAX_CHARACTERS:
        raise ExpressionError("HW107", f"This gives more than {MAX_CHARACTERS:,} characters.")
