"""GET_CONSUMER_RUNNING_INFO: what a member knows of itself, asked by an operator and relayed by the broker.

Clients of RocketMQ answer it: their queues with what they have fetched of each, rates, options. The answer goes back
byte for byte, because nobody here reads it. Members of this project are not asked: what a broker knows of them is in
GET_CONSUMER_CONNECTION_LIST and GET_CONSUME_STATS, and the rest in the trace.

RocketMQ: AdminBrokerProcessor.callConsumer.
"""

from __future__ import annotations

from broker.feature import Feature
from broker.groups.members import Groups
from model.errors import ConsumerNotOnline, IllegalOperation, RlabError, SystemBusy, SystemError_
from model.limits import RELAY_TIMEOUT_S
from remoting.command import Command
from remoting.connection import Connection
from remoting.request_code import RequestCode
from remoting.server import Handler


class RunningInfo(Feature):
    """Asks members for operators."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups

    def handlers(self) -> dict[RequestCode, Handler]:
        """Request code -> handler."""
        return {RequestCode.GET_CONSUMER_RUNNING_INFO: self.relay}

    def relay(self, connection: Connection, request: Command) -> None:
        """Ask the member; the answer follows when it has answered, or after `RELAY_TIMEOUT_S`."""
        group, client_id = request.header["group"], request.header["client_id"]
        member = self._groups.table.find(group, client_id)
        asked = self._groups.connection_of(group, client_id)
        if member is None or asked is None or asked.closed:
            raise ConsumerNotOnline(f"group {group!r} has no member {client_id!r} on this broker")
        if not member.data.leaseless:
            raise IllegalOperation(f"{client_id!r} is a member of rebalance-lab: 'rlab group show {group}' shows it")
        asked.request_for(
            _Relayed(connection, request, client_id),
            *(RequestCode.GET_CONSUMER_RUNNING_INFO, request.header, None, RELAY_TIMEOUT_S),
        )


class _Relayed:
    """The request of the operator, as the one who waits for the member's answer."""

    def __init__(self, connection: Connection, request: Command, client_id: str) -> None:
        self._connection = connection
        self._request = request
        self._client_id = client_id

    def done(self) -> bool:
        """See `remoting.connection.Waiter`, as what follows; an answer to somebody who is gone is nothing."""
        return False

    def set_result(self, result: Command, /) -> None:
        """Pass on the answer, or say that it was a refusal."""
        if result.code:
            said = result.header.get("remark")
            self._refuse(SystemError_(f"{self._client_id!r} refused it with code {result.code}: {said}"))
        else:
            self._connection.respond(self._request, {}, result.body)

    def set_exception(self, exception: Exception, /) -> None:
        """Say that no answer came."""
        self._refuse(SystemBusy(f"{self._client_id!r} did not answer: {exception}"))

    def _refuse(self, error: RlabError) -> None:
        self._connection.respond_error(self._request, error)
