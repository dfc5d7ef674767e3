"""The options of a lite pull consumer. RocketMQ: DefaultLitePullConsumer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from os import PathLike
from typing import Any

from client.config import ClientConfig
from client.options import ConsumerOptions, check_lasting_id, check_option_names
from model.assignment import AssignedBy
from model.errors import ConfigError
from model.heartbeat import ConsumeFrom, MessageModel
from model.limits import (
    AUTO_COMMIT_INTERVAL_S,
    MAX_PROCESS_QUEUE_BYTES,
    MAX_PROCESS_QUEUE_COUNT,
    MAX_PROCESS_QUEUE_SPAN,
    MEMBER_EXPIRY_S,
    POLL_BATCH,
    PULL_BATCH,
    REBALANCE_INTERVAL_S,
    SHUTDOWN_GRACE_S,
)

_OWN = ("poll_batch", "auto_commit", "auto_commit_interval_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class LitePullOptions:
    """Options of one lite pull consumer; those of the same name mean what they mean in `ConsumerOptions`.

    Attributes:
        model: whether the members of the group share the queues, or each of them gets every message.
        offsets_dir: in BROADCASTING: where this machine keeps its offsets.
        assignment: who shares the queues out; it cannot pop what that one says is popped.
        consume_from: where a group without commits starts; in BROADCASTING and after `assign`, this consumer.
        consume_timestamp_ms: for `ConsumeFrom.TIMESTAMP`.
        poll_batch: messages of a poll, at the most.
        auto_commit: whether what polls returned is committed without a `commit`, once the next poll is called.
        auto_commit_interval_s: how often.
        pull_batch: messages asked for at once.
        max_queue_count: unfinished messages of a queue above which it is not pulled.
        max_queue_bytes: the same for the bytes of their bodies.
        max_queue_span: the same for the distance from the oldest unfinished to the newest offset.
        session_timeout_s: how long brokers keep this member without hearing of it.
        rebalance_interval_s: how often it looks when nothing wakes it.
        shutdown_grace_s: how long a queue that is given up waits for the next poll, or a commit.
    """

    model: MessageModel = MessageModel.CLUSTERING
    offsets_dir: str | PathLike[str] = "~/.rlab-offsets"
    assignment: AssignedBy | str = AssignedBy.CLIENT
    consume_from: ConsumeFrom = ConsumeFrom.LAST_OFFSET
    consume_timestamp_ms: int = 0
    poll_batch: int = POLL_BATCH
    auto_commit: bool = True
    auto_commit_interval_s: float = AUTO_COMMIT_INTERVAL_S
    pull_batch: int = PULL_BATCH
    max_queue_count: int = MAX_PROCESS_QUEUE_COUNT
    max_queue_bytes: int = MAX_PROCESS_QUEUE_BYTES
    max_queue_span: int = MAX_PROCESS_QUEUE_SPAN
    session_timeout_s: float = MEMBER_EXPIRY_S
    rebalance_interval_s: float = REBALANCE_INTERVAL_S
    shutdown_grace_s: float = SHUTDOWN_GRACE_S

    def __post_init__(self) -> None:
        """Refuse values out of range.

        Raises:
            ConfigError: naming the option and its range.
        """
        for name, low, high in (("poll_batch", 1, 65_535), ("auto_commit_interval_s", 1, 3600)):
            value = getattr(self, name)
            if not low <= value <= high:
                raise ConfigError(f"{name} must be {low} to {high}, got {value!r}")
        self.of_share()

    def of_share(self) -> ConsumerOptions:
        """The same for what brings the messages here.

        Raises:
            ConfigError: a value is out of range.
        """
        shared = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in _OWN}
        return ConsumerOptions(**shared)


def split_lite_options(
    name_servers: str | Sequence[str], options: Mapping[str, Any]
) -> tuple[ClientConfig, LitePullOptions]:
    """Sort keyword arguments into the options of the client instance and those of the consumer.

    Raises:
        ConfigError: an unknown name, with the nearest known one, or a value out of range.
    """
    check_option_names(options, ClientConfig, LitePullOptions)
    names = {field.name for field in fields(LitePullOptions)}
    config = ClientConfig(name_servers=name_servers, **{k: v for k, v in options.items() if k not in names})
    own = LitePullOptions(**{k: v for k, v in options.items() if k in names})
    check_lasting_id(config, own.model)
    return config, own
