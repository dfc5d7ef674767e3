"""The commands of `rlab` by section, as its help lists them. The module of a command is imported when it is needed.

The options of all commands together are thousands of annotations, which take several times as long to read as the
rest of a start. A command, a server or a key of completion needs those of one module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from functools import cache
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup, TyperOption
from typer.main import get_group

from cli.variables import name_by_options, prefix_of

SECTIONS = {
    "Run": {
        "cluster": "cli.servers.cluster",
        "namesrv": "cli.servers.daemons",
        "broker": "cli.servers.daemons",
        "elections": "cli.servers.elections",
        "console": "cli.servers.daemons",
        "exporter": "cli.servers.daemons",
        "key": "cli.security.key",
        "certs": "cli.security.certs",
    },
    "Use": {
        "topic": "cli.messages.topic",
        "produce": "cli.messages.produce",
        "consume": "cli.messages.consume",
        "message": "cli.messages.message",
        "producer": "cli.messages.producer",
    },
    "Look and explain": {
        "group": "cli.group.command",
        "doctor": "cli.servers.daemons",
        "check": "cli.trace.check",
        "report": "cli.trace.report",
        "whatif": "cli.trace.whatif",
        "strategies": "cli.trace.strategies",
    },
    "Learn": {
        "demo": "cli.testbed.demo",
        "lab": "cli.testbed.labs",
        "example": "cli.testbed.examples",
    },
    "Test and measure": {
        "sim": "cli.testbed.sim",
        "fault": "cli.testbed.fault",
        "swarm": "cli.testbed.swarm",
        "crash": "cli.testbed.crash",
        "fuzz": "cli.testbed.fuzz",
        "bench": "cli.testbed.bench",
    },
}
"""Section -> command -> module, whose `register` adds the command.

The names are whole, because the packages of an installation are below `rlab`, and texts with their names follow them.
"""

_MODULES = {name: module for modules in SECTIONS.values() for name, module in modules.items()}
_COMPLETION = {
    "install_completion": "Install completion for this shell.",
    "show_completion": "Print the completion of this shell.",
}


class Sections(TyperGroup):
    """The command `rlab`, whose help lists its commands in `SECTIONS`."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        name_by_options(self)
        self.commands = Commands(self.commands)

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters; completion is installed once, so a line for each of its options is enough.

        None has a variable: RLAB_VERSION of a build script would print the version instead of running the command.
        """
        params = super().get_params(ctx)
        for parameter in params:
            if isinstance(parameter, TyperOption):
                parameter.allow_from_autoenv = False
            if isinstance(parameter, TyperOption) and (text := _COMPLETION.get(parameter.name or "")):
                parameter.help, parameter.show_envvar = text, False
        return params

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands."""
        width = formatter.width - max(map(len, self.commands)) - 6
        for title, names in SECTIONS.items():
            formatter.write(f"{title}:\n" if title != "Run" else f"\n{title}:\n")
            with formatter.indentation():
                formatter.write_dl([(name, self.commands[name].get_short_help_str(width)) for name in names])


class Commands(MutableMapping[str, Any]):
    """Commands of typer by name: the ones that were added to the app, and each of `SECTIONS` after it was asked for."""

    def __init__(self, added: Mapping[str, Any]) -> None:
        self._modules = dict(_MODULES)
        self._made = dict(added)

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            for each, command in get_group(load_commands(self._modules[name])).commands.items():
                name_by_options(command, prefix_of(each))
                self._made.setdefault(each, command)
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        if self._modules.pop(name, None) is None or name in self._made:
            del self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules | self._made)

    def __len__(self) -> int:
        return len(self._modules | self._made)


@cache
def load_commands(module: str) -> typer.Typer:
    """Return an app with the commands of a module, which are registered once in a process."""
    app = typer.Typer(rich_markup_mode=None)
    import_module(module).register(app)
    return app


def every_command(command: Any, name: str = "rlab") -> Iterator[tuple[str, Any]]:
    """Yield a command with its whole name, then those below it."""
    yield name, command
    for sub, each in getattr(command, "commands", {}).items():
        yield from every_command(each, f"{name} {sub}")
