"""`rlab example`: list the examples that are installed with the package, and copy them into a folder."""

from __future__ import annotations

import ast
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from cli.complete import with_prefix
from cli.options import Config, Json
from model.errors import ConfigError
from process.output import print_json, print_line, print_table
from process.runtime import exit_with_error

app = typer.Typer(help="Examples: scripts and scenarios to copy and run.", no_args_is_help=True)

SHIPPED = Path(__file__).resolve().parents[2] / "examples"
"""Beside the packages, in a checkout and where it is installed."""
_FOLDER = SHIPPED.name
_NOT_COPIED = shutil.ignore_patterns("__pycache__", "target")


def _completed(incomplete: str) -> list[str]:
    return with_prefix(incomplete, [each.name for each in _examples()])


Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[NAME]...",
        help="Names of rlab example list, or files such as hello.py; all examples by default.",
        show_default=False,
        autocompletion=_completed,
    ),
]


class Example(NamedTuple):
    """An example, or a folder of them."""

    name: str
    path: Path
    about: str
    run: str
    """The command that runs it, in the folder that has the copy."""


def register(parent: typer.Typer) -> None:
    """Add the commands."""
    parent.add_typer(app, name="example")


@app.command("list")
def list_examples(json: Json = False, config: Config = None) -> None:
    """List the examples, each with the command that runs its copy.

    Example: rlab example list
    """
    examples = list(_examples())
    if json:
        names = ("name", "about", "run")
        print_json({"examples": [{name: getattr(each, name) for name in names} for each in examples]})
        return
    print_table(["name", "shows", "run"], [(each.name, each.about, each.run) for each in examples])


@app.command()
def copy(
    names: Names = None,
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Folder that gets a folder examples.")] = Path(),
    config: Config = None,
) -> None:
    """Copy examples into the folder `examples` of this folder, so that the commands of the pages can be typed here.

    A file that exists is left as it is, and is an error.

    Example: rlab example copy hello scenarios
    """
    by_name = {each.name: each for each in _examples()}
    with exit_with_error():
        # A page names the file, the list names the example.
        wanted_names = [
            name.removeprefix(f"{_FOLDER}/").removesuffix("/").removesuffix(".py") for name in names or by_name
        ]
        if unknown := [name for name in wanted_names if name not in by_name]:
            raise ConfigError(f"no example {unknown[0]!r}; there are {', '.join(by_name)}")
        chosen = [by_name[name] for name in wanted_names]
        for each in chosen:
            if (target := to / _FOLDER / each.path.name).exists():
                raise ConfigError(f"{target} exists: nothing was copied; remove it, or name another folder with --to")
        for each in chosen:
            target = to / _FOLDER / each.path.name
            target.parent.mkdir(parents=True, exist_ok=True)
            if each.path.is_dir():
                shutil.copytree(each.path, target, ignore=_NOT_COPIED)
            else:
                shutil.copyfile(each.path, target)
    for each in chosen:
        print_line(f"{to / _FOLDER / each.path.name}: run it with {each.run}")


def _examples() -> Iterator[Example]:
    """The scripts, then the folders."""
    for path in sorted(SHIPPED.glob("*.py")):
        yield Example(path.stem, path, _about(path), f"python {_FOLDER}/{path.name}")
    core = SHIPPED / "core"
    yield Example("core", core, _about(core / "__main__.py"), f"python -m {_FOLDER}.core")
    pages = SHIPPED / "pages"
    run = f"python {_FOLDER}/pages/one_rebalance.py"
    yield Example(
        "pages", pages, "Runs that pages of the documentation show: a message, a rebalance, a transaction.", run
    )
    scenarios = SHIPPED / "scenarios"
    files = sorted(scenarios.glob("*.toml"))
    about = f"{len(files)} complaints of RocketMQ's users, each as a programme for rlab sim."
    yield Example("scenarios", scenarios, about, f"rlab sim {_FOLDER}/scenarios/{files[0].name}")
    notebooks = SHIPPED / "notebooks"
    first = min(notebooks.glob("*.ipynb")).name
    about = "Notebooks of Jupyter: a question about rebalances, answered with runs over seeds."
    yield Example("notebooks", notebooks, about, f"jupyter lab {_FOLDER}/notebooks/{first}")
    yield Example(
        "java", SHIPPED / "java", "Tests in Java with RocketMQ's client.", f"mvn -f {_FOLDER}/java/pom.xml test"
    )


def _about(script: Path) -> str:
    docstring = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""
    return docstring.partition("\n")[0]
