"""Signatures of gRPC calls, for servers with access control. Pure. RocketMQ: Signature, DefaultAuthenticationProvider.

The header is `MQv2-HMAC-SHA1 Credential=<access key>, SignedHeaders=x-mq-date-time, Signature=<hexadecimal>`. Only the
text of the date is signed, and nothing of the call: a reader of one call can make others until the secret is changed.
So access control is of use here only together with TLS. The age of the date is not checked: the clients for Java,
Python and Go write their local time as if it were UTC.
"""

from __future__ import annotations

import re
from base64 import b64encode
from typing import Any

from model.errors import NoPermission
from rocketmq.grpc import proto
from rocketmq.grpc.http2.call import GrpcCall
from rocketmq.grpc.status import GrpcRefused
from rocketmq.signing import Check

_AUTHORIZATION = re.compile(
    r"MQv2-HMAC-SHA1 +Credential=([^,/]*)[^,]*, *SignedHeaders=x-mq-date-time, *Signature=([0-9A-Za-z]*)"
)


def check_signature(check: Check, peer: Any, call: GrpcCall) -> None:
    """Check the signature of a call.

    Raises:
        GrpcRefused: it is wrong or missing. Without the rights for it, a call that is signed is refused by its handler.
    """
    match = _AUTHORIZATION.fullmatch(call.metadata.get("authorization", ""))
    access_key, digits = (match[1], match[2]) if match is not None else ("", "")
    try:
        signature = b64encode(bytes.fromhex(digits)).decode()
    except ValueError:
        signature = ""
    try:
        check(peer, access_key, signature, (call.metadata.get("x-mq-date-time", "").encode(),))
    except NoPermission as error:
        raise GrpcRefused(proto.UNAUTHORIZED, str(error)) from error
