"""How settings reach Spark: none of them is on a command line, which everybody on the machine reads."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.spark

SECRET = 'hush "and" \\u0041 = {é: #!}'

PROGRAM = """
import json, os, sys
from pathlib import Path
from headwater.runtime.cluster.spark.session import start_session

session = start_session({"master": "local[1]", "hadoop.secret.key": sys.argv[1], "driver.memory": "600m"})
lines = {}
for process in Path("/proc").glob("[0-9]*/cmdline"):
    try:
        lines[process.parent.name] = process.read_text(errors="replace")
    except OSError:
        continue
java = [line for number, line in lines.items() if "spark.properties" in line and "java" in line.split(chr(0))[0]]

print(json.dumps({
    "java": len([line for line in java if "headwater-spark-" in line and "-Xmx600m" in line]) > 0,
    "shown": [line for number, line in lines.items() if "hush" in line and int(number) != os.getpid()],
    "found": session.sparkContext.getConf().get("spark.hadoop.secret.key"),
    "arguments": os.environ.get("PYSPARK_SUBMIT_ARGS"),
}))
session.stop()
"""


def test_secret_setting_reaches_spark_and_no_command_line() -> None:
    done = subprocess.run(
        ["/usr/bin/env", "-u", "PYSPARK_SUBMIT_ARGS", sys.executable, "-c", PROGRAM, SECRET],
        capture_output=True,
        text=True,
        check=True,
    )

    found = json.loads(done.stdout.splitlines()[-1])

    assert found == {"java": True, "shown": [], "found": SECRET, "arguments": None}


BEGUN = """
import json, os, signal, tempfile
from pathlib import Path
from headwater.runtime.cluster.spark.on_demand import SparkOnDemand

spark = SparkOnDemand(lambda: {"master": "local[1]"})
with spark.beginning():
    unneeded = spark._begun.jvm
with spark.beginning():
    begun = spark._begun.jvm.process.pid
    session = spark.session()
from pyspark import SparkContext

print(json.dumps({
    "ended": unneeded.process.returncode is not None,
    "settings left": unneeded.settings.exists(),
    "the same": SparkContext._gateway.proc.pid == begun,
    "rows": session.range(3).count(),
}))
spark.close()
"""


def test_jvm_that_was_started_ahead_is_that_of_the_session_and_ends_if_nobody_needs_it() -> None:
    done = subprocess.run([sys.executable, "-c", BEGUN], capture_output=True, text=True, check=True)

    found = json.loads(done.stdout.splitlines()[-1])

    assert found == {"ended": True, "settings left": False, "the same": True, "rows": 3}
