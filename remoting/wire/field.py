"""What a request's schema is made of, and the fields that many requests share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a header.

    Attributes:
        name: its key.
        type: exactly this Python type on the wire (bool is not int; a whole number is no float).
        doc: what it means, with its unit.
        required: whether it must be there; an optional one may be absent or nil.
        minimum, maximum: inclusive bounds of a number.
    """

    name: str
    type: type
    doc: str
    required: bool = True
    minimum: int | None = None
    maximum: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSchema:
    """One request code."""

    sender: str
    purpose: str
    fields: tuple[Field, ...] = ()
    body: str = ""
    answer: str = ""


TOPIC = Field("topic", str, "topic name")
GROUP = Field("group", str, "consumer group")
CLIENT = Field("client_id", str, "id of the client instance")
QUEUE = Field("queue_id", int, "queue of the topic on this broker", minimum=0)
CAUSE = Field("cause", str, "id of the event that set this off", required=False)
BROKER = Field("broker_name", str, "broker name")
