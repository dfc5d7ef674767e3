"""Topics in the log that the metadata does not know: which were deleted, and how to recreate the others. Pure.

A topic is stored before its first message, and its deletion before its messages are dropped. So an unknown topic id up
to the highest that the metadata has stored was deleted, and a crash came before its messages were dropped. A greater
topic id was never deleted: the metadata is missing or older than the log, and dropping the messages would lose them.

    the metadata has ids up to 6, without 4; the log has 2, 4, 7     4 was deleted: dropped; 7: the metadata is too old

A recreated topic gets the name and the options that the log has stored for it, or else the name in its first message,
or else one like `recovered-7`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from broker.store.segments.index import LogKey
from model.errors import ConfigError
from model.topic_route import TopicConfig


def lost_topics(queues: Iterable[LogKey], known_ids: Collection[int], last_topic_id: int) -> dict[int, int]:
    """Return topic id -> least number of queues, of the topics that the metadata has lost."""
    queue_counts: dict[int, int] = {}
    for topic_id, queue_id in queues:
        if topic_id > last_topic_id and topic_id not in known_ids:
            queue_counts[topic_id] = max(queue_counts.get(topic_id, 0), queue_id + 1)
    return queue_counts


def metadata_too_old(path: Path, unknown_topics: Mapping[int, int]) -> ConfigError:
    """Return the refusal of a metadata file that does not know topics of the log."""
    return ConfigError(
        f"{path} is older than the messages beside it, which are of topics that it does not know "
        f"({_numbers(unknown_topics)}): put its newest copy back; or, if no copy is left, {_RECOVER}"
    )


def metadata_missing(path: Path, unknown_topics: Mapping[int, int]) -> ConfigError:
    """Return the refusal of a data directory whose metadata file is gone."""
    return ConfigError(
        f"{path} is missing or empty, and there are messages of topics that only it knows "
        f"({_numbers(unknown_topics)}): put it back, with its -wal file if it had one; or, if it is lost, {_RECOVER}"
    )


_RECOVER = (
    "start once with --recover-topics, which makes the topics again from the messages, but not the committed offsets "
    "of groups. No message was dropped"
)
_NUMBERS_SHOWN = 5


def _numbers(unknown_topics: Mapping[int, int]) -> str:
    more = f" and {len(unknown_topics) - _NUMBERS_SHOWN} more" if len(unknown_topics) > _NUMBERS_SHOWN else ""
    return f"number {', '.join(map(str, sorted(unknown_topics)[:_NUMBERS_SHOWN]))}{more}"


def topics_to_recreate(
    unknown_topics: Mapping[int, int],
    stored_configs: Mapping[int, TopicConfig],
    seen_names: Mapping[int, str],
    taken_names: Collection[str],
) -> dict[int, TopicConfig]:
    """Return topic id -> config of the topics to recreate; their names are unique and not in `taken_names`.

    Args:
        unknown_topics: topic id -> least number of queues.
        stored_configs: topic id -> config, of the topics whose options the log has stored.
        seen_names: topic id -> the topic that its messages name.
        taken_names: names of topics that the metadata knows: the offsets of their groups do not belong to a lost topic.
    """
    names = set(taken_names)
    configs: dict[int, TopicConfig] = {}
    # The highest id first: if a topic was deleted and recreated, the newer one keeps the name.
    for topic_id in sorted(unknown_topics, reverse=True):
        queues = unknown_topics[topic_id]
        config = stored_configs.get(topic_id)
        if config is None or config.topic in names:
            name = "" if config is not None else seen_names.get(topic_id, "")
            if not name or name in names:
                name = f"recovered-{topic_id}"
            while name in names:
                name += "-again"
            config = TopicConfig(topic=name, read_queue_nums=queues, write_queue_nums=queues)
        names.add(config.topic)
        configs[topic_id] = config
    return configs
