"""What prose names is there: files, classes, methods, functions, commands and options, where they are said to be."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import Any

import pytest
from typer.main import get_command

from cli.main import app
from tests.unit.named_in_prose import TOPS, Code, Prose, code, files, prose, prose_of_source, python_files
from tests.unit.source_tree import parse, texts
from tools.rocketmq_names import places

FILE = re.compile(r"(?<![\w/.~<>*{}$-])((?:[\w-]+/)+[\w-]*(?:\.[a-z]+)?|\w+\.(?:py|md|js|css))(?![\w<*{}])")
MODULE = re.compile(rf"`(?!\w+\.(?:py|md)`)(?!rocketmq\.client)((?:rlab\.)?(?:{'|'.join(sorted(TOPS))})(?:\.\w+)+)`")
MEMBER = re.compile(r"`([A-Z]\w+)\.(\w+)(?:\([^`]*\))?`")
NAME = re.compile(r"`([A-Za-z_]\w*)(?:\([^`]*\))?`")
PLACE = re.compile(r"`([A-Za-z_][\w.]*)`,?(?:\s(?:of|in)\s|\s\()`([\w/]+\.py)`")
COMMAND = re.compile(r"\brlab(?! import\b) ([a-z][\w-]*)(?: ([a-z][\w-]*))?")
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*[a-z](?!\w)")
CODE = re.compile(r"`([^`]+)`")

EXAMPLES = {
    "Node.js": "the program",
    "dist/NOTES.md": "made by make release",
    "docs/howto/x.md": "an example in tools/site/links.py",
    "contributing.md": "an example in tools/site/links.py",
    "events.md": "an example in tools/site/links.py",
    "python/lib/pyspark.zip": "a file of Spark",
    "report/index.html": "written by rlab report",
    "test_billing.py": "a file of the reader",
    "tests/unit/broker/test_server.py": "an example in pyproject.toml",
    "weights.py": "a file of the reader",
}
"""Files that prose may name though the repository does not have them."""

FOREIGN = {
    "Class.attribute": "an example",
    "Class.member": "an example",
    "String.hashCode": "Java",
    "Task.cancelling": "asyncio",
    "TyperCommand.format_help": "typer",
    "credentials_file": "Prometheus",
    "fail_under": "coverage",
    "current_timestamp": "Spark SQL",
    "DynamicUser": "systemd",
    "FindException": "Java",
    "ProtectHome": "systemd",
    "xdist_group": "pytest-xdist",
}
"""Names of other programs, beside those of RocketMQ (tools/rocketmq_names.py)."""

FOREIGN_OPTIONS = {
    "--build": "docker compose",
    "--check": "sha256sum",
    "--hypothesis-profile": "hypothesis",
    "--profile": "docker compose",
    "--py-files": "spark-submit",
    "--volumes": "docker compose",
}


@functools.cache
def names_of_files() -> frozenset[str]:
    return frozenset(PurePosixPath(file).name for file in files())


@functools.cache
def stems_of_files() -> frozenset[str]:
    return frozenset(PurePosixPath(file).stem for file in files())


@functools.cache
def words_of_labs() -> frozenset[str]:
    """Fields of answers, which the labs define."""
    labs = (text for path, text in texts().items() if path.startswith("docs/labs/") and path.endswith(".toml"))
    return frozenset(word for text in labs for word in re.findall(r"\w+", text))


@functools.cache
def commands() -> dict[str, Any]:
    """Every command by its words, as in `topic create`."""
    found: dict[str, Any] = {}

    def walk(command: Any, words: tuple[str, ...]) -> None:
        found[" ".join(words)] = command
        for name, below in getattr(command, "commands", {}).items():
            walk(below, (*words, name))

    walk(get_command(app), ())
    return found


@functools.cache
def options() -> frozenset[str]:
    """Every option of a command, or of a program that reads its arguments itself."""
    own = {flag for each in commands().values() for one in each.params for flag in (*one.opts, *one.secondary_opts)}
    read = {word for source in python_files() for word in re.findall(r"""["'](--[a-z][\w-]*)""", source.text)}
    return frozenset({"--help", *own, *read, *FOREIGN_OPTIONS})


def missing_files(each: Prose) -> Iterator[str]:
    """A path is one from the top folder, or from a folder above the prose; a bare file name also one below."""
    for name in FILE.findall(each.text):
        path = PurePosixPath(name)
        if name.rstrip("/") in EXAMPLES or (not path.suffix and path.parts[0] not in TOPS):
            continue
        above = [".", each.folder, *(parent.as_posix() for parent in PurePosixPath(each.folder).parents)]
        at = {(folder / path).as_posix() for folder in map(PurePosixPath, above)}
        if at & files() or f"{path}.py" in files():
            continue
        below = "" if each.path.endswith(".md") else f"{each.folder}/"
        if len(path.parts) > 1 or not any(f.startswith(below) and f.endswith(f"/{name}") for f in files()):
            yield f"{each} there is no file {name}"


def missing_modules(each: Prose) -> Iterator[str]:
    for name in MODULE.findall(each.text):
        parts = name.removeprefix("rlab.").split(".")
        known = [n for n in range(len(parts), 0, -1) if {"/".join(parts[:n]), "/".join(parts[:n]) + ".py"} & files()]
        path = "/".join(parts[: known[0]]) if known else ""
        file = next((file for file in (f"{path}.py", f"{path}/__init__.py") if file in files()), "")
        rest = ".".join(parts[known[0] :]) if known else name
        if rest and not (file and code().defines(file, rest)):
            yield f"{each} there is no {name}"


def missing_members(each: Prose, of: Code) -> Iterator[str]:
    for owner, member in MEMBER.findall(each.text):
        name = f"{owner}.{member}"
        if name in names_of_files() or name in FOREIGN or {owner, member} & places().keys():
            continue
        if not of.has_member(owner, member):
            yield f"{each} there is no {name}"


def missing_names(each: Prose, of: Code) -> Iterator[str]:
    """Words that only code writes in this way. Those with a small first letter and a large one in them are Java's."""
    for name in NAME.findall(each.text):
        is_ours = "_" in name.strip("_") or re.match(r"[A-Z]\w*[a-z]\w*[A-Z]", name)
        words = {name, re.sub(r"^rlab_|_total$", "", name)}  # of the name of a metric the code has a part
        known = stems_of_files() | places().keys() | FOREIGN.keys() | words_of_labs()
        if is_ours and not (words & known or any(of.uses(word) for word in words)):
            yield f"{each} nothing is called {name}"


def misplaced(each: Prose, of: Code) -> Iterator[str]:
    for name, file in PLACE.findall(each.text):
        paths = {file, f"{each.folder}/{file}"} & files()
        if paths and not any(of.defines(path, name) for path in paths):
            yield f"{each} {file} does not define {name}"


def missing_commands(each: Prose) -> Iterator[str]:
    for name, sub in COMMAND.findall(each.text):
        has_commands = hasattr(commands().get(name), "commands")
        if name not in commands() or (has_commands and sub and f"{name} {sub}" not in commands()):
            yield f"{each} there is no command rlab {name} {sub}".rstrip()


def missing_options(each: Prose) -> Iterator[str]:
    for span in CODE.findall(each.text):
        for option in OPTION.findall(span):
            if option not in options():
                yield f"{each} no command takes {option}"


def test_each_file_that_prose_names_is_there() -> None:
    assert [found for each in prose() for found in missing_files(each)] == []


def test_each_module_that_prose_names_is_there_and_has_what_is_named_of_it() -> None:
    assert [found for each in prose() for found in missing_modules(each)] == []


def test_each_class_that_prose_names_has_the_member_that_is_named_of_it() -> None:
    assert [found for each in prose() for found in missing_members(each, code())] == []


def test_each_name_in_backticks_is_one_of_the_code() -> None:
    assert [found for each in prose() for found in missing_names(each, code())] == []


def test_what_prose_finds_in_a_file_is_defined_there() -> None:
    assert [found for each in prose() for found in misplaced(each, code())] == []


def test_each_command_that_prose_names_is_there() -> None:
    assert [found for each in prose() for found in missing_commands(each)] == []


def test_each_option_that_prose_names_is_taken_by_a_command() -> None:
    assert [found for each in prose() for found in missing_options(each)] == []


EXAMPLE = parse(
    "client/example.py",
    '''class Base:
    def start(self): ...

class Example(Base):
    """`Example.stop`, `Example.start`, `Example.size`; see `lost_name`."""
    def __init__(self): self.size = 0
''',
)


def test_a_member_counts_if_a_class_or_its_base_has_it_and_a_docstring_is_not_an_use_of_a_name() -> None:
    (docstring, *_) = [each for each in prose_of_source(EXAMPLE) if each.line > 1]
    assert list(missing_members(docstring, Code([EXAMPLE]))) == ["client/example.py:5 there is no Example.stop"]
    assert list(missing_names(docstring, Code([EXAMPLE]))) == ["client/example.py:5 nothing is called lost_name"]


@pytest.mark.parametrize(
    ("text", "find", "wrong"),
    [
        ("see `client/lost.py` and client/trigger.py", missing_files, "there is no file client/lost.py"),
        ("`trigger.py`, `lost.py`", missing_files, "there is no file lost.py"),
        ("`rebalance/plan.py` and `plan.py` below", missing_files, None),
        ("`client.trigger.Trigger`, `client.lost`", missing_modules, "there is no client.lost"),
        ("`client.trigger.Lost`", missing_modules, "there is no client.trigger.Lost"),
        ("run rlab topic create, rlab topic destroy", missing_commands, "there is no command rlab topic destroy"),
        ("run rlab vanish", missing_commands, "there is no command rlab vanish"),
        ("with `--brokers 2` and `--vanish`", missing_options, "no command takes --vanish"),
    ],
)
def test_a_stale_word_is_found(text: str, find: Callable[[Prose], Iterator[str]], wrong: str | None) -> None:
    found = list(find(Prose(path="client/example.py", line=3, text=text)))
    assert found == ([f"client/example.py:3 {wrong}"] if wrong else [])


@pytest.mark.parametrize(
    ("name", "file"),
    [("PushConsumer.start", "client/push/consumer.py"), ("GroupConsumer", "client/push/consumer.py")],
)
def test_a_name_that_stands_in_another_file_is_found(name: str, file: str) -> None:
    prose_of_it = Prose(path="docs/example.md", line=1, text=f"Then `{name}`\n(`{file}`) is called.")
    assert list(misplaced(prose_of_it, code())) == [f"docs/example.md:1 {file} does not define {name}"]
