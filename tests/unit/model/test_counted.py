from __future__ import annotations

import pytest

from model.counted import plural


@pytest.mark.parametrize(
    ("n", "text"), [(0, "0 queues are"), (1, "1 queue is"), (2, "2 queues are"), (1200, "1,200 queues are")]
)
def test_a_noun_and_its_verb_have_the_form_of_the_number(n: int, text: str) -> None:
    assert plural(n, "queue", "is", "are") == text
    assert plural(n, "queue") == text.rpartition(" ")[0]
