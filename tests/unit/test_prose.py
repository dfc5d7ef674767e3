"""The words of the project as far as a test reads them: first sentences, one meaning per name, "Pure." where true."""

from __future__ import annotations

import ast
import builtins
import functools
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.unit.plain_words import ALLOWED, PATTERNS, VAGUE_ROOMS
from tests.unit.source_tree import PURE_MODULES, Source, parse, shipped, sources, texts

QUESTION_WORDS = {"What", "Who", "Where", "Which", "How", "When", "Whether", "Why", "Among", "Until", "Does", "From"}
GUILLEMETS = re.compile("[\u00ab\u00bb]")
PURE_PACKAGES = [module for module in PURE_MODULES if f"{module.replace('.', '/')}/__init__.py" in texts()]

CODE_OR_QUOTATION = re.compile(r'```.*?```|``[^`]*``|`[^`]*`|"[^"\n]{1,200}"', re.DOTALL)
FINDERS = tuple(re.compile(pattern, re.IGNORECASE) for pattern, _, _ in PATTERNS)
FOREIGN_CALLS = {"process", "has", "save", "show", "start_http_server", "MACHINE_ROOM"}
"""Calls in examples of functions that are the reader's, Spark's or a library's, and a name of a strategy."""
COMMENT = re.compile(r"(?:^|(?<=\s))#:? (.*)$")
SECTION = re.compile(r" *(?:Args|Raises|Attributes):")
ENTRY = re.compile(r"\*{0,2}[\w.]+(?:, [\w.]+)*: ")


def module_of(source: Source) -> str:
    return source.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def opens_with_a_question(source: Source) -> bool:
    return (ast.get_docstring(source.tree) or "").split(" ")[0].strip(",:") in QUESTION_WORDS


def claims_to_be_pure(source: Source) -> bool:
    first = (ast.get_docstring(source.tree) or "").partition("\n\n")[0]
    return "Pure." in " ".join(first.split())


def test_every_module_says_first_what_it_is() -> None:
    assert [source.path for source in shipped() if opens_with_a_question(source)] == []


@pytest.mark.parametrize(("docstring", "asks"), [("Where a group starts.", True), ("Start offset of a group.", False)])
def test_a_first_sentence_without_a_head_is_seen(docstring: str, asks: bool) -> None:
    assert opens_with_a_question(parse("client/example.py", f'"""{docstring}"""')) is asks


def test_a_module_calls_itself_pure_exactly_if_the_contract_holds_it_to_that() -> None:
    inside = tuple(f"{package}." for package in PURE_PACKAGES)
    claims = {module_of(source) for source in shipped() if claims_to_be_pure(source)}
    assert sorted(set(PURE_MODULES) - claims) == [], "in the contract, without saying so"
    wrong = [module for module in claims - set(PURE_MODULES) if not module.startswith(inside)]
    assert sorted(wrong) == [], "said, without being in the contract"


def test_a_class_name_means_one_thing() -> None:
    names = Counter(
        node.name
        for source in shipped()
        for node in source.tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert {name: n for name, n in names.items() if n > 1} == {}


BARE_PRONOUN = re.compile(r"(?:It|Its|They|Their|Those|These|The same|Of)\b(?! -> )")


def without_a_noun(source: Source) -> list[str]:
    """The docstrings, of constants too, that begin with a word for something which is named nowhere before."""
    texts = (
        line.value.value.strip()
        for node in source.nodes
        if isinstance(body := getattr(node, "body", None), list)
        for line in body
        if isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) and isinstance(line.value.value, str)
    )
    return [text[:60] for text in texts if BARE_PRONOUN.match(text)]


def test_a_docstring_without_its_noun_is_found() -> None:
    text = 'A = 1\n"""Its unit is a second."""\nB = 2\n"""The unit of B."""\ndef f():\n    "They wait."\n'
    assert without_a_noun(parse("client/example.py", text)) == ["Its unit is a second.", "They wait."]


def test_a_docstring_begins_with_a_noun_or_a_verb() -> None:
    found = {source.path: without_a_noun(source) for source in shipped() if not source.path.startswith(VAGUE_ROOMS)}
    assert {path: texts for path, texts in found.items() if texts} == {}


def foreign_quotes() -> Iterator[str]:
    for path, text in texts().items():
        for number, line in enumerate(text.splitlines(), 1):
            if GUILLEMETS.search(line):
                yield f"{path}:{number} {line.strip()}"


def test_english_is_quoted_in_the_english_way() -> None:
    assert list(foreign_quotes()) == []


def comments(source: Source) -> Iterator[str]:
    """Whole comments, also those of several lines."""
    lines: list[str] = []
    for line in source.text.splitlines():
        found = COMMENT.search(line) if "#" in line else None
        if found:
            lines.append(found[1])
        if lines and (found is None or not line.lstrip().startswith("#")):
            yield " ".join(lines)
            lines.clear()
    yield " ".join(lines)


def prose_of_code(source: Source) -> Iterator[str]:
    """Docstrings, comments, and the strings that have words in them: help, logs, errors."""
    yield from comments(source)
    for node in source.nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.count(" ") > 1:
            yield node.value


def plain(text: str) -> str:
    """The text on one line for each paragraph, without code, quotations and allowed sentences."""
    text = "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
    for sentence in ALLOWED:
        text = text.replace(sentence, "_")
    return CODE_OR_QUOTATION.sub("_", text)


def dialect(text: str) -> Iterator[str]:
    """What the patterns find in a text, each with the words around it."""
    text = plain(text)
    for pattern in FINDERS:
        for found in pattern.finditer(text):
            yield text[max(0, found.start() - 40) : found.end() + 30].replace("\n", " ")


@functools.cache
def prose() -> dict[str, str]:
    """All prose of each file that has some."""
    found: dict[str, str] = {}
    for path, text in texts().items():
        if path.endswith(".py") and path.startswith(("examples/", "tools/")):
            found[path] = "\n\n".join(prose_of_code(parse(path, text)))
        if path.endswith(".md") and (path.startswith("docs/") or path in {"README.md", "CONTRIBUTING.md"}):
            found[path] = CODE_OR_QUOTATION.sub("_", text)
    for source in shipped():
        if not source.path.startswith(("examples/", "tools/")):
            found[source.path] = "\n\n".join(prose_of_code(source))
    return found


def lost_continuations(docstring: str) -> Iterator[str]:
    """The lines under Args, Raises or Attributes that neither begin an entry (`name: text`) nor continue one.

    A line that continues an entry is indented deeper than the entry: without that, tools read it as an entry.
    """
    section: int | None = None
    for line in docstring.splitlines():
        indent = len(line) - len(line.lstrip())
        if SECTION.fullmatch(line):
            section = indent
        elif section is not None and line.strip():
            if indent <= section:
                section = None
            elif indent == section + 4 and not ENTRY.match(line.strip()):
                yield line.strip()


@pytest.mark.parametrize(
    ("lines", "lost"),
    [
        (["Raises:", "    KeyError: it is not", "        there, or gone.", "", "More."], []),
        (["Raises:", "    KeyError: it is not", "    there, or gone.", "", "More."], ["there, or gone."]),
        (["Args:", "    one, other: two texts", "    last of all: the third"], ["last of all: the third"]),
        (["    Attributes:", "        size: in bytes", "        of the file", "    More: text"], ["of the file"]),
        (["Returns:", "    The rows", "    of it."], []),
    ],
)
def test_a_line_that_continues_an_entry_without_indentation_is_found(lines: list[str], lost: list[str]) -> None:
    assert [*lost_continuations("\n".join(["Title.", "", *lines]))] == lost


def test_a_line_that_continues_an_entry_of_a_docstring_is_indented_deeper_than_the_entry() -> None:
    described = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    assert [
        f"{source.path} {line}"
        for source in sources()
        for node in source.nodes
        if isinstance(node, described)
        for line in lost_continuations(ast.get_docstring(node) or "")
    ] == []


@pytest.mark.parametrize(("pattern", "bad", "good"), PATTERNS)
def test_each_pattern_finds_its_example_and_not_the_plain_one(pattern: str, bad: str, good: str) -> None:
    assert re.search(pattern, bad, re.IGNORECASE)
    assert list(dialect(good)) == []


def test_code_quotations_and_questions_are_left_out() -> None:
    assert list(dialect('`tell` and "nobody": what is it?')) == []
    assert [*prose_of_code(parse("client/example.py", "x = 1  # one\n# two\n# three\n\ny = 'a b c'\n"))] == [
        "one",
        "two three",
        "",
        "a b c",
    ]


def test_prose_is_plain_english() -> None:
    found = {path: [*dialect(text)] for path, text in prose().items()}
    assert {path: words for path, words in found.items() if words} == {}


def test_no_sentence_is_allowed_that_is_not_there() -> None:
    everything = [" ".join(text.split()) for text in prose().values()]
    assert [sentence for sentence in ALLOWED if not any(sentence in text for text in everything)] == []


def names_in(source: Source) -> Iterator[str]:
    """Every name that the code of a file defines, imports or uses."""
    for node in source.nodes:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.alias(name=name):
                yield name


def calls_in_examples(source: Source) -> Iterator[str]:
    """The names that the indented lines of docstrings call, if a line is Python up to its remarks."""
    for node in source.nodes:
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        indent = 4 + (0 if isinstance(node, ast.Module) else node.col_offset + 4)
        for line in (ast.get_docstring(node, clean=False) or "").splitlines():
            if not line.startswith(" " * indent):
                continue
            code = re.split(r"\s{2,}|->", line.strip().removeprefix(">>> "))[0]
            try:
                tree = ast.parse(f"{code} pass" if code.endswith(":") else code)
            except SyntaxError:
                continue  # words, a picture, or a line of a longer statement
            for call in ast.walk(tree):
                match call:
                    case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                        yield name


def test_a_call_in_an_example_has_the_name_of_something_in_its_package() -> None:
    names = {*dir(builtins), *FOREIGN_CALLS}
    packages: dict[str, set[str]] = {}
    for source in shipped():
        packages.setdefault(source.path.split("/")[0], set()).update(names_in(source))
    wrong = {
        source.path: unknown
        for source in shipped()
        if (unknown := set(calls_in_examples(source)) - packages[source.path.split("/")[0]] - names)
    }
    assert wrong == {}


def test_the_calls_of_an_example_are_found_and_its_words_are_not() -> None:
    example = ["a.one(two(1))    three(3)", "for x in four(5):", "six (words here"]
    text = '"""Make it.\n\n    ' + "\n    ".join(example) + '\n"""'
    assert [*calls_in_examples(parse("client/example.py", text))] == ["one", "two", "four"]
