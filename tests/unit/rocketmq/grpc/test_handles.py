from __future__ import annotations

from base64 import urlsafe_b64encode

import pytest

from rocketmq.grpc import proto
from rocketmq.grpc.handles import Handle, TransactionId, parse_handle, parse_transaction_id
from rocketmq.grpc.status import GrpcRefused

HANDLE = Handle("broker-a", "%RETRY%gü", 3, 2**40, 2**64 - 1)


def test_a_handle_is_read_as_it_was_written() -> None:
    assert parse_handle(HANDLE.text(), "broker-a") == HANDLE


def test_a_text_that_is_no_handle_is_refused() -> None:
    good = HANDLE.text()
    other_version = urlsafe_b64encode(b"\x02" + b"x" * 30).decode()
    without_token = HANDLE._replace(token=0).text()
    for text in ("", "x", "?" * 40, good[:20], "A" * 100_000, other_version, without_token, "ü" * 40):
        with pytest.raises(GrpcRefused, match="not a receipt handle") as caught:
            parse_handle(text, "broker-a")
        assert caught.value.code == proto.INVALID_RECEIPT_HANDLE


def test_a_handle_of_another_broker_names_it() -> None:
    with pytest.raises(GrpcRefused, match="is of a message of broker 'broker-a', and this is 'broker-b'"):
        parse_handle(HANDLE.text(), "broker-b")


def test_the_id_of_a_transaction_is_read_as_it_was_written_at_its_broker_alone() -> None:
    transaction = TransactionId("broker-ü", 2**40)
    assert parse_transaction_id(transaction.text(), "broker-ü") == transaction
    with pytest.raises(GrpcRefused, match="one of broker 'broker-ü', and this is 'broker-b'"):
        parse_transaction_id(transaction.text(), "broker-b")
    for text in ("", "x", "?" * 40, transaction.text()[:8], "A" * 100_000, HANDLE.text()[:12], "ü"):
        with pytest.raises(GrpcRefused, match=r"not the id of a transaction|is one of broker") as caught:
            parse_transaction_id(text, "broker-a")
        assert caught.value.code == proto.INVALID_TRANSACTION_ID
