"""The process from which Spark forks its Python workers, with all imports of a stage.

Spark starts a worker per Python stage and thread of a client. Imports cost a worker most of a second of CPU; a fork of
this process has them already. The imported objects are also excluded from garbage collection, which Spark
runs in every worker after every task. An epoch of few records then takes half the CPU.

Of the imported libraries only jemalloc and OpenBLAS start threads, and both handle a fork correctly. Stores and logs
are opened after the fork.
"""

from __future__ import annotations

import gc

import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

from ...chosen_plugins import load_for_workers
from . import worker  # noqa: F401

if __name__ == "__main__":
    load_for_workers()
    gc.collect()
    gc.freeze()
    manager()
