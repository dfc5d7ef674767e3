"""The pages of the site that are made from the code when it is built, so that they are never stale."""

from __future__ import annotations

import inspect
from typing import Any

from typer.main import get_command

import client
from cli.main import app
from cli.sections import every_command
from cli.variables import all_variables
from client.allocate.registry import strategy_names
from model.errors import RlabError

PYTHON: dict[str, tuple[str, ...]] = {
    "Send": ("Producer", "TransactionProducer", "Message", "SendResult", "TransactionState", "MESSAGE_GROUP"),
    "Consume": (
        *("PushConsumer", "Sql", "Failed", "ConsumeResult", "ConsumeFrom", "MessageModel", "MessageExt"),
        "MessageQueue",
    ),
    "Poll": ("LitePullConsumer",),
    "Pop single messages": ("PopConsumer", "PopMessage"),
    "Operate": ("Admin", "MessageType"),
}
"""Every name of `client`, by its purpose."""
MORE_PYTHON: dict[str, tuple[str, ...]] = {
    "Options": ("client.config.ClientConfig", "client.options.ConsumerOptions", "client.options.LitePullOptions"),
    "Metrics": ("metrics.client.ClientMetrics",),
    "Tests in virtual time": (
        "testbed.simulation.kernel.run.run_simulation",
        "testbed.simulation.cluster.cluster.SimulatedCluster",
    ),
}


def made_pages() -> dict[str, str]:
    """The Markdown of each page by its path on the site."""
    return {
        "reference/commands.md": commands_page(),
        "reference/variables.md": variables_page(),
        "reference/python.md": python_page(),
        "reference/errors.md": errors_page(),
    }


def commands_page() -> str:
    """Every command with its arguments and options, from the code that reads them."""
    lines = ["# Commands", "", "Every command of `rlab`, as the command itself explains it with `--help`.", ""]
    for name, command in every_command(get_command(app)):
        lines += _command(name, command)
    return "\n".join(lines)


def _command(name: str, command: Any) -> list[str]:
    lines = [f"{'##' if name.count(' ') < 2 else '###'} {name}", ""]
    lines += [inspect.cleandoc(command.help or ""), ""]
    if subs := getattr(command, "commands", {}):
        lines += [*(f"- `{name} {sub}`: {each.get_short_help_str(200)}" for sub, each in subs.items()), ""]
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option" and not each.hidden]
    usage = " ".join([name, *map(_metavar, arguments), *(["[OPTIONS]"] if options else [])])
    lines += ["```text", usage, "```", ""]
    if arguments or options:
        lines += ["| argument or option | default | meaning |", "|---|---|---|"]
        lines += [_row(f"`{_metavar(each)}`", each) for each in arguments]
        lines += [_row(_flags(each), each) for each in options]
        lines.append("")
    return lines


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


def _flags(option: Any) -> str:
    flags = ", ".join(f"`{flag}`" for flag in (*option.opts, *option.secondary_opts))
    kind = option.metavar or ("" if option.is_flag else "|".join(getattr(option.type, "choices", [option.type.name])))
    return f"{flags} {kind}".strip().replace("|", "\\|")


def _row(name: str, parameter: Any) -> str:
    default = "" if parameter.default is None or callable(parameter.default) else str(parameter.default)
    if isinstance(default_text := getattr(parameter, "show_default", None), str):
        default = f"({default_text})"
    if parameter.required:
        default = "required"
    if parameter.param_type_name == "option" and parameter.secondary_opts:
        default = f"`{parameter.opts[0] if parameter.default else parameter.secondary_opts[0]}`"
    if default in ("False", "()", "[]", "Sentinel.UNSET"):
        default = ""
    meaning = _with_strategies(" ".join((parameter.help or "").split()))
    return f"| {name} | {default} | {meaning} |".replace("<", "&lt;")


def _with_strategies(text: str) -> str:
    """Fill in the names of the strategies; the search for packages that have one takes some milliseconds."""
    return text.replace("{strategies}", ", ".join(strategy_names())) if "{strategies}" in text else text


def variables_page() -> str:
    """Every environment variable, from the options that it sets."""
    lines = [
        *("# Environment variables", ""),
        "Every option of a command can be set by a variable with the names of both; a flag on the command line wins. "
        "`rlab --help-env` prints the same list.",
        *("", "| variable | option | meaning |", "|---|---|---|"),
    ]
    for each in all_variables(get_command(app)):
        meaning = _with_strategies(each.meaning).replace("|", "\\|")
        lines.append(
            f"| `{each.name}` | {f'`{each.option}`' if each.option else ''} | {meaning} |".replace("<", "&lt;")
        )
    return "\n".join([*lines, ""])


def python_page() -> str:
    """The names that applications import, with directives that mkdocstrings fills from the docstrings."""
    lines = ["# Python API", "", "The names that applications import, from their docstrings.", ""]
    parts = {title: tuple(f"client.{name}" for name in names) for title, names in PYTHON.items()}
    for title, names in {**parts, **MORE_PYTHON}.items():
        lines += [f"## {title}", ""]
        for name in names:
            lines += [f"::: {name}", ""]
    assert {name for names in PYTHON.values() for name in names} == set(client.__all__)
    return "\n".join(lines)


def errors_page() -> str:
    """Every error: its branch of the tree, and its answers to a caller's questions."""
    lines = [
        *("# Errors", ""),
        "Every error that the cluster raises on purpose (`model/errors.py`). *Retry*: the same call may succeed later.",
        "*Not done*: the request certainly had no effect; otherwise it may have been carried out without an answer.",
        "",
    ]
    for branch in RlabError.__subclasses__():
        lines += [f"## {branch.__name__}", "", _first(branch), ""]
        lines += ["| error | response code | retry | not done | meaning |", "|---|---|---|---|---|"]
        for each in branch.__subclasses__():
            code = f"`{each.code.name}`" if each.code is not None else ""
            retry, definite = ("yes" if answer else "no" for answer in (each.retryable, each.definite))
            lines.append(f"| `{each.__name__}` | {code} | {retry} | {definite} | {_first(each)} |")
        lines.append("")
    return "\n".join(lines)


def _first(kind: type[RlabError]) -> str:
    """The first paragraph of a docstring."""
    return " ".join((inspect.getdoc(kind) or "").partition("\n\n")[0].split())
