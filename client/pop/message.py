"""PopMessage: a message that was popped, with the receipt handle that acknowledges it. Pure.

A receipt handle names one *delivery* of a message: (broker, topic, queue id, offset, delivery token). The broker draws
the token at random for each delivery, so a handle cannot be guessed, and it is dead as soon as the message is
acknowledged, redelivered, or its invisible time is changed.

    >>> queue = MessageQueue("orders", "broker-a", 2)
    >>> handle = encode_handle(queue, 17, 0x1234)
    >>> decode_handle(handle)
    (MessageQueue(topic='orders', broker_name='broker-a', queue_id=2), 17, 4660)
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from itertools import groupby, repeat
from operator import attrgetter, is_, itemgetter
from typing import Any, NamedTuple, cast

import msgpack

from model.errors import InvalidParameter
from model.message import MessageExt
from model.message_queue import MessageQueue

_new_tuple = tuple.__new__

Handle = tuple[MessageQueue, int, int]
"""Queue, offset and token of a delivery."""


class PopMessage(MessageExt):
    """A message as a pop brings it. RocketMQ: MessageView of a SimpleConsumer.

    A tuple like any other message, so that it costs no more, with the fields of this delivery beside it.

    Attributes:
        token: of its handle; replaced by each `extend`.
        visible_ms: when it is redelivered unless it is acknowledged, wall clock of its broker in milliseconds.
    """

    # Two numbers and not one object for the delivery: the garbage collector does not track what holds only numbers.
    token: int
    visible_ms: int

    @property
    def attempts(self) -> int:
        """Number of its deliveries, this one included."""
        return self.times_delivered + 1

    @property
    def receipt_handle(self) -> str:
        """The handle that acknowledges this delivery, as a string that may be stored or sent elsewhere."""
        return encode_handle(self.queue, self.offset, self.token)

    def renewed(self, token: int, visible_ms: int) -> None:
        """Take over the new token and time that the broker answered."""
        self.token, self.visible_ms = token, visible_ms


class AckedOffsets(NamedTuple):
    """Messages of one delivery that are acknowledged together: one row of a request."""

    queue: MessageQueue
    token: int
    offsets: list[int]


_token_of = attrgetter("token")
_queue_of = itemgetter(0)
_offset_of = itemgetter(1)


def group_by_delivery(messages: Sequence[PopMessage | str]) -> list[AckedOffsets]:
    """Group messages and receipt handles into runs, in their order; see `decode_handle` for errors."""
    if set(map(type, messages)) != {PopMessage}:
        handles = [handle_of(each) if isinstance(each, PopMessage) else decode_handle(each) for each in messages]
        return [AckedOffsets(queue, token, [offset]) for queue, offset, token in handles]
    runs: list[AckedOffsets] = []
    for token, group in groupby(messages, _token_of):
        of_group = list(group)
        queue = _queue_of(of_group[0])
        # No Python code runs per message: all messages of one delivery share the object of their queue.
        if all(map(is_, map(_queue_of, of_group), repeat(queue))):
            runs.append(AckedOffsets(queue, token, list(map(_offset_of, of_group))))
        else:
            runs += [AckedOffsets(_queue_of(message), token, [_offset_of(message)]) for message in of_group]
    return runs


def make_popped(message: MessageExt, times_delivered: int, token: int, visible_ms: int) -> PopMessage:
    """Make the message of one delivery from the stored message.

    `times_delivered` counts the deliveries before this one; for a copy made for a retry, it includes the original's.
    """
    if times_delivered != message.times_delivered:
        message = message._replace(times_delivered=times_delivered)
    popped = _new_tuple(PopMessage, message)
    popped.renewed(token, visible_ms)
    return popped


def handle_of(message: PopMessage) -> Handle:
    """The handle of a message as it is now."""
    return message.queue, message.offset, message.token


def encode_handle(queue: MessageQueue, offset: int, token: int) -> str:
    """The receipt handle of a delivery; opaque to users."""
    packed = msgpack.packb([queue.broker_name, queue.topic, queue.queue_id, offset, token])
    return base64.urlsafe_b64encode(packed).decode("ascii")


def decode_handle(handle: str) -> Handle:
    """Read a receipt handle: its queue, offset and token; InvalidParameter if it is malformed."""
    try:
        unpacked = msgpack.unpackb(base64.b64decode(handle, b"-_", validate=True))
        broker_name, topic, queue_id, offset, token = cast("list[Any]", unpacked)
        if not (isinstance(broker_name, str) and isinstance(topic, str)):
            raise ValueError("its names are not strings")
        if not all(type(number) is int and number >= 0 for number in (queue_id, offset, token)):
            raise ValueError("its numbers are not whole numbers from 0")
    except (ValueError, TypeError, binascii.Error, msgpack.UnpackException) as error:
        shown_handle = repr(handle)[:80]
        raise InvalidParameter(
            f"{shown_handle} is not a receipt handle: take it from `message.receipt_handle`"
        ) from error
    return MessageQueue(topic, broker_name, queue_id), offset, token
