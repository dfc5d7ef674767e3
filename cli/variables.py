"""The environment variables of the commands, and what was probably meant by one that no command has.

The parser looks only for variables that it knows, so a misspelt one would be ignored in silence. It is named, and is no
error: others make variables of this prefix too, for instance Kubernetes for a service called rlab.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any

PREFIX = "RLAB_"
OTHERS = ("RLAB_DEBUG",)
"""Variables that are no option of a command."""
_OF_KUBERNETES = ("RLAB_PORT", "RLAB_SERVICE_")


def variables_of(command: Any, prefix: str = PREFIX.rstrip("_")) -> Iterator[str]:
    """Yield the variables of all options of a command of typer and of the commands below it."""
    for parameter in command.params:
        given = parameter.envvar
        if given is None:
            yield f"{prefix}_{(parameter.name or '').upper()}"
        else:
            yield from [given] if isinstance(given, str) else given
    for name, child in getattr(command, "commands", {}).items():
        yield from variables_of(child, f"{prefix}_{name.upper().replace('-', '_')}")


def unknown_variables(names: Iterable[str], command: Any) -> list[str]:
    """Describe each of the variables that begins like ours and is none, and what it is a misspelling of."""
    mine = [name for name in names if name.startswith(PREFIX) and name not in OTHERS]
    if not mine:
        return []
    known = {*variables_of(command), *OTHERS}
    described = []
    for name in sorted(set(mine) - known):
        if name.startswith(_OF_KUBERNETES):
            continue
        near = get_close_matches(name, sorted(known), 1, 0.8)
        described.append(f"{name} is no variable of rlab" + (f": is {near[0]} meant?" if near else ""))
    return described
