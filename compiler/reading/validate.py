"""Checks a tree against its JSON Schema (`schemas/*.json`), and reports violations at their positions.

`violations` makes the messages, from the kind of the violated rule and the `title` of its schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib import resources
from itertools import islice
from typing import TYPE_CHECKING, Any

from ... import schemas
from ...runtime.expressions.types import canonical
from ...suggestions import closest
from ..diagnostics import Diagnostic, Diagnostics
from .files import NumberFromEnvironment
from .source import Entry, MappingNode, Node, ScalarNode, SequenceNode
from .violations import Violation, report

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

Path = tuple[str | int, ...]

_MAX_VIOLATIONS = 200


def validate(node: Node, schema: str, diagnostics: Diagnostics) -> Node:
    """Report violations of `schemas/<schema>.json`, and mark their values as broken.

    Broken values are ignored.
    """
    marked, violations = _validated(node, schema)
    diagnostics.extend(violations)
    return marked


# Nodes are compared by identity. Files without Jinja that were read before have the same trees.
@lru_cache(maxsize=64)
def _validated(node: Node, schema: str) -> tuple[Node, tuple[Diagnostic, ...]]:
    diagnostics = Diagnostics()
    finished: set[Path] = set()  # paths without further findings
    broken: set[Path] = set()
    errors: Iterator[ValidationError] = _validator(schema).iter_errors(node.to_python())
    for error in islice(errors, _MAX_VIOLATIONS):
        path = tuple(error.absolute_path)
        if path in finished:
            continue
        violation = _violation(node, path, error)
        report(violation, diagnostics)
        if error.validator == "type" or isinstance(violation.node, ScalarNode):
            finished.add(path)
        if not violation.about_key:
            broken.add(path)
    return _marked(node, (), broken), tuple(diagnostics)


def is_lost(node: MappingNode, section: str, schema: str, definition: str | None = None) -> bool:
    """Whether a section of a mapping could not be read, which was reported: it is no mapping, or its name is misspelt.

    `definition`: of the mapping in `schemas/<schema>.json`; None for the whole file.
    """
    if section in node:
        return not isinstance(node[section], MappingNode)
    keys = _keys(schema, definition)
    return any(closest(name, keys)[:1] == (section,) for name in node if name not in keys)


@cache
def _keys(schema: str, definition: str | None) -> tuple[str, ...]:
    content: Any = _validator(schema).schema
    return tuple((content["definitions"][definition] if definition else content)["properties"])


def _marked(node: Node, path: Path, broken: set[Path]) -> Node:
    """The tree with the scalars at or below these paths marked as broken. Other nodes stay the same objects."""
    if not any(other[: len(path)] == path for other in broken):
        return node
    match node:
        case ScalarNode():
            return ScalarNode(None, "", node.position, node.origin, node.cut_by_comment, broken=True)
        case SequenceNode():
            items = (_marked(item, (*path, index), broken) for index, item in enumerate(node))
            return SequenceNode(tuple(items), node.position)
        case MappingNode():
            entries = (Entry(entry.key, _marked(entry.node, (*path, entry.name), broken)) for entry in node.entries)
            return MappingNode(tuple(entries), node.position)


def _violation(root: Node, path: Path, error: ValidationError) -> Violation:
    owner: MappingNode | None = None
    node = root
    for step in path:
        if isinstance(node, MappingNode):
            owner = node
            node = node[str(step)]
        elif isinstance(node, SequenceNode):
            node = node[int(step)]
    about_key = "propertyNames" in error.absolute_schema_path
    schema = error.schema if isinstance(error.schema, dict) else {}
    reason = str(error.cause) if error.cause else None
    return Violation(
        node, owner, path, str(error.validator), error.validator_value, error.instance, schema, about_key, reason
    )


@cache
def _validator(schema: str) -> Validator:
    """The validator of a schema: Draft 7, but `$` matches only at the very end, and 4.0 is not an `integer`."""
    from jsonschema import Draft7Validator, FormatChecker, ValidationError
    from jsonschema.validators import extend

    def pattern(_: Validator, wanted: str, instance: Any, __: Any) -> Iterator[ValidationError]:
        if isinstance(instance, str) and not re.search(wanted.removesuffix("$") + r"\Z", instance):
            yield ValidationError(f"{instance!r} does not match {wanted!r}")

    formats = FormatChecker(formats=())
    formats.checks("spark-type", raises=ValueError)(_is_type)
    content = json.loads(resources.files(schemas).joinpath(f"{schema}.json").read_text(encoding="utf-8"))
    types = Draft7Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: type(value) in (int, NumberFromEnvironment)
    )
    strict: Any = extend(Draft7Validator, {"pattern": pattern}, type_checker=types)  # type: ignore[no-untyped-call]
    validator: Validator = strict(content, format_checker=formats)
    return validator


def _is_type(value: object) -> bool:
    """True for a type. Raises ValueError with the reason for other strings. Other rules check other values."""
    if isinstance(value, str):
        try:
            canonical(value)
        except RecursionError:
            raise ValueError("This type is nested too deeply") from None
    return True
