"""A strict YAML loader that keeps positions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import yaml

from ..diagnostics import Diagnostic, Diagnostics, Position
from .source import Entry, FixedOrigin, MappingNode, Node, ScalarNode, SequenceNode, SourceFile, SourceOrigin
from .yaml_scalars import Ambiguous, report_syntax_error, resolve

# Expressions that YAML splits at their commas: `{a: coalesce(x, 0)}` has the two keys `a` and `0)`.
#
# Their parentheses show which parts belong together. The parts are joined, so one mistake has one message.


@dataclass(slots=True)
class Built:
    """A node with its range in the text.

    `size`, `height`: the numbers of its nodes and levels, with expanded aliases. `implied`: an empty value (`a:`).
    `plain`: a scalar without quotes.
    """

    node: Node
    size: int = 1
    height: int = 0
    start: int = 0
    end: int = 0
    implied: bool = False
    plain: bool = False


def rejoin_split(children: list[Built], is_mapping: bool, source: SourceFile) -> tuple[list[Built], list[ScalarNode]]:
    """The children of a flow collection, with a broken scalar for each split expression; and these scalars.

    The children of a mapping are alternating keys and values: `a`, `coalesce(x`, `0)`, and an implied value become `a`
    and the broken scalar `coalesce(x, 0)`.
    """
    joined: list[Built] = []
    splits: list[ScalarNode] = []
    step = 2 if is_mapping else 1
    at = 0
    while at < len(children):
        group = children[at : at + step]
        at += step
        value = last = group[-1]
        depth = max(_open_parentheses(value), 0) if value.plain else 0
        while depth > 0 and at < len(children) and _is_rest(children[at : at + step]):
            last = children[at]
            depth += _open_parentheses(last)
            at += step
        if last is not value:
            text = source.text[value.start : last.end]
            at_split = source.position(value.start, last.end)
            split = ScalarNode(None, text, at_split, FixedOrigin(at_split), broken=True)
            splits.append(split)
            group[-1] = Built(split, start=value.start, end=last.end)
        joined.extend(group)
    return joined, splits


def _is_rest(group: list[Built]) -> bool:
    """Whether an item, or a key with its value, can be a part of an expression after a comma."""
    return group[0].plain and (len(group) == 1 or group[1].implied)


def _open_parentheses(built: Built) -> int:
    return built.node.text.count("(") - built.node.text.count(")") if isinstance(built.node, ScalarNode) else 0


# Strict YAML, from text to nodes with positions. Ambiguous YAML is an error.
#
# The loader uses the parser's events, not PyYAML's constructors. So tags build no objects, deep nesting needs no
# recursion, and aliases are counted before they are expanded. A value with an error is marked as broken, and reading
# continues. It stops only if the rest of the file cannot be read.

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_COMMENT = re.compile(r"[ \t]+#")
_TEMPLATE_START = ("{{", "{%", "{#")
_MAX_REPAIRS = 20
_MAX_PROBLEMS = 200


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one file. `depth`: levels of nesting. `nodes`: values, with expanded aliases."""

    depth: int = 64
    nodes: int = 100_000


def read_yaml(source: SourceFile, diagnostics: Diagnostics, limits: Limits = Limits()) -> Node | None:
    """The tree of the file's document; None, with a diagnostic, if it cannot be read or is empty."""
    node, items = _read(source.name, source.text, limits)
    diagnostics.extend(items)
    return node


# Cached, because programs check the same project repeatedly. Nodes are immutable.
@lru_cache(maxsize=64)
def _read(name: str, text: str, limits: Limits) -> tuple[Node | None, tuple[Diagnostic, ...]]:
    diagnostics = Diagnostics()
    return _tree(SourceFile(name, text), diagnostics, limits), tuple(diagnostics)


def _tree(source: SourceFile, diagnostics: Diagnostics, limits: Limits) -> Node | None:
    # Searched here, because PyYAML's own error has no line.
    if forbidden := _FORBIDDEN.search(source.text):
        shown = f"U+{ord(forbidden[0]):04X}"
        diagnostics.add("HW005", source.position(forbidden.start()), f"YAML forbids the character {shown}.")
        return None
    text, repaired = source.text, set[int]()
    while True:
        composer = _Composer(source, text, repaired, limits)
        try:
            node = composer.compose()
        except _BareTemplateError as bare:
            diagnostics.add(
                "HW024",
                source.position(bare.start, bare.end),
                f"YAML reads a value that begins with '{source.text[bare.start : bare.start + 2]}' as a mapping.",
                "Put the whole value in quotes.",
            )
            # The template is replaced by underscores, which keeps all positions, and the file is read again to find its
            # other errors.
            repaired.add(bare.start)
            text = text[: bare.start] + "_" * (bare.end - bare.start) + text[bare.end :]
            if len(repaired) < _MAX_REPAIRS:
                continue
            return None
        except _StopError:
            node = None
        except yaml.MarkedYAMLError as error:
            node = None
            # After a repair, the repair itself may cause the syntax error.
            if not repaired:
                report_syntax_error(error, source, composer.last_quoted, composer.diagnostics)
        diagnostics.extend(composer.diagnostics)
        return node


class _StopError(Exception):
    """The rest of the file cannot be read."""


class _BareTemplateError(Exception):
    """A value begins with an unquoted `{{`."""

    def __init__(self, start: int, end: int) -> None:
        super().__init__()
        self.start = start
        self.end = end


@dataclass(slots=True)
class _Open:
    """A collection before its end."""

    is_mapping: bool
    flow: bool
    start: int
    anchor: str | None
    children: list[Built] = field(default_factory=list)


class _Composer:
    """One reading of one file."""

    def __init__(self, source: SourceFile, text: str, repaired: set[int], limits: Limits) -> None:
        self.diagnostics = Diagnostics()
        self.last_quoted: int | None = None
        self._source = source
        self._text = text
        self._repaired = repaired
        self._limits = limits
        self._anchors: dict[str, Built] = {}
        self._open: list[_Open] = []
        self._size = 0
        self._problems = 0

    def compose(self) -> Node | None:
        root: Built | None = None
        for event in yaml.parse(self._text, Loader=_LOADER):
            if isinstance(event, yaml.DocumentStartEvent) and root is not None:
                at = self._source.position(_index(event.start_mark))
                self.diagnostics.add("HW021", at, "A second YAML document begins here.", "Put it into its own file.")
                break
            if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
                self._start(event)
                continue
            built: Built
            if isinstance(event, yaml.ScalarEvent):
                built = self._scalar(event)
            elif isinstance(event, yaml.AliasEvent):
                built = self._alias(event)
            elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
                built = self._end(_index(event.end_mark))
            else:
                continue
            if self._open:
                self._open[-1].children.append(built)
            else:
                root = built
        if root is None or root.implied:
            self.diagnostics.add("HW025", self._source.position(0), "The file has no content.", "Fill or remove it.")
            return None
        return root.node

    def _start(self, event: Any) -> None:
        start = _index(event.start_mark)
        if event.flow_style and self._source.text.startswith(_TEMPLATE_START, start):
            in_flow = any(collection.flow for collection in self._open)
            raise _BareTemplateError(start, _end_of_template(self._source.text, start, in_flow))
        self._check_tag(event)
        self._count(1, start)
        if len(self._open) >= self._limits.depth:
            self._stop("HW018", start, f"This is nested more than {self._limits.depth} levels deep.", "Flatten it.")
        mapping = isinstance(event, yaml.MappingStartEvent)
        self._open.append(_Open(mapping, bool(event.flow_style), start, event.anchor))

    def _end(self, end: int) -> Built:
        collection = self._open.pop()
        children = collection.children
        if collection.flow:
            children, splits = rejoin_split(children, collection.is_mapping, self._source)
            for split in splits:
                hint = "Put it in quotes, or write a line for each key."
                self._report("HW023", split.position, f"YAML splits '{split.text}' at its comma.", hint)
        at = self._source.position(collection.start)
        node: Node
        if collection.is_mapping:
            node = MappingNode(self._entries(children), at)
        else:
            node = SequenceNode(tuple(child.node for child in children), at)
        size = 1 + sum(child.size for child in children)
        height = 1 + max((child.height for child in children), default=0)
        built = Built(node, size, height, collection.start, end)
        if collection.anchor is not None:
            self._anchors[collection.anchor] = built
        return built

    def _entries(self, children: list[Built]) -> tuple[Entry, ...]:
        entries: dict[str, Entry] = {}
        merged: list[Entry] = []
        for key, child in zip(children[::2], children[1::2], strict=True):
            # A quoted "<<" is an ordinary key.
            if isinstance(key.node, ScalarNode) and key.plain and key.node.text == "<<":
                self._report("HW020", key.node.position, "Merge keys are not supported.", "Write the keys out.")
                # Added, so that later stages do not report them as missing.
                merged += _merged(child.node)
                continue
            scalar = self._key(key)
            if scalar is None:
                continue
            # YAML forbids equal keys, but most loaders silently take the last one.
            if first := entries.get(scalar.text):
                self._report(
                    "HW012",
                    scalar.position,
                    f"The key '{scalar.text}' is used twice, first in line {first.key.position.line}.",
                    "Remove or rename one.",
                )
                continue
            entries[scalar.text] = Entry(scalar, child.node)
        for entry in merged:
            entries.setdefault(entry.name, entry)
        return tuple(entries.values())

    def _key(self, key: Built) -> ScalarNode | None:
        node = key.node
        if isinstance(node, ScalarNode) and (isinstance(node.value, str) or node.broken):
            return node
        shown = f"'{node.text}'" if isinstance(node, ScalarNode) and node.text else "This"
        self._report("HW022", node.position, f"{shown} is a key, but not a string.", "Put the key in quotes.")
        # A number becomes the intended string, so that later stages do not report it as missing.
        return _broken(node.text, node.position) if isinstance(node, ScalarNode) and node.text else None

    def _scalar(self, event: yaml.ScalarEvent) -> Built:
        start, end = _index(event.start_mark), _index(event.end_mark)
        self._count(1, start)
        self._check_tag(event)
        plain = event.style is None or event.style == ""
        at = self._source.position(start, end)
        node: ScalarNode
        # A repaired template: its text is underscores. A broken scalar causes no further messages.
        if start in self._repaired:
            node = _broken(event.value, at)
        else:
            style = None if plain else str(event.style)
            value = resolve(event.value) if plain else event.value
            if isinstance(value, Ambiguous):
                is_key = bool(self._open) and self._open[-1].is_mapping and len(self._open[-1].children) % 2 == 0
                hint = _hint_for_key(event.value) if is_key else value.hint
                self._report(value.code, at, value.message, hint)
                node = _broken(event.value, at)
            else:
                origin = SourceOrigin(self._source, start, end, style, event.value)
                comment = _COMMENT.match(self._text, end) if plain and event.value else None
                cut = self._source.position(comment.end() - 1) if comment else None
                node = ScalarNode(value, event.value, at, origin, cut)
        if not plain:
            self.last_quoted = end
        built = Built(node, start=start, end=end, implied=plain and start == end, plain=plain)
        if event.anchor is not None:
            self._anchors[event.anchor] = built
        return built

    def _alias(self, event: yaml.AliasEvent) -> Built:
        start = _index(event.start_mark)
        name = str(event.anchor)
        if any(collection.anchor == name for collection in self._open):
            self._stop("HW017", start, f"The anchor '{name}' contains itself.", "Write it out.")
        if name not in self._anchors:
            self._stop("HW010", start, f"There is no anchor '{name}'.", "Put a value that begins with * in quotes.")
        built = self._anchors[name]
        # A few lines of nested aliases can expand to billions of values. So sizes are added without expanding.
        if self._size + built.size > self._limits.nodes:
            message = f"With this alias the file expands to more than {self._limits.nodes:,} values."
            self._stop("HW017", start, message, "Use fewer aliases.")
        # Depth is limited, because later stages are recursive.
        if len(self._open) + built.height > self._limits.depth:
            message = f"With this alias the file is nested more than {self._limits.depth} levels deep."
            self._stop("HW018", start, message, "Flatten it.")
        self._size += built.size
        return built

    def _count(self, nodes: int, index: int) -> None:
        self._size += nodes
        if self._size > self._limits.nodes:
            message = f"The file has more than {self._limits.nodes:,} values."
            self._stop("HW019", index, message, "Split the file; put data into seeds.")

    def _check_tag(self, event: Any) -> None:
        if event.tag is not None:
            shown = event.tag.replace("tag:yaml.org,2002:", "!!")
            at = self._source.position(_index(event.start_mark))
            hint = "Remove it; put a value that begins with ! in quotes."
            self._report("HW016", at, f"The tag '{shown}' is not allowed.", hint)

    def _stop(self, code: str, index: int, message: str, hint: str) -> None:
        self.diagnostics.add(code, self._source.position(index), message, hint)
        raise _StopError

    def _report(self, code: str, at: Position, message: str, hint: str) -> None:
        """Add a finding. Raises _StopError after too many findings."""
        self.diagnostics.add(code, at, message, hint)
        self._problems += 1
        if self._problems >= _MAX_PROBLEMS:
            raise _StopError


def _merged(node: Node) -> list[Entry]:
    """The entries of a merge key's mapping, or of its list of mappings, of which the first win."""
    mappings = node.items if isinstance(node, SequenceNode) else (node,)
    return [entry for mapping in mappings if isinstance(mapping, MappingNode) for entry in mapping.entries]


def _hint_for_key(word: str) -> str:
    return "Put the key in quotes; in a join, write 'by'." if word == "on" else "Put the key in quotes."


def _index(mark: Any) -> int:
    """The index of a mark in the text."""
    return int(mark.index)


def _broken(text: str, at: Position) -> ScalarNode:
    return ScalarNode(None, text, at, FixedOrigin(at), broken=True)


def _end_of_template(text: str, start: int, in_flow: bool) -> int:
    """The intended end of a value that begins with a template at `start`: of its line, or in flow style, its braces."""
    line = text.find("\n", start)
    line = len(text) if line < 0 else line
    closed = text.find("}}", start, line)
    end = closed + 2 if in_flow and closed >= 0 else line
    return start + len(text[start:end].rstrip())
