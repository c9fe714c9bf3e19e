"""All measurements: `python -m benchmarks`."""

from . import keyed_count_sum, memory

keyed_count_sum.main([])
memory.main([])
