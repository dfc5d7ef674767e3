"""The changes that a page may make: publish a message, send dead letters again, scale a topic, break a test cluster.

`guard.py` checks before each call whether the page may make changes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from client.admin.admin import Admin
from client.admin.dead_letters import ResendTo
from client.produce.producer import Producer
from console.testbed import TestBed
from model.counted import plural
from model.errors import IllegalOperation, InvalidParameter, QueryNotFound
from model.limits import MAX_CONSOLE_BODY_BYTES
from model.message import Message

_GROUP = "rlab-console"
_NO_TEST_BED = (
    "this console did not start the processes of the cluster, so it cannot stop them: rlab cluster --console can"
)


class PageChanges:
    """The changes of one cluster; without a test bed, changes of its processes are refused."""

    def __init__(self, admin: Admin, name_servers: str, test_bed: TestBed | None) -> None:
        self._admin = admin
        self._name_servers = name_servers
        self._test_bed = test_bed
        self._made: dict[str, Callable[[Mapping[str, Any]], Awaitable[str]]] = {
            "publish": self._publish,
            "resend": self._resend,
            "scale": self._scale,
            "act": self._act,
            "add-consumer": self._add_consumer,
            "begin-fault": self._begin_fault,
            "heal": self._heal,
        }

    async def make(self, change: str, fields: Mapping[str, Any]) -> str:
        """Make a change; returns a description of it.

        Raises:
            InvalidParameter: the change does not exist, or a parameter is missing or invalid.
            RlabError: the cluster refused it or does not answer; the text has the remedy.

        Cancellation: it may have been made.
        """
        if change not in self._made:
            raise InvalidParameter(f"there is no change {change[:40]!r}")
        return await self._made[change](fields)

    async def _publish(self, fields: Mapping[str, Any]) -> str:
        body = _text(fields, "body", empty=True).encode()
        if len(body) > MAX_CONSOLE_BODY_BYTES:
            raise InvalidParameter(f"a body of {len(body):,} bytes is more than {MAX_CONSOLE_BODY_BYTES:,}")
        keys = tuple(_text(fields, "keys", empty=True).split())
        message = Message(_text(fields, "topic"), body, keys=keys, tags=_text(fields, "tag", empty=True))
        async with Producer(self._name_servers, group=_GROUP) as producer:
            sent = await producer.send(message)
        return f"stored in {sent.queue} at offset {sent.offset:,}, message id {sent.message_id}"

    async def _resend(self, fields: Mapping[str, Any]) -> str:
        dead_letter_list = self._admin.dead_letters(_text(fields, "group"))
        to = ResendTo.TOPIC if fields.get("to") == "topic" else ResendTo.GROUP
        if fields.get("all") is True:
            return f"{await dead_letter_list.resend_all(to):,} sent again"
        message_id = _text(fields, "id")
        letters = (await dead_letter_list.find([message_id]))[message_id]
        if not letters:
            raise QueryNotFound(f"no dead letter with id {message_id!r} waits: it may have been sent again already")
        await dead_letter_list.resend(letters, to)
        return f"{message_id} sent again"

    async def _scale(self, fields: Mapping[str, Any]) -> str:
        topic, queues = _text(fields, "topic"), fields.get("queues")
        if not isinstance(queues, int) or isinstance(queues, bool):
            raise InvalidParameter("queues is a whole number")
        await self._admin.scale_topic(topic, read=queues, write=queues)
        return f"{topic} has {plural(queues, 'queue')} on each broker now"

    # --- a test cluster ----------------------------------------------------------------------------------------------

    async def test_cluster(self) -> dict[str, Any]:
        """Return parts, active faults and impossible actions of the test cluster. Cancellation: harmless."""
        bed = self._test_bed
        if bed is None:
            return {"parts": [], "faults": [], "missing": _NO_TEST_BED, "there": False}
        parts = [part._asdict() for part in bed.parts()]
        return {"parts": parts, "faults": await bed.active_faults(), "missing": bed.missing(), "there": True}

    async def _act(self, fields: Mapping[str, Any]) -> str:
        return await self._bed().act(_text(fields, "name"), _text(fields, "action"))

    async def _add_consumer(self, fields: Mapping[str, Any]) -> str:
        return await self._bed().add_consumer(_text(fields, "group"), _text(fields, "topic"))

    async def _begin_fault(self, fields: Mapping[str, Any]) -> str:
        fault = fields.get("fault")
        if not isinstance(fault, dict):
            raise InvalidParameter("fault is missing, or not an object")
        answer = await self._bed().begin_fault(fault)
        return f"begun: {fault.get('do', '')}; done {plural(answer['done'], 'time')} at once"

    async def _heal(self, fields: Mapping[str, Any]) -> str:
        number = fields.get("id")
        if not isinstance(number, int) or isinstance(number, bool):
            raise InvalidParameter("id is the number of a fault")
        return "healed" if await self._bed().heal(number) else "the fault had already ended"

    def _bed(self) -> TestBed:
        if self._test_bed is None:
            raise IllegalOperation(_NO_TEST_BED)
        return self._test_bed


def _text(fields: Mapping[str, Any], name: str, *, empty: bool = False) -> str:
    value = fields.get(name, "" if empty else None)
    if not isinstance(value, str) or not (value or empty):
        raise InvalidParameter(f"{name} is missing, or not a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidParameter(f"{name} is not valid text, because it has half of a surrogate pair") from None
    return value
