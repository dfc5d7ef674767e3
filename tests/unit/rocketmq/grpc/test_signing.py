from __future__ import annotations

import hmac
from base64 import b64encode
from typing import Any

import pytest

from model.errors import NoPermission
from rocketmq.grpc import proto
from rocketmq.grpc.http2.call import GrpcCall
from rocketmq.grpc.signing import check_signature
from rocketmq.grpc.status import GrpcRefused

DATE = "20261128T060000Z"


def checked(authorization: str) -> list[Any]:
    seen: list[Any] = []
    headers = {"authorization": authorization, "x-mq-date-time": DATE}
    check_signature(lambda *arguments: seen.append(arguments), "peer", GrpcCall(1, headers))
    return seen


def test_the_date_is_signed_and_the_digits_may_be_large_or_small() -> None:
    right = hmac.digest(b"12345678", DATE.encode(), "sha1")
    for digits in (right.hex(), right.hex().upper()):
        for credential in ("alice", "alice/region/RocketMQ"):
            header = f"MQv2-HMAC-SHA1 Credential={credential}, SignedHeaders=x-mq-date-time, Signature={digits}"
            assert checked(header) == [("peer", "alice", b64encode(right).decode(), (DATE.encode(),))]


def test_a_header_of_another_form_is_no_signature() -> None:
    for header in ("", "Bearer x", "MQv2-HMAC-SHA1 Credential=a, SignedHeaders=other, Signature=00"):
        assert checked(header) == [("peer", "", "", (DATE.encode(),))]
    odd = "MQv2-HMAC-SHA1 Credential=a, SignedHeaders=x-mq-date-time, Signature=0g"
    assert checked(odd) == [("peer", "a", "", (DATE.encode(),))]


def test_a_refused_signature_is_unauthorized_which_is_another_result_than_a_missing_right() -> None:
    def refuse(*arguments: Any) -> None:
        raise NoPermission("access key and signature are wrong")

    with pytest.raises(GrpcRefused, match="are wrong") as refused:
        check_signature(refuse, "peer", GrpcCall(1, {}))
    assert refused.value.code == proto.UNAUTHORIZED
