"""`headwater plan`: shows what the next run would do with committed data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ...errors import HeadwaterError
from ...private_files import write_text
from ..given_files import InputPath, OutputPath
from ..options import ProjectOptions, continue_option, format_option, project_options
from ..printing.findings import warn_of_unread

NEEDS_A_DECISION = 2
"""The exit code of a plan with a change that needs a decision, as in Terraform's plan."""


class PlanCommand(click.Command):
    """A command with 2 as a regular exit code, so usage errors exit with 1, as all other errors."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """As click does."""
        try:
            return super().make_context(*args, **kwargs)
        except click.UsageError as error:
            setattr(error, "exit_code", 1)  # noqa: B010 - of the class, as click declares it
            raise

    def invoke(self, ctx: click.Context) -> Any:
        """As click does."""
        try:
            return super().invoke(ctx)
        except (click.UsageError, HeadwaterError) as error:
            setattr(error, "exit_code", 1)  # noqa: B010 - of the class, as click declares it
            raise


@click.command("plan", cls=PlanCommand)
@project_options
@click.option(
    "--allow",
    type=click.Choice(["replace", "error"]),
    multiple=True,
    help="Changes that do not cause exit code 2; can be repeated.",
)
@click.option(
    "--against",
    type=InputPath(path_type=Path, exists=True, dir_okay=False),
    metavar="MANIFEST",
    help="Compare with the manifest.json of a deployed project, without its log.",
)
@click.option(
    "--out",
    type=OutputPath(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the plan to a file, for `headwater run --plan`.",
)
@continue_option
@format_option("text", "json", "github", "markdown", default="text")
def command(
    options: ProjectOptions, allow: tuple[str, ...], against: Path | None, out: Path | None, go_on: bool, style: str
) -> None:
    """Show what the next run would do with committed data.

    For each changed topology, topic, store, flow and seed: whether a run resumes, needs more work first, or is refused,
    and the ways out. No Spark, no lock; it works while the project runs. The exit code is 0 if a run resumes, 2 if a
    change needs a decision.
    """
    from ..printing.plans import as_json, show

    project = options.project()
    plan = project.plan(against=against, go_on=go_on)
    warn_of_unread(project, in_files=True)
    if out is not None:
        write_text(out, as_json(plan))
    show(plan, project.root, style)
    raise SystemExit(NEEDS_A_DECISION if plan.needs_decision(allow) else 0)
