"""Receipt handles of messages, and ids of transactions, as texts that clients of gRPC pass back unread. Pure.

A receipt handle contains everything that identifies the delivery. So no server has to remember it, and it stays valid
after a restart:

    version 1 B, queue id 4 B, offset 8 B, token 8 B, length of the broker's name 1 B, the name, the topic; as base64url

The token is random: neither a guess nor the handle of an earlier delivery works. The id of a transaction names the
place of its half message, and the id of that message, which is checked, comes with it:

    version 1 B, offset 8 B, the broker's name; as base64url
"""

from __future__ import annotations

import struct
from base64 import urlsafe_b64encode
from binascii import Error, a2b_base64
from typing import NamedTuple

from model.limits import MAX_NAME_CHARS
from rocketmq.grpc import proto
from rocketmq.grpc.status import GrpcRefused

_VERSION = 1
_HEAD = struct.Struct(">BIQQB")
_PLACE = struct.Struct(">BQ")
_STANDARD = bytes.maketrans(b"-_+/", b"+/!!")
"""Turns base64url into base64; a letter that only base64 has becomes an illegal one."""
_MAX_CHARS = 2 * (_HEAD.size + 8 * MAX_NAME_CHARS)


class Handle(NamedTuple):
    """One delivery of a message; `topic` is the retry topic of a message that came from there."""

    broker: str
    topic: str
    queue_id: int
    offset: int
    token: int

    def text(self) -> str:
        """The form for clients."""
        broker = self.broker.encode()
        head = _HEAD.pack(_VERSION, self.queue_id, self.offset, self.token, len(broker))
        return urlsafe_b64encode(head + broker + self.topic.encode()).decode()


def parse_handle(text: str, broker: str) -> Handle:
    """Read a handle at the broker with this name.

    Raises:
        GrpcRefused: the text is not a handle, or it is of a message of another broker.
    """
    try:
        data = _bytes_of(text)
        version, queue_id, offset, token, length = _HEAD.unpack_from(data)
        names = data[_HEAD.size :]
        handle = Handle(names[:length].decode(), names[length:].decode(), queue_id, offset, token)
        if version != _VERSION or not token:
            raise ValueError
    except (ValueError, struct.error, Error):
        raise GrpcRefused(proto.INVALID_RECEIPT_HANDLE, f"not a receipt handle: {text[:100]!r}") from None
    if handle.broker != broker:
        text = f"the receipt handle is of a message of broker {handle.broker[:100]!r}, and this is {broker!r}"
        raise GrpcRefused(proto.INVALID_RECEIPT_HANDLE, text)
    return handle


class TransactionId(NamedTuple):
    """The half message of a transaction: the broker that stores it, and its offset there."""

    broker: str
    offset: int

    def text(self) -> str:
        """The form for clients."""
        return urlsafe_b64encode(_PLACE.pack(_VERSION, self.offset) + self.broker.encode()).decode()


def parse_transaction_id(text: str, broker: str) -> TransactionId:
    """Read the id of a transaction at the broker with this name.

    Raises:
        GrpcRefused: the text is not such an id, or the transaction is one of another broker.
    """
    try:
        data = _bytes_of(text)
        version, offset = _PLACE.unpack_from(data)
        found = TransactionId(data[_PLACE.size :].decode(), offset)
        if version != _VERSION:
            raise ValueError
    except (ValueError, struct.error, Error):
        raise GrpcRefused(proto.INVALID_TRANSACTION_ID, f"not the id of a transaction: {text[:100]!r}") from None
    if found.broker != broker:
        text = f"the transaction is one of broker {found.broker[:100]!r}, and this is {broker!r}"
        raise GrpcRefused(proto.INVALID_TRANSACTION_ID, text)
    return found


def _bytes_of(text: str) -> bytes:
    if len(text) > _MAX_CHARS:
        raise ValueError
    return a2b_base64(text.encode().translate(_STANDARD), strict_mode=True)
