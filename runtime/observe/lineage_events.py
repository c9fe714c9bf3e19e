"""OpenLineage events of a run, made from its topology. See https://openlineage.io/spec/2-0-2/OpenLineage.json."""

from __future__ import annotations

from collections.abc import Container, Iterable
from datetime import UTC, datetime
from typing import Literal

from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    DatasetFacet,
    RunFacet,
    column_lineage_dataset,
    error_message_run,
    job_type_job,
    processing_engine_run,
    schema_dataset,
)
from openlineage.client.uuid import generate_new_uuid

from ...version import __version__
from ..ir.topology import Topic, Topology
from ..records.schema import key_columns, value_columns
from ..records.types import ddl
from .lineage_columns import column_lineage

State = Literal["START", "RUNNING", "COMPLETE", "FAIL", "ABORT"]

PRODUCER = f"urn:headwater:{__version__}"
"""The producer of the events."""


class LineageOfRun:
    """Makes the events of one run of an application. `namespace`: of its job and its topics; default: the project."""

    def __init__(self, topology: Topology, namespace: str) -> None:
        self._namespace = namespace or topology.project
        self._run = generate_new_uuid()
        self._job = topology.name
        try:
            self._columns = column_lineage(topology)
        except Exception:  # a run must not fail because a step cannot be traced
            self._columns = {}
        parts = topology.subtopologies
        internal = {name for part in parts for name in part.repartition_topics}
        self._inputs = _distinct((part.read for part in parts), internal)
        self._outputs = _distinct((part.sinks for part in parts), internal)

    def event(self, state: State, error: str | None = None) -> RunEvent:
        """An event: the run enters a state now. `error`: the message with which it failed."""
        engine = processing_engine_run.ProcessingEngineRunFacet(
            version=__version__, name="Headwater", producer=PRODUCER
        )
        facets: dict[str, RunFacet] = {"processing_engine": engine}
        if error is not None:
            facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(
                message=error, programmingLanguage="PYTHON", producer=PRODUCER
            )
        kind = job_type_job.JobTypeJobFacet(
            processingType="STREAMING", integration="HEADWATER", jobType="TOPOLOGY", producer=PRODUCER
        )
        return RunEvent(
            eventTime=datetime.now(UTC).isoformat(timespec="milliseconds"),
            producer=PRODUCER,
            run=Run(runId=str(self._run), facets=facets),
            job=Job(namespace=self._namespace, name=self._job, facets={"jobType": kind}),
            eventType=RunState[state],
            inputs=[InputDataset(self._namespace, topic.name, facets=_schema(topic)) for topic in self._inputs],
            outputs=[OutputDataset(self._namespace, topic.name, facets=self._made(topic)) for topic in self._outputs],
        )

    def _made(self, topic: Topic) -> dict[str, DatasetFacet]:
        """The facets of an output topic: its columns, and their inputs where they are known."""
        fields = {
            column: column_lineage_dataset.Fields(
                inputFields=[
                    column_lineage_dataset.InputField(namespace=self._namespace, name=name, field=of)
                    for name, of in sorted(inputs)
                ]
            )
            for column, inputs in self._columns.get(topic.name, {}).items()
            if inputs
        }
        facet = column_lineage_dataset.ColumnLineageDatasetFacet(fields=fields, producer=PRODUCER)
        return {**_schema(topic), "columnLineage": facet}


def _distinct(topics: Iterable[Iterable[Topic]], internal: Container[str]) -> tuple[Topic, ...]:
    """Each topic once, without internal topics."""
    by_name = {topic.name: topic for some in topics for topic in some}
    return tuple(topic for name, topic in by_name.items() if name not in internal)


def _schema(topic: Topic) -> dict[str, DatasetFacet]:
    """The columns of a topic: those of the key as `key.<name>`, those of the value as `value.<name>`."""
    columns = {f"key.{name}": kind for name, kind in key_columns(topic).items()}
    columns |= {f"value.{name}": kind for name, kind in value_columns(topic).items()}
    fields = [
        schema_dataset.SchemaDatasetFacetFields(name=name, type=ddl(kind), ordinal_position=number)
        for number, (name, kind) in enumerate(columns.items(), 1)
    ]
    return {"schema": schema_dataset.SchemaDatasetFacet(fields=fields, producer=PRODUCER)}
