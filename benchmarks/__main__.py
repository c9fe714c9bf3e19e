"""All measurements: `python -m benchmarks`."""

from . import (
    assignors,
    backends,
    balanced,
    checksums,
    failover,
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
failover.main(["failover_0"])
failover.main(["failover_1", "--keys", "100000", "1000000", "2000000", "--no-peer"])
