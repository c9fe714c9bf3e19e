"""Checks a tree against its JSON Schema and reports each violation at its place.

The schemas (`schemas/*.json`) define what is valid. The sentences come from `violations`: the kind of the violated rule
and the `title` of its schema decide them.
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
from ...suggestions import closest
from ..diagnostics import Diagnostic, Diagnostics
from ..types import canonical
from .files import NumberFromEnvironment
from .source import Entry, MappingNode, Node, ScalarNode, SequenceNode
from .violations import Violation, report

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

Path = tuple[str | int, ...]

_MOST_VIOLATIONS = 200


def validate(node: Node, schema: str, diagnostics: Diagnostics) -> Node:
    """Report whatever `schemas/<schema>.json` does not allow, and mark the values concerned as broken.

    Values that are broken already are ignored.
    """
    marked, found = _validated(node, schema)
    diagnostics.extend(found)
    return marked


# By identity, as nodes have it: files without Jinja that were read before are the same trees.
@lru_cache(maxsize=64)
def _validated(node: Node, schema: str) -> tuple[Node, tuple[Diagnostic, ...]]:
    diagnostics = Diagnostics()
    finished: set[Path] = set()  # where one finding is enough
    wrong: set[Path] = set()
    errors: Iterator[ValidationError] = _validator(schema).iter_errors(node.to_python())
    for error in islice(errors, _MOST_VIOLATIONS):
        path = tuple(error.absolute_path)
        if path in finished:
            continue
        violation = _violation(node, path, error)
        report(violation, diagnostics)
        if error.validator == "type" or isinstance(violation.node, ScalarNode):
            finished.add(path)
        if not violation.about_key:
            wrong.add(path)
    return _marked(node, (), wrong), tuple(diagnostics)


def is_lost(node: MappingNode, section: str, schema: str, definition: str | None = None) -> bool:
    """Whether a section of a mapping cannot be read, which has been reported: it has another form, or a misspelt name.

    `definition`: the mapping's own in `schemas/<schema>.json`; the whole file's if there is none.
    """
    if section in node:
        return not isinstance(node[section], MappingNode)
    known = _keys(schema, definition)
    return any(closest(name, known)[:1] == (section,) for name in node if name not in known)


@cache
def _keys(schema: str, definition: str | None) -> tuple[str, ...]:
    content: Any = _validator(schema).schema
    return tuple((content["definitions"][definition] if definition else content)["properties"])


def _marked(node: Node, path: Path, wrong: set[Path]) -> Node:
    """The tree with the scalars at these paths marked as broken. Other nodes stay the same objects."""
    if not any(there[: len(path)] == path for there in wrong):
        return node
    match node:
        case ScalarNode():
            return ScalarNode(None, "", node.position, node.origin, node.cut_by_comment, broken=True)
        case SequenceNode():
            items = (_marked(item, (*path, index), wrong) for index, item in enumerate(node))
            return SequenceNode(tuple(items), node.position)
        case MappingNode():
            entries = (Entry(entry.key, _marked(entry.node, (*path, entry.name), wrong)) for entry in node.entries)
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
    """The validator of a schema: Draft 7, but `$` matches only at the very end, and 4.0 is no `integer`."""
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
    made: Validator = strict(content, format_checker=formats)
    return made


def _is_type(value: object) -> bool:
    """Whether a text is a type.

    Raises ValueError with the reason if it is not. Other rules check values that are no texts.
    """
    if isinstance(value, str):
        try:
            canonical(value)
        except RecursionError:
            raise ValueError("This type is nested too deeply") from None
    return True
