"""The process that Spark forks its Python workers from, with all that a stage needs imported already.

Spark starts a worker for each Python stage of each thread of a client, and imports cost a worker most of a second of
CPU; forked from here they come for nothing. What is imported is also kept from the garbage collector, which Spark
calls in every worker after every task: an epoch of few records takes half the CPU.

Of what is imported only jemalloc and OpenBLAS start threads, and both see to it themselves that a fork finds them
whole. Stores and logs are opened after the fork.
"""

from __future__ import annotations

import gc

import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

from . import worker  # noqa: F401

if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    manager()
