"""Groups of commands that take a project's options before the command as well as after it."""

from __future__ import annotations

from collections.abc import Iterator

import click

from ..suggestions import guess
from .options import NAMES


class LeadingOptions(click.Group):
    """`headwater -s sales run` is `headwater run -s sales`; the group has the options by `leading_options`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does; keeps the options before the command for `resolve_command`."""
        given, _, _ = self.make_parser(ctx).parse_args(list(args))
        ctx.meta[self._key] = {name: given[name] for name in NAMES if name in given}
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command and its arguments, after the options that stood before it: of two values the last one counts."""
        if not ctx.resilient_parsing and args[0][:1] != "-" and self.get_command(ctx, args[0]) is None:
            more = f"`{_named(ctx)} --help` lists the commands."
            hint = guess(args[0], self.list_commands(ctx), more)
            raise click.UsageError(f"There is no command {args[0]!r}; {hint}", ctx)
        name, command, rest = super().resolve_command(ctx, args)
        return name, command, rest if command is None else [*self._moved(ctx, name, command), *rest]

    def _moved(self, ctx: click.Context, name: str | None, command: click.Command) -> Iterator[str]:
        taken = {name for parameter in command.params for name in parameter.opts}
        for parameter in self.params:
            values = ctx.meta[self._key].get(parameter.name, ())
            option = parameter.opts[-1]
            if values and option not in taken and parameter.name != "without_plugins":  # which the group itself heeds
                raise click.UsageError(f"The command {name!r} has no option {option!r}.", ctx)
            for value in [values] if isinstance(values, str) else values:
                yield from (option, value) if option in taken else ()

    @property
    def _key(self) -> str:
        """The key under which a context, which groups inside of each other share, keeps the options."""
        return f"{__name__}.{self.name}"


def _named(ctx: click.Context) -> str:
    """`headwater` or `headwater log`, by whatever name the program was started."""
    inner = ctx.command_path.split()[1:]
    return " ".join(("headwater", *inner))
