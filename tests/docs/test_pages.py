"""What every page may be trusted in: links lead somewhere, and whatever is named exists."""

from __future__ import annotations

import ast
import re
import shlex
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from cli.main import app
from tests.docs.pages import PAGES, ROOT, code_blocks, headings, prose_of, table_of, text_of
from tools.site.links import slug

pytestmark = pytest.mark.walk

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FOLDERS = (
    "model",
    "traces",
    "metrics",
    "remoting",
    "namesrv",
    "broker",
    "client",
    "process",
    "testbed",
    "tools",
    "cli",
    "examples",
    "tests",
    "docs",
)
FILE = re.compile(rf"\b((?:{'|'.join(FOLDERS)})/[\w/.-]*[\w/])")
TEST = re.compile(r"`(test_\w+)`")
COMMAND = re.compile(r"\brlab ([a-z]+)(?: ([a-z]+))?")


@cache
def rlab() -> Any:
    return get_command(app)


@cache
def names_of_tests() -> frozenset[str]:
    """The names of all tests."""
    texts = (path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    return frozenset(name for text in texts for name in re.findall(r"\bdef (test_\w+)\(", text))


@pytest.mark.parametrize("page", PAGES)
def test_every_link_to_a_file_or_heading_leads_there(page: str) -> None:
    for target in LINK.findall(prose_of(page)):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        path = (ROOT / page).parent / name if name else ROOT / page
        assert path.exists(), target
        if anchor:
            where = path.resolve().relative_to(ROOT).as_posix()
            assert anchor in {slug(heading) for heading in headings(where)}, target


@pytest.mark.parametrize("page", PAGES)
def test_every_file_and_folder_that_is_named_exists(page: str) -> None:
    # <package> and * stand for something else.
    named = {name for name in FILE.findall(text_of(page)) if "<" not in name and "*" not in name}
    missing = sorted(name for name in named if not _exists(name))
    assert missing == []


def _exists(name: str) -> bool:
    return any((ROOT / each).exists() for each in (name, f"{name}.py"))


@pytest.mark.parametrize("page", PAGES)
def test_every_test_that_is_named_exists(page: str) -> None:
    assert set(TEST.findall(text_of(page))) <= names_of_tests()


@pytest.mark.parametrize("page", PAGES)
def test_every_command_that_is_named_exists(page: str) -> None:
    root = rlab()
    for name, sub in COMMAND.findall(text_of(page)):
        assert name in root.commands, f"rlab {name}"
        commands = getattr(root.commands[name], "commands", None)
        if commands is not None and sub:
            assert sub in commands, f"rlab {name} {sub}"


LINE = re.compile(r"^(?: {4}|\$ )?(rlab [^|>\n]+)", re.MULTILINE)
MANY = re.compile(r" {3,}| # | \.\.\. ")
"""Where the text beside a command begins."""


def lines_of_commands(page: str) -> list[str]:
    """The lines that somebody may type, from the blocks of a page, fenced or indented."""
    text = text_of(page)
    blocks = [code for language in ("text", "bash", "console") for code in code_blocks(page, language)]
    blocks += re.findall(r"\n\n((?: {4}.*\n)+)", text)
    return [MANY.split(line)[0].strip() for block in blocks for line in LINE.findall(block.replace("\\\n", ""))]


@pytest.mark.parametrize("page", PAGES)
def test_every_command_that_is_shown_has_options_that_it_takes(page: str) -> None:
    for line in lines_of_commands(page):
        _, *words = shlex.split(line.replace("<", "").replace("$(", "").replace(")", ""))
        command = rlab()
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        flags = {flag for each in command.params for flag in (*each.opts, *each.secondary_opts)} | {"--help"}
        assert [word for word in words if word.startswith("--") and word.partition("=")[0] not in flags] == [], line
        assert "commands" not in dir(command) or not words or words[0].startswith("-"), line


def test_every_command_of_the_readme_explains_itself() -> None:
    root = rlab()
    for name, sub in sorted(set(COMMAND.findall(text_of("README.md")))):
        has_commands = hasattr(root.commands[name], "commands")
        shown = CliRunner().invoke(app, [name, *([sub] if has_commands and sub else []), "--help"])
        assert shown.exit_code == 0, shown.output
        assert has_commands or "Example: " in shown.output


@pytest.mark.parametrize("page", PAGES)
def test_python_that_is_shown_is_python(page: str) -> None:
    for block in code_blocks(page, "python"):
        compile(block, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)  # fragments of coroutines are shown too


@pytest.mark.parametrize("name", ["one_message", "one_rebalance", "one_transaction"])
def test_what_a_page_shows_of_a_run_is_what_the_run_shows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "pages"))
    monkeypatch.delitem(sys.modules, name, raising=False)
    example: Any = __import__(name)
    page = Path(example.PAGE).read_text(encoding="utf-8")
    if _stable(example.filled(page)) != _stable(page):
        pytest.fail(
            f"{example.PAGE.name} is old: run `python examples/pages/{name}.py docs`, and read whether its text holds"
        )


def _stable(page: str) -> str:
    """A page without the number of a topic, which depends on how many a broker makes for itself, and its checksum."""
    return re.sub(r"^ .* (?:crc|topic_id) \d+\n", "", page, flags=re.MULTILINE)


def test_the_index_of_the_documentation_links_to_every_page() -> None:
    linked = set(LINK.findall(text_of("docs/README.md")))
    linked |= {f"labs/{each}" for each in LINK.findall(text_of("docs/labs/README.md"))}
    assert {page.removeprefix("docs/") for page in PAGES if page.startswith("docs/")} - {"README.md"} <= linked


QUESTION = re.compile(r"(What|Who|Whoever|Where|Which|How|When|Whether|Among|Until|Does)\b")


@pytest.mark.parametrize("page", PAGES)
def test_the_first_sentence_of_a_page_says_what_it_is(page: str) -> None:
    title, first, *_ = [line for line in prose_of(page).splitlines() if line and not line.startswith("<!--")]
    assert title.startswith("# ")
    assert first[0].isupper(), first
    assert not QUESTION.match(first), first


@pytest.mark.parametrize("page", PAGES)
def test_quotes_are_those_of_english(page: str) -> None:
    assert not set("\u00ab\u00bb") & set(text_of(page))


def test_a_cell_about_a_fault_can_be_read_at_once() -> None:
    for heading in ("A consumer", "A broker", "A name server, a producer, the network"):
        for row in table_of("docs/failures.md", heading):
            assert all(len(cell) <= 200 for column, cell in row.items() if column != "shown by"), row
