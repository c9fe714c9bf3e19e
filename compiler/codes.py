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
        "A project is self-contained: its YAML files, seeds, functions and plugins lie inside its folder, also after "
        "symbolic links.",
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
    "HW027": Code(
        "a seed that is not there",
        "A topic is to be seeded from a file that does not exist, seen from the project's folder.",
        "Put it there, or fix the path. Until then `headwater seed` cannot fill the topic.",
        Severity.WARNING,
    ),
    "HW028": Code(
        "a state_dir that is not on its own",
        "Stores can be made again, the project and the log cannot. So `state_dir` is not the project's folder or the "
        "log, does not contain one of them, and does not lie in the log, also after symbolic links.",
        "Give `state_dir` a folder of its own. Move the clients' folders (`client-1` and so on) there, or let a run "
        "restore the stores from their changelogs.",
    ),
    "HW029": Code(
        "data among generated files",
        "`headwater clean` removes the folder `target` with all that is in it.",
        "Move the log or the `state_dir` elsewhere: move the folder, then change its path in `profiles.yml`.",
    ),
    "HW033": Code(
        "a master that there is not",
        "`master` says where Spark runs: `local[2]` in this process, or the address of a cluster.",
        "Write one that Spark knows, such as `local[2]`, `yarn` or `spark://host:7077`.",
    ),
    "HW034": Code(
        "a Spark setting with a value of the wrong kind",
        "Spark would refuse it when a run starts, or its JVM would not start at all.",
        "Write a size as `512m` or `2g`, a count as a number from 1.",
    ),
    "HW035": Code(
        "a variable that nothing uses",
        "`--vars` gives a variable that headwater.yml does not declare and that no file asks for with `var()`: a "
        "misspelt one would leave the value as it was. Or headwater.yml declares one that no file asks for.",
        "Fix the name or leave it out. What only a part of the project uses is fine.",
        Severity.WARNING,
    ),
    "HW036": Code(
        "a Spark setting that a run would refuse",
        "Results rest on some settings of Spark, such as ANSI mode and UTC: what an expression means must not depend "
        "on a profile. Those of older versions (`spark.sql.legacy`) change it too. Spark Connect cannot place tasks.",
        "Remove it from the `spark:` section.",
    ),
    "HW037": Code(
        "a file that nothing reads",
        "A file in a folder of the project does not have the form that is read there, no text of the project names it, "
        "or a file or folder beside headwater.yml is called nearly like one that is read. What is in it has no effect.",
        "Give it the name that was meant, or move it out of the folder. Hidden files and those for people, such as "
        "README.md, may lie anywhere.",
        Severity.WARNING,
    ),
    "HW038": Code(
        "an environment variable that nothing reads",
        "Variables that begin with HEADWATER_ are Headwater's own, and it has none of this name. Those that a file of "
        "the project names are fine.",
        "Fix the name, or unset it.",
        Severity.WARNING,
    ),
    "HW039": Code(
        "a name that no file can have",
        "The log and the state directory have folders for applications (`<project>-<topology>`), topics and stores. "
        "The name of a file has at most 255 characters, also that of a changelog "
        "(`<project>-<topology>-<store>-changelog`) or a repartition topic. Where a file system does not tell capitals "
        "from small letters, two names must not differ in these only.",
        "Give the project, the topology, the store, the flow or the step a shorter name, or another one.",
    ),
    "HW040": Code(
        "a plugin to leave out that is not there",
        "`-p no:<name>` names neither an installed plugin, by its entry point, nor a module of `plugins:`. A misspelt "
        "name leaves the plugin in.",
        "Fix the name, or leave the option out.",
        Severity.WARNING,
    ),
}

# HW1xx: Jinja
JINJA: dict[str, Code] = {
    "HW101": Code(
        "Jinja that does not parse",
        "The text between `{{ }}` or `{% %}` is not a Jinja expression.",
        "Fix the expression. A literal `{{` is written `{{ '{{' }}`.",
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
        "A value with Jinja may have 10,000 characters, and what it renders to 20,000; a file may have 10,000 such "
        "values, which together give at most 2,000,000 characters and 100,000 values.",
        "Split it.",
    ),
    "HW108": Code(
        "Jinja that fails",
        "The expression is well-formed but cannot be computed, such as a sum of a number and a text.",
        "Fix the expression or the variable's value.",
    ),
    "HW109": Code(
        "Jinja in a key",
        "Only values are rendered: a key is a name that others refer to, and stays what is written.",
        "Write the name out.",
    ),
    "HW110": Code(
        "`env_var()` outside of profiles.yml",
        "What stands in the other files becomes generated code and the manifest, which must not hold what only the "
        "environment knows, and must be the same on every machine.",
        "Use `var('name')`, with a value in `vars:` of headwater.yml or by `--vars`.",
    ),
    "HW111": Code(
        "something computed from `env_var()`",
        "Generated code does not hold the value of an environment variable: it looks it up when it runs. So it stands "
        "alone or between texts, with `| int` for a number.",
        "Compute it where the variable is set, or take a variable: `var('name')`.",
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
        "a type that Spark SQL does not have",
        "Columns have Spark SQL's types: `int`, `string`, `decimal(10,2)`, `array<string>`, `struct<a:int>` and so on.",
        "Write one of them.",
    ),
    "HW208": Code("a value out of range", "The value is too small, too large, or too short a list.", "Change it."),
    "HW209": Code(
        "a name that is not allowed",
        "Names of projects, topologies, tables, stores, flows and columns are letters, digits and underscores, and do "
        "not begin with a digit. Names of topics may have dots and dashes too, as in Kafka, but not those that "
        "Headwater gives to its own: `<project>-...-repartition` and `<project>-...-changelog`. No topology is called "
        "`seed`.",
        "Rename it.",
    ),
    "HW210": Code(
        "keys that do not go together",
        "Some keys exclude each other, and some need another beside them.",
        "Keep the ones you mean.",
    ),
}

# HW3xx: references between topics, tables, stores, flows and functions
REFERENCES: dict[str, Code] = {
    "HW301": Code(
        "an unknown topic",
        "A table reads a topic that no file of `topics/` declares and no flow writes.",
        "Declare it in `topics/`, or fix the name.",
    ),
    "HW302": Code(
        "an unknown source of a flow",
        "What `from`, or `stream` of a join, names is no topic of the project, and no table or flow of the topology.",
        "Declare it, or fix the name. Flows of other topologies are read through the topics that they write.",
    ),
    "HW303": Code(
        "an unknown table",
        "A `join` names what is neither a table of this topology nor a flow that is one.",
        "Declare it under `tables:`, or make a flow a table with `to_table`.",
    ),
    "HW304": Code(
        "an unknown store",
        "A step or a table names a store that `stores:` of this topology does not have.",
        "Declare it under `stores:`. Only a processor needs that: other steps that name no store get one with the "
        "defaults.",
    ),
    "HW305": Code(
        "an unknown function",
        "`functions.module:name` names a Python function or class that the project's `functions/` does not have.",
        "Add it, or fix the name.",
    ),
    "HW306": Code(
        "a name defined twice",
        "In a topology, topics, tables and flows (those of a `branch` too) share one namespace.",
        "Rename one.",
    ),
    "HW307": Code(
        "flows that read one another in a circle",
        "A flow can only read what comes before it. A circle is only possible through a declared topic.",
        "Break the circle, or write to a topic of `topics/` and read that.",
    ),
    "HW308": Code(
        "a topic written twice",
        "A topic has one writer: one flow, or its seed. Else nobody could say what order its records are in.",
        "Merge the flows with `from: [a, b]`, or write to two topics.",
    ),
    "HW309": Code(
        "a store used by two steps",
        "A store belongs to one step, or to one table; only processors may share one.",
        "Give each its own store.",
    ),
    "HW310": Code(
        "a flow that nobody reads",
        "The flow has no `to`, and no other flow reads it: its work is for nothing.",
        "Write it to a topic with `to`, or remove it.",
        Severity.WARNING,
    ),
    "HW311": Code(
        "a store that nobody uses",
        "No step and no table names this store.",
        "Name it in a step's `store`, or remove it.",
        Severity.WARNING,
    ),
    "HW312": Code(
        "a function that cannot be loaded",
        "`compile` imports the modules of `functions/` that flows name, and this one raises an error.",
        "Fix it there. A package that it imports must be installed, also on the executors.",
    ),
}

# HW4xx: expressions
EXPRESSIONS: dict[str, Code] = {
    "HW401": Code(
        "an expression that does not parse",
        "Expressions are those of Spark SQL, one for each value.",
        "Fix the syntax at this place.",
    ),
    "HW402": Code(
        "an expression cut short by ` #`",
        "YAML takes ` #` as the start of a comment, so the expression ends before it and does not parse.",
        "Put the expression in quotes.",
    ),
    "HW403": Code(
        "an unknown column",
        "The flow has no column of this name at this step.",
        "Fix the name. After `select` and `aggregate` only their columns are left.",
    ),
    "HW404": Code(
        "an ambiguous column",
        "Two columns have this name: of key and value, or of the flow and the joined table.",
        "Say which: `key.x`, `value.x` or `table.x`.",
    ),
    "HW405": Code(
        "an unknown SQL function",
        "The function is not in the list of functions that expressions may use.",
        "Fix the name; `docs/language/expressions.md` has the list.",
    ),
    "HW406": Code(
        "a function that is not deterministic",
        "Its answer depends on when or where it runs. The result of a flow must not: a record that is processed again "
        "after a failure has to give the same.",
        "Use what the hint says.",
    ),
    "HW407": Code(
        "SQL that an expression cannot hold",
        "An expression is of one row: no subqueries, no window functions, no stars, no aliases, no generators.",
        "Use a step: `join`, `window` and `aggregate`, `explode`.",
    ),
    "HW408": Code(
        "an aggregate outside of `aggregate`",
        "Only the values of an `aggregate` step see more than one record.",
        "Move it to an `aggregate` step.",
    ),
    "HW409": Code(
        "an aggregate that is not supported",
        "This aggregate, or this form of it, cannot be kept up record by record here.",
        "Use one of those listed in `docs/language/windows-and-aggregates.md`.",
    ),
    "HW410": Code(
        "a value of `aggregate` that is not aggregated",
        "A column that stands outside of an aggregate has no one value in its group.",
        "Aggregate it: `max(x)`, `first(x)`. Key columns are in the result anyway.",
    ),
    "HW411": Code(
        "types that do not fit in an expression",
        "Spark's analyzer refuses the expression.",
        "Cast, or fix the expression.",
    ),
    "HW412": Code(
        "an expression of the wrong type for its place",
        "A `filter` and a `when` need a boolean, `explode` an array; a key cannot hold a map.",
        "Change the expression so that it gives what the step needs.",
    ),
    "HW413": Code(
        "an aggregate of a type that it does not take",
        "`sum` and `avg` take numbers, `bool_and`, `bool_or` and `count_if` booleans; `min`, `max`, `min_by`, `max_by` "
        "and `approx_count_distinct` values that have an order, which maps have not. Where Spark would cast a text or "
        "a time without being told, the cast must be written, because it changes what is aggregated.",
        "Cast the column to what the aggregate takes.",
    ),
    "HW414": Code(
        "a text that would be cast without being told",
        "Spark casts texts to numbers, times and booleans where these are compared, computed or combined with them: "
        "`coalesce(category, 0)` is a number. The first text that is none fails. So the cast must be written.",
        "Write `cast` or `try_cast`, or let all of the values be texts.",
    ),
    "HW415": Code(
        "a constant that always fails",
        "A part of the expression is made of constants alone, and computing it fails: `cast('abc' as int)`, "
        "`amount >= 'lots'`, `1 / 0`. It would fail for every record that gets there.",
        "Correct it. `raise_error` fails on purpose.",
    ),
    "HW417": Code(
        "a time of Spark's own clock",
        "Spark reads texts such as 'now', 'today' and 'yesterday' as times, wherever a text becomes a date or a "
        "timestamp: in literals, casts, comparisons and arguments. It looks at its clock once, when it makes the plan.",
        "Write the time with digits, or use `current_timestamp()`, the planned time of the epoch.",
    ),
    "HW418": Code(
        "a function that reaches out of the record",
        "It runs classes, or opens files or addresses that its arguments or the records name.",
        "Use what the hint says.",
    ),
    "HW419": Code(
        "an option that is not allowed",
        "Options of `from_json`, `from_csv`, `from_xml` and their like are a `map` of texts. Those that name files or "
        "addresses, or depend on the machine, are not allowed.",
        "Leave it out, or fix its name.",
    ),
    "HW420": Code(
        "an expression that is too large",
        "An expression has at most 300 levels of calls, conditions and operators; some kinds end earlier, in "
        "the parsers of the compiler and of Spark.",
        "Compute parts of it in `with_columns` steps before. Many values to compare with are a table: use a `join`.",
    ),
    "HW421": Code(
        "a Python function that expressions cannot call by its name",
        "An entry of `functions:` in headwater.yml has the name of a function or a word of Spark SQL, or one that "
        "differs from another's in upper and lower case alone.",
        "Give it another name.",
    ),
    "HW422": Code(
        "a call that a Python function does not allow",
        "A Python function is called once for a row, with as many arguments as headwater.yml declares.",
        "Call it as it is declared; of an array give it the whole, or `explode` it before.",
    ),
    "HW423": Code(
        "an argument of a type that a Python function does not take",
        "An argument has the type that headwater.yml declares, or is a number that Spark SQL itself widens to it, such "
        "as `int` to `bigint` or `double`. No other type is changed without being told.",
        "Write the cast, or declare another type.",
    ),
}

# HW5xx: what a topology may do
TOPOLOGY: dict[str, Code] = {
    "HW501": Code(
        "a step that its input does not allow",
        "Some steps are only for streams, some only for tables.",
        "Put `to_stream` or `to_table` before it; the hint says which.",
    ),
    "HW503": Code(
        "a join of topics that are not co-partitioned",
        "A task joins the rows of its own partition: both sides need the same number of partitions and the same types "
        "of key columns.",
        "Put a `repartition` or `key_by` step before the join, or make the table global.",
    ),
    "HW504": Code(
        "a step that needs a key, without one",
        "Aggregates, tables and joins by key work by the key of the record, and this flow has none.",
        "Put a `key_by` step before it.",
    ),
    "HW505": Code(
        "a window without its aggregate",
        "A `window` step only says how the `aggregate` or `reduce` step that follows it groups.",
        "Put an `aggregate` or a `reduce` step right behind it.",
    ),
    "HW506": Code(
        "a store of the wrong type for its step",
        "An aggregate in sessions needs a `session` store; one in other windows, and a join of streams, need `window` "
        "stores; everything else needs a `key_value` store.",
        "Change the store's `type`, or leave it out.",
    ),
    "HW507": Code(
        "a retention that is too short",
        "A window is open until its end plus grace; its rows must be kept as long. Records of a join of streams must "
        "be kept for before, after and grace together, rows of sliding windows for twice the difference and grace, "
        "sessions for gap and grace.",
        "Set `retention` to what the hint says at least, or leave it out: that is the default.",
    ),
    "HW508": Code(
        "a reserved column name",
        "These names belong to the record form and to windows.",
        "Rename the column.",
    ),
    "HW509": Code(
        "a second unnamed re-key",
        "Each repartition topic is named after its flow and step, so that it keeps its name when the flow grows.",
        "Give the step a `name`.",
    ),
    "HW510": Code(
        "a declared topic that differs from what is written",
        "The topic in `topics/` and the flow that writes it must have the same columns, in any order.",
        "Change the declaration, or the flow with a `select` step.",
    ),
    "HW511": Code(
        "an aggregate that a table cannot have",
        "When a row of a table changes, its old value is taken back from its group. Only count, count_if, "
        "sum and avg can do so.",
        "Put `to_stream` before, if every update should count.",
    ),
    "HW512": Code(
        "merged flows with different columns",
        "`from: [a, b]` needs flows of equal key and value columns.",
        "Give them the same columns with a `select` step.",
    ),
    "HW513": Code(
        "a join that does not fit its table",
        "A stream is joined by its key, without `by`; a global table, and a table by a foreign key, need `by` with an "
        "expression for each key column of the table.",
        "Write `by` for each key column of a global table, or of one that a table is joined with.",
    ),
    "HW514": Code(
        "a branch that is not the end",
        "After a `branch`, or a `process` with `flows`, the flow has gone on as other flows; and a case of a branch "
        "behind the one without `when` gets nothing.",
        "Put further steps, and `to`, into flows that read these.",
    ),
    "HW515": Code(
        "a window that is not possible",
        "A window has a size, a gap or a difference above zero, and an advance between 1 ms and its size that puts no "
        "record into more than 100,000 windows.",
        "Change `advance`, the size, the gap or the difference.",
    ),
    "HW516": Code(
        "a column defined twice",
        "Spark SQL does not tell `Name` from `name`.",
        "Rename one.",
    ),
    "HW517": Code(
        "a global table read as a flow",
        "A global table is there to be joined with; it has no place in the order of records.",
        "Read its topic, or declare another table without `global`.",
    ),
    "HW518": Code(
        "columns that all are dropped",
        "A record needs at least one value column.",
        "Keep one.",
    ),
    "HW519": Code(
        "a timestamp column that is none",
        "`timestamp` names a column of the topic's value that is a timestamp, or a bigint of milliseconds.",
        "Name such a column, or leave it out: then records get the time at which they are appended.",
    ),
    "HW520": Code(
        "changes of a table that count as records",
        "With `emit: per_epoch` a topic that is written from a table has only the last change of each key and epoch. "
        "An aggregate or a join of streams that takes them for records depends on where epochs end.",
        "Read the topic as a table, or write every update of the table: `emit: each_update`.",
        Severity.WARNING,
    ),
    "HW521": Code(
        "final results without a window",
        "With `emit: on_close` a row comes out when its window closes. Without a window no row is ever final.",
        "Put a `window` step before the aggregate, or use another `emit`.",
    ),
    "HW525": Code(
        "a join that the two sides do not allow",
        "Of a stream only the records give results, so its join with a table is `inner` or `left`. Two tables are "
        "joined by the changes of both, so neither can be global. Windows are a part of the key: either both tables "
        "have some, of one kind and length, or neither. By a foreign key only the flow can have windows, and its "
        "result is not joined again.",
        "Make both sides tables of the same key, or put `to_stream` before the join; the hint says which.",
    ),
    "HW530": Code(
        "a function that does not fit its step",
        "`reduce` calls a function with the old value and the new one, `aggregate` a class with `initial()` and "
        "`add(state, key, value)`; of a table also `subtract(state, key, value)`, in sessions `merge(first, second)`.",
        "Change its parameters, or name another one.",
    ),
    "HW540": Code(
        "a class that is no processor",
        "`process` makes an object of a class with its `options`, and calls `process(record)` for each record; "
        "`init(context)` and `close()` may be left out.",
        "Write such a class, with plain methods.",
    ),
    "HW541": Code(
        "a store of a processor that does not say what it keeps",
        "Nothing but its entry in `stores:` says what a processor keeps, and for how long: it needs `type`, `key` and "
        "`value`, of type window or session also `retention`.",
        "Write `{type: key_value, key: {id: string}, value: {n: bigint}}` with your columns.",
    ),
    "HW542": Code(
        "columns of a store that no processor uses",
        "The columns of other stores are those of their step.",
        "Remove `key` and `value` from the store.",
    ),
    "HW543": Code(
        "processors that cannot share a store",
        "Processors that name the same store take turns: each sees what the others have stored for the records before. "
        "So they have the same partitions, get single records, and what one forwards to another goes there directly, "
        "or only through steps on single records that tasks can compute.",
        "Bring them together as the hint says, or give each its own store.",
    ),
    "HW544": Code(
        "processors that share a store, with keys of other types",
        "A task has the rows of its own partition of a store, and gets the records of its partition. Keys of other "
        "types are spread otherwise: what one processor has stored for a thing may be in another task than the records "
        "that the other one gets of it. Kafka Streams does not tell of that.",
        "Put `key_by` and `repartition` before one of them, so that both have the same key; with one partition, all "
        "records meet.",
        Severity.WARNING,
    ),
}

# HW6xx: plugins
PLUGINS: dict[str, Code] = {
    "HW601": Code(
        "an unknown plugin",
        "No plugin of this kind has this name.",
        "Fix the name, install the plugin, or list its module under `plugins:` in `headwater.yml`.",
    ),
    "HW602": Code(
        "a bad plugin option",
        "The plugin's own schema refuses the options, or is itself no JSON Schema.",
        "Fix it as the message says.",
    ),
    "HW603": Code(
        "a plugin module that is not there",
        "`plugins:` in headwater.yml names a module that neither the project nor the environment has.",
        "Fix the name (`plugins.mine` is `plugins/mine.py` in the project's folder), or install its package.",
    ),
    "HW604": Code(
        "a plugin module that cannot be used",
        "A module under `plugins:` in headwater.yml is no Python, or fails when it is imported.",
        "Fix it where the message says. `-p no:<name>` leaves it out.",
    ),
    "HW610": Code(
        "an extra that is not installed",
        "Placing tasks by racks needs OR-Tools, which takes 87 MB. The store backend `rocksdb` needs rocksdict, "
        "the log `object_store` needs obstore, and `lineage` of a target needs openlineage-python. None of them is "
        "installed with Headwater.",
        "Install what the message names, for example with `pip install 'headwater[rocksdb]'`.",
    ),
    "HW611": Code(
        "a store that nothing can restore",
        "The store has no changelog, and its backend is not transactional: if a process is killed, the store is wiped.",
        "Let it have a changelog, or choose a transactional backend (`lmdb`).",
    ),
    "HW612": Code(
        "a store that cannot be copied",
        "The restore strategy has snapshots of stores saved, and a store's backend cannot copy its stores.",
        "Choose a backend whose stores can be copied, such as `lmdb`, or another restore strategy.",
    ),
}

# HW72x: records that fail
FAILING_RECORDS: dict[str, Code] = {
    "HW720": Code(
        "records that cannot be left out",
        "A change of a table that is regrouped takes a row from one group and adds one to another. If one of the two "
        "were left out, both groups would be wrong for ever. A join of two tables by a foreign key asks and answers "
        "for each change, and its result would be wrong without one of these.",
        "Leave `on_error` out of this flow, and set it for the flow or the topic before the table.",
    ),
    "HW721": Code(
        "the name of a topic of dead letters",
        "The dead letters of a topic are kept in the topic `<topology>_<topic>_dead_letter`, which nobody else writes.",
        "Give the topic another name.",
    ),
}

# HW74x: what was called otherwise before
RENAMES: dict[str, Code] = {
    "HW740": Code(
        "a former name that is in use",
        "`was` says what something was called before. What still has that name cannot be meant.",
        "Remove `was`, or the name from it. If two of them changed places, do it in two runs, by way of a third name.",
    ),
    "HW741": Code(
        "a former name of two",
        "What was one cannot go on as two.",
        "Leave the name at the one that goes on; the other begins with nothing.",
    ),
}

# HW76x: where a new reader begins
STARTS: dict[str, Code] = {
    "HW760": Code(
        "a start in what is no topic from elsewhere",
        "`start` says where a topology begins in a topic that it has not read yet. What it makes itself it reads "
        "whole.",
        "Put `start` into the flow that reads the topic.",
    ),
    "HW761": Code(
        "a table that would begin in the middle",
        "A table has the last row of each key. If it began later than at the first record, rows would be missing.",
        "Leave `start` out of the flows that read the table's topic.",
    ),
    "HW762": Code(
        "two starts in one topic",
        "All flows of a topology that read a topic share one position in it.",
        "Give them the same `start`, or make two topologies of them.",
    ),
    "HW763": Code(
        "an unknown start",
        "`start` is `earliest`, `latest`, or a time: the first record with this timestamp or a later one.",
        "Write the time as in ISO 8601, such as `2024-05-01T08:00:00Z`; it is UTC without a zone.",
    ),
}

# HW80x: tests of a project
TESTS: dict[str, Code] = {
    "HW801": Code(
        "a test of what is not there",
        "A test names a topology, a topic that it does not read or write, a store, or a reason for which no record is "
        "dropped.",
        "Name what the topology has; `headwater describe` shows it.",
    ),
    "HW802": Code(
        "a row with an unknown column",
        "A row of a test names a column that its topic or store does not have: misspelt, or renamed since.",
        "Use the column's present name. `key.x` and `value.x` are columns that both have.",
    ),
    "HW803": Code(
        "a row that does not fit",
        "A value of a row in a test is not one of its column's type, or the row cannot be a record.",
        "Write values as in [record form](log.md#the-record-form), times in quotes.",
    ),
    "HW804": Code(
        "two tests of one name",
        "Results are told by the names of tests.",
        "Give one of them another name.",
    ),
    "HW805": Code(
        "a test's file is missing",
        "`file` names a file of the project, from its folder on.",
        "Put it there, or fix the path.",
    ),
    "HW806": Code(
        "a variable of a test that no file uses",
        "`vars` of a test are those of the project's files.",
        "Use it in a file of the project, or leave it out.",
    ),
}

CODES: dict[str, Code] = (
    FILES | JINJA | SCHEMA | REFERENCES | EXPRESSIONS | TOPOLOGY | PLUGINS | FAILING_RECORDS | RENAMES | STARTS | TESTS
)
