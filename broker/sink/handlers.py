"""SINK_STAGE, SINK_COMMIT, SINK_ABORT: how a sink hands its messages over, each batch once."""

from __future__ import annotations

from typing import Any

import msgpack

from broker.broker import Broker
from broker.sink.stage_table import Attempt, staged_messages
from broker.topics.table import check_writable
from model.errors import InvalidParameter, MessageIllegal, RlabError
from model.limits import MAX_NAME_CHARS, MAX_PAYLOAD_BYTES, MAX_SPREAD_BROKERS
from remoting.body import rows_of
from remoting.command import Command
from remoting.connection import Connection
from remoting.server import Handler
from remoting.wire.request_code import RequestCode


class SinkHandlers:
    """Serves sinks, for instance the one of `pipeline/sink/writer.py`."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def handlers(self) -> dict[RequestCode, Handler]:
        """Request code -> handler."""
        return {
            RequestCode.SINK_STAGE: self.stage,
            RequestCode.SINK_COMMIT: self.commit,
            RequestCode.SINK_ABORT: self.abort,
            RequestCode.SINK_SPREAD: self.spread,
        }

    def stage(self, connection: Connection, request: Command) -> None:
        """Keep messages until their batch is committed; answered once they are stored."""
        broker, header, body = self._broker, request.header, request.body or b""
        if len(body) > MAX_PAYLOAD_BYTES:
            raise MessageIllegal(f"a chunk has {len(body)} bytes, more than {MAX_PAYLOAD_BYTES}: split it")
        try:
            messages = staged_messages(body)
        except (ValueError, TypeError, msgpack.UnpackException) as error:
            raise InvalidParameter(f"SINK_STAGE: {error}") from error
        for topic, queue_id in dict.fromkeys((topic, queue_id) for topic, queue_id, _, _ in messages):
            entry = broker.topic_service.for_send(topic)
            if queue_id >= entry.accepts_below:
                check_writable(entry.config, queue_id)
        attempt = Attempt(header["query_id"], header["batch_id"], header["partition"], header["attempt"])

        def told(failure: RlabError | None) -> None:
            self._answer(connection, request, failure, {"n": broker.sinks.table.staged(attempt)})

        broker.sinks.stage(attempt, header["seq"], body, messages, told)

    def commit(self, connection: Connection, request: Command) -> None:
        """Publish a batch; answered once it is published, or was before."""
        header = request.header
        wanted = list(rows_of(request))

        def told(failure: RlabError | None) -> None:
            self._answer(connection, request, failure, {"published": published})

        published = self._broker.sinks.commit(
            header["query_id"], header["batch_id"], wanted, told, is_only=bool(header.get("is_only"))
        )

    def abort(self, connection: Connection, request: Command) -> None:
        """Drop what is staged of a batch; one that is being published or is published stays."""
        dropped = self._broker.sinks.abort(request.header["query_id"], request.header["batch_id"])
        self._broker.barrier.after_commit(
            lambda failure: self._answer(connection, request, failure, {"dropped": dropped})
        )

    def spread(self, connection: Connection, request: Command) -> None:
        """Fix among which brokers a batch is spread; answered once that is stored."""
        header = request.header
        brokers = self._broker.spreads.fix(
            header["query_id"], header["batch_id"], header["topic"], _broker_names(request)
        )
        self._broker.barrier.after_commit(
            lambda failure: self._answer(connection, request, failure, {"brokers": brokers})
        )

    @staticmethod
    def _answer(connection: Connection, request: Command, failure: RlabError | None, header: dict[str, Any]) -> None:
        if failure is None:
            connection.respond(request, header)
        else:
            connection.respond_error(request, failure)


def _broker_names(request: Command) -> tuple[str, ...]:
    names = rows_of(request)
    if not names or any(not 1 <= len(name) <= MAX_NAME_CHARS for name in names):
        raise InvalidParameter(f"SINK_SPREAD: the body must be an array of 1 to {MAX_SPREAD_BROKERS} broker names")
    return names
