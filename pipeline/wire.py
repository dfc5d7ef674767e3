"""A blocking client for Spark's planner and Python workers, where no event loop runs.

It uses the codec of the asyncio client. Behind a portal to a loop in another thread, the asyncio client itself takes
1.7 times the CPU time for the pulls of a long task, and 2.7 times for a short task: more than a tenth of a whole read.
So the project has two clients. A client may be used by one thread.

Invariant: a connection that failed in any way is closed and removed, so a late answer is never confused with the answer
to another request.
"""

from __future__ import annotations

import io
import logging
import os
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self, TypeVar

import msgpack

from model.absent_broker import AbsentBroker
from model.access_limits import MAX_RECORD_BYTES
from model.errors import (
    ConfigError,
    ConnectFailed,
    ConnectionLost,
    IllegalOperation,
    NetworkError,
    NotMaster,
    ProtocolError,
    RequestTimeout,
    RlabError,
    ServerError,
    TopicNotExist,
)
from model.limits import MAX_FRAME_BYTES, REQUEST_TIMEOUT_S
from model.topic_route import MASTER_ID, TopicRoute
from pipeline.access import OF_ENVIRONMENT, AccessFiles
from remoting.address import parse_address, parse_addresses
from remoting.codec import CODEC, LENGTH_BYTES, decode_frame
from remoting.command import REQUEST, RESPONSE, Command, error_of_response
from remoting.overload.keepalive import watch_server
from remoting.request_code import RequestCode
from remoting.security.login import ClientHandshake, read_own_key
from remoting.security.records import RECORD_START_BYTES, RecordDecoder, RecordSigner
from remoting.security.tls.mismatch import answers_plain_frames, is_refusal, refuses_certificate, requires_tls
from remoting.security.tls.trust import TLS_CERT, client_context, tls_reason

FIRST_WAIT_S = 0.25
MAX_WAIT_S = 4.0
"""Maximum wait between attempts. Waits double from the first: five cover about eight seconds, enough for a restart."""
REQUESTS_AT_ONCE = 256
"""Number of requests sent to a server before the first answer is read."""
_BUFFER_BYTES = 256 * 1024
_TLS_HINT = "see the options tlsCa, tlsCert and tlsKey, and the variables RLAB_TLS_CA, RLAB_TLS_CERT and RLAB_TLS_KEY"

logger = logging.getLogger(__name__)

_T = TypeVar("_T")


def wait_seconds(seconds: float) -> None:
    """Block this thread."""
    threading.Event().wait(seconds)


class WireConnection:
    """One connection to one server, `host:port`; `timeout_s` is for the connect, and for each send and receive.

    Raises:
        ConnectFailed: the connection cannot be opened in time.
        ConfigError: a file of `access` cannot be used, one side has TLS and the other does not, or one refuses the
            certificate of the other.
    """

    def __init__(
        self, address: str, timeout_s: float = REQUEST_TIMEOUT_S, access: AccessFiles = OF_ENVIRONMENT
    ) -> None:
        self.address = address
        self._has_answered = False
        self._timeout_s = timeout_s
        self._pid = os.getpid()
        self._environment = environment = access.environment()  # read before there is a socket to close
        tls, key = client_context(environment), read_own_key(environment)
        self._has_tls = tls is not None
        try:
            self._socket = socket.create_connection(parse_address(address), timeout_s)
        except OSError as error:
            raise ConnectFailed(f"cannot connect to {address}: {error.strerror or error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        watch_server(self._socket)
        if tls is not None:
            try:
                self._socket = tls.wrap_socket(self._socket, server_hostname=parse_address(address)[0])
            except OSError as error:
                self._socket.close()
                raise _tls_failed(address, error, timeout_s) from error
        self._stream = io.BufferedReader(self._socket.makefile("rb", buffering=0), _BUFFER_BYTES)
        self._opaque = 0
        self._answers: dict[int, Command] = {}
        self._signer: RecordSigner | None = None
        self._records: RecordDecoder | None = None
        self._signed: deque[Command] = deque()
        if key is not None:
            try:
                self._log_in(ClientHandshake(key))
            except BaseException:  # also an interrupt: no caller has this object yet to close its socket
                self.close()
                raise

    def _log_in(self, handshake: ClientHandshake) -> None:
        answer = self.receive(self.send(RequestCode.GET_CHALLENGE, handshake.challenge))
        answer = self.receive(self.send(RequestCode.AUTHENTICATE, handshake.proof(answer)))
        self._signer, self._records = handshake.finish(answer)

    def send(self, code: int, header: Mapping[str, Any], body: bytes | None = None) -> int:
        """Send a request; returns the opaque with which `receive` gets its answer.

        Raises:
            NetworkError: the request may have reached the server or not; the connection is closed.
            IllegalOperation: this process was forked from the process that made the connection; nothing was sent.
        """
        if os.getpid() != self._pid:
            raise IllegalOperation(
                f"the connection to {self.address} belongs to process {self._pid}, and process {os.getpid()} was "
                "forked from it: nothing was sent; make a client in each process"
            )
        self._opaque += 1
        frame = CODEC.encode(REQUEST, code, self._opaque, header, body)
        if self._signer is not None:
            frame = self._signer.sign(frame)
        try:
            self._socket.sendall(frame)
        except OSError as error:
            raise self._failed(error) from error
        return self._opaque

    def receive(self, opaque: int) -> Command:
        """Wait for the answer to a request, whatever its code is.

        Raises:
            NetworkError: there was no answer; the connection is closed.
        """
        answers = self._answers
        while opaque not in answers:
            command = self._next_frame()
            if command.flags == RESPONSE:  # servers push requests only to members of groups
                answers[command.opaque] = command
        return answers.pop(opaque)

    def close(self) -> None:
        """Close the connection; idempotent."""
        self._stream.close()
        self._socket.close()

    def _next_frame(self) -> Command:
        if self._records is not None:
            return self._next_signed(self._records)
        try:
            length = int.from_bytes(self._read(LENGTH_BYTES), "big")
            if length > MAX_FRAME_BYTES:
                raise ProtocolError(f"{self.address} announced a frame of {length} bytes: is it a server of rlab?")
            self._has_answered = True
            return decode_frame(self._read(length))
        except (OSError, ValueError) as error:
            raise self._failed(error) from error
        except ProtocolError:
            self.close()
            raise

    def _next_signed(self, records: RecordDecoder) -> Command:
        try:
            while not self._signed:
                start = self._read(RECORD_START_BYTES)
                length = int.from_bytes(start[:LENGTH_BYTES], "big")
                self._signed += records.feed(start + self._read(min(length, MAX_RECORD_BYTES)))
                if records.error is not None:
                    self.close()
                    raise records.error
        except (OSError, ValueError) as error:
            raise self._failed(error) from error
        return self._signed.popleft()

    def _read(self, length: int) -> bytes:
        data = self._stream.read(length)
        if len(data) < length:
            raise ConnectionResetError("the server closed it")
        return data

    def _failed(self, error: OSError | ValueError) -> RlabError:
        self.close()
        if isinstance(error, TimeoutError):
            return RequestTimeout(f"{self.address} did not answer within {self._timeout_s} s")
        if is_refusal(error):  # with TLS 1.3, a server refuses the certificate of a client after the handshake
            return ConfigError(f"{self.address} has ended the connection: {tls_reason(error)}; {_TLS_HINT}")
        mismatch = "" if self._has_answered else self._mismatch()
        if mismatch:
            return ConfigError(f"{self.address} {mismatch}: {_TLS_HINT}")
        return ConnectionLost(f"the connection to {self.address} broke: {error}")

    def _mismatch(self) -> str:
        """Return what the server demands of TLS that this client does not do; empty if nothing is known."""
        if not self._has_tls:
            return "uses TLS, and this client does not" if requires_tls(self.address, self._timeout_s) else ""
        context = client_context(self._environment)
        if context is None or not refuses_certificate(self.address, context, self._timeout_s):
            return ""
        if self._environment.get(TLS_CERT):
            return "refuses the certificate that this client shows"
        return "asks its clients for a certificate, and this client shows none"


def _tls_failed(address: str, error: OSError, timeout_s: float) -> RlabError:
    """Return the error of a failed TLS handshake: a `ConfigError` if another attempt would fail as well."""
    text = f"cannot connect to {address}: {tls_reason(error) or error}"
    if answers_plain_frames(address, timeout_s):
        return ConfigError(f"{address} serves without TLS, and this client uses it: {_TLS_HINT}")
    if is_refusal(error):
        return ConfigError(f"{text}; {_TLS_HINT}")
    return ConnectFailed(text)


class WireClient:
    """Connections to the servers of a cluster, and the requests that readers and writers of topics use.

    Args:
        name_servers: addresses, a string separated by commas or a list.
        timeout_s: time limit of each step of a request.
        retries: further attempts of a request after a network failure or a temporary refusal.
        wait: called with the seconds to wait before each retry.
        access: the key and the certificates, by default those of the environment.

    Raises:
        ConfigError: an address is malformed.

    Use:
        with WireClient("127.0.0.1:9876") as client:
            route = client.route("orders")
    """

    def __init__(
        self,
        name_servers: str | Sequence[str],
        *,
        timeout_s: float = REQUEST_TIMEOUT_S,
        retries: int = 5,
        wait: Callable[[float], object] = wait_seconds,
        access: AccessFiles = OF_ENVIRONMENT,
    ) -> None:
        self.retries = retries
        self._access = access
        self._name_servers = parse_addresses(name_servers)
        self._timeout_s = timeout_s
        self._wait = wait
        self._connections: dict[str, WireConnection] = {}
        self._masters: dict[str, str] = {}
        # The last answers of name servers, used while no name server answers.
        self.last_masters: dict[str, str] = {}
        self._last_routes: dict[str, TopicRoute] = {}
        self._last_topics: list[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection; idempotent. The next request opens a new one."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        self._masters.clear()

    # --- requests that are safe to repeat ----------------------------------------------------------------------------

    def topics(self) -> list[str]:
        """Return the names of all topics, sorted; the last answer while no name server answers.

        Raises:
            RlabError: no name server answers, and there is no earlier answer.
        """
        code = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
        try:
            answer = self._ask_or_recall(code, {}, recalled=self._last_topics is not None)
        except _UseTheLast:
            assert self._last_topics is not None, "it is only raised with an earlier answer"
            return self._last_topics
        self._last_topics = [str(name) for name in _unpacked(answer)]
        return self._last_topics

    def route(self, topic: str) -> TopicRoute | None:
        """Return the route of a topic, None if no broker serves it now; the last route while no name server answers.

        Raises:
            RlabError: no name server answers, and there is no earlier answer.
        """
        try:
            code = RequestCode.GET_ROUTEINFO_BY_TOPIC
            answer = self._ask_or_recall(code, {"topic": topic}, recalled=topic in self._last_routes)
        except TopicNotExist:
            self._last_routes.pop(topic, None)
            return None
        except _UseTheLast:
            return self._last_routes[topic]
        self._last_routes[topic] = TopicRoute.from_wire(_unpacked(answer))
        return self._last_routes[topic]

    def absent(self, topic: str | None = None) -> list[AbsentBroker]:
        """Return the brokers that name servers list as absent; with a topic, the brokers that have it.

        A name server of an earlier version cannot report them, which is logged. One attempt, without retries.

        Raises:
            RlabError: no name server answers.
        """
        header = {} if topic is None else {"topic": topic}
        by_broker: dict[tuple[str, int], AbsentBroker] = {}
        masters = self.masters()
        for address in self._name_servers:
            try:
                connection = self.connect(address)
                answer = raise_refusal(connection.receive(connection.send(RequestCode.GET_ABSENT_BROKERS, header)))
            except NetworkError as error:
                self._drop(address)
                logger.warning("name server %s did not answer the request for absent brokers: %s", address, error)
            except RlabError as error:
                logger.warning("name server %s cannot report absent brokers: %s", address, error)
            else:
                for row in _unpacked(answer):
                    broker = AbsentBroker.from_wire(row)
                    if broker.broker_name not in masters:
                        by_broker[broker.broker_name, broker.broker_id] = broker
        return [broker for _, broker in sorted(by_broker.items())]

    def _ask_or_recall(self, code: RequestCode, header: Mapping[str, Any], *, recalled: bool) -> Command:
        """Send a request to a name server, with retries; if there is an earlier answer, raise _UseTheLast instead."""
        if not recalled:
            return self.with_retries(lambda: self._ask_name_server(code, header))
        try:
            return self._ask_name_server(code, header)
        except ConnectFailed as error:
            logger.warning("using the last known routes: %s", error)
            raise _UseTheLast from error

    def masters(self) -> dict[str, str]:
        """Return the address of the master of each registered broker by name; one attempt, without retries.

        Raises:
            RlabError: no name server answers.
        """
        answer = self._ask_name_server(RequestCode.GET_BROKER_CLUSTER_INFO, {})
        masters = {
            str(name): str(address)
            for _, name, addresses in _unpacked(answer)
            for broker_id, address in addresses
            if broker_id == MASTER_ID
        }
        self.last_masters.update(masters)
        return masters

    def ask_broker(
        self, broker_name: str, code: RequestCode, headers: Iterable[Mapping[str, Any]], body: bytes | None = None
    ) -> list[Command]:
        """Send one request per header to the master of a broker, pipelined; answers are in the same order.

        The request must be safe to repeat. The broker is looked up for every attempt, because after a restart it may
        have another address.

        Raises:
            RlabError: the first refusal, or the error of the last attempt.
        """
        headers = list(headers)

        def ask() -> list[Command]:
            connection = self.connect_broker(broker_name)
            answers: list[Command] = []
            for first in range(0, len(headers), REQUESTS_AT_ONCE):
                sent = [connection.send(code, header, body) for header in headers[first : first + REQUESTS_AT_ONCE]]
                answers.extend(connection.receive(opaque) for opaque in sent)
            for answer in answers:
                raise_refusal(answer)
            return answers

        return self.with_retries(ask, broker_name)

    # --- connections -------------------------------------------------------------------------------------------------

    def connect(self, address: str) -> WireConnection:
        """Return the connection to an address, which is opened if there is none.

        Raises:
            ConnectFailed: the connection cannot be opened.
            ConfigError: see `WireConnection`.
        """
        connection = self._connections.get(address)
        if connection is None:
            connection = self._connections[address] = WireConnection(address, self._timeout_s, self._access)
        return connection

    def connect_broker(self, broker_name: str) -> WireConnection:
        """Return the connection to the master of a broker.

        Raises:
            ConnectFailed: no master of this name is registered, or it cannot be reached.
        """
        address = self._masters.get(broker_name)
        if address is None:
            self._masters = self._masters_or_last()
            address = self._masters.get(broker_name)
            if address is None:
                raise ConnectFailed(f"broker {broker_name!r} is not registered at the name server: is it running?")
        return self.connect(address)

    def _masters_or_last(self) -> dict[str, str]:
        """Return the masters, or the last known masters while no name server answers."""
        try:
            return self.masters()
        except ConnectFailed as error:
            if not self.last_masters:
                raise
            logger.warning("using the last known addresses of brokers: %s", error)
            return dict(self.last_masters)

    def forget_broker(self, broker_name: str) -> None:
        """Drop the connection to a broker that failed, and look up its address again next time."""
        self._drop(self._masters.pop(broker_name, None))

    def failed(self, broker_name: str, error: RlabError) -> None:
        """Forget a broker whose request failed; a replica that does not serve names the master to ask next."""
        self.forget_broker(broker_name)
        if isinstance(error, NotMaster) and error.master_address:
            self._masters[broker_name] = error.master_address

    def with_retries(self, attempt: Callable[[], _T], broker_name: str = "") -> _T:
        """Run an idempotent attempt until it succeeds, is refused permanently or has no retries left.

        Each retry opens a new connection to the broker.

        Raises:
            RlabError: the error of the last attempt.
        """
        failures = 0
        while True:
            try:
                return attempt()
            except (NetworkError, ServerError) as error:
                self.failed(broker_name, error)
                failures += 1
                self.wait_before_retry(failures, error)
            except BaseException:
                # Answers to other requests may still arrive.
                self.forget_broker(broker_name)
                raise

    def wait_before_retry(self, failures: int, error: RlabError) -> None:
        """Wait after this number of failures in a row.

        Raises:
            RlabError: the given error, if no retry is left or a retry cannot help.
        """
        if failures > self.retries or not error.retryable:
            raise error
        self._wait(min(MAX_WAIT_S, FIRST_WAIT_S * 2 ** (failures - 1)))

    def _ask_name_server(self, code: RequestCode, header: Mapping[str, Any]) -> Command:
        failed: list[str] = []
        for address in self._name_servers:
            try:
                connection = self.connect(address)
                return raise_refusal(connection.receive(connection.send(code, header)))
            except (NetworkError, ServerError) as error:
                self._drop(address)
                failed.append(f"{address}: {error}")
        raise ConnectFailed(f"no name server answers: {'; '.join(failed)}")

    def _drop(self, address: str | None) -> None:
        connection = self._connections.pop(address, None) if address is not None else None
        if connection is not None:
            connection.close()


class _UseTheLast(Exception):
    """No name server answers, but there is an earlier answer."""


def raise_refusal(answer: Command) -> Command:
    """Return an answer whose code is SUCCESS.

    Raises:
        RlabError: the error of another code, with the server's remark.
    """
    if answer.code:
        raise error_of_response(answer)
    return answer


def _unpacked(answer: Command) -> Any:
    return msgpack.unpackb(answer.body or b"", strict_map_key=False)
