from __future__ import annotations

from lark import Lark

from model.sql.grammar import GRAMMAR, KEYWORDS, WORDS


def test_every_token_that_may_be_expected_has_its_words() -> None:
    parser = Lark(GRAMMAR, parser="lalr", lexer="basic")
    ignored = set(parser.ignore_tokens)
    assert {terminal.name for terminal in parser.terminals} - ignored | KEYWORDS | {"$END"} == WORDS.keys()
