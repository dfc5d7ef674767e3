"""Serves the requests of sinks: SINK_STAGE, SINK_COMMIT, SINK_ABORT, SINK_SPREAD.

A task first asks for the broker set of its batch (SINK_SPREAD), and then stages messages at these brokers. The driver
commits the batch, or aborts it. `service.py` and `broker_sets.py` decide; only the owner of a query may do any of it.
"""

from __future__ import annotations

from operator import itemgetter

import msgpack

from broker.durability.answers import answer
from broker.feature import Core, Feature
from broker.sink.broker_sets import SinkBrokerSets
from broker.sink.query_users import QueryUsers
from broker.sink.service import Sink
from broker.sink.stage_table import Attempt, staged_messages
from broker.topics.service import Topics
from broker.topics.types import check_types
from model.errors import InvalidParameter, MessageIllegal, RlabError
from model.limits import MAX_NAME_CHARS, MAX_PAYLOAD_BYTES, MAX_SPREAD_BROKERS
from model.message import check_sent_to
from remoting.body import rows_of
from remoting.command import Command
from remoting.connection import Connection
from remoting.overload.shares import find_sharer
from remoting.request_code import RequestCode
from remoting.server import Handler


class SinkHandlers(Feature):
    """Serves sinks, for instance the one of `pipeline/sink/writer.py`."""

    def __init__(self, core: Core, topics: Topics, sink: Sink) -> None:
        self._core = core
        self._topics = topics
        self._broker_sets = SinkBrokerSets(core.metadata, core.clock_ms)
        self._sink = sink
        self._users = QueryUsers(core.metadata, core.clock_ms, has_access_control=core.has_access_control)

    def handlers(self) -> dict[RequestCode, Handler]:
        """Request code -> handler."""
        return {
            RequestCode.SINK_STAGE: self.stage,
            RequestCode.SINK_COMMIT: self.commit,
            RequestCode.SINK_ABORT: self.abort,
            RequestCode.SINK_SPREAD: self.fix_broker_set,
        }

    def user_of_id(self, name: str) -> str | None:
        """The owner of a query."""
        return self._users.user_of_id(name)

    def stage(self, connection: Connection, request: Command) -> None:
        """Stage messages until their batch is committed; responds once they are stored."""
        header, body = request.header, request.body or b""
        if len(body) > MAX_PAYLOAD_BYTES:
            raise MessageIllegal(f"a chunk has {len(body)} bytes, more than {MAX_PAYLOAD_BYTES}: split it")
        try:
            messages = staged_messages(body)
        except (ValueError, TypeError, msgpack.UnpackException) as error:
            raise InvalidParameter(f"SINK_STAGE: {error}") from error
        for topic, queue_id in dict.fromkeys(map(itemgetter(0, 1), messages)):
            entry = self._topics.writable(topic, queue_id, connection)
            check_types(
                entry, (payload for to, row_queue_id, _, payload in messages if (to, row_queue_id) == (topic, queue_id))
            )
        if self._core.has_access_control:
            for topic, _, _, payload in messages:
                check_sent_to(topic, (payload,))
        attempt = Attempt(header["query_id"], header["batch_id"], header["partition"], header["attempt"])
        self._users.record_use(header["query_id"], connection.owner)

        def staged(failure: RlabError | None) -> None:
            answer(connection, request, failure, {"n": self._sink.table.messages_staged(attempt)})

        self._sink.stage(attempt, header["seq"], body, messages, staged, find_sharer(connection.owner))

    def commit(self, connection: Connection, request: Command) -> None:
        """Publish a batch; responds when it is published, or at once if it was published before."""
        header = request.header

        def published(failure: RlabError | None) -> None:
            answer(connection, request, failure, {"published": is_new})

        self._users.record_use(header["query_id"], connection.owner)
        is_new = self._sink.commit(
            header["query_id"],
            header["batch_id"],
            list(rows_of(request)),
            published,
            is_only=bool(header.get("is_only")),
        )

    def abort(self, connection: Connection, request: Command) -> None:
        """Drop the staged messages of a batch, unless its publication has begun."""
        dropped = self._sink.abort(request.header["query_id"], request.header["batch_id"])
        self._core.barrier.respond_after_commit(connection, request, {"dropped": dropped})

    def fix_broker_set(self, connection: Connection, request: Command) -> None:
        """Return the broker set of a batch: the one of the first request, which is stored before it is returned."""
        header = request.header
        self._users.record_use(header["query_id"], connection.owner)
        brokers = self._broker_sets.fix(header["query_id"], header["batch_id"], header["topic"], _broker_names(request))
        self._core.barrier.respond_after_commit(connection, request, {"brokers": brokers})


def _broker_names(request: Command) -> tuple[str, ...]:
    names = rows_of(request)
    if not names or any(not 1 <= len(name) <= MAX_NAME_CHARS for name in names):
        raise InvalidParameter(f"SINK_SPREAD: the body must be an array of 1 to {MAX_SPREAD_BROKERS} broker names")
    return names
