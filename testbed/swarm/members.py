"""A swarm: a load of one message for each send, whose events and messages go to a sink.

A sink receives each event and message at once. So a swarm may be observed in its own process, or be one of several
parts in other processes. Messages of other runs in the topic are ignored.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import anyio

from client.produce.producer import Producer
from model.errors import ConfigError, RlabError
from model.events import Event
from model.limits import MAX_BODY_BYTES
from model.message import Message, MessageExt, SendResult
from testbed.load.body import MARKED_BYTES, make_body, read_number, read_run_number
from testbed.load.generator import MAX_IN_FLIGHT, Lane, LoadGenerator, LoadOptions, running
from traces.check.ledger import SentMessage

logger = logging.getLogger(__name__)

OUTAGE_OVER_S = 15.0
"""Failed sends belong to one outage, with one warning, until this time passes without a failure. It is longer than all
tries of a send together."""


class SwarmSink(Protocol):
    """Receives the reports of a swarm; it is called at once, and must not block."""

    def acknowledged(self, producer: int, number: int) -> object:
        """A broker acknowledged the message."""

    def failed(self, producer: int, number: int) -> object:
        """A send failed."""

    def received(self, producer: int, number: int) -> object:
        """A consumer received the message."""

    def event(self, event: Event) -> object:
        """A client emitted an event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwarmOptions(LoadOptions):
    """Options of a swarm, or of one part of it.

    Raises:
        ConfigError: a number is out of its range.
    """

    run: int  # marks the messages of this run; all parts of a swarm have the same
    body_bytes: int = 256
    keys: int = 0  # number of keys of each producer, used in turns; 0 for none

    def __post_init__(self) -> None:
        LoadOptions.__post_init__(self)
        if not MARKED_BYTES <= self.body_bytes <= MAX_BODY_BYTES:
            raise ConfigError(f"body_bytes must be {MARKED_BYTES} to {MAX_BODY_BYTES}, got {self.body_bytes}")


def parse_member_number(body: bytes, run: int) -> SentMessage | None:
    """Producer and number of a message of a run; None for another message."""
    return read_number(body) if read_run_number(body) == run else None


class Swarm(LoadGenerator):
    """A running swarm, made by `run_swarm`. Each producer has one lane, with its own number."""

    def __init__(self, options: SwarmOptions, sink: SwarmSink) -> None:
        super().__init__(options)
        self._options = options
        self._sink = sink
        self._abandoned_at = -math.inf

    def lanes(self, producer: int) -> Iterable[Lane]:
        """See `LoadGenerator`."""
        rate = self._options.rate / self._options.producers
        yield Lane(producer, senders=min(MAX_IN_FLIGHT, math.ceil(rate)))

    async def send(self, producer: Producer, messages: Sequence[SentMessage]) -> Sequence[SendResult]:
        """See `LoadGenerator`."""
        options, (message,) = self._options, messages
        body = make_body(message, options.body_bytes, run=options.run)
        key = f"{message.lane}-{message.number % options.keys}" if options.keys else None
        return [await producer.send(Message(options.topic, body, () if key is None else (key,)), key=key)]

    def acknowledged(self, message: SentMessage, result: SendResult) -> None:
        """See `LoadGenerator`."""
        self._sink.acknowledged(*message)

    def failed(self, message: SentMessage, error: RlabError) -> None:
        """Warn once an outage; the sink counts the rest."""
        self._sink.failed(*message)
        now = anyio.current_time()
        if now - self._abandoned_at >= OUTAGE_OVER_S:
            logger.warning("sends fail; further failures of this outage are only counted: %s", error)
        else:
            logger.debug("send: %s", error)
        self._abandoned_at = now

    async def received(self, name: str, messages: Sequence[MessageExt]) -> None:
        """See `LoadGenerator`."""
        for message in messages:
            number = parse_member_number(message.body, self._options.run)
            if number is not None:
                self._sink.received(*number)

    def client_options(self) -> Mapping[str, Any]:
        """See `LoadGenerator`."""
        return {"event_sink": self._sink.event, **self._options.client_options}


def run_swarm(options: SwarmOptions, sink: SwarmSink) -> AbstractAsyncContextManager[Swarm]:
    """Run a swarm while the block runs; see `running`."""
    return running(Swarm(options, sink))
