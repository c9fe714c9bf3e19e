"""The table of diagnostic codes: what each means, and the way out. One dictionary for each family.

A code is for ever: its number is never given to another meaning. Each has a project that triggers it in
`tests/diagnostics/<code>-<slug>/`, and a place in `docs/diagnostics.md`, which is made from this table and from those
projects; tests hold both.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """An error stops the build, a warning does not."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Code:
    """A kind of finding: `summary` in a few words, why it is wrong (`meaning`), what to do (`way_out`)."""

    summary: str
    meaning: str = ""
    way_out: str = ""
    severity: Severity = Severity.ERROR


# HW0xx: files and YAML
FILES: dict[str, Code] = {}

# HW1xx: Jinja
JINJA: dict[str, Code] = {}

# HW2xx: the schemas of the files
SCHEMA: dict[str, Code] = {}

# HW3xx: references between topics, tables, stores, flows and functions
REFERENCES: dict[str, Code] = {}

# HW4xx: expressions
EXPRESSIONS: dict[str, Code] = {}

# HW5xx: what a topology may do
TOPOLOGY: dict[str, Code] = {}

# HW6xx: plugins
PLUGINS: dict[str, Code] = {}

CODES: dict[str, Code] = FILES | JINJA | SCHEMA | REFERENCES | EXPRESSIONS | TOPOLOGY | PLUGINS
