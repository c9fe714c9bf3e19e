"""The measurements that are not in `docs/benchmarks.md`, one after another: `make bench ONLY=others`.

Each is also a command of its own, such as `python -m benchmarks.restore`. Their figures are in
`docs/internals/measurements.md`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

COMMANDS: Sequence[Sequence[str]] = (
    ("rack_aware",),
    ("balanced",),
    ("rebalance",),
    ("checksums",),
    ("backends",),
    ("restore",),
    ("restore", "--link", "spark", "--no-peer"),
    ("standby_cost",),
    ("metrics_overhead",),
    ("metrics_parts",),
    ("epoch_profile",),
    ("failover", "failover_0"),
    ("failover", "failover_1", "--keys", "100000", "1000000", "2000000", "--no-peer"),
    ("object_store",),
    ("failing_records",),
)


def main() -> int:
    """Run all of them; 1 if any has failed."""
    failed = []
    for name, *arguments in COMMANDS:
        print(f"-- python -m benchmarks.{' '.join([name, *arguments])}", flush=True)
        done = subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *arguments], cwd=Path(__file__).parents[1])
        if done.returncode:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
