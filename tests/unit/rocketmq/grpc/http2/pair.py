"""A client of HTTP/2, and the server's side of its connection, without a network between them."""

from __future__ import annotations

from collections.abc import Iterable

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import Event
from h2.settings import SettingCodes, Settings

from rocketmq.grpc.http2.call import CallEvent, GrpcCall
from rocketmq.grpc.http2.connection import Http2

WINDOW = 65_535


def headers(*more: tuple[str, str]) -> list[tuple[str, str]]:
    path = "/apache.rocketmq.v2.MessagingService/Say"
    return [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "x"), *more]


HEADER_BYTES = sum(len(name) + len(value) for name, value in headers())


def prefixed(message: bytes) -> bytes:
    return b"\0" + len(message).to_bytes(4) + message


class Pair:
    """A client, and the connection that is tested."""

    def __init__(self, settings: dict[SettingCodes, int] | None = None) -> None:
        self.server = Http2()
        self.client = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        if settings:
            self.client.local_settings = Settings(client=True, initial_values=settings)
        self.client.initiate_connection()
        self.seen: list[Event] = []
        self.exchange()

    def exchange(self, size: int = 1 << 30) -> list[tuple[CallEvent, GrpcCall]]:
        """Pass bytes in both directions, until there are none."""
        events: list[tuple[CallEvent, GrpcCall]] = []
        while True:
            said, answered = self.client.data_to_send(), self.server.take()
            if not said and not answered:
                return events
            self.seen += self.client.receive_data(answered)
            for at in range(0, len(said), size):
                events += self.server.receive(said[at : at + size])

    def open(self, *more: tuple[str, str], end: bool = False) -> int:
        number = self.client.get_next_available_stream_id()
        self.client.send_headers(number, headers(*more), end_stream=end)
        return number

    def say(
        self, number: int, data: bytes, *, end: bool = True, size: int = 1 << 30
    ) -> list[tuple[CallEvent, GrpcCall]]:
        """Send bytes as far as the windows allow, again and again."""
        events = []
        while data:
            room = min(self.client.local_flow_control_window(number), self.client.max_outbound_frame_size)
            if room:
                self.client.send_data(number, data[:room], end_stream=end and room >= len(data))
                data = data[room:]
            new = self.exchange(size)
            events += new
            assert room or self.client.local_flow_control_window(number), "the server never opens the window"
        return events

    def of(self, kind: type[Event]) -> Iterable[Event]:
        return [event for event in self.seen if isinstance(event, kind)]
