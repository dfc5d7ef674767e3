"""The options of consumers, made from keyword arguments and checked.

RocketMQ: DefaultMQPushConsumer, DefaultLitePullConsumer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from enum import StrEnum
from os import PathLike
from typing import Any, TypeVar

from client.config import ClientConfig, ServerDialect
from model.assignment import AssignedBy
from model.errors import ConfigError
from model.heartbeat import ConsumeFrom, MessageModel
from model.limits import (
    AUTO_COMMIT_INTERVAL_S,
    CONSUME_RETRY_S,
    CONSUME_TIMEOUT_S,
    MAX_ATTEMPTS,
    MAX_CONFIGURED_ATTEMPTS,
    MAX_INVISIBLE_MS,
    MAX_PROCESS_QUEUE_BYTES,
    MAX_PROCESS_QUEUE_COUNT,
    MAX_PROCESS_QUEUE_SPAN,
    MAX_PULL_BATCH,
    MAX_REJOIN_S,
    MAX_UNACKED,
    MEMBER_EXPIRY_S,
    MIN_SUSPEND_S,
    POLL_BATCH,
    POP_INVISIBLE_S,
    PULL_BATCH,
    REBALANCE_INTERVAL_S,
    ROCKETMQ_LOCK_TRUST_S,
    SHUTDOWN_GRACE_S,
    SUSPEND_S,
)
from model.message import MAX_DELAY_MS


class ConsumeOrder(StrEnum):
    """The messages that wait for each other."""

    NONE = "none"
    """No order: messages are processed at the same time, and a failed one is redelivered later."""
    QUEUE = "queue"
    """All messages of a queue are in order (RocketMQ: MessageListenerOrderly)."""
    KEY = "key"
    """Messages with the same first key are in order. Producers send them to one queue. Not with POP."""


class ConsumeMode(StrEnum):
    """The mode in which a push consumer gets its messages. RocketMQ: MessageRequestMode."""

    PULL = "pull"
    """Each member pulls the queues that it owns."""
    POP = "pop"
    """Each member pops messages from any queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberOptions:
    """The options that every member of a group has, whether it is called with messages or polls.

    Attributes:
        model: whether each queue has one owner in the group, or each member gets every message.
        offsets_dir: in BROADCASTING: where this machine keeps its offsets; `~` is the home folder.
        assignment: who assigns the queues: each member for itself (`client`), or a broker for all of them (`broker`).
            Then operators also say whether the group pulls or pops a topic; a lite pull consumer cannot pop.
        consume_from: where a group without committed offsets starts; in BROADCASTING, and after
            `LitePullConsumer.assign`, this consumer.
        consume_timestamp_ms: for `ConsumeFrom.TIMESTAMP`, wall clock in milliseconds.
        pull_batch: messages per pull request; up to four times as many while a queue lags and flow control allows.
        max_queue_count: unfinished messages of a queue above which it is not pulled.
        max_queue_bytes: the same for the bytes of their bodies.
        max_queue_span: the same for the distance from the oldest unfinished to the newest offset.
        session_timeout_s: time without a heartbeat after which brokers remove this member.
        rejoin_within_s: how long this member keeps its assignment after its process has ended, because the process
            comes back under the same `instance_name`; 0: not at all. No member consumes its queues until then.
        rebalance_interval_s: longest time between two passes.
        shutdown_grace_s: how long a shutdown, or the release of a queue, waits for messages that are with a listener or
            were returned by the last poll.
    """

    model: MessageModel = MessageModel.CLUSTERING
    offsets_dir: str | PathLike[str] = "~/.rlab-offsets"
    assignment: AssignedBy | str = AssignedBy.CLIENT
    consume_from: ConsumeFrom = ConsumeFrom.LAST_OFFSET
    consume_timestamp_ms: int = 0
    pull_batch: int = PULL_BATCH
    max_queue_count: int = MAX_PROCESS_QUEUE_COUNT
    max_queue_bytes: int = MAX_PROCESS_QUEUE_BYTES
    max_queue_span: int = MAX_PROCESS_QUEUE_SPAN
    session_timeout_s: float = MEMBER_EXPIRY_S
    rejoin_within_s: float = 0.0
    rebalance_interval_s: float = REBALANCE_INTERVAL_S
    shutdown_grace_s: float = SHUTDOWN_GRACE_S

    def __post_init__(self) -> None:
        """Raise ConfigError for values out of range. RocketMQ: DefaultMQPushConsumerImpl.checkConfig."""
        for name, low, high in _RANGES:
            value = getattr(self, name, low)
            if not isinstance(value, (int, float) if name.endswith("_s") else int):
                expectation = "a number of seconds" if name.endswith("_s") else "a whole number"
                raise ConfigError(f"{name} must be {expectation}, got {value!r}")
            if not low <= value <= high:
                raise ConfigError(f"{name} must be {low} to {high}, got {value!r}")
        if not isinstance(self.offsets_dir, str | PathLike):
            raise ConfigError(f"offsets_dir must be a path, got {self.offsets_dir!r}")
        if not isinstance(self.consume_timestamp_ms, int) or isinstance(self.consume_timestamp_ms, bool):
            raise ConfigError(f"consume_timestamp_ms must be a whole number, got {self.consume_timestamp_ms!r}")
        if not isinstance(self.model, MessageModel):
            raise ConfigError(f"model must be a MessageModel, got {self.model!r}")
        if self.assignment not in list(AssignedBy):
            raise ConfigError(f"assignment must be one of {', '.join(AssignedBy)}; got {self.assignment!r}")
        if self.assignment == AssignedBy.BROKER and self.model is MessageModel.BROADCASTING:
            raise ConfigError("assignment='broker' needs model=CLUSTERING: in BROADCASTING everybody has every queue")
        if self.rejoin_within_s and self.model is MessageModel.BROADCASTING:
            raise ConfigError("rejoin_within_s needs model=CLUSTERING: in BROADCASTING there is no assignment to keep")
        if not isinstance(self.consume_from, ConsumeFrom):
            raise ConfigError(f"consume_from must be a ConsumeFrom, got {self.consume_from!r}")
        if self.consume_from is ConsumeFrom.TIMESTAMP and self.consume_timestamp_ms <= 0:
            raise ConfigError("consume_from=TIMESTAMP needs consume_timestamp_ms, wall clock in milliseconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions(MemberOptions):
    """Options of one push consumer, besides those of `MemberOptions`.

    Attributes:
        mode: whether members own whole queues (`pull`) or get single messages of any queue (`pop`).
        invisible_s: with `pop`: invisible time of a message; extended while it waits here or is with a listener.
        max_unacked: with `pop`: messages of a topic and broker that it may hold without an acknowledgement; other
            members cannot get them.
        order: which messages wait for each other: `none`, `queue` or `key`; with `pop`: `none` or `queue`.
        auto_commit: in order only: whether SUCCESS ends a message, or waits for a COMMIT.
        suspend_s: in order only: how long a queue or key pauses after a failed message.
        max_workers: batches that may be with listeners at the same time.
        consume_batch: most messages in one call of a listener.
        max_attempts: retries of a failed message, after which it goes to the DLQ (`%DLQ%group`); in BROADCASTING it is
            logged and skipped.
        retry_delay_ms: wait before each retry; None for 10 s, 30 s, 1 m, ... 2 h.
        consume_timeout_s: how long a listener may have messages before they count as failed; it is cancelled if async.
        consume_retry_s: wait before a local retry, of a message that no broker takes back, or in BROADCASTING.
    """

    mode: ConsumeMode | str = ConsumeMode.PULL
    invisible_s: float = POP_INVISIBLE_S
    max_unacked: int = MAX_UNACKED
    order: ConsumeOrder | str = ConsumeOrder.NONE
    auto_commit: bool = True
    suspend_s: float = SUSPEND_S
    max_workers: int = 20
    consume_batch: int = 1
    max_attempts: int = MAX_ATTEMPTS
    retry_delay_ms: int | None = None
    consume_retry_s: float = CONSUME_RETRY_S
    consume_timeout_s: float = CONSUME_TIMEOUT_S

    def __post_init__(self) -> None:
        """Refuse values out of range; see `MemberOptions`."""
        MemberOptions.__post_init__(self)  # super() does not find the class that `slots` makes
        if self.order not in list(ConsumeOrder):
            raise ConfigError(f"order must be one of {', '.join(ConsumeOrder)}; got {self.order!r}")
        if not self.auto_commit and self.order == ConsumeOrder.NONE:
            raise ConfigError("auto_commit=False needs an order: a COMMIT ends what came before it")
        if self.mode not in list(ConsumeMode):
            raise ConfigError(f"mode must be one of {', '.join(ConsumeMode)}; got {self.mode!r}")
        if self.mode == ConsumeMode.POP and (self.model is MessageModel.BROADCASTING or not self.auto_commit):
            raise ConfigError("mode='pop' needs model=CLUSTERING and auto_commit=True: it ends each message by itself")
        if self.mode == ConsumeMode.POP and self.order == ConsumeOrder.KEY:
            raise ConfigError(
                "mode='pop' keeps no order by key: a broker delivers the next batch of a queue when the one before is "
                "acknowledged, whatever its keys; choose order='queue' for that, or mode='pull' with order='key'"
            )
        if self.assignment == AssignedBy.BROKER and (self.mode == ConsumeMode.POP or not self.auto_commit):
            raise ConfigError(
                "assignment='broker' needs mode='pull' and auto_commit=True: operators say which topics are popped"
            )
        delay_ms = self.retry_delay_ms
        if delay_ms is not None and not (isinstance(delay_ms, int) and 0 <= delay_ms <= MAX_DELAY_MS):
            raise ConfigError(f"retry_delay_ms must be a whole number from 0 to {MAX_DELAY_MS}, got {delay_ms!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LitePullOptions(MemberOptions):
    """Options of one lite pull consumer, besides those of `MemberOptions`.

    Attributes:
        poll_batch: most messages of a poll.
        auto_commit: whether the messages of a poll are committed without a `commit`, once the next poll is called.
        auto_commit_interval_s: how often.
    """

    poll_batch: int = POLL_BATCH
    auto_commit: bool = True
    auto_commit_interval_s: float = AUTO_COMMIT_INTERVAL_S

    def of_member(self) -> ConsumerOptions:
        """The shared options, with which the rest of a consumer works."""
        return ConsumerOptions(**{field.name: getattr(self, field.name) for field in fields(MemberOptions)})


_RANGES: tuple[tuple[str, float, float], ...] = (
    ("max_workers", 1, 1000),
    ("consume_batch", 1, 1024),
    ("pull_batch", 1, MAX_PULL_BATCH),
    ("max_queue_count", 1, 65_535),
    ("max_queue_bytes", 1, 1024 * 1024 * 1024),
    ("max_queue_span", 1, 65_535),
    ("max_attempts", 0, MAX_CONFIGURED_ATTEMPTS),
    ("consume_retry_s", 0, 3600),
    ("consume_timeout_s", 0.1, 24 * 3600),
    ("invisible_s", 1, MAX_INVISIBLE_MS / 1000),
    ("max_unacked", 1, 65_535),
    ("suspend_s", MIN_SUSPEND_S, 30),
    ("poll_batch", 1, 65_535),
    ("auto_commit_interval_s", 1, 3600),
    ("session_timeout_s", 0.1, 3600),
    ("rejoin_within_s", 0, MAX_REJOIN_S),
    ("rebalance_interval_s", 0.01, 3600),
    ("shutdown_grace_s", 0, 3600),
)
Kind = TypeVar("Kind", bound=MemberOptions)


def check_option_names(options: Mapping[str, Any], *records: type[Any]) -> None:
    """Raise ConfigError for a keyword that is a field of none of the records, with the nearest known name."""
    option_names = {field.name for record in records for field in fields(record)} - {"name_servers"}
    for name in options:
        if name not in option_names:
            near = get_close_matches(name, sorted(option_names), n=1)
            raise ConfigError(f"unknown option {name!r}" + (f": did you mean {near[0]!r}?" if near else ""))


def fit_for_rocketmq(member_options: Kind) -> Kind:
    """The options as they are with servers of RocketMQ, whose locks end sooner than our leases may.

    Raises:
        ConfigError: an option needs what such servers do not do.
    """
    if member_options.assignment == AssignedBy.BROKER or member_options.rejoin_within_s:
        raise ConfigError(
            "assignment='broker' and rejoin_within_s are not there with servers of RocketMQ: leave them out, or choose "
            "servers of this project"
        )
    if not isinstance(member_options, ConsumerOptions) or member_options.order == ConsumeOrder.NONE:
        return member_options
    return replace(member_options, session_timeout_s=min(member_options.session_timeout_s, ROCKETMQ_LOCK_TRUST_S))


def split_options(
    kind: type[Kind], name_servers: str | Sequence[str], options: Mapping[str, Any]
) -> tuple[ClientConfig, Kind]:
    """Sort keyword arguments into options of the client instance and options of this kind of consumer.

    RocketMQ calls every instance DEFAULT in BROADCASTING: two processes of one machine then write to one file, and
    neither detects it.

    Raises:
        ConfigError: an unknown name, with the nearest known one; a value out of range; an option that servers of
            RocketMQ do not support; or BROADCASTING without an `instance_name`, so that the client id would not outlive
            the process.
    """
    check_option_names(options, ClientConfig, kind)
    names = {field.name for field in fields(kind)}
    config = ClientConfig(name_servers=name_servers, **{k: v for k, v in options.items() if k not in names})
    member_options = kind(**{k: v for k, v in options.items() if k in names})
    if config.dialect is ServerDialect.ROCKETMQ:
        member_options = fit_for_rocketmq(member_options)
    if member_options.model is MessageModel.BROADCASTING and config.instance_name is None:
        raise ConfigError(
            "model=BROADCASTING needs an instance_name that stays the same: the offsets are kept in a folder named "
            "after ip@instance_name, and a name made up at each start would never find them again. Give each process "
            "of a machine its own; set client_ip as well where the address of the machine changes"
        )
    return config, member_options
