"""Runs the compiled topology of the project in `kills/` in this process: the same loop, stores and log, without Spark.

python run_in_this_process.py PROJECT [--until-caught-up] [--state-dir FOLDER]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from headwater.runtime.cluster.local import LocalCluster
from headwater.runtime.driver.event_lines import Lines
from headwater.runtime.driver.runs import run_topologies
from headwater.runtime.driver.stopping import stopping
from headwater.runtime.generated_code import load_runner


def filtered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What Spark makes of `where("amount > 1", flow="spent")`: rows of other flows and control rows stay."""
    for batch in batches:
        spent = batch.column("@spent")
        others = pc.or_(pc.less(batch.column("_kind"), 0), pc.is_null(spent))
        yield batch.filter(pc.or_kleene(others, pc.greater(pc.struct_field(spent, "amount"), 1)))


parser = argparse.ArgumentParser()
parser.add_argument("project", type=Path)
parser.add_argument("--until-caught-up", action="store_true")
parser.add_argument("--state-dir")
given = parser.parse_args()
runner = load_runner(given.project / "target" / "spending" / "runner.py")
settings = replace(runner.settings, state_dir=given.state_dir or runner.settings.state_dir)
with stopping() as stop:
    results = run_topologies(
        [runner.topology],
        settings,
        LocalCluster(expressions={"topologies/spending.yml:22": filtered}),
        until_caught_up=given.until_caught_up,
        observer=Lines(),
        stop=stop,
    )
for result in results.applications:
    if result.error:
        print(f"error: {result.error}", file=sys.stderr)
sys.exit(results.failed)
