from __future__ import annotations

import pytest

from model.errors import FilterIllegal
from model.limits import MAX_COMPILED_FILTERS
from model.sql import compiled
from model.sql.compiled import compile_filter


def test_a_filter_is_compiled_once() -> None:
    assert compile_filter("a = 'once'") is compile_filter("a = 'once'")


def test_only_true_matches() -> None:
    matches = compile_filter("price > 10")
    assert matches({"price": "11"})
    assert not any(map(matches, ({"price": "9"}, {}, {"price": "dear"})))


def test_a_refused_filter_is_read_once_and_refused_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def parse(text: str) -> object:
        read.append(text)
        raise FilterIllegal("no filter")

    monkeypatch.setattr(compiled, "parse", parse)
    for _ in range(3):
        with pytest.raises(FilterIllegal, match="no filter"):
            compile_filter("never read before >")
    assert read == ["never read before >"]


def test_a_process_keeps_as_many_filters_as_the_limit_and_no_more() -> None:
    cache = compiled._compiled
    cache.cache_clear()
    for n in range(MAX_COMPILED_FILTERS + 1):
        compile_filter(f"a = {n}")
    assert cache.cache_info().currsize == MAX_COMPILED_FILTERS == cache.cache_info().maxsize
