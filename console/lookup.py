"""Messages and dead letters of a cluster as documents for pages. Bodies, keys and names are always plain text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from client.admin.admin import Admin
from client.admin.messages import FoundMessage
from model.errors import InvalidParameter
from model.message import MessageExt
from model.message_queue import MessageQueue
from model.names import check_topic

MOST = 50
"""Maximum number of messages of one page."""
MAX_DEAD_LETTERS = 200
_BODY_CHARS = 4_000


async def messages(admin: Admin, query: Mapping[str, str]) -> dict[str, Any]:
    """Find the messages that a page requests: by id, by key, or by queue from an offset or a time.

    Raises:
        InvalidParameter: the query is incomplete, or a number is malformed.
        RlabError: the cluster does not answer.

    Cancellation: harmless.
    """
    if query.get("id"):
        result = await admin.view_message(query["id"])
    elif query.get("key"):
        result = await admin.query_message(query.get("topic", ""), query["key"], max_n=MOST)
    else:
        return await _from(admin, query)
    return {
        "messages": [_found(each) for each in result.messages],
        "complete": result.is_complete,
        "unreachable": list(result.unreachable),
    }


async def _from(admin: Admin, query: Mapping[str, str]) -> dict[str, Any]:
    broker, _, number = query.get("queue", "").rpartition(":")
    queue_id = _number("queue", number)
    if not broker or queue_id is None:
        raise InvalidParameter("name a queue as broker:number, or a key, or a message id")
    read, following = await admin.read_queue(
        MessageQueue(check_topic(query.get("topic", "")), broker, queue_id),
        offset=_number("offset", query.get("offset", "")),
        since_ms=_number("since_ms", query.get("since_ms", "")),
        max_n=MOST,
    )
    return {"messages": [_message(*each) for each in read], "complete": True, "unreachable": [], "next": following}


def _number(name: str, text: str) -> int | None:
    if not text:
        return None
    if not text.isdecimal() or len(text) > 18:
        raise InvalidParameter(f"{name} {text[:40]!r} is not a whole number")
    return int(text)


def _found(hit: FoundMessage) -> dict[str, Any]:
    return {**_message(hit.message, hit.undecodable), "due_ms": hit.due_ms, "half": hit.half}


def _message(message: MessageExt, undecodable: str) -> dict[str, Any]:
    text = message.body[: _BODY_CHARS * 4].decode("utf-8", "backslashreplace")
    return {
        "id": message.message_id,
        "topic": message.topic,
        "queue": f"{message.queue.broker_name}:{message.queue.queue_id}",
        "stored_in": message.queue.topic,
        "offset": message.offset,
        "born_ms": message.born_ms,
        "stored_ms": message.stored_ms,
        "times": message.times_delivered,
        "keys": list(message.keys),
        "tag": message.tags,
        "properties": {str(name): str(value) for name, value in sorted(message.properties.items())},
        "bytes": len(message.body),
        "body": text[:_BODY_CHARS],
        "undecodable": undecodable,
    }


async def dead_letters(admin: Admin, group: str) -> dict[str, Any]:
    """Return the first `MAX_DEAD_LETTERS` dead letters of a group that were not sent again.

    Raises:
        RlabError: the cluster does not answer.

    Cancellation: harmless.
    """
    letters: list[dict[str, Any]] = []
    waiting = 0
    async for dead_letter in admin.dead_letters(group).letters():
        waiting += not dead_letter.resent
        if len(letters) < MAX_DEAD_LETTERS and not dead_letter.resent:
            letters.append(_message(dead_letter.message, dead_letter.undecodable))
    return {"group": group, "letters": letters, "waiting": waiting}
