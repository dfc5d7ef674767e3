"""A chunk is read as it was written; the wrong ones are tried in `test_handlers.py`."""

from __future__ import annotations

import msgpack
import pytest

from broker.sink.staged_chunk import staged_messages


def test_a_chunk_is_read_as_it_was_packed() -> None:
    assert staged_messages(msgpack.packb([["t", 1, -5, b"x"], ["u", 0, 0, b""]])) == [
        ("t", 1, -5, b"x"),
        ("u", 0, 0, b""),
    ]


@pytest.mark.parametrize("body", [None, b"", b"\x80", b"\x91\xc0"])
def test_what_is_no_chunk_is_refused(body: bytes | None) -> None:
    with pytest.raises((ValueError, TypeError, msgpack.UnpackException)):
        staged_messages(body)
