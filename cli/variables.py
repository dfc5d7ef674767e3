"""The environment variables of `rlab`: their names, their options, and names that are not ours.

The option `--replica-of` of `rlab broker` is RLAB_BROKER_REPLICA_OF: the command and the option in capitals, whatever
the parameter is called in the code. A few options have one name for all commands, for instance RLAB_NAMESRV.

The parser reads only the variables of its options, so a misspelt variable would be ignored silently. A warning names
it. It is not an error, because other programs set variables with this prefix too, for instance Kubernetes for a service
called rlab.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

PREFIX = "RLAB_"
NOT_OPTIONS = {
    "RLAB_DEBUG": "1 prints the traceback of an error, and every line of the log",
    "RLAB_ETCD_CA": "certificate of the authority of etcd's servers",
    "RLAB_ETCD_CERT": "certificate for etcd, with RLAB_ETCD_KEY",
    "RLAB_ETCD_KEY": "private key of RLAB_ETCD_CERT",
    "RLAB_ETCD_PASSWORD": "password of RLAB_ETCD_USER",
    "RLAB_ETCD_PASSWORD_FILE": "file with that password, which other processes cannot read from the environment",
    "RLAB_ETCD_USER": "user of etcd",
    "RLAB_HTTP_KEY": "key that HTTP ports require",
    "RLAB_HTTP_KEY_FILE": "file with that key",
    "RLAB_KEY": "key that is proved to servers with access control",
    "RLAB_KEY_FILE": "file with that key",
    "RLAB_TLS_CA": "certificate of the authority of the servers; connections are over TLS then",
    "RLAB_TLS_CERT": "certificate of a client, with RLAB_TLS_KEY",
    "RLAB_TLS_KEY": "private key of RLAB_TLS_CERT",
}
"""Variables that are not options of a command, and their meanings."""
SHARED = frozenset({"RLAB_CONFIG", "RLAB_NAMESRV", "RLAB_REGISTER"})
"""Variables with one name for several commands: they are known without a look at the options of all commands."""
OLD_NAMES = {
    "RLAB_BENCH_AS_JSON": "RLAB_BENCH_JSON",
    "RLAB_BROKER_LOG": "RLAB_BROKER_LOG_FORMAT",
    "RLAB_CONSOLE_LOG": "RLAB_CONSOLE_LOG_FORMAT",
    "RLAB_CONSUME_SQL": "RLAB_CONSUME_FILTER",
    "RLAB_DOCTOR_BETWEEN": "RLAB_DOCTOR_INTERVAL",
    "RLAB_EXPORTER_LOG": "RLAB_EXPORTER_LOG_FORMAT",
    "RLAB_EXPORTER_SINCE": "RLAB_EXPORTER_FROM",
    "RLAB_GROUP_DLQ_RESEND_EVERYTHING": "RLAB_GROUP_DLQ_RESEND_ALL",
    "RLAB_GROUP_DLQ_RESEND_MESSAGE_ID": "RLAB_GROUP_DLQ_RESEND_ID",
    "RLAB_GROUP_DLQ_SHOW_MESSAGE_ID": "RLAB_GROUP_DLQ_SHOW_ID",
    "RLAB_MESSAGE_FIND_MOST": "RLAB_MESSAGE_FIND_MAX",
    "RLAB_NAMESRV_LOG": "RLAB_NAMESRV_LOG_FORMAT",
    "RLAB_TOPIC_LIST_EVERYTHING": "RLAB_TOPIC_LIST_ALL",
}
"""Old name -> new name. An old name is still read, and a note says so."""
_KUBERNETES_PREFIXES = ("RLAB_PORT", "RLAB_SERVICE_")
"""For a service called rlab, Kubernetes sets for instance RLAB_PORT, RLAB_PORT_9876_TCP and RLAB_SERVICE_HOST."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A variable, its command and option (`rlab broker --listen`), and its meaning."""

    name: str
    option: str
    meaning: str


def name_by_options(command: Any, prefix: str = PREFIX.rstrip("_")) -> None:
    """Name the variables of a command of typer, and of the commands below it, by their options.

    Without this, typer reads a variable with the name of the parameter in the code, which may not be `all` or `from`.
    """
    for parameter in command.params:
        is_option = parameter.param_type_name == "option" and not parameter.is_eager
        if is_option and parameter.envvar is None:
            parameter.envvar = f"{prefix}_{_option_name(parameter).lstrip('-').replace('-', '_').upper()}"
    for name, child in getattr(command, "commands", {}).items():
        name_by_options(child, prefix_of(name, prefix))


def prefix_of(name: str, parent: str = PREFIX.rstrip("_")) -> str:
    """Return what the variables of the command of a name begin with, below those of its parent."""
    return f"{parent}_{name.upper().replace('-', '_')}"


def variables_of(command: Any, path: str = "rlab") -> Iterator[Variable]:
    """Yield the variables of a command of typer and of those below it, once `name_by_options` has named them."""
    for parameter in command.params:
        if parameter.envvar is not None:
            meaning = " ".join((parameter.help or "").split())
            yield Variable(name=parameter.envvar, option=f"{path} {_option_name(parameter)}", meaning=meaning)
    for name, child in getattr(command, "commands", {}).items():
        yield from variables_of(child, f"{path} {name}")


def all_variables(command: Any) -> list[Variable]:
    """Return all variables by name; a variable that several commands share is listed once."""
    by_name: dict[str, Variable] = {}
    for each in variables_of(command):
        other = by_name.get(each.name)
        shared = f"{each.option.rpartition(' ')[2]} of all commands"
        by_name[each.name] = each if other is None else Variable(name=each.name, option=shared, meaning=other.meaning)
    by_name |= {name: Variable(name=name, option="", meaning=meaning) for name, meaning in NOT_OPTIONS.items()}
    return [by_name[name] for name in sorted(by_name)]


def unknown_variables(names: Iterable[str], command: Any) -> list[str]:
    """Describe each variable that begins like ours and is not one, and the variable that may be meant."""
    own_names = [name for name in names if name.startswith(PREFIX) and name not in NOT_OPTIONS and name not in SHARED]
    if not own_names:
        return []
    known_names = {*(each.name for each in variables_of(command)), *NOT_OPTIONS}
    described = []
    for name in sorted(set(own_names) - known_names):
        if name.startswith(_KUBERNETES_PREFIXES) or name in OLD_NAMES:
            continue
        near = get_close_matches(name, sorted(known_names), 1, 0.8)
        described.append(f"{name} is not a variable of rlab" + (f": is {near[0]} meant?" if near else ""))
    return described


def read_old_names(environment: MutableMapping[str, str]) -> list[str]:
    """Set the variable of the new name for each old name, unless it is set itself; returns a note for each."""
    notes = []
    for old, new in OLD_NAMES.items():
        if old in environment:
            environment.setdefault(new, environment[old])
            notes.append(f"{old} is called {new} now, after its option; the old name is still read")
    return notes


def _option_name(option: Any) -> str:
    return str(max(option.opts, key=lambda opt: (opt.startswith("--"), len(opt))))
