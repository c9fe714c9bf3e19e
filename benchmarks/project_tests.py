"""What `headwater test` takes for the cases of a project, beside what Python takes to import what it needs.

    python -m benchmarks.project_tests [--cases 50] [--times 3] [--profile FILE]

The project has five topologies that tasks compute by themselves: filters and expressions, a join with a table, windows,
windows that close, and sessions. Each case gives some rows, lets time pass and looks at a topic. All runs are processes
of their own, in turn with the imports alone, so that the load of the machine comes to both alike. Prints a JSON line
for each run with its seconds by the clock and of the processor, and one with the medians. The first run may compile
modules. `--profile`: the calls of one more run, for `python -m pstats`.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from .common import print_line, write_files

IMPORTS = "import pyarrow, sqlglot, jsonschema, yaml, click"
FILES = {
    "headwater.yml": 'name: shop\nversion: "1"\nprofile: shop\n',
    "profiles.yml": 'shop:\n  target: local\n  targets:\n    local:\n      spark: {master: "local[2]"}\n',
    "topics/topics.yml": """\
topics:
  orders: {partitions: 2, key: {order_id: bigint}, value: {product: string, quantity: int, price: double}}
  products: {partitions: 2, key: {product: string}, value: {maker: string}}
""",
}
AGGREGATE = "      - aggregate: {%svalues: {orders: count(*), sold: sum(quantity)}}\n"
STEPS = {
    "large": "      - filter: quantity * price >= 10\n      - with_columns: {amount: quantity * price}\n",
    "makers": """\
      - key_by: {product: product}
      - join: {table: made_by, type: left, values: {maker: upper(made_by.maker)}}
""",
    "hours": "      - key_by: {product: product}\n      - window: {tumbling: 1h}\n" + AGGREGATE % "",
    "closed": "      - key_by: {product: product}\n      - window: {tumbling: 1h}\n" + AGGREGATE % "emit: on_close, ",
    "visits": "      - key_by: {product: product}\n      - window: {session: 10m}\n" + AGGREGATE % "",
}
ROWS = {
    "large": "{order_id: 1, product: tea, amount: %d.0}",
    "makers": "{key.product: tea, maker: ANNA, quantity: %d}",
    "hours": "{product: tea, sold: %d}",
    "closed": "{product: tea, sold: %d}",
    "visits": "{product: tea, sold: %d}",
}


def main() -> None:
    """Measure, and print what was found."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--cases", type=int, default=50)
    options.add_argument("--times", type=int, default=3)
    options.add_argument("--profile")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as folder:
        root = Path(folder)
        write_project(root, given.cases)
        tests = [sys.executable, "-m", "headwater.cli.main", "test", "--project-dir", folder]
        sides = {"imports": [sys.executable, "-c", IMPORTS], "tests": tests}
        found: dict[str, list[tuple[float, float]]] = {side: [] for side in sides}
        for _ in range(given.times):
            for side, command in sides.items():
                found[side].append(measured(command))
                print_line({"side": side}, _seconds(found[side][-1]))
        medians = {
            side: _seconds([statistics.median(values) for values in zip(*runs, strict=True)])
            for side, runs in found.items()
        }
        print_line({"cases": given.cases}, medians)
        if given.profile:
            subprocess.run([sys.executable, "-m", "cProfile", "-o", given.profile, *tests[1:]], check=True)


def write_project(root: Path, cases: int) -> None:
    """A project with so many cases, dealt to the topologies."""
    files: dict[str, str] = dict(FILES)
    for name, steps in STEPS.items():
        tables = "tables:\n  made_by: {topic: products}\n" if name == "makers" else ""
        flow = f"flows:\n  {name}:\n    from: orders\n    steps:\n{steps}    to: {name}_out\n"
        files[f"topologies/{name}.yml"] = f"topology: {name}\n{tables}{flow}"
    names = list(STEPS)
    for number in range(cases):
        path = f"tests/{names[number % len(names)]}.yml"
        files[path] = files.get(path, "tests:\n") + _case(names[number % len(names)], number)
    write_files(root, files)


def _case(topology: str, number: int) -> str:
    quantity = number + 10
    table = "      - topic: products\n        rows: [{product: tea, maker: anna}]\n" if topology == "makers" else ""
    return (
        f"  - test: case {number} of {topology}\n    topology: {topology}\n    given:\n{table}"
        f"      - topic: orders\n        rows: [{{order_id: 1, product: tea, quantity: {quantity}, price: 1.0}}]\n"
        f"      - advance: 2h\n"
        f"    expect:\n      - topic: {topology}_out\n        rows: [{ROWS[topology] % quantity}]\n"
    )


def measured(command: Sequence[str]) -> tuple[float, float]:
    """The seconds of a process, by the clock and of the processor."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    wall, after = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _seconds(values: Sequence[float]) -> Mapping[str, float]:
    wall, cpu = values
    return {"wall": round(wall, 2), "cpu": round(cpu, 2)}


if __name__ == "__main__":
    main()
