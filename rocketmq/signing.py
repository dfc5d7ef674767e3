"""Signatures of RocketMQ's clients, over the values of all header fields and the body. Pure.

RocketMQ: AclClientRPCHook, AclUtils. The signature covers one request and nothing of its connection, so anyone who sees
    a request can repeat it: use it over TLS or on a closed network, and keys of this project elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from remoting.request_code import RequestCode
from rocketmq.frame import Frame

ACCESS_KEY, SIGNATURE = "AccessKey", "Signature"
_UNSIGNED_BY_SOME = "_UNIQUE_KEY_QUERY"
"""A field of QUERY_MESSAGE that some versions add after they have signed."""

Check = Callable[[Any, str, str, tuple[bytes, ...]], None]
"""Called with connection, access key, signature, and the texts that may have been signed; raises a refusal."""


def check_signature(check: Check, peer: Any, frame: Frame) -> None:
    """Check the signature of a request.

    Raises:
        RlabError: the request is refused.
    """
    fields = frame.fields
    contents = [_content(frame, (SIGNATURE,))]
    if frame.code == RequestCode.QUERY_MESSAGE:
        contents.append(_content(frame, (SIGNATURE, _UNSIGNED_BY_SOME)))
    check(peer, fields.get(ACCESS_KEY, ""), fields.get(SIGNATURE, ""), tuple(contents))


def _content(frame: Frame, left_out: tuple[str, ...]) -> bytes:
    values = (value for name, value in sorted(frame.fields.items()) if name not in left_out)
    return "".join(values).encode() + (frame.body or b"")
