"""Checks the names of topics, groups, brokers and clients, and defines the reserved topics and prefixes.

RocketMQ: TopicValidator, MixAll, Validators.
"""

from __future__ import annotations

import re

from model.arguments import check_text
from model.errors import InvalidParameter
from model.limits import MAX_GROUP_CHARS, MAX_NAME_CHARS, MAX_TOPIC_CHARS

RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"
TEMPLATE_TOPIC = "TBW102"
"""A send to an unknown topic copies this one. RocketMQ: TopicValidator.AUTO_CREATE_TOPIC_KEY_TOPIC."""
TRACE_TOPIC = "SYS_TRACE"
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
"""Where a broker keeps delayed messages; no client can read or write it."""
STAGE_TOPIC = "SYS_STAGE"
"""Where a broker keeps the messages that sinks have staged; no client can read or write it."""
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
"""Where a broker keeps half messages and the marks of their ends; no client can read or write it."""
ABANDONED_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
"""Where operators find the messages of transactions that were never ended; clients can read it. RocketMQ has it too."""
SYSTEM_TOPICS = (TEMPLATE_TOPIC, TRACE_TOPIC, SCHEDULE_TOPIC, STAGE_TOPIC, HALF_TOPIC, ABANDONED_TOPIC)

_LEGAL = re.compile(r"[%|a-zA-Z0-9_-]+")
_LEGAL_ID = re.compile(r"[!-~]+")


def retry_topic(group: str) -> str:
    """Name of the topic that the group's failed messages go through."""
    return RETRY_PREFIX + group


def dlq_topic(group: str) -> str:
    """Name of the topic that holds the group's dead-letter messages."""
    return DLQ_PREFIX + group


def is_retry_topic(topic: str) -> bool:
    """Whether the topic is some group's retry topic."""
    return topic.startswith(RETRY_PREFIX)


def is_group_topic(topic: str) -> bool:
    """Whether the topic belongs to some group: its retry topic, or the topic of its dead-letter messages."""
    return topic.startswith((RETRY_PREFIX, DLQ_PREFIX))


def is_system_topic(topic: str) -> bool:
    """Whether users may neither create nor delete the topic."""
    return topic in SYSTEM_TOPICS


def query_name(query_id: str) -> str:
    """Name of a sink's query among the ids that belong to a user; the prefix keeps it apart from client ids."""
    return f"query {query_id}"


def check_topic(topic: str) -> str:
    """Return the topic if its name is legal.

    Raises:
        InvalidParameter: not a string, empty, too long, or with a character outside `%|a-zA-Z0-9_-`.
    """
    return _checked("topic", topic, MAX_TOPIC_CHARS)


def check_group(group: str) -> str:
    """Return the group if its name is legal; the rules are those of topics, and DEFAULT_CONSUMER is reserved.

    Raises:
        InvalidParameter: see `check_topic`.
    """
    if group == "DEFAULT_CONSUMER":
        raise InvalidParameter("group name DEFAULT_CONSUMER is reserved: choose a name of your own")
    return _checked("group", group, MAX_GROUP_CHARS)


def check_id(subject: str, value: str) -> str:
    """Return a broker name, cluster name or client id if it is 1..255 printable ASCII characters without spaces.

    ASCII only, because members sort ids on their own: RocketMQ sorts by UTF-16 code unit and Python by code point,
    and the two agree there.

    Raises:
        InvalidParameter: otherwise.
    """
    check_text(subject, value)
    if not value or len(value) > MAX_NAME_CHARS or not _LEGAL_ID.fullmatch(value):
        raise InvalidParameter(
            f"{subject} {value!r} must have 1 to {MAX_NAME_CHARS} printable ASCII characters and no spaces"
        )
    return value


def _checked(subject: str, name: str, max_chars: int) -> str:
    check_text(f"{subject} name", name)
    if not name:
        raise InvalidParameter(f"{subject} name is empty")
    if len(name) > max_chars:
        raise InvalidParameter(
            f"{subject} name has {len(name)} characters, more than the {max_chars} allowed: {name!r}"
        )
    if not _LEGAL.fullmatch(name):
        raise InvalidParameter(f"{subject} name {name!r} may only have the characters a-z A-Z 0-9 _ - % |")
    return name
