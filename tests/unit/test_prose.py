"""The words of the project as far as a test reads them: first sentences, one meaning per name, "Pure." where true."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.unit.source_tree import PURE_MODULES, Source, parse, shipped, texts

QUESTION_WORDS = {"What", "Who", "Where", "Which", "How", "When", "Whether", "Why", "Among", "Until", "Does", "From"}
GUILLEMETS = re.compile("[\u00ab\u00bb]")
PURE_PACKAGES = [module for module in PURE_MODULES if f"{module.replace('.', '/')}/__init__.py" in texts()]


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


def foreign_quotes() -> Iterator[str]:
    for path, text in texts().items():
        for number, line in enumerate(text.splitlines(), 1):
            if GUILLEMETS.search(line):
                yield f"{path}:{number} {line.strip()}"


def test_english_is_quoted_in_the_english_way() -> None:
    assert list(foreign_quotes()) == []
