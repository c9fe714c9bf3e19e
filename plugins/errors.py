"""What can be wrong with a plugin, or with asking for one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from ..errors import HeadwaterError


class PluginError(HeadwaterError):
    """Anything wrong with plugins."""


class UnknownPluginError(PluginError):
    """Nothing of this kind has this name. `suggestions`: known names that look like it, best first."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind = kind
        self.name = name
        self.known = tuple(sorted(known))
        self.suggestions = tuple(get_close_matches(name, self.known))
        guess = f"did you mean {' or '.join(self.suggestions)}? " if self.suggestions else ""
        super().__init__(f"there is no {kind} {name!r}", f"{guess}known: {', '.join(self.known) or 'none'}")


class PluginConflictError(PluginError):
    """Two plugins of a kind have one name. `origins`: where the two come from."""

    def __init__(self, kind: str, name: str, origins: tuple[str, str]) -> None:
        super().__init__(
            f"the {kind} {name!r} is registered twice: {origins[0]} and {origins[1]}",
            "rename one, or leave a plugin out with -p no:<name>",
        )
        self.kind = kind
        self.name = name
        self.origins = origins


class PluginImportError(PluginError):
    """A plugin's module cannot be imported. The cause is chained."""

    def __init__(self, name: str, cause: BaseException) -> None:
        super().__init__(f"plugin {name} cannot be imported: {type(cause).__name__}: {cause}")
        self.name = name


class InvalidPluginError(PluginError):
    """A plugin that does not fit the hooks: an unknown hook, an argument that it has not, a schema that is none."""


@dataclass(frozen=True)
class OptionProblem:
    """What is wrong with one option. `path`: keys and indexes from the options down to it."""

    path: tuple[str | int, ...]
    message: str

    def __str__(self) -> str:
        return f"{'.'.join(str(step) for step in self.path)}: {self.message}" if self.path else self.message


class PluginOptionsError(PluginError):
    """Options that a plugin's schema refuses."""

    def __init__(self, kind: str, name: str, problems: Sequence[OptionProblem]) -> None:
        super().__init__(f"bad options of {kind} {name}: {'; '.join(str(problem) for problem in problems)}")
        self.kind = kind
        self.name = name
        self.problems = tuple(problems)
