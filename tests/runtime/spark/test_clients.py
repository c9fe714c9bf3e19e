"""How many executors a run waits for."""

from __future__ import annotations

import pytest

from headwater.runtime.cluster.spark.job import asked_for

DYNAMIC = {"spark.dynamicAllocation.enabled": "true", "spark.dynamicAllocation.minExecutors": "1"}


@pytest.mark.parametrize(
    ("master", "settings", "count"),
    [
        ("local-cluster[2,1,1024]", {}, 2),
        ("local-cluster[ 3 , 1 , 1024 ]", {}, 3),
        ("yarn", {"spark.executor.instances": "8"}, 8),
        ("spark://host:7077", {"spark.cores.max": "9", "spark.executor.cores": "2"}, 4),
        ("spark://host:7077", {"spark.cores.max": "1", "spark.executor.cores": "2"}, None),
        ("spark://host:7077", {"spark.cores.max": "9"}, None),
        ("k8s://https://host", {}, None),
        ("yarn", {**DYNAMIC, "spark.executor.instances": "8"}, 8),
        ("yarn", {**DYNAMIC, "spark.dynamicAllocation.initialExecutors": "3"}, 3),
        ("spark://host:7077", {**DYNAMIC, "spark.cores.max": "9", "spark.executor.cores": "2"}, 1),
        ("local-cluster[2,1,1024]", DYNAMIC, 1),
        ("yarn", {"spark.dynamicAllocation.enabled": "true"}, None),
    ],
)
def test_run_waits_for_as_many_executors_as_it_asked_for(
    master: str, settings: dict[str, str], count: int | None
) -> None:
    assert asked_for(master, settings) == count
