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
FILES: dict[str, Code] = {
    "HW001": Code(
        "a required file is missing",
        "A project is a folder with `headwater.yml` and `profiles.yml`.",
        "Run the command in the project's folder, name it with `--project-dir`, or start one with `headwater init`.",
    ),
    "HW002": Code(
        "a path leaves the project",
        "A project is self-contained: its YAML files and seeds lie inside its folder, also after symbolic links.",
        "Copy the file into the project.",
    ),
    "HW003": Code(
        "a file is too large",
        "YAML files are read whole, so they are limited to 2 MB each and 20 MB together.",
        "Split the file; put data into seeds.",
    ),
    "HW004": Code(
        "a file is not UTF-8",
        "YAML files are UTF-8, without exception, so that everyone sees the same names.",
        "Save the file as UTF-8.",
    ),
    "HW005": Code(
        "a character that YAML forbids",
        "Control characters cannot stand in a YAML file.",
        "Remove it, or write it as an escape in double quotes, such as `\\x07`.",
    ),
    "HW006": Code(
        "a file cannot be read",
        "What has the name of a YAML file is not a regular file, or its permissions forbid reading.",
        "Replace it by a file that you may read.",
    ),
    "HW007": Code(
        "a file is there twice",
        "`headwater.yml` and `headwater.yaml` side by side: one of them would be silently ignored.",
        "Remove one.",
    ),
    "HW008": Code(
        "an unknown profile",
        "The profile that `headwater.yml` or `--profile` names is not in `profiles.yml`.",
        "Add it to `profiles.yml`, or name one that is there.",
    ),
    "HW009": Code(
        "an unknown target",
        "The target that the profile or `--target` names is not in the profile's `targets`.",
        "Add it to `targets`, or name one that is there.",
    ),
    "HW010": Code(
        "YAML that does not parse",
        "The file is not well-formed YAML at this place.",
        "Check indentation, quotes and brackets on this line and the one before.",
    ),
    "HW011": Code(
        "a tab as indentation",
        "YAML forbids tabs where indentation or the start of a value is expected.",
        "Use spaces.",
    ),
    "HW012": Code(
        "a key given twice",
        "YAML readers silently keep the last of two equal keys.",
        "Remove or rename one.",
    ),
    "HW013": Code(
        "a word that some read as a boolean",
        "YAML 1.1 reads `yes`, `no`, `on` and `off` as booleans, YAML 1.2 as words.",
        "Write `true` or `false`, or put the word in quotes.",
    ),
    "HW014": Code(
        "a number that some read differently",
        "`012` is ten in YAML 1.1 and twelve in 1.2; `1:30` is ninety in one and text in the other; the same goes for "
        "`0b1`, `0o7` and `1_000`.",
        "Write the plain decimal number, or put the text in quotes.",
    ),
    "HW015": Code(
        "a bare date or time",
        "YAML 1.1 turns unquoted dates into timestamps, 1.2 does not.",
        "Put it in quotes.",
    ),
    "HW016": Code(
        "a YAML tag",
        "Tags choose how a value is built, some by running code; Headwater needs none and accepts none.",
        "Remove the tag; quotes make a text, their absence a number.",
    ),
    "HW017": Code(
        "anchors that expand without bound",
        "Aliases repeat what an anchor names. They must not contain themselves, nor multiply beyond 100,000 nodes.",
        "Write it out, or use fewer aliases.",
    ),
    "HW018": Code(
        "nesting too deep",
        "No file of a project needs more than 64 levels.",
        "Flatten it.",
    ),
    "HW019": Code(
        "too many values in a file",
        "A file may hold 100,000 values.",
        "Split the file; put data into seeds.",
    ),
    "HW020": Code(
        "a merge key",
        "`<<` is not part of YAML 1.2, and hides what a mapping really says.",
        "Write the keys out, or share single values with `var()`.",
    ),
    "HW021": Code(
        "several documents in one file",
        "Only the first would be read.",
        "Put each document into a file of its own.",
    ),
    "HW022": Code(
        "a key that is not a text",
        "Keys are names. An unquoted number, boolean, null, list or mapping is none.",
        "Put the key in quotes.",
    ),
    "HW023": Code(
        "an expression split at its comma",
        "Inside `{...}` and `[...]`, YAML ends a value at each comma, also between parentheses.",
        "Put the expression in quotes, or write the mapping in block style, a line for each key.",
    ),
    "HW024": Code(
        "a value that begins with an unquoted `{{`",
        "YAML reads an opening brace as the start of a mapping.",
        "Put the whole value in quotes; if it is one expression, it keeps its type.",
    ),
    "HW025": Code(
        "a file without content",
        "The file is empty, or has only comments.",
        "Fill it or remove it.",
    ),
    "HW026": Code(
        "a name defined twice",
        "Two files (or two documents) define a topic or a topology of the same name.",
        "Rename or remove one.",
    ),
}

# HW1xx: Jinja
JINJA: dict[str, Code] = {
    "HW101": Code(
        "Jinja that does not parse",
        "The text between `{{ }}` or `{% %}` is not a Jinja expression.",
        "Mend the expression. A literal `{{` is written `{{ '{{' }}`.",
    ),
    "HW102": Code(
        "an unknown variable",
        "`var()` names a variable that neither `vars:` in `headwater.yml` nor `--vars` gives.",
        "Add it to `vars:`, or give a default: `var('name', 10)`.",
    ),
    "HW103": Code(
        "an unset environment variable",
        "`env_var()` names a variable that is not set where the command runs.",
        "Set it, or give a default: `env_var('NAME', 'value')`.",
    ),
    "HW104": Code(
        "an unknown name in Jinja",
        "Jinja in a project knows two functions, `var()` and `env_var()`, and no other names.",
        "Use `var('name')`.",
    ),
    "HW105": Code(
        "a statement that is not allowed",
        "Of Jinja's statements only `{% if %}` is there: loops, macros, includes and assignments would make YAML a "
        "program that need not end.",
        "Write it out, or generate the file.",
    ),
    "HW106": Code(
        "an operation that is not allowed",
        "Attributes, method calls, powers, repetition of text and most filters are left out, so that every project "
        "renders at once and nothing can be reached from inside.",
        "Compute the value elsewhere and pass it with `--vars`.",
    ),
    "HW107": Code(
        "a template that is too large",
        "A value with Jinja may have 10,000 characters, and what it renders to 100,000.",
        "Split it.",
    ),
    "HW108": Code(
        "Jinja that fails",
        "The expression is well-formed but cannot be computed, such as a sum of a number and a text.",
        "Mend the expression or the variable's value.",
    ),
    "HW109": Code(
        "Jinja in a key",
        "Only values are rendered: a key is a name that others refer to, and stays what is written.",
        "Write the name out.",
    ),
}

# HW2xx: the schemas of the files
SCHEMA: dict[str, Code] = {
    "HW201": Code(
        "an unknown key",
        "The object has no such key. Anything of your own goes below `meta:`.",
        "Correct the spelling, or move it below `meta:`.",
    ),
    "HW202": Code("a missing key", "The object needs this key.", "Add it."),
    "HW203": Code(
        "a value of the wrong type",
        "The key wants another kind of value, for instance a number where there is a text.",
        'Write a value of that type. Quotes make a text: `"1.0"`.',
    ),
    "HW204": Code("a word that is not allowed here", "The key takes one of a few words.", "Use one of them."),
    "HW205": Code(
        "a duration that does not parse",
        "Durations are a whole number and a unit: `10ms`, `5s`, `10m`, `1h`, `2d`.",
        "Write it as one number and one unit.",
    ),
    "HW206": Code(
        "a step that is not exactly one step",
        "Each item of `steps` is one step, named by its one key; `name`, `description`, `tags` and `meta` may stand "
        "beside it.",
        "Start each step with a dash of its own.",
    ),
    "HW207": Code(
        "reserved for a later version",
        "The word is part of the language, but this version cannot run it yet.",
        "Leave it out for now.",
    ),
    "HW208": Code("a value out of range", "The value is too small, too large, or too short a list.", "Change it."),
    "HW209": Code(
        "a name that is not allowed",
        "Names of projects, topics, topologies, tables, stores, flows and columns are letters, digits and "
        "underscores, and do not begin with a digit.",
        "Rename it.",
    ),
    "HW210": Code(
        "keys that do not go together",
        "Some keys exclude each other, and some need another beside them.",
        "Keep the ones you mean.",
    ),
    "HW211": Code(
        "a reserved column name",
        "Headwater gives these columns to every record itself.",
        "Rename the column.",
    ),
}

# HW3xx: references between topics, tables, stores, flows and functions
REFERENCES: dict[str, Code] = {}

# HW4xx: expressions
EXPRESSIONS: dict[str, Code] = {}

# HW5xx: what a topology may do
TOPOLOGY: dict[str, Code] = {}

# HW6xx: plugins
PLUGINS: dict[str, Code] = {}

CODES: dict[str, Code] = FILES | JINJA | SCHEMA | REFERENCES | EXPRESSIONS | TOPOLOGY | PLUGINS
