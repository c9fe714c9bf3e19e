"""`headwater kafka`: commands for topics in Kafka. The module `x` defines `headwater kafka x`."""

from __future__ import annotations

import click

from ...options import LeadingOptions, whole_leading_options


class KafkaCommands(LeadingOptions):
    """The commands for topics in Kafka."""

    names = ("import",)
    package = __name__


@click.group("kafka", cls=KafkaCommands)
@whole_leading_options
def command(**_: object) -> None:
    """Declare topics of Kafka."""
