"""All measurements: `python -m benchmarks`."""

from . import (
    assignors,
    backends,
    balanced,
    checksums,
    epoch_profile,
    failing_records,
    failover,
    keyed_count_sum,
    memory,
    metrics_overhead,
    metrics_parts,
    object_store,
    rack_aware,
    rebalance,
    restore,
    standby_cost,
)
from .evaluators import __main__ as evaluators

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
metrics_overhead.main([])
metrics_parts.main([])
epoch_profile.main([])
failover.main(["failover_0"])
failover.main(["failover_1", "--keys", "100000", "1000000", "2000000", "--no-peer"])
object_store.main([])
failing_records.main([])
evaluators.main([])
