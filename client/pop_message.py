"""PopMessage: a message that was popped, and the receipt handle that ends it.

A receipt handle names one *delivery* of a message: (broker, topic, queue id, offset, token). The broker makes the token
up at random for each delivery, so a handle cannot be guessed, and it is dead as soon as the message is acknowledged,
delivered again or made invisible anew.

    >>> queue = MessageQueue("orders", "broker-a", 2)
    >>> handle = encode_handle(queue, 17, 0x1234)
    >>> decode_handle(handle)
    (MessageQueue(topic='orders', broker_name='broker-a', queue_id=2), 17, 4660)
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, cast

import msgpack

from model.errors import InvalidParameter
from model.message import MessageExt
from model.message_queue import MessageQueue

_new_tuple = tuple.__new__


class PopMessage(MessageExt):
    """A message as a pop brings it. RocketMQ: MessageView of a SimpleConsumer.

    A tuple like any other message, so that it costs no more, with what belongs to this delivery beside it.

    Attributes:
        token: of its handle; another one after each `extend`.
        visible_ms: when it comes again unless it is acknowledged, wall clock of its broker in milliseconds.
    """

    token: int
    visible_ms: int

    @property
    def attempts(self) -> int:
        """How often it was delivered, this time included."""
        return self.times_delivered + 1

    @property
    def receipt_handle(self) -> str:
        """What ends this delivery, as a string that may be kept or sent elsewhere."""
        return encode_handle(self.queue, self.offset, self.token)


def popped_of(message: MessageExt, times_delivered: int, token: int, visible_ms: int) -> PopMessage:
    """Make the message of one delivery.

    Args:
        message: as it is stored.
        times_delivered: deliveries before this one, those of which it is a copy for a retry included.
        token: of the handle.
        visible_ms: when it comes again, wall clock of its broker in milliseconds.
    """
    if times_delivered != message.times_delivered:
        message = message._replace(times_delivered=times_delivered)
    popped = _new_tuple(PopMessage, message)
    popped.token, popped.visible_ms = token, visible_ms
    return popped


def encode_handle(queue: MessageQueue, offset: int, token: int) -> str:
    """Make the receipt handle of a delivery; opaque to whoever gets it."""
    packed = msgpack.packb([queue.broker_name, queue.topic, queue.queue_id, offset, token])
    return base64.urlsafe_b64encode(packed).decode("ascii")


def decode_handle(handle: str) -> tuple[MessageQueue, int, int]:
    """Read a receipt handle: its queue, offset and token.

    Raises:
        InvalidParameter: it is none.
    """
    try:
        unpacked = msgpack.unpackb(base64.b64decode(handle, b"-_", validate=True))
        broker_name, topic, queue_id, offset, token = cast("list[Any]", unpacked)
        if not (isinstance(broker_name, str) and isinstance(topic, str)):
            raise ValueError("its names are no strings")
        if not all(type(number) is int and number >= 0 for number in (queue_id, offset, token)):
            raise ValueError("its numbers are none")
    except (ValueError, TypeError, binascii.Error, msgpack.UnpackException) as error:
        shown = repr(handle)[:80]
        raise InvalidParameter(f"{shown} is no receipt handle: take it from `message.receipt_handle`") from error
    return MessageQueue(topic, broker_name, queue_id), offset, token
