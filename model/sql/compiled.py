"""The filters in use, each compiled once, by its text. Pure.

    matches = compile_filter("price > 10")
    matches({"price": "11"})    True

Pulls and pops carry the text, so members with the same filter share one function. A text that is refused is kept too:
a client that sends it again and again costs no more than another.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from model.errors import FilterIllegal
from model.limits import MAX_COMPILED_FILTERS
from model.sql.evaluate import Properties, compile_condition
from model.sql.parse import parse
from model.sql.values import MistypedValue

Matches = Callable[[Properties], bool]
"""Whether a message with these properties matches."""


def compile_filter(text: str) -> Matches:
    """Return the function of a filter.

    Raises:
        FilterIllegal: it is too long, too deeply nested, or not an expression of the language.
    """
    compiled = _compiled(text)
    if isinstance(compiled, str):
        raise FilterIllegal(compiled)
    return compiled


@lru_cache(MAX_COMPILED_FILTERS)
def _compiled(text: str) -> Matches | str:
    try:
        evaluate = compile_condition(parse(text))
    except FilterIllegal as error:
        return str(error)

    def matches(properties: Properties) -> bool:
        try:
            return evaluate(properties) is True
        except MistypedValue:
            return False

    return matches
