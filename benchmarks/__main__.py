"""All measurements: `python -m benchmarks`."""

from . import (
    assignors,
    backends,
    balanced,
    checksums,
    keyed_count_sum,
    memory,
    rack_aware,
    rebalance,
    restore,
    standby_cost,
)

keyed_count_sum.main([])
memory.main([])
assignors.main([])
rack_aware.main()
balanced.main()
rebalance.main([])
checksums.report()
backends.main([])
restore.main([])
restore.main(["--link", "spark", "--no-peer"])
standby_cost.main([])
