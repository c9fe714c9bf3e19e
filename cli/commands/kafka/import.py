"""`headwater kafka import`: declares a topic that exists in Kafka."""

from __future__ import annotations

import click

from ...options import ProjectOptions, WholeNumber, whole_project_options
from ...printing.terminal import print_line


@click.command("import", short_help="Write the YAML of a topic that is in Kafka.")
@whole_project_options
@click.argument("topic")
@click.option("--cluster", metavar="NAME", help="The cluster; needed if the target has several.")
@click.option("--key", metavar="FORMAT", help="The format of keys, instead of a guess.")
@click.option("--value", metavar="FORMAT", help="The format of values, instead of a guess.")
@click.option("--records", type=WholeNumber(1), default=100, show_default=True, help="How many records to look at.")
@click.option("--write", is_flag=True, help="Write topics/TOPIC.yml instead of printing it.")
@click.option("--overwrite", is_flag=True, help="Replace that file, if there is one.")
def command(
    options: ProjectOptions,
    topic: str,
    cluster: str | None,
    key: str | None,
    value: str | None,
    records: int,
    write: bool,
    overwrite: bool,
) -> None:
    """Write the YAML of a TOPIC that is in Kafka, from its last records.

    Fields of JSON become columns. What the records do not tell for sure, such as a field with numbers and texts, is a
    comment with the places of such records.
    """
    project = options.warned_project()
    imported = project.import_kafka_topic(topic, cluster=cluster, key=key, value=value, records=records)
    if not (write or overwrite):
        click.echo(imported.text, nl=False)
        return
    print_line(f"wrote {project.write_kafka_topic(imported, overwrite=overwrite)}")
