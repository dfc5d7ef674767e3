from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.load.body import BARE_BYTES, MARKED_BYTES, body_of, number_of, run_of
from traces.check.ledger import Sent

MESSAGES = st.builds(Sent, st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1))


@given(MESSAGES, st.integers(MARKED_BYTES, 1_000), st.integers(0, 2**64 - 1))
def test_a_body_has_its_size_its_message_and_its_run(message: Sent, size: int, run: int) -> None:
    body = body_of(message, size, run=run)
    assert (len(body), number_of(body), run_of(body)) == (size, message, run)


@given(MESSAGES)
def test_the_shortest_body_has_a_number_alone(message: Sent) -> None:
    body = body_of(message)
    assert (len(body), number_of(body), run_of(body)) == (BARE_BYTES, message, None)
    with pytest.raises(struct.error):
        number_of(body[:-1])
