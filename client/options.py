"""The options of a push consumer, and how keyword arguments become options. RocketMQ: DefaultMQPushConsumer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from enum import StrEnum
from os import PathLike
from typing import Any

from client.config import ClientConfig
from model.assignment import AssignedBy
from model.delay import MAX_DELAY_MS
from model.errors import ConfigError
from model.heartbeat import ConsumeFrom, MessageModel
from model.limits import (
    CONSUME_RETRY_S,
    MAX_ATTEMPTS,
    MAX_INVISIBLE_MS,
    MAX_PROCESS_QUEUE_BYTES,
    MAX_PROCESS_QUEUE_COUNT,
    MAX_PROCESS_QUEUE_SPAN,
    MAX_PULL_BATCH,
    MAX_UNACKED,
    MEMBER_EXPIRY_S,
    POP_INVISIBLE_S,
    PULL_BATCH,
    REBALANCE_INTERVAL_S,
    SHUTDOWN_GRACE_S,
    SUSPEND_S,
)


class ConsumeOrder(StrEnum):
    """Which messages wait for each other."""

    NONE = "none"
    """None: they run at the same time, and a failed one comes again later."""
    QUEUE = "queue"
    """Those of a queue (RocketMQ: MessageListenerOrderly)."""
    KEY = "key"
    """Those of a queue with the same first key. Producers send the messages of a key to the same queue. Not popping."""


class ConsumeMode(StrEnum):
    """How a push consumer gets its messages. RocketMQ: MessageRequestMode."""

    PULL = "pull"
    """The members share the queues, and each pulls its own."""
    POP = "pop"
    """The members share the messages: each pops from any queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions:
    """Options of one push consumer.

    Attributes:
        model: whether the members of the group share the queues, or each of them gets every message.
        offsets_dir: in BROADCASTING: where this machine keeps its offsets; `~` is the home folder.
        mode: whether the members share whole queues (`pull`) or single messages (`pop`).
        assignment: who shares the queues out: each member by itself (`client`), or a broker for all of them (`broker`).
            That one is also told by operators whether the group pulls or pops a topic.
        invisible_s: with `pop`: how long others do not get a message; made longer while it waits here or is worked on.
        max_unacked: with `pop`: unfinished messages of a topic and broker that it may have; others cannot get them.
        consume_from: where a group without commits starts; in BROADCASTING, a member without offsets.
        consume_timestamp_ms: for `ConsumeFrom.TIMESTAMP`, wall clock in milliseconds.
        order: which messages wait for each other: `none`, `queue` or `key`; with `pop`: `none` or `queue`.
        auto_commit: in order only: whether SUCCESS ends a message, or waits for a COMMIT.
        suspend_s: in order only: how long those that wait for a failed message stand still.
        max_workers: batches that may be with listeners at the same time.
        consume_batch: messages handed to a listener at once, at the most.
        pull_batch: messages asked for at once.
        max_queue_count: unfinished messages of a queue above which it is not pulled.
        max_queue_bytes: the same for the bytes of their bodies.
        max_queue_span: the same for the distance from the oldest unfinished to the newest offset.
        max_attempts: retries of a failed message, after which it becomes a dead letter (`%DLQ%group`); in BROADCASTING
            it is logged and passed over.
        retry_delay_ms: wait before each retry; None for 10 s, 30 s, 1 m, ... 2 h.
        consume_retry_s: wait before a failed message is handed out again that no broker takes back, or in BROADCASTING.
        session_timeout_s: how long brokers keep this member without hearing of it.
        rebalance_interval_s: how often it looks when nothing wakes it.
        shutdown_grace_s: how long a shutdown, or a queue that is given up, waits for messages with a listener.
    """

    model: MessageModel = MessageModel.CLUSTERING
    offsets_dir: str | PathLike[str] = "~/.rlab-offsets"
    mode: ConsumeMode | str = ConsumeMode.PULL
    assignment: AssignedBy | str = AssignedBy.CLIENT
    invisible_s: float = POP_INVISIBLE_S
    max_unacked: int = MAX_UNACKED
    consume_from: ConsumeFrom = ConsumeFrom.LAST_OFFSET
    consume_timestamp_ms: int = 0
    order: ConsumeOrder | str = ConsumeOrder.NONE
    auto_commit: bool = True
    suspend_s: float = SUSPEND_S
    max_workers: int = 20
    consume_batch: int = 1
    pull_batch: int = PULL_BATCH
    max_queue_count: int = MAX_PROCESS_QUEUE_COUNT
    max_queue_bytes: int = MAX_PROCESS_QUEUE_BYTES
    max_queue_span: int = MAX_PROCESS_QUEUE_SPAN
    max_attempts: int = MAX_ATTEMPTS
    retry_delay_ms: int | None = None
    consume_retry_s: float = CONSUME_RETRY_S
    session_timeout_s: float = MEMBER_EXPIRY_S
    rebalance_interval_s: float = REBALANCE_INTERVAL_S
    shutdown_grace_s: float = SHUTDOWN_GRACE_S

    def __post_init__(self) -> None:
        """Refuse values out of range. RocketMQ: DefaultMQPushConsumerImpl.checkConfig.

        Raises:
            ConfigError: naming the option and its range.
        """
        for name, low, high in _RANGES:
            value = getattr(self, name)
            if not low <= value <= high:
                raise ConfigError(f"{name} must be {low} to {high}, got {value!r}")
        if self.order not in list(ConsumeOrder):
            raise ConfigError(f"order must be one of {', '.join(ConsumeOrder)}; got {self.order!r}")
        if not self.auto_commit and self.order == ConsumeOrder.NONE:
            raise ConfigError("auto_commit=False needs an order: a COMMIT ends what came before it")
        if not isinstance(self.model, MessageModel):
            raise ConfigError(f"model must be a MessageModel, got {self.model!r}")
        if self.mode not in list(ConsumeMode):
            raise ConfigError(f"mode must be one of {', '.join(ConsumeMode)}; got {self.mode!r}")
        if self.mode == ConsumeMode.POP and (self.model is MessageModel.BROADCASTING or not self.auto_commit):
            raise ConfigError("mode='pop' needs model=CLUSTERING and auto_commit=True: it ends each message by itself")
        if self.mode == ConsumeMode.POP and self.order == ConsumeOrder.KEY:
            raise ConfigError(
                "mode='pop' keeps no order by key: a broker hands out the next batch of a queue when the one before is "
                "ended, whatever its keys; choose order='queue' for that, or mode='pull' with order='key'"
            )
        if self.assignment not in list(AssignedBy):
            raise ConfigError(f"assignment must be one of {', '.join(AssignedBy)}; got {self.assignment!r}")
        if self.assignment == AssignedBy.BROKER and self.model is MessageModel.BROADCASTING:
            raise ConfigError("assignment='broker' needs model=CLUSTERING: in BROADCASTING everybody has every queue")
        if self.assignment == AssignedBy.BROKER and (self.mode == ConsumeMode.POP or not self.auto_commit):
            raise ConfigError(
                "assignment='broker' needs mode='pull' and auto_commit=True: operators say which topics are popped"
            )
        if not isinstance(self.consume_from, ConsumeFrom):
            raise ConfigError(f"consume_from must be a ConsumeFrom, got {self.consume_from!r}")
        if self.retry_delay_ms is not None and not 0 <= self.retry_delay_ms <= MAX_DELAY_MS:
            raise ConfigError(f"retry_delay_ms must be 0 to {MAX_DELAY_MS}, got {self.retry_delay_ms!r}")
        if self.consume_from is ConsumeFrom.TIMESTAMP and self.consume_timestamp_ms <= 0:
            raise ConfigError("consume_from=TIMESTAMP needs consume_timestamp_ms, wall clock in milliseconds")


_RANGES: tuple[tuple[str, float, float], ...] = (
    ("max_workers", 1, 1000),
    ("consume_batch", 1, 1024),
    ("pull_batch", 1, MAX_PULL_BATCH),
    ("max_queue_count", 1, 65_535),
    ("max_queue_bytes", 1, 1024 * 1024 * 1024),
    ("max_queue_span", 1, 65_535),
    ("max_attempts", 0, 65_000),
    ("consume_retry_s", 0, 3600),
    ("invisible_s", 1, MAX_INVISIBLE_MS / 1000),
    ("max_unacked", 1, 65_535),
    ("suspend_s", 0.01, 30),
    ("session_timeout_s", 0.1, 3600),
    ("rebalance_interval_s", 0.01, 3600),
    ("shutdown_grace_s", 0, 3600),
)


def check_option_names(options: Mapping[str, Any], *records: type[Any]) -> None:
    """Refuse keyword arguments that are fields of none of the records.

    Raises:
        ConfigError: an unknown name, with the nearest known one.
    """
    known = {field.name for record in records for field in fields(record)} - {"name_servers"}
    for name in options:
        if name not in known:
            near = get_close_matches(name, sorted(known), n=1)
            raise ConfigError(f"unknown option {name!r}" + (f": did you mean {near[0]!r}?" if near else ""))


def split_options(
    name_servers: str | Sequence[str], options: Mapping[str, Any]
) -> tuple[ClientConfig, ConsumerOptions]:
    """Sort keyword arguments into the options of the client instance and those of the consumer.

    Raises:
        ConfigError: an unknown name, with the nearest known one, or a value out of range.
    """
    check_option_names(options, ClientConfig, ConsumerOptions)
    of_consumer = {field.name for field in fields(ConsumerOptions)}
    client = {name: value for name, value in options.items() if name not in of_consumer}
    consumer = {name: value for name, value in options.items() if name in of_consumer}
    config, own = ClientConfig(name_servers=name_servers, **client), ConsumerOptions(**consumer)
    check_lasting_id(config, own.model)
    return config, own


def check_lasting_id(config: ClientConfig, model: MessageModel) -> None:
    """Refuse BROADCASTING to a client whose id does not outlive its process.

    RocketMQ calls every instance DEFAULT in BROADCASTING: two processes of one machine then write to one file, and
    neither learns of it.

    Raises:
        ConfigError: it has no `instance_name`.
    """
    if model is MessageModel.BROADCASTING and config.instance_name is None:
        raise ConfigError(
            "model=BROADCASTING needs an instance_name that stays the same: the offsets are kept in a folder named "
            "after ip@instance_name, and a name made up at each start would never find them again. Give each process "
            "of a machine its own; set client_ip as well where the address of the machine changes"
        )
