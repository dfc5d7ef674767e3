"""Requests of operators that a broker relays to a member: GET_CONSUMER_RUNNING_INFO and CONSUME_MESSAGE_DIRECTLY.

Clients of RocketMQ answer the first with their queues, the messages fetched of each, rates and options. For the second
they give one message to their listener, whatever the offsets of the group are, and answer with its result. The broker
relays the answer byte for byte, without decoding it. Members of this project get no such request: their state at the
broker is in GET_CONSUMER_CONNECTION_LIST and GET_CONSUME_STATS, and the rest is in the trace.

RocketMQ: AdminBrokerProcessor.callConsumer.
"""

from __future__ import annotations

from broker.feature import Core, Feature
from broker.groups.members import Groups
from broker.topics.service import Topics
from model.errors import ConsumerNotOnline, IllegalOperation, QueryNotFound, RlabError, SystemBusy, SystemError_
from model.limits import MAX_PULL_BYTES, RELAY_TIMEOUT_S
from model.record import iter_records
from remoting.command import Command
from remoting.connection import Connection
from remoting.request_code import RequestCode
from remoting.server import Handler


class MemberRequestRelay(Feature):
    """Relays requests of operators to members, and their answers back."""

    def __init__(self, core: Core, topics: Topics, groups: Groups) -> None:
        self._core = core
        self._topics = topics
        self._groups = groups

    def handlers(self) -> dict[RequestCode, Handler]:
        """Request code -> handler."""
        return {
            RequestCode.GET_CONSUMER_RUNNING_INFO: self.running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self.consume_directly,
        }

    def running_info(self, connection: Connection, request: Command) -> None:
        """Ask the member for its running state."""
        self._relay(connection, request, None)

    def consume_directly(self, connection: Connection, request: Command) -> None:
        """Have the member consume one stored message."""
        header = request.header
        topic, queue_id, offset = header["topic"], header["queue_id"], header["offset"]
        entry = self._topics.table.existing(topic)
        read = self._core.store.read(entry.topic_id, queue_id, offset, max_n=1, max_bytes=MAX_PULL_BYTES)
        record = next(iter_records(read.body), None)
        if record is None or record.queue_offset != offset:
            raise QueryNotFound(f"{topic}:{queue_id} has no message {offset} on broker {self._core.name!r}")
        self._relay(connection, request, read.body)

    def _relay(self, connection: Connection, request: Command, body: bytes | None) -> None:
        """Send the request to the member; the operator gets its answer, or an error after `RELAY_TIMEOUT_S`."""
        group, client_id = request.header["group"], request.header["client_id"]
        member = self._groups.table.find(group, client_id)
        member_connection = self._groups.connection_of(group, client_id)
        if member is None or member_connection is None or member_connection.closed:
            raise ConsumerNotOnline(f"group {group!r} has no member {client_id!r} on this broker")
        if not member.data.leaseless:
            raise IllegalOperation(f"{client_id!r} is a member of rebalance-lab: 'rlab group show {group}' shows it")
        code = RequestCode(request.code)
        relayed = _Relayed(connection, request, client_id)
        member_connection.request_for(relayed, code, request.header, body, RELAY_TIMEOUT_S)


class _Relayed:
    """The request of an operator, which is answered with the answer of the member."""

    def __init__(self, connection: Connection, request: Command, client_id: str) -> None:
        self._connection = connection
        self._request = request
        self._client_id = client_id

    def done(self) -> bool:
        """See `remoting.session.Waiter`, also for the methods below. A closed connection drops the answer."""
        return False

    def set_result(self, result: Command, /) -> None:
        """Relay the answer; an error of the member becomes an error for the operator."""
        if result.code:
            remark = result.header.get("remark")
            self._refuse(SystemError_(f"{self._client_id!r} refused it with code {result.code}: {remark}"))
        else:
            self._connection.respond(self._request, {}, result.body)

    def set_exception(self, exception: Exception, /) -> None:
        """Report to the operator that the member did not answer."""
        self._refuse(SystemBusy(f"{self._client_id!r} did not answer: {exception}"))

    def _refuse(self, error: RlabError) -> None:
        self._connection.respond_error(self._request, error)
