from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.load.body import BARE_BYTES, MARKED_BYTES, make_body, read_number, read_run_number
from traces.check.ledger import SentMessage

MESSAGES = st.builds(SentMessage, st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1))


@given(MESSAGES, st.integers(MARKED_BYTES, 1_000), st.integers(0, 2**64 - 1))
def test_a_body_has_its_size_its_message_and_its_run(message: SentMessage, size: int, run: int) -> None:
    body = make_body(message, size, run=run)
    assert (len(body), read_number(body), read_run_number(body)) == (size, message, run)


@given(MESSAGES)
def test_the_shortest_body_has_a_number_alone(message: SentMessage) -> None:
    body = make_body(message)
    assert (len(body), read_number(body), read_run_number(body)) == (BARE_BYTES, message, None)
    with pytest.raises(struct.error):
        read_number(body[:-1])
