"""The table of diagnostic codes with their meanings and ways out, one dictionary per family.

The number of a code is never reused. A code has a project that triggers it in `tests/diagnostics/<code>-<slug>/`, and
an entry in `docs/diagnostics.md`, which is generated from this table and these projects. Tests check both.
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
    """A kind of finding: a short `summary`, why it is wrong (`meaning`), and what to do (`way_out`)."""

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
        "A project is self-contained: its YAML files, seeds, functions and plugins are inside its folder, also after "
        "symbolic links are resolved.",
        "Copy the file into the project.",
    ),
    "HW003": Code(
        "a file is too large",
        "YAML files are read whole, so they are limited to 2 MB each and 20 MB together.",
        "Split the file; put data into seeds.",
    ),
    "HW004": Code(
        "a file is not UTF-8",
        "YAML files must be UTF-8, so that all readers see the same names.",
        "Save the file as UTF-8.",
    ),
    "HW005": Code(
        "a character that YAML forbids",
        "Control characters are not allowed in a YAML file.",
        "Remove it, or write it as an escape in double quotes, such as `\\x07`.",
    ),
    "HW006": Code(
        "a file cannot be read",
        "A path with the name of a YAML file is not a regular file, or its permissions forbid reading.",
        "Replace it by a readable file.",
    ),
    "HW007": Code(
        "a file exists twice",
        "Of `headwater.yml` and `headwater.yaml` in one folder, one would be silently ignored.",
        "Remove one.",
    ),
    "HW008": Code(
        "an unknown profile",
        "The profile named in `headwater.yml` or by `--profile` is not in `profiles.yml`.",
        "Add it to `profiles.yml`, or name an existing one.",
    ),
    "HW009": Code(
        "an unknown target",
        "The target named in the profile or by `--target` is not in the profile's `targets`.",
        "Add it to `targets`, or name an existing one.",
    ),
    "HW010": Code(
        "YAML that does not parse",
        "The file is not well-formed YAML at this position.",
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
        "a word that some YAML readers take for a boolean",
        "YAML 1.1 reads `yes`, `no`, `on` and `off` as booleans, YAML 1.2 as strings.",
        "Write `true` or `false`, or put the word in quotes.",
    ),
    "HW014": Code(
        "a number that YAML readers read differently",
        "`012` is ten in YAML 1.1 and twelve in 1.2; `1:30` is ninety in one and a string in the other. `0b1`, `0o7` "
        "and `1_000` also differ.",
        "Write the plain decimal number, or put the text in quotes.",
    ),
    "HW015": Code(
        "a bare date or time",
        "YAML 1.1 turns unquoted dates into timestamps, 1.2 does not.",
        "Put it in quotes.",
    ),
    "HW016": Code(
        "a YAML tag",
        "Tags choose how a value is built, some by running code. Headwater accepts no tags.",
        "Remove the tag. A value in quotes is a string, one without quotes may be a number.",
    ),
    "HW017": Code(
        "anchors that expand without bound",
        "An alias repeats the value of its anchor. It must not contain itself, nor expand a file to more than 100,000 "
        "values.",
        "Write the values out, or use fewer aliases.",
    ),
    "HW018": Code(
        "nesting too deep",
        "A file may have 64 levels.",
        "Flatten it.",
    ),
    "HW019": Code(
        "too many values in a file",
        "A file may have 100,000 values.",
        "Split the file; put data into seeds.",
    ),
    "HW020": Code(
        "a merge key",
        "`<<` is not part of YAML 1.2, and hides the real keys of a mapping.",
        "Write the keys out, or share single values with `var()`.",
    ),
    "HW021": Code(
        "several documents in one file",
        "Only the first would be read.",
        "Put each document into its own file.",
    ),
    "HW022": Code(
        "a key that is not a string",
        "Keys are names. An unquoted number, boolean, null, list or mapping is not a name.",
        "Put the key in quotes.",
    ),
    "HW023": Code(
        "an expression split at its comma",
        "Inside `{...}` and `[...]`, YAML ends a value at a comma, also between parentheses.",
        "Put the expression in quotes, or write the mapping in block style, with one line per key.",
    ),
    "HW024": Code(
        "a value that begins with an unquoted `{{`",
        "YAML reads an opening brace as the start of a mapping.",
        "Put the whole value in quotes; if it is one expression, it keeps its type.",
    ),
    "HW025": Code(
        "a file without content",
        "The file is empty, or has only comments.",
        "Add content, or remove the file.",
    ),
    "HW026": Code(
        "a name defined twice",
        "Two files define a topic or a topology with the same name.",
        "Rename or remove one.",
    ),
    "HW027": Code(
        "a missing seed",
        "The `path` of a topic's seed, relative to the project's folder, does not exist.",
        "Add the file, or fix the path. Until then `headwater seed` cannot fill the topic.",
        Severity.WARNING,
    ),
    "HW028": Code(
        "a state_dir that overlaps with the project or the log",
        "Stores can be restored, the project and the log cannot. So `state_dir` must not be the project's folder or "
        "the log, must not contain one of them, and must not be in the log, also after symbolic links are resolved.",
        "Give `state_dir` its own folder. Move the clients' folders (`client-1` and so on) there, or let a run restore "
        "the stores from their changelogs.",
    ),
    "HW029": Code(
        "data among generated files",
        "`headwater clean` removes the folder `target` with its contents.",
        "Move the log or the `state_dir` elsewhere: move the folder, then change its path in `profiles.yml`.",
    ),
    "HW033": Code(
        "an unknown master",
        "`master` is where Spark runs: `local[2]` in this process, or the address of a cluster.",
        "Write a master of Spark, such as `local[2]`, `yarn` or `spark://host:7077`.",
    ),
    "HW034": Code(
        "a Spark setting with a value of the wrong kind",
        "Spark would reject it when a run starts, or its JVM would not start at all.",
        "Write a size as `512m` or `2g`, a count as a number from 1.",
    ),
    "HW035": Code(
        "an unused variable",
        "`--vars` sets a variable that headwater.yml does not declare and no file reads with `var()`: a misspelt name "
        "would have no effect. Or headwater.yml declares a variable that no file reads.",
        "Fix the name, or remove the variable.",
        Severity.WARNING,
    ),
    "HW036": Code(
        "a Spark setting that a run would reject",
        "Results depend on some settings of Spark, such as ANSI mode, UTC and `spark.sql.legacy`. The meaning of an "
        "expression must not depend on a profile. Spark Connect cannot assign tasks to executors.",
        "Remove it from the `spark:` section.",
    ),
    "HW037": Code(
        "an unread file",
        "A file in a folder of the project has another suffix than the files read there, or no file of the project "
        "names it; or a file or folder beside headwater.yml has nearly the name of one that is read. It has no effect.",
        "Give it the intended name, or move it out of the folder. Hidden files and documents such as README.md are "
        "allowed anywhere.",
        Severity.WARNING,
    ),
    "HW038": Code(
        "an unread environment variable",
        "Variables that begin with HEADWATER_ are Headwater's own, and it reads none with this name. Variables named "
        "in a file of the project are not reported.",
        "Fix the name, or unset it.",
        Severity.WARNING,
    ),
    "HW039": Code(
        "a name that is not possible for a file",
        "The log and the state directory have folders for applications (`<project>-<topology>`), topics and stores. "
        "The name of a file has at most 255 characters, also for a changelog "
        "(`<project>-<topology>-<store>-changelog`) or a repartition topic. In a case-insensitive file system, two "
        "names must not differ only in case.",
        "Give the project, the topology, the store, the flow or the step a shorter name, or another one.",
    ),
    "HW040": Code(
        "an unknown plugin to disable",
        "`-p no:<name>` names neither an installed plugin, by its entry point, nor a module of `plugins:`. A misspelt "
        "name disables nothing.",
        "Fix the name, or remove the option.",
        Severity.WARNING,
    ),
}

# HW1xx: Jinja
JINJA: dict[str, Code] = {
    "HW101": Code(
        "Jinja that does not parse",
        "The text between `{{ }}` or `{% %}` is not a Jinja expression.",
        "Fix the expression. Write a literal `{{` as `{{ '{{' }}`.",
    ),
    "HW102": Code(
        "an unknown variable",
        "`var()` names a variable that neither `vars:` in `headwater.yml` nor `--vars` sets.",
        "Add it to `vars:`, or give a default: `var('name', 10)`.",
    ),
    "HW103": Code(
        "an unset environment variable",
        "`env_var()` names a variable that is not set where the command runs.",
        "Set it, or give a default: `env_var('NAME', 'value')`.",
    ),
    "HW104": Code(
        "an unknown name in Jinja",
        "Jinja in a project has the functions `var()` and `env_var()`, and no other names.",
        "Use `var('name')`.",
    ),
    "HW105": Code(
        "a statement that is not allowed",
        "The only statement of Jinja is `{% if %}`. Loops, macros, includes and assignments would make YAML a program "
        "that may not end.",
        "Write it out, or generate the file.",
    ),
    "HW106": Code(
        "an operation that is not allowed",
        "Attributes, method calls, powers, repetition of strings and most filters are not supported, so that rendering "
        "is always quick, and templates cannot reach Python objects.",
        "Compute the value elsewhere, and pass it with `--vars`.",
    ),
    "HW107": Code(
        "a template that is too large",
        "A value with Jinja may have 10,000 characters, and its result 20,000. A file may have 10,000 such values, "
        "with results of at most 2,000,000 characters and 100,000 values in total.",
        "Split it.",
    ),
    "HW108": Code(
        "Jinja that fails",
        "The expression is well-formed but cannot be computed, such as a sum of a number and a string.",
        "Fix the expression or the variable's value.",
    ),
    "HW109": Code(
        "Jinja in a key",
        "Only values are rendered, because keys are names for references.",
        "Write the name out.",
    ),
    "HW110": Code(
        "`env_var()` outside of profiles.yml",
        "The other files become generated code and the manifest, which must not contain values of the environment, and "
        "must be the same on every machine.",
        "Use `var('name')`, with a value in `vars:` of headwater.yml or in `--vars`.",
    ),
    "HW111": Code(
        "a computation with `env_var()`",
        "Generated code does not contain the value of an environment variable, but looks it up when it runs. So "
        "`env_var()` must be alone or between literal texts, with `| int` for a number.",
        "Compute it where the variable is set, or use a variable: `var('name')`.",
    ),
}

# HW2xx: the schemas of the files
SCHEMA: dict[str, Code] = {
    "HW201": Code(
        "an unknown key",
        "The mapping does not have this key. Put your own data below `meta:`.",
        "Correct the spelling, or move it below `meta:`.",
    ),
    "HW202": Code("a missing key", "The mapping needs this key.", "Add it."),
    "HW203": Code(
        "a value of the wrong type",
        "The key needs another type of value, for example a number instead of a string.",
        'Write a value of that type. A value in quotes is a string: `"1.0"`.',
    ),
    "HW204": Code("a value that is not allowed here", "The key has a few allowed values.", "Use one of them."),
    "HW205": Code(
        "a duration that does not parse",
        "Durations are a whole number and a unit: `10ms`, `5s`, `10m`, `1h`, `2d`.",
        "Write it as one number and one unit.",
    ),
    "HW206": Code(
        "a step that is not exactly one step",
        "An item of `steps` is one step, with one key for its kind; `name`, `description`, `tags` and `meta` are "
        "allowed beside it.",
        "Start each step with its own dash.",
    ),
    "HW207": Code(
        "a type that Spark SQL does not have",
        "Columns have Spark SQL's types: `int`, `string`, `decimal(10,2)`, `array<string>`, `struct<a:int>` and so on.",
        "Write one of them.",
    ),
    "HW208": Code("a value out of range", "The value is too small, too large, or too short a list.", "Change it."),
    "HW209": Code(
        "a name that is not allowed",
        "Names of projects, topologies, tables, stores, flows and columns have letters, digits and underscores, and do "
        "not begin with a digit. Names of topics may have dots and dashes, too, as in Kafka. Names of internal topics, "
        "`<project>-...-repartition` and `<project>-...-changelog`, are reserved, and so is a topology `seed`.",
        "Rename it.",
    ),
    "HW210": Code(
        "keys that do not go together",
        "Some keys exclude each other, and some need another key beside them.",
        "Keep the intended keys.",
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
        "`from`, or `stream` of a join, names neither a topic of the project nor a table or flow of the topology.",
        "Declare it, or fix the name. Flows of other topologies are read through the topics that they write.",
    ),
    "HW303": Code(
        "an unknown table",
        "A `join` names neither a table of this topology nor a flow that is a table.",
        "Declare it under `tables:`, or make a flow a table with `to_table`.",
    ),
    "HW304": Code(
        "an unknown store",
        "A step or a table names a store that `stores:` of this topology does not have.",
        "Declare it under `stores:`. Only processors need declared stores: other steps without a named store use one "
        "with the defaults.",
    ),
    "HW305": Code(
        "an unknown function",
        "`functions.module:name` names a Python function or class that the project's `functions/` does not have.",
        "Add it, or fix the name.",
    ),
    "HW306": Code(
        "a name defined twice",
        "In a topology, topics, tables and flows (also flows of a `branch`) share one namespace.",
        "Rename one.",
    ),
    "HW307": Code(
        "flows that read one another in a cycle",
        "A flow can only read flows upstream of it. A cycle is only possible through a declared topic.",
        "Break the cycle, or write to a topic of `topics/` and read that topic.",
    ),
    "HW308": Code(
        "a topic written twice",
        "A topic has one writer: one flow, or its seed. Otherwise the order of its records would be undefined.",
        "Merge the flows with `from: [a, b]`, or write to two topics.",
    ),
    "HW309": Code(
        "a store used by two steps",
        "A store belongs to one step, or to one table; only processors may share one.",
        "Give each its own store.",
    ),
    "HW310": Code(
        "an unread flow",
        "The flow has no `to`, and no other flow reads it, so it has no effect.",
        "Write it to a topic with `to`, or remove it.",
        Severity.WARNING,
    ),
    "HW311": Code(
        "an unused store",
        "No step and no table names this store.",
        "Name it in a step's `store`, or remove it.",
        Severity.WARNING,
    ),
    "HW312": Code(
        "a function that cannot be loaded",
        "`compile` imports the modules of `functions/` named in flows, and this one raises an error.",
        "Fix it there. Packages that it imports must be installed, also on the executors.",
    ),
}

# HW4xx: expressions
EXPRESSIONS: dict[str, Code] = {
    "HW401": Code(
        "an expression that does not parse",
        "Expressions are Spark SQL, one per value.",
        "Fix the syntax at this position.",
    ),
    "HW402": Code(
        "an expression cut short by ` #`",
        "YAML takes ` #` as the start of a comment, so the expression ends before it and does not parse.",
        "Put the expression in quotes.",
    ),
    "HW403": Code(
        "an unknown column",
        "The flow has no column of this name at this step.",
        "Fix the name. After `select` and `aggregate`, the flow has only their columns.",
    ),
    "HW404": Code(
        "an ambiguous column",
        "Two columns have this name: of key and value, or of the flow and the joined table.",
        "Write which one: `key.x`, `value.x` or `table.x`.",
    ),
    "HW405": Code(
        "an unknown SQL function",
        "The function is not in the list of functions that expressions may use.",
        "Fix the name; `docs/language/expressions.md` has the list.",
    ),
    "HW406": Code(
        "a function that is not deterministic",
        "Its result depends on when or where it runs. The result of a flow must not depend on that: a record that is "
        "processed again after a failure must have the same result.",
        "Follow the hint.",
    ),
    "HW407": Code(
        "SQL that is not allowed in an expression",
        "An expression computes one value from one row: no subqueries, window functions, stars, aliases or generators.",
        "Use a step: `join`, `window` and `aggregate`, `explode`.",
    ),
    "HW408": Code(
        "an aggregate outside of `aggregate`",
        "Only the values of an `aggregate` step can use several records.",
        "Move it to an `aggregate` step.",
    ),
    "HW409": Code(
        "an aggregate that is not supported",
        "This aggregate, or this form of it, cannot be updated record by record.",
        "Use one of those listed in `docs/language/windows-and-aggregates.md`.",
    ),
    "HW410": Code(
        "a value of `aggregate` that is not aggregated",
        "A column outside of an aggregate may have several values in its group.",
        "Aggregate it: `max(x)`, `first(x)`. Key columns are in the result anyway.",
    ),
    "HW411": Code(
        "types that do not fit in an expression",
        "Spark's analyzer rejects the expression.",
        "Cast, or fix the expression.",
    ),
    "HW412": Code(
        "an expression of the wrong type for its step",
        "`filter` and `when` need a boolean, `explode` an array, `route` a string; a key cannot contain a map.",
        "Change the expression to the type that the step needs.",
    ),
    "HW413": Code(
        "an aggregate of a wrong type",
        "`sum` and `avg` take numbers, `bool_and`, `bool_or` and `count_if` booleans; `min`, `max`, `min_by`, `max_by` "
        "and `approx_count_distinct` values with an order, so not maps. Where Spark would cast a string or a time "
        "implicitly, write the cast, because it changes the aggregated values.",
        "Cast the column to a type that the aggregate takes.",
    ),
    "HW414": Code(
        "an implicit cast of a string",
        "Spark casts strings to numbers, times and booleans that they are compared, computed or combined with: "
        "`coalesce(category, 0)` is a number. The first string that is not a number fails. So write the cast.",
        "Write `cast` or `try_cast`, or make all values strings.",
    ),
    "HW415": Code(
        "a constant that always fails",
        "A part of the expression has only constants, and computing it fails: `cast('abc' as int)`, "
        "`amount >= 'lots'`, `1 / 0`. It would fail for every record.",
        "Correct it. To fail on purpose, use `raise_error`.",
    ),
    "HW417": Code(
        "a time of Spark's own clock",
        "Spark reads strings such as 'now', 'today' and 'yesterday' as times, wherever a string becomes a date or a "
        "timestamp: in literals, casts, comparisons and arguments. It reads its clock once, when it makes the plan.",
        "Write the time with digits, or use `current_timestamp()`, the planned time of the epoch.",
    ),
    "HW418": Code(
        "a function that reads more than the record",
        "It runs classes, or opens files or addresses named in its arguments or in records.",
        "Follow the hint.",
    ),
    "HW419": Code(
        "an option that is not allowed",
        "Options of functions such as `from_json`, `from_csv` and `from_xml` are a `map` of string literals. Options "
        "that name files or addresses, or depend on the machine, are not allowed.",
        "Remove it, or fix its name.",
    ),
    "HW420": Code(
        "an expression that is too large",
        "An expression may have 300 levels of calls, conditions and operators. The parsers of the compiler and of "
        "Spark have lower limits for some expressions.",
        "Compute parts of it in `with_columns` steps before. To compare with many values, use a `join` with a table.",
    ),
    "HW421": Code(
        "a Python function that expressions cannot call by its name",
        "An entry of `functions:` in headwater.yml has the name of a function or keyword of Spark SQL, or a name that "
        "differs from another one only in case.",
        "Give it another name.",
    ),
    "HW422": Code(
        "a call that a Python function does not allow",
        "A Python function is called once per row, with the number of arguments declared in headwater.yml.",
        "Call it as declared. Pass a whole array, or `explode` it before.",
    ),
    "HW423": Code(
        "an argument of a wrong type for a Python function",
        "An argument must have the type declared in headwater.yml, or be a number that Spark SQL widens to it, such as "
        "`int` to `bigint` or `double`. Other types are not cast implicitly.",
        "Write the cast, or declare another type.",
    ),
}

# HW5xx: what a topology may do
TOPOLOGY: dict[str, Code] = {
    "HW501": Code(
        "a step that does not accept its input",
        "Some steps are only for streams, some only for tables.",
        "Put `to_stream` or `to_table` before it, as in the hint.",
    ),
    "HW503": Code(
        "a join of topics that are not co-partitioned",
        "A task joins rows of its own partition, so both sides need the same number of partitions and the same types "
        "of key columns.",
        "Put a `repartition` or `key_by` step before the join, or make the table global.",
    ),
    "HW504": Code(
        "a step that needs a key, without one",
        "Aggregates, tables and joins by key use the key of the record, and this flow has no key.",
        "Put a `key_by` step before it.",
    ),
    "HW505": Code(
        "a window without its aggregate",
        "A `window` step only defines the groups of the following `aggregate` or `reduce` step.",
        "Put an `aggregate` or a `reduce` step right behind it.",
    ),
    "HW506": Code(
        "a store of the wrong type for its step",
        "An aggregate in sessions needs a `session` store. Aggregates in other windows and joins of streams need "
        "`window` stores. All other steps need a `key_value` store.",
        "Change the store's `type`, or remove it.",
    ),
    "HW507": Code(
        "a retention that is too short",
        "A window is open until its end plus grace, and its rows must be kept as long. Records of a join of streams "
        "must be kept for the sum of before, after and grace, rows of sliding windows for twice the difference plus "
        "grace, sessions for gap plus grace.",
        "Set `retention` to at least the value in the hint, or remove it: that value is the default.",
    ),
    "HW508": Code(
        "a reserved column name",
        "These names belong to the record form and to windows.",
        "Rename the column.",
    ),
    "HW509": Code(
        "a second unnamed re-key",
        "A repartition topic is named after its flow and step, so that it keeps its name when the flow changes.",
        "Give the step a `name`.",
    ),
    "HW510": Code(
        "a declared topic that differs from its flow",
        "The topic in `topics/` and the flow that writes it must have the same columns, in any order.",
        "Change the declaration, or the flow with a `select` step.",
    ),
    "HW511": Code(
        "an aggregate that a table cannot have",
        "When a row of a table changes, its old value is subtracted from its group. Only count, count_if, sum and avg "
        "support that.",
        "Put `to_stream` before, if every update should count.",
    ),
    "HW512": Code(
        "merged flows with different columns",
        "`from: [a, b]` needs flows with equal key and value columns.",
        "Give them the same columns with a `select` step.",
    ),
    "HW513": Code(
        "a join that does not fit its table",
        "A stream joins a table by its key, without `by`. A join with a global table, and a join of tables by a "
        "foreign key, need `by` with an expression for each key column of the table.",
        "Write `by` with an expression for each key column, or remove it.",
    ),
    "HW514": Code(
        "a branch that is not the end",
        "A `branch`, or a `process` with `flows`, ends its flow. And a case of a branch behind the case without `when` "
        "gets no rows.",
        "Put further steps, and `to`, into flows that read the new flows.",
    ),
    "HW515": Code(
        "a window that is not possible",
        "A window needs a size, a gap or a difference above zero, and an advance from 1 ms to its size that puts a "
        "record into at most 100,000 windows.",
        "Change `advance`, the size, the gap or the difference.",
    ),
    "HW516": Code(
        "a column defined twice",
        "To Spark SQL, `Name` and `name` are the same column.",
        "Rename one.",
    ),
    "HW517": Code(
        "a global table read as a flow",
        "Flows can only join a global table, because its changes have no order relative to records.",
        "Read its topic, or declare another table without `global`.",
    ),
    "HW518": Code(
        "all columns are dropped",
        "A record needs at least one value column.",
        "Keep one.",
    ),
    "HW519": Code(
        "a wrong timestamp column",
        "`timestamp` must name a value column of the topic: a timestamp, or a bigint of milliseconds.",
        "Name such a column, or remove `timestamp`: then records have the time at which they are appended.",
    ),
    "HW520": Code(
        "changes of a table that count as records",
        "With `emit: per_epoch`, a topic written from a table has only the last change per key and epoch. The result "
        "of an aggregate or a join of streams over these changes depends on where epochs end.",
        "Read the topic as a table, or write every update of the table: `emit: each_update`.",
        Severity.WARNING,
    ),
    "HW521": Code(
        "final results without a window",
        "With `emit: on_close`, a row is emitted when its window closes. Without a window, no row is ever final.",
        "Put a `window` step before the aggregate, or use another `emit`.",
    ),
    "HW522": Code(
        "a route to a topic that it does not list",
        "The `route` of a flow gives the name of a topic. `topics` lists those that it can give, so that all topics of "
        "a topology are known before it runs. A record with another result fails.",
        "Correct the name, or add the topic to the list.",
    ),
    "HW523": Code(
        "a topic that a route never gives",
        "All results of the `route` are constants, and this topic is not among them, so it gets no records.",
        "Add the topic to the expression, or remove it from the list.",
        Severity.WARNING,
    ),
    "HW525": Code(
        "a join that is not possible for its two sides",
        "A join of a stream with a table has results for records of the stream only, so it is `inner` or `left`. "
        "Changes of both sides change a join of two tables, so neither can be global. Windows are part of the key: "
        "both tables must have windows of the same kind and length, or none. In a join by a foreign key, only the flow "
        "can have windows, and its result cannot be joined again.",
        "Make both sides tables with the same key, or put `to_stream` before the join, as in the hint.",
    ),
    "HW530": Code(
        "a function that does not fit its step",
        "`reduce` calls a function with the old and the new value. `aggregate` calls the methods `initial()` and "
        "`add(state, key, value)` of a class; for a table also `subtract(state, key, value)`, and for sessions "
        "`merge(first, second)`.",
        "Change its parameters, or name another one.",
    ),
    "HW540": Code(
        "a class that is not a processor",
        "`process` creates an object of a class with its `options`, and calls `process(record)` for each record. "
        "`init(context)` and `close()` are optional.",
        "Write a class with these plain methods.",
    ),
    "HW541": Code(
        "a store of a processor without columns or retention",
        "The rows of a processor's store are only declared in `stores:`. The store needs `type`, `key` and `value`, "
        "and for the types window and session also `retention`.",
        "Write `{type: key_value, key: {id: string}, value: {n: bigint}}` with your columns.",
    ),
    "HW542": Code(
        "declared columns of a store that no processor uses",
        "The columns of other stores are determined by their step.",
        "Remove `key` and `value` from the store.",
    ),
    "HW543": Code(
        "processors that cannot share a store",
        "Processors with the same store process records in turns, and read the rows that others have stored before. So "
        "they need the same number of partitions, get single records, and must be connected directly, or through steps "
        "on single records that tasks can compute.",
        "Follow the hint, or give each its own store.",
    ),
    "HW544": Code(
        "processors that share a store, with keys of different types",
        "A task has the rows and the records of its own partition. Equal keys of different types may be in different "
        "partitions, so the rows stored by one processor may be in another task than the records of the other one. "
        "Kafka Streams does not report this.",
        "Put `key_by` and `repartition` before one of them, so that both have the same key, or use one partition.",
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
        "The plugin's schema does not accept the options, or is not a JSON Schema itself.",
        "Fix it as in the message.",
    ),
    "HW603": Code(
        "a missing plugin module",
        "`plugins:` in headwater.yml names a module that neither the project nor the environment has.",
        "Fix the name (`plugins.mine` is `plugins/mine.py` in the project's folder), or install its package.",
    ),
    "HW604": Code(
        "a plugin module that cannot be used",
        "A module under `plugins:` in headwater.yml is not Python, or fails when it is imported.",
        "Fix the module. `-p no:<name>` disables it.",
    ),
    "HW610": Code(
        "an extra that is not installed",
        "Rack-aware assignment needs OR-Tools, which has 87 MB. The store backend `rocksdb` needs rocksdict, the log "
        "`object_store` needs obstore, `lineage` of a target needs openlineage-python, and `kafka` of a target needs "
        "confluent-kafka. They are not installed with Headwater.",
        "Install the package in the message, for example with `pip install 'headwater[rocksdb]'`.",
    ),
    "HW611": Code(
        "a store that cannot be restored",
        "The store has no changelog, and its backend is not transactional: if a process is killed, the store is wiped.",
        "Enable its changelog, or choose a transactional backend (`lmdb`).",
    ),
    "HW612": Code(
        "a store that cannot be copied",
        "The restore strategy saves snapshots of stores, and a store's backend cannot copy stores.",
        "Choose a backend whose stores can be copied, such as `lmdb`, or another restore strategy.",
    ),
}

# HW72x: records that fail
FAILING_RECORDS: dict[str, Code] = {
    "HW720": Code(
        "records that cannot be skipped",
        "A change of a regrouped table subtracts a row from one group and adds one to another. If one of the two were "
        "skipped, the groups would stay wrong. A join of two tables by a foreign key sends a subscription and a "
        "response for each change, and its result would be wrong without them.",
        "Remove `on_error` from this flow, and set it for the flow or the topic before the table.",
    ),
    "HW721": Code(
        "the name of a topic of dead letters",
        "`<topology>_<topic>_dead_letter` is the topic of a topic's dead letters, and only its topology writes it.",
        "Give the topic another name.",
    ),
}

# HW74x: former names
RENAMES: dict[str, Code] = {
    "HW740": Code(
        "a former name that is in use",
        "`was` lists former names. A name in use is not a former name.",
        "Remove `was`, or the name from it. To exchange two names, use a third name and two runs.",
    ),
    "HW741": Code(
        "a former name of two entries",
        "Only one entry can resume the state of the old one.",
        "Keep the name at the entry that resumes it; the other one starts empty.",
    ),
}

# HW76x: where a new reader starts
STARTS: dict[str, Code] = {
    "HW760": Code(
        "a start in another source than a topic from outside",
        "`start` is the position where a topology starts in a topic that it has not read yet. Its own topics, tables "
        "and flows are read from their first record.",
        "Put `start` into the flow that reads the topic.",
    ),
    "HW761": Code(
        "a table that would start in the middle",
        "A table has the last row of each key. If it started later than at the first record, rows would be missing.",
        "Remove `start` from the flows that read the table's topic.",
    ),
    "HW762": Code(
        "two starts in one topic",
        "All flows of a topology that read a topic share one position in it.",
        "Give them the same `start`, or put them into two topologies.",
    ),
    "HW763": Code(
        "an unknown start",
        "`start` is `earliest`, `latest`, or a time, for the first record with this timestamp or a later one.",
        "Write the time in ISO 8601, such as `2024-05-01T08:00:00Z`. Without a zone it is UTC.",
    ),
}

# HW77x: Kafka
KAFKA: dict[str, Code] = {
    "HW770": Code(
        "an unknown cluster of Kafka",
        "`cluster` names one of the clusters under `kafka` of the target. It is needed where there are several.",
        "Name one of the target's clusters.",
    ),
    "HW771": Code(
        "a key of `kafka` for the other direction",
        "`start` is the position in Kafka where the copy of a topic begins. A topic that a flow writes is copied to "
        "Kafka, from its first record; `recomputed` is for such topics only.",
        "Remove the key.",
    ),
    "HW772": Code(
        "security settings that do not fit",
        "A sasl protocol logs in with a `mechanism`, and all but OAUTHBEARER need a `username` and a `password`. A "
        "protocol with ssl encrypts, and may have certificates.",
        "Choose the protocol for these settings, or the settings for this protocol.",
    ),
    "HW773": Code(
        "a setting that Headwater decides",
        "`client` has settings of librdkafka. Some of them decide whether each record is processed exactly once, so a "
        "profile cannot change them. Others are set by another key of the cluster.",
        "Remove it, or write the key in the message.",
    ),
    "HW774": Code(
        "one topic of Kafka for two topics",
        "Two topics of the project are one topic of a cluster. Records would be copied twice, records of two flows "
        "would be mixed, or a topology would read what it has written itself.",
        "Declare one topic, or name another topic of Kafka with `topic`.",
    ),
    "HW775": Code(
        "a format that cannot hold the columns",
        "A format has bytes for some types only, and some formats hold one column: a key of the format `string` is one "
        "text.",
        "Choose another format or other columns, as in the message.",
    ),
    "HW776": Code(
        "a missing PEM file",
        "`ca`, `certificate` and `key` of a cluster are paths of PEM files, relative to the project's folder, or their "
        "texts. The file does not exist here.",
        "Add the file, or fix the path. Until then no run can connect to the cluster.",
        Severity.WARNING,
    ),
    "HW777": Code(
        "windows of keys without windows",
        "`windows` says how the window of a key is written. Only topics with `windowed: true` have such keys.",
        "Remove `windows`, or declare the topic `windowed`.",
    ),
    "HW778": Code(
        "changes of a topic that is no table",
        "`recomputed: changes` compares the last values that a rebuilt result and Kafka have of each key. So the topic "
        "needs a key and `cleanup: compact`, and its keys in Kafka need their windows.",
        "Write `append`, or declare the topic as the table that it is.",
    ),
    "HW779": Code(
        "an unknown setting of librdkafka",
        "`client` has settings of librdkafka, Kafka's client, by their full names. No setting has this name, so it "
        "would have no effect.",
        "Correct the name. Settings of Java's clients have other names at times.",
    ),
}

# HW80x: tests of a project
TESTS: dict[str, Code] = {
    "HW801": Code(
        "a test of a missing part",
        "A test names an unknown topology, a topic that the topology does not read or write, an unknown store, or an "
        "unknown reason for dropped records.",
        "Name a part of the topology; `headwater describe` shows them.",
    ),
    "HW802": Code(
        "a row with an unknown column",
        "A row of a test names a column that its topic or store does not have: it is misspelt, or was renamed.",
        "Use the column's current name. Write `key.x` or `value.x` for a column in both.",
    ),
    "HW803": Code(
        "an invalid row",
        "A value of a row in a test does not have the type of its column, or the row cannot be a record.",
        "Write values as in [record form](log.md#the-record-form), times in quotes.",
    ),
    "HW804": Code(
        "two tests with the same name",
        "Results are shown by the names of tests.",
        "Give one of them another name.",
    ),
    "HW805": Code(
        "a test's file is missing",
        "`file` is the path of a file, relative to the project's folder.",
        "Add the file, or fix the path.",
    ),
    "HW806": Code(
        "an unused variable of a test",
        "`vars` of a test are variables of the project's files.",
        "Use it in a file of the project, or remove it.",
    ),
}

CODES: dict[str, Code] = (
    FILES
    | JINJA
    | SCHEMA
    | REFERENCES
    | EXPRESSIONS
    | TOPOLOGY
    | PLUGINS
    | FAILING_RECORDS
    | RENAMES
    | STARTS
    | KAFKA
    | TESTS
)
