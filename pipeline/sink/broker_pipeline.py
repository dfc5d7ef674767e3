"""Pipelined requests to one broker, each repeated until it is answered.

Invariant: outstanding requests are kept, and sent again in the same order over the next connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from model.errors import NetworkError, ServerError
from pipeline.wire import WireClient, WireConnection, raise_refusal
from remoting.request_code import RequestCode

MAX_OUTSTANDING = 4
"""Maximum number of requests without an answer: a broker handles one while the next is packed; more only use memory."""


class _Request(NamedTuple):
    code: RequestCode
    header: Mapping[str, Any]
    body: bytes


class BrokerPipeline:
    """Sends requests to the master of a broker; `client` has the connection and the number of retries."""

    def __init__(self, client: WireClient, broker_name: str) -> None:
        self._client = client
        self._broker_name = broker_name
        self._connection: WireConnection | None = None
        self._unanswered: deque[_Request] = deque()
        self._opaques: deque[int] = deque()

    def send(self, code: RequestCode, header: Mapping[str, Any], body: bytes) -> None:
        """Send an idempotent request; returns before its answer.

        Raises:
            RlabError: the first refusal of any request, or the error of the last attempt.
        """
        while len(self._unanswered) >= MAX_OUTSTANDING:
            self._receive_oldest()
        self._unanswered.append(_Request(code, header, body))
        if self._connection is not None:
            try:
                self._put(self._connection)
            except NetworkError:
                self._lost()  # `_receive_oldest` sends it again, and counts the failures

    def finish(self) -> None:
        """Wait for every answer."""
        while self._unanswered:
            self._receive_oldest()

    def _receive_oldest(self) -> None:
        """Wait for the oldest answer."""
        failures = 0
        while True:
            try:
                if self._connection is None:
                    self._connection = self._client.connect_broker(self._broker_name)
                self._put(self._connection)
                answer = self._connection.receive(self._opaques.popleft())
                raise_refusal(answer)
            except (NetworkError, ServerError) as error:
                self._lost()
                self._client.failed(self._broker_name, error)
                failures += 1
                self._client.wait_before_retry(failures, error)
            else:
                self._unanswered.popleft()
                return

    def _put(self, connection: WireConnection) -> None:
        """Send the requests that were not sent over this connection yet."""
        while len(self._opaques) < len(self._unanswered):
            self._opaques.append(connection.send(*self._unanswered[len(self._opaques)]))

    def _lost(self) -> None:
        # Answers to other requests may still arrive on the connection, so it cannot be used again.
        self._client.forget_broker(self._broker_name)
        self._connection = None
        self._opaques.clear()
