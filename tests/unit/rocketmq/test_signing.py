from __future__ import annotations

import hmac
from base64 import b64encode
from typing import Any

from rocketmq.frame import Frame
from rocketmq.signing import check_signature


def test_what_java_signs_is_what_is_checked() -> None:
    # AclSigner.calSignature of the values in the order of their names, then the body; worked out by hand.
    fields = {"topic": "T", "AccessKey": "alice", "b": "2", "Signature": "s"}
    seen: list[Any] = []
    check_signature(lambda *arguments: seen.append(arguments), "peer", Frame(310, 0, 1, fields, b"body"))
    assert seen == [("peer", "alice", "s", (b"alice2Tbody",))]
    right = b64encode(hmac.digest(b"12345678", b"alice2Tbody", "sha1"))
    assert right == b"yrOavsXElgQwvXf5dcRPrYDbk9E="


def test_a_query_may_be_signed_before_its_last_field_is_added() -> None:
    fields = {"topic": "T", "_UNIQUE_KEY_QUERY": "true"}
    seen: list[Any] = []
    check_signature(lambda *arguments: seen.append(arguments), "peer", Frame(12, 0, 1, fields))
    assert seen == [("peer", "", "", (b"trueT", b"T"))]
