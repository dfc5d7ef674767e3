"""The topics of a running broker: creates, changes, deletes and stores them, and announces them to name servers.

At the start it compares the topics in the metadata with those in the log: it recreates topics that the metadata has
lost, and drops the messages of deleted ones (`lost.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress

import msgpack

from broker.durability.metadata import StoredNumber, Table
from broker.feature import Core, Feature
from broker.store.disk.errors import StoreError
from broker.topics.lost import lost_topics, metadata_too_old, topics_to_recreate
from broker.topics.registration import Announcement, Registration
from broker.topics.table import TopicEntry, TopicTable, check_writable, queue_count
from model.decode import decode_messages
from model.errors import IllegalOperation, InvalidParameter
from model.events import EventKind
from model.limits import MAX_PULL_BYTES
from model.message_queue import MessageQueue
from model.names import ABANDONED_TOPIC, check_topic, dlq_topic, is_group_topic, retry_topic
from model.topic_route import MessageType, Perm, TopicConfig, checked_topic_config
from remoting.address import format_address
from remoting.command import Command, Reply
from remoting.connection import Connection
from remoting.overload.shares import NO_SHARER, Sharer, find_sharer
from remoting.request_code import RequestCode
from remoting.server import Handler

logger = logging.getLogger(__name__)

_SCHEMA = """
create table if not exists topics (topic text primary key, topic_id integer not null, config blob not null);
create table if not exists topic_sharers (topic text primary key, topic_id integer not null, sharer integer not null);
"""


class Topics(Feature):
    """The topics of one broker: `table` to look them up, and methods that change, store and announce them."""

    def __init__(
        self, core: Core, announcement: Announcement, *, auto_create: bool, recover_topics: bool = False
    ) -> None:
        self.table = TopicTable(auto_create=auto_create, data_id=announcement.data_id, shares=core.shares)
        self._known = self.table.get
        self.registration = Registration(announcement, self.table)
        self._core = core
        self._metadata = metadata = core.metadata
        metadata.add_tables(_SCHEMA)
        self._rows = Table(metadata, "topics", replicated=True)
        self._last_id = StoredNumber(metadata, "last_topic_id", replicated=True)
        # A separate table, because the files of earlier commits have no column for sharers. Those commits write no
        # sharers, so topics that they made have none, and the topic id shows which rows belong to deleted topics.
        self._sharers = Table(metadata, "topic_sharers", replicated=True)
        sharers = {topic_id: sharer for _, topic_id, sharer in self._sharers.rows()}
        for _, topic_id, config in self._rows.rows("topic_id"):
            self.table.restore(topic_id, TopicConfig.from_wire(msgpack.unpackb(config)), sharers.get(topic_id, 0))
            core.store.name_topic(topic_id, config)
        self.table.restore_last_topic_id(self._last_id.read())
        unknown_topics = lost_topics(core.store.queues(), self.table.names(), self.table.last_topic_id)
        if unknown_topics and not recover_topics:
            raise metadata_too_old(metadata.path, unknown_topics)
        self.recreated = bool(unknown_topics)  # in this run, from the log, because the metadata had lost some
        self._recreate(unknown_topics)
        self._drop_unknown()
        for entry in self.table.add_system_topics():
            self._save(entry)

    def _drop_unknown(self) -> None:
        """Drop the queues of topics that are not known.

        Their topics were deleted: the metadata is another file than the log, and is written first. Consumers could not
        read such queues, and a new topic with an old topic id would begin with their messages. On a full disk they stay
        until the next start.
        """
        store = self._core.store
        unknown = sorted({topic_id for topic_id, _ in store.queues()} - self.table.names().keys())
        if not unknown:
            return
        for topic_id in unknown:
            queues = sum(key[0] == topic_id for key in store.queues())
            logger.warning("the messages of topic id %d, %d queues, are dropped: no topic has it", topic_id, queues)
            store.drop_topic(topic_id)
        try:
            store.flush()
        except StoreError as error:
            logger.error("they could not be dropped now: %s", error)

    def _recreate(self, unknown_topics: Mapping[int, int]) -> None:
        """Recreate the topics that the metadata has lost, from the names and options in the log."""
        if not unknown_topics:
            return
        stored_configs = {
            topic_id: TopicConfig.from_wire(msgpack.unpackb(name))
            for topic_id, name in self._core.store.topic_names(unknown_topics).items()
        }
        seen_names = {topic_id: self._sent_to(topic_id) for topic_id in unknown_topics.keys() - stored_configs.keys()}
        for topic_id, config in sorted(
            topics_to_recreate(unknown_topics, stored_configs, seen_names, self.table.names().values()).items()
        ):
            self.table.restore(topic_id, config)
            self._save(self.table.existing(config.topic))
            logger.warning(
                "topic id %d is made again as %r with %d queues%s",
                *(topic_id, config.topic, queue_count(config)),
                "" if topic_id in stored_configs else ": the log has stored no options of it, so check them",
            )
        logger.warning(
            "topics made again from the log: %d; what the metadata knew of groups is no longer there, so a group "
            "begins where its start offset says. Reset groups with 'rlab group reset', then start the broker again: "
            "until then retention deletes nothing",
            len(unknown_topics),
        )

    def _sent_to(self, topic_id: int) -> str:
        """The topic to which the first messages of a topic id were sent, empty if it cannot be read from them."""
        store = self._core.store
        for key in store.queues():
            if key[0] == topic_id:
                body = store.read(*key, store.min_offset(*key), max_n=1, max_bytes=MAX_PULL_BYTES).body
                for message in decode_messages(MessageQueue("", "", key[1]), body, []):
                    # A failed message is redelivered with the same payload, in a topic of another name.
                    if message.times_delivered == 0:
                        with suppress(InvalidParameter):
                            return check_topic(message.topic)
        return ""

    def handlers(self) -> dict[RequestCode, Handler]:
        """Request code -> handler."""
        return {
            RequestCode.GET_ROUTEINFO_FROM_BROKER: self.get_route,
            RequestCode.UPDATE_AND_CREATE_TOPIC: self.update_and_create,
            RequestCode.DELETE_TOPIC_IN_BROKER: self.delete_in_broker,
        }

    async def get_route(self, connection: Connection, request: Command) -> Reply:
        """Answer with the route of a topic, for clients that know the address of a broker only.

        It is the route of a name server; a broker without one answers with itself.
        """
        topic = request.header["topic"]
        if not self.registration.has_name_servers:
            config = self.table.existing(topic).config
            own_address = format_address(connection.local_host, connection.local_port)
            return Reply({}, msgpack.packb(self.registration.own_route(config, own_address).to_wire()))
        return Reply({}, msgpack.packb((await self.registration.route(topic)).to_wire()))

    def update_and_create(self, connection: Connection, request: Command) -> None:
        """Create or change a topic; the answer follows once it is stored."""
        header = request.header
        topic, message_type = header["topic"], header.get("message_type")
        if message_type is None:
            existing = self.table.get(topic)
            message_type = MessageType.MIXED if existing is None else existing.config.message_type
        elif message_type and is_group_topic(topic):
            raise IllegalOperation(f"topic {topic!r} takes messages of every type, as they come from other topics")
        config = checked_topic_config(
            topic,
            header["read_queue_nums"],
            header["write_queue_nums"],
            Perm(header["perm"]),
            MessageType(message_type),
        )
        self.put(config, header.get("cause") or "", find_sharer(connection.owner))
        self._core.barrier.respond_after_commit(connection, request)

    def delete_in_broker(self, connection: Connection, request: Command) -> None:
        """Delete a topic with its messages, offsets and leases; the answer follows once that is stored."""
        self.delete(request.header["topic"], request.header.get("cause") or "")
        self._core.barrier.respond_after_commit(connection, request)

    def put(self, config: TopicConfig, cause: str = "", sharer: Sharer = NO_SHARER) -> TopicEntry:
        """Create a topic or change an existing one; see `TopicTable.put`."""
        return self._stored(*self.table.put(config, sharer), cause)

    # --- topics that other rooms need --------------------------------------------------------------------------------

    def for_send(self, topic: str, sharer: Sharer = NO_SHARER) -> TopicEntry:
        """The topic that a message is sent to, made from the template if it may be; see `TopicTable.entry_for_send`."""
        return self._stored(*self.table.entry_for_send(topic, sharer))

    def writable(self, topic: str, queue_id: int, connection: Connection) -> TopicEntry:
        """The topic that a message is sent to, as `for_send` finds it, if the queue takes messages.

        Every send calls this: a dictionary look-up and a comparison. A topic that it makes is of the connection's
        sharer.

        Raises:
            NoPermission, InvalidParameter: see `check_writable`.
        """
        entry = self._known(topic)
        if entry is None:
            entry = self.for_send(topic, find_sharer(connection.owner))
        if queue_id >= entry.accepts_below:
            check_writable(entry.config, queue_id)
        return entry

    def ensure_retry(self, group: str, cause: str = "", sharer: Sharer = NO_SHARER) -> TopicEntry:
        """The retry topic of a group, made if it is missing; see `TopicTable.ensure`. RocketMQ: retryQueueNums = 1."""
        return self._stored(*self.table.ensure(retry_topic(group), sharer=sharer), cause)

    def retry_queues(self, group: str, sharer: Sharer = NO_SHARER) -> int:
        """How many queues of a group's retry topic take messages, at least 1; the topic is made if it is missing."""
        return max(1, self.ensure_retry(group, sharer=sharer).config.write_queue_nums)

    def ensure_dlq(self, group: str, sharer: Sharer = NO_SHARER) -> TopicEntry:
        """The topic of a group's dead-letter messages, made if it is missing; see `TopicTable.ensure`."""
        return self._stored(*self.table.ensure(dlq_topic(group), sharer=sharer))

    def ensure_abandoned(self) -> TopicEntry:
        """The topic of messages whose transactions were abandoned, made if it is missing; clients can only read it."""
        return self._stored(*self.table.ensure(ABANDONED_TOPIC, Perm.READ))

    def ensure_own(self, topic: str) -> TopicEntry:
        """A topic of a feature's own, which is stored, and not announced because no client may use it."""
        entry, is_new = self.table.ensure(topic, Perm.NONE)
        if is_new:
            self._save(entry)
        return entry

    def _stored(self, entry: TopicEntry, is_changed: bool, cause: str = "") -> TopicEntry:
        """Store and announce a topic if it is new or changed."""
        if is_changed:
            config = entry.config
            self._save(entry)
            detail = f"read={config.read_queue_nums} write={config.write_queue_nums} perm={int(config.perm)}"
            if config.message_type:
                detail += f" type={config.message_type.name}"
            self._announce(config.topic, config.read_queue_nums, detail, cause)
        return entry

    def delete(self, topic: str, cause: str) -> None:
        """Forget a topic with its messages, offsets and leases, and announce it; see `TopicTable.delete`."""
        entry = self.table.delete(topic)
        self._rows.delete(topic)
        self._sharers.delete(topic)
        self._core.features.topic_deleted(topic, cause)
        self._core.store.drop_topic(entry.topic_id)
        self._announce(topic, 0, "deleted", cause)
        for queue_id in range(queue_count(entry.config)):
            self._core.features.queue_changed(topic, queue_id)

    def _save(self, entry: TopicEntry) -> None:
        config = msgpack.packb(entry.config.to_stored())
        self._rows.put(entry.config.topic, entry.topic_id, config)
        if entry.sharer:
            self._sharers.put(entry.config.topic, entry.topic_id, entry.sharer)
        self._core.store.name_topic(entry.topic_id, config)
        self._last_id.save(self.table.last_topic_id)
        self._metadata.sync_next_commit()

    def _announce(self, topic: str, read_queue_nums: int, detail: str, cause: str) -> None:
        """Record a change of a topic, and announce it to the name servers."""
        core = self._core
        core.barrier.metadata_changed()
        cause = core.emit(EventKind.ROUTE_CHANGED, cause=cause, topic=topic, n=read_queue_nums, detail=detail)
        self.registration.announce_change(cause)
