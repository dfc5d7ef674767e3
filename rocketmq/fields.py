"""Reads the header fields of a request and the parts of a JSON body, which clients write in several ways. Pure.

Numbers arrive as text or as numbers, enumerations by name or by number, and empty lists are left out. The expression of
a subscription is a text with a type.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from model.errors import InvalidParameter
from model.limits import MAX_RETRY_DELAYS
from model.subscription import Expression, Sql, SubscriptionData
from model.topic_route import MessageType
from remoting.command import short_text
from rocketmq.frame import read_json

PROJECT_MARKER = "ofRebalanceLab"
"""Header field that marks a name server as one of this project; RocketMQ's clients ignore it."""
TAG, SQL92 = "TAG", "SQL92"
"""Types of expressions. RocketMQ: ExpressionType."""
MESSAGE_TYPE = "message.type"
"""The attribute of a topic that names the type of its messages. RocketMQ: TopicAttributes."""
_MAX_NUMBER = 2**63 - 1
_INITIAL_MS, _LONGEST_MS, _MULTIPLIER = 5_000, 2 * 3_600_000, 2
"""The defaults of an ExponentialRetryPolicy."""


class FieldError(ValueError):
    """A field is missing or cannot be read; the text names it."""


class Fields:
    """The fields of one request."""

    __slots__ = ("_fields",)

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = fields

    def text(self, name: str, default: str | None = None) -> str:
        """A text; `default` where it is absent or empty.

        Raises:
            FieldError: the field is absent, and there is no default.
        """
        value = self._fields.get(name)
        if value is None or value == "":
            if default is None:
                raise FieldError(f"the field {name} is missing")
            return default
        return str(value)

    def number(self, name: str, default: int | None = None) -> int:
        """A whole number of 64 bits.

        Raises:
            FieldError: the value is not such a number, or the field is absent and there is no default.
        """
        return parse_number(name, self._fields.get(name), default)

    def nested(self, name: str) -> Fields:
        """The fields of an object; of none if it is absent.

        Raises:
            FieldError: the value is something else.
        """
        value = self._fields.get(name)
        if value is not None and not isinstance(value, dict):
            raise FieldError(f"the field {name} must be an object, got {short_text(value)}")
        return Fields(value or {})

    def numbers(self, name: str) -> list[int]:
        """A list of whole numbers of 64 bits, empty if it is absent.

        Raises:
            FieldError: the value is something else.
        """
        value = self._fields.get(name)
        if value is not None and not isinstance(value, list):
            raise FieldError(f"the field {name} must be a list, got {short_text(value)}")
        return [parse_number(name, each) for each in value or ()]

    def flag(self, name: str) -> bool:
        """A boolean, false if it is absent; C++ writes 0 and 1."""
        return str(self._fields.get(name)).lower() in ("true", "1")


def parse_number(name: str, value: object, default: int | None = None) -> int:
    """A whole number, which may be written as text.

    Raises:
        FieldError: see `Fields.number`.
    """
    if value is None or value == "":
        if default is None:
            raise FieldError(f"the field {name} is missing")
        return default
    try:
        if not isinstance(value, int | str):
            raise ValueError
        number = int(value)
    except ValueError:
        raise FieldError(f"the field {name} must be a whole number, got {short_text(value)}") from None
    if not -_MAX_NUMBER <= number <= _MAX_NUMBER:
        raise FieldError(f"the field {name} must be a number of 64 bits, got {short_text(value)}")
    return number


def parse_retry_delays(policy: Fields) -> list[int]:
    """The delays in milliseconds before the first, second, ... retry of a policy; none for RocketMQ's own.

    RocketMQ: GroupRetryPolicy, with a CustomizedRetryPolicy or an ExponentialRetryPolicy.

        {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 1000, "max": 5000}}   [1000, 2000, 4000, 5000]

    Raises:
        FieldError: a field has a value of another type.
    """
    if policy.text("type", "") != "EXPONENTIAL":
        return policy.nested("customizedRetryPolicy").numbers("next")
    terms = policy.nested("exponentialRetryPolicy")
    delay_ms, longest_ms = terms.number("initial", _INITIAL_MS), terms.number("max", _LONGEST_MS)
    delays: list[int] = []
    while len(delays) < MAX_RETRY_DELAYS - 1 and 0 < delay_ms < longest_ms:
        delays.append(delay_ms)
        delay_ms *= terms.number("multiplier", _MULTIPLIER)
    return [*delays, min(delay_ms, longest_ms)]


def parse_message_type(attributes: str) -> MessageType | None:
    """The message type in the changes of a topic's attributes; None if it is not among them.

    RocketMQ: AttributeParser, TopicAttributes.

        "+message.type=FIFO"     FIFO
        "-message.type"          MIXED, the type of a topic without the attribute

    Raises:
        FieldError: an attribute that is not kept here, an unknown type, or text of another form.
    """
    message_type: MessageType | None = None
    for attribute in filter(None, (each.strip() for each in attributes.split(","))):
        sign, (name, _, value) = attribute[0], attribute[1:].partition("=")
        if name.strip() != MESSAGE_TYPE:
            raise FieldError(f"the attribute {short_text(attribute)} of a topic is not kept here, only {MESSAGE_TYPE}")
        by_sign = {"+": MessageType.__members__.get(value.strip()), "-": MessageType.MIXED}
        message_type = by_sign.get(sign)
        if message_type is None:
            types = ", ".join(MessageType.__members__)
            text = f"{short_text(attribute)} must be +{MESSAGE_TYPE}=TYPE or -{MESSAGE_TYPE}; types are {types}"
            raise FieldError(text)
    return message_type


def json_object(body: bytes) -> dict[str, Any]:
    """Read a JSON body, which must be an object.

    Raises:
        FieldError: it is not one.
    """
    try:
        value = read_json(body)
    except (ValueError, RecursionError) as error:
        raise FieldError(f"the body is not JSON ({type(error).__name__})") from error
    if type(value) is not dict:
        raise FieldError(f"the body must be an object, got {short_text(value)}")
    return value


def objects(value: object, subject: str) -> list[dict[str, Any]]:
    """A list of objects; an absent one counts as empty, because C++ leaves out empty lists.

    Raises:
        FieldError: the value is something else.
    """
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise FieldError(f"{subject} must be a list of objects")
    return value


def choice(subject: str, value: object, names: Sequence[str], default: str) -> str:
    """A name of an enumeration, given by name, by number, or not at all.

    Raises:
        FieldError: the value is not one of them.
    """
    if value is None:
        return default
    if type(value) is int and 0 <= value < len(names):
        return names[value]
    if isinstance(value, str):
        return value if value in names else default
    raise FieldError(f"{subject} must be one of {', '.join(names)}, got {short_text(value)}")


def queue_object(broker: str, topic: str, queue_id: int) -> dict[str, object]:
    """A queue as its JSON object. RocketMQ: MessageQueue."""
    return {"brokerName": broker, "queueId": queue_id, "topic": topic}


def table_by_queue(rows: Iterable[tuple[dict[str, object], object]]) -> dict[str, object]:
    """A table by queue, as Java reads it."""
    return {json.dumps(queue, separators=(",", ":")): value for queue, value in rows}


def json_bytes(value: object) -> bytes:
    """Write a JSON body."""
    return json.dumps(value, separators=(",", ":")).encode()


def header_text(value: object) -> str:
    """The text of a header field."""
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def make_expression(kind: str, text: str) -> Expression:
    """The expression of a subscription, from its type and its text; without a type it is tags.

    Raises:
        FilterIllegal: the text is not an expression of the language.
        InvalidParameter: another type.
    """
    if kind in (TAG, ""):
        return text
    if kind == SQL92:
        return Sql(text)
    raise InvalidParameter(f"a filter of type {kind!r} is not known: the types are {TAG} and {SQL92}")


def expression_type(subscription: SubscriptionData) -> str:
    """The type of a subscription's expression."""
    return SQL92 if subscription.is_sql else TAG
