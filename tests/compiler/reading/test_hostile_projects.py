"""A project from anywhere can be parsed: it ends soon, stays small, reports a diagnostic, and nothing of it is run.

Each is parsed in a process of its own with 500 MB of address space and 300 seconds of processor time: beyond either the
process dies, and so does the test.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

LOADER = """
import json, os, pathlib, resource, sys
from headwater.compiler.pipeline import compile_project
from headwater.compiler.diagnostics import as_text

def load(root):
    resource.setrlimit(resource.RLIMIT_AS, (500_000_000, 500_000_000))
    resource.setrlimit(resource.RLIMIT_CPU, (300, 300))  # for what would not end at all
    os.chdir(root)
    checked = compile_project(pathlib.Path(root))
    diagnostics = checked.diagnostics
    as_text(diagnostics, checked.loaded.sources)
    spark = [name for name in sys.modules if name.split(".")[0] in ("pyspark", "py4j", "pandas", "pyarrow")]
    return json.dumps({"codes": sorted({found.code for found in diagnostics}), "spark": spark})

for line in sys.stdin:
    if child := os.fork():
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    else:
        print(load(line.rstrip()), end=" ", flush=True)
        os._exit(0)
"""
"""Loads project after project, each in a fork of a process that has imported what loads them and nothing else.

It prints a line for each: what `load` gives, if it gives anything, and the exit code of the fork.
"""
MARK = "it_was_run"
TOUCH = f"open('{MARK}', 'w').close()"
META = 'name: example\nversion: "1.0"\nmeta:\n'
LAUGHS = "".join(f"  {b}: &{b} [{', '.join(['*' + a] * 10)}]\n" for a, b in zip("abcdefghi", "bcdefghij", strict=True))
LONG = "vars: {long: '" + "x" * 15_000 + "'}\n"

TEXTS = {
    "billion_laughs": (META + "  a: &a [lol, lol]\n" + LAUGHS, {"HW017"}),
    "quadratic_aliases": (META + "  a: &a [" + "1, " * 50_000 + "]\n  b: [" + "*a, " * 50_000 + "]\n", {"HW017"}),
    "chain_of_aliases": (
        META + "  - &a0 [1]\n" + "".join(f"  - &a{n + 1} [*a{n}]\n" for n in range(2_000)),
        {"HW018"},
    ),
    "deep_lists": (META + "  a: " + "[" * 10_000 + "]" * 10_000 + "\n", {"HW018"}),
    "deep_mappings": (META + "  a: " + "{a: " * 10_000 + "}" * 10_000 + "\n", {"HW018"}),
    "deep_dashes": (META + "  a:\n    " + "- " * 10_000 + "x\n", {"HW018"}),
    "many_values": (META + "  a: [" + "1," * 900_000 + "]\n", {"HW019"}),
    "many_bare_templates": (META + "".join(f"  a{n}: {{{{ x }}}}\n" for n in range(20_000)), {"HW024"}),
    "many_problems": (META + "".join(f"  a{n}: yes\n" for n in range(40_000)), {"HW013"}),
    "many_unknown_keys": (META + "  a: 1\n" + "".join(f"nmae{n}: 1\n" for n in range(10_000)), {"HW201"}),
    "many_split_expressions": (META + "  a: [" + "f(x, " * 20_000 + "]\n", {"HW023"}),
    "long_key": (META + "  ? " + "x" * 1_500_000 + "\n  : 1\nn" + "a" * 100_000 + ": 1\n", {"HW010"}),
    "python_call": (META + f'  a: !!python/object/apply:builtins.exec ["{TOUCH}"]\n', {"HW016"}),
    "python_name": (META + "  a: !!python/name:os.system ''\n  b: !!python/module:os ''\n", {"HW016"}),
    "jinja_class": (META + "  a: \"{{ ''.__class__.__mro__[1].__subclasses__() }}\"\n", {"HW106"}),
    "jinja_globals": (META + f"  a: |\n    {{{{ cycler.__init__.__globals__.os.system({TOUCH!r}) }}}}\n", {"HW106"}),
    "jinja_format": (META + "  a: \"{{ '{0.__class__}'.format(var) }}\"\n", {"HW106"}),
    "jinja_attribute_filter": (META + "  a: \"{{ '' | attr('__class__') }}\"\n", {"HW106"}),
    "jinja_power": (META + '  a: "{{ 9**9**9 }}"\n', {"HW106"}),
    "jinja_shift_of_text": (META + "  a: \"{{ 'x' * 10**12 }}\"\n", {"HW106"}),
    "jinja_padding": (META + "  a: \"{{ '%1000000000d' % 1 }}\"\n", {"HW108"}),
    "jinja_range": (META + '  a: "{{ range(10**12) | list }}"\n', {"HW106"}),
    "jinja_endless_loop": (
        META + '  a: "{% for a in range(10**9) %}{% for b in range(10**9) %}{% endfor %}{% endfor %}"\n',
        {"HW105"},
    ),
    "jinja_recursive_macro": (META + '  a: "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"\n', {"HW105"}),
    "jinja_include": (META + "  a: \"{% include '/etc/passwd' %}\"\n", {"HW105"}),
    "jinja_deep": (META + '  a: "{{ ' + "[" * 4_000 + "]" * 4_000 + ' }}"\n', {"HW107"}),
    "jinja_deep_ifs": (META + '  a: "' + "{% if 1 %}" * 900 + '"\n', {"HW101"}),
    "jinja_long_number": (META + '  a: "{{ ' + "9" * 9_000 + ' }}"\n', {"HW107"}),
}


Loaded = dict[str, list[str]]


@pytest.fixture(scope="module")
def load_in_a_process() -> Iterator[Callable[[Path], Loaded]]:
    """Loads the project in a folder in a process of its own."""
    with tempfile.TemporaryFile("w+") as errors:
        loader = subprocess.Popen(
            [sys.executable, "-c", LOADER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        assert loader.stdin is not None
        assert loader.stdout is not None
        told, tells = loader.stdin, loader.stdout

        def load(root: Path) -> Loaded:
            print(root, file=told, flush=True)
            found, _, code = tells.readline().rstrip().rpartition(" ")
            errors.seek(0)
            assert code == "0", errors.read()[-2_000:]
            return dict(json.loads(found))

        yield load
        told.close()
        assert loader.wait() == 0


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_hostile_text_ends_with_its_diagnostic_and_runs_nothing(project, load_in_a_process, name):
    text, codes = TEXTS[name]
    root = project({"headwater.yml": text})
    result = load_in_a_process(root)
    assert codes <= set(result["codes"])
    assert not (root / MARK).exists()


def test_templates_that_repeat_a_long_variable_stay_small(project, load_in_a_process):
    uses = "".join(f"  a{n}: \"x{{{{ var('long') }}}}\"\n" for n in range(40_000))
    root = project(
        {
            "headwater.yml": f'name: example\nversion: "1.0"\n{LONG}',
            "topics/a.yml": "topics: {t: {partitions: 1, value: {a: int}}}\nmeta:\n" + uses,
        }
    )
    assert "HW107" in load_in_a_process(root)["codes"]


def test_templates_that_repeat_a_list_stay_small(project, load_in_a_process):
    uses = "".join(f"  a{n}: \"{{{{ var('list') }}}}\"\n" for n in range(2_000))
    root = project(
        {
            "headwater.yml": 'name: example\nversion: "1.0"\nvars: {list: [' + "1, " * 50_000 + "]}\n",
            "topics/a.yml": "topics: {t: {partitions: 1, value: {a: int}}}\nmeta:\n" + uses,
        }
    )
    assert "HW107" in load_in_a_process(root)["codes"]


TOPIC = "topics: {t: {partitions: 1, key: {k: string}, value: {a: int}}}\n"
FLOW = "topology: x\nflows:\n  f:\n    from: t\n    steps:\n"

TOPOLOGIES = {
    "deep_expression": ("      - filter: " + "(" * 100_000 + "a" + ")" * 100_000 + " > 1\n", {"HW208"}),
    "deep_not": ("      - filter: " + "not " * 100_000 + "a > 1\n", {"HW208"}),
    "deep_short_expression": ("      - filter: " + "(" * 2_000 + "a" + ")" * 2_000 + " > 1\n", {"HW420"}),
    "long_sum": ("      - filter: a" + " + a" * 300_000 + " > 1\n", {"HW208"}),
    "many_columns": ("".join(f"      - with_columns:\n          c{n}: a + {n}\n" for n in range(2_000)), {"HW208"}),
    "many_steps": ("      - filter: a > 1\n" * 2_000, set()),
    "deep_case": ("      - filter: " + "case when a > 1 then " * 5_000 + "true" + " end" * 5_000 + "\n", set()),
}


@pytest.mark.parametrize("name", sorted(TOPOLOGIES))
def test_hostile_topology_ends(project, load_in_a_process, name):
    steps, codes = TOPOLOGIES[name]
    root = project({"topics/t.yml": TOPIC, "topologies/x.yml": FLOW + steps + "    to: u\n"})
    assert codes <= set(load_in_a_process(root)["codes"])


def test_type_that_is_nested_without_end_is_refused(project, load_in_a_process):
    type_ = "array<" * 30_000 + "int" + ">" * 30_000
    root = project({"topics/t.yml": f"topics: {{t: {{partitions: 1, value: {{a: '{type_}'}}}}}}\n"})
    assert load_in_a_process(root)["codes"] == ["HW207"]


def test_flows_that_read_one_another_in_a_long_chain_are_no_circle(project, load_in_a_process):
    flows = "".join(f"  f{n}:\n    from: f{n + 1}\n" for n in range(1_200))
    last = "  last:\n    from: f0\n    to: u\n"
    text = f"topology: x\nflows:\n{last}{flows}  f1200:\n    from: t\n"
    root = project({"topics/t.yml": TOPIC, "topologies/x.yml": text})
    assert load_in_a_process(root)["codes"] == []


MODULES = {
    "deep": "-" * 100_000 + "1",
    "long_sum": "t = " + "1" + " + 1" * 100_000,
    "long_list": "t = [" + "1," * 1_000_000 + "]",
    "null_character": "t = '\0'",
}


@pytest.mark.parametrize("name", sorted(MODULES))
def test_hostile_module_is_no_module(project, load_in_a_process, name):
    seed = "topics: {t: {partitions: 1, value: {a: int}, seed: {function: 'functions.seeds:t'}}}\n"
    root = project({"topics/a.yml": seed, "functions/seeds.py": MODULES[name]})
    assert load_in_a_process(root)["codes"] == ["HW305"]


@pytest.mark.parametrize("text", ["5", "[1]", "[" * 100_000, "\ufeff{}"], ids=["number", "list", "deep", "mark"])
def test_cache_that_holds_anything_else_is_an_empty_one(project, load_in_a_process, text):
    root = project({"topics/t.yml": TOPIC, "topologies/x.yml": FLOW + "      - filter: a > 1\n    to: u\n"})
    (root / "target" / ".cache").mkdir(parents=True)
    (root / "target" / ".cache" / "expressions.json").write_text(text)
    assert load_in_a_process(root)["codes"] == []


def test_file_of_50_megabytes_is_not_read(project, load_in_a_process):
    root = project({})
    (root / "topics").mkdir()
    with (root / "topics" / "huge.yml").open("wb") as file:
        file.truncate(50_000_000)
    assert load_in_a_process(root)["codes"] == ["HW003"]


def test_device_behind_a_link_is_not_read(project, load_in_a_process):
    root = project({})
    (root / "topics").mkdir()
    (root / "topics" / "zeros.yml").symlink_to("/dev/zero")
    assert load_in_a_process(root)["codes"] == ["HW002"]


def test_project_that_is_fine_is_loaded_without_spark_or_its_python(project, load_in_a_process):
    root = project(
        {
            "headwater.yml": 'name: example\nversion: "1.0"\nplugins: [evil]\n',
            "evil.py": TOUCH,
            "functions/__init__.py": TOUCH,
            "functions/seeds.py": f"{TOUCH}\n\n\ndef t():\n    {TOUCH}\n",
            "sitecustomize.py": TOUCH,
            "topics/a.yml": "topics: {t: {partitions: 1, value: {a: int}, seed: {function: 'functions.seeds:t'}}}\n",
        }
    )
    result = load_in_a_process(root)
    assert result == {"codes": [], "spark": []}
    assert not (root / MARK).exists()
