"""Topics of one broker: created, scaled, deleted, and numbered once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.topics.table import (
    TopicTable,
    check_exists,
    check_readable,
    check_writable,
    queue_count,
    remaining_queue,
)
from model.errors import IllegalOperation, InvalidParameter, NoPermission, SystemBusy, TopicNotExist
from model.limits import DEFAULT_TOPIC_QUEUES, TEMPLATE_TOPIC_QUEUES
from model.names import SCHEDULE_TOPIC, STAGE_TOPIC, TEMPLATE_TOPIC, TRACE_TOPIC, retry_topic
from model.topic_incarnation import TopicIncarnation
from model.topic_route import READ_WRITE, Perm, TopicConfig


def config(topic: str = "t", read: int = 4, write: int = 4, perm: Perm = READ_WRITE) -> TopicConfig:
    return TopicConfig(topic=topic, read_queue_nums=read, write_queue_nums=write, perm=perm)


def table_with(*configs: TopicConfig, auto_create: bool = True) -> TopicTable:
    table = TopicTable(auto_create=auto_create)
    table.add_system_topics()
    for each in configs:
        table.put(each)
    return table


@pytest.mark.parametrize("data_id", [0, 3, 4])
@pytest.mark.parametrize("header", [{}, *({"topic_id": n, "data_id": d} for n in (0, 3, 9) for d in (None, 0, 3, 4))])
def test_a_header_has_another_number_as_numbers_of_topics_differ(data_id: int, header: dict[str, int]) -> None:
    table = TopicTable(auto_create=False, data_id=data_id)
    table.restore(3, config())
    entry, known = table.existing("t"), TopicIncarnation.from_header(header)
    differs = known is not None and known.surely_differs(table.incarnation_of(entry))
    assert table.other_incarnation(entry, header) == (table.incarnation_of(entry) if differs else None)


def test_a_queue_can_be_read_that_exists_in_a_readable_topic() -> None:
    table = table_with(config("a", read=2), config("b", perm=Perm.WRITE))
    assert [table.is_readable(*queue) for queue in (("a", 1), ("a", 2), ("b", 0), ("c", 0))] == [True, *[False] * 3]


def test_topics_that_exist_are_listed_by_the_number_in_their_records() -> None:
    table = table_with(config("a"), config("b"), auto_create=False)
    number = table.existing("b").topic_id
    assert table.names() == {1: TRACE_TOPIC, 2: SCHEDULE_TOPIC, 3: "a", 4: "b"}
    table.restore(9, config("c"))
    assert (table.name_of(number), table.name_of(9)) == ("b", "c")
    table.delete("b")
    assert number not in table.names()
    assert table.name_of(number) is None


def test_an_old_message_goes_to_its_queue_or_to_one_that_is_left() -> None:
    assert [remaining_queue(config(read=2, write=4), n) for n in (0, 3, 4, 7, 9)] == [0, 3, 0, 3, 1]


# --- creation by sending ---------------------------------------------------------------------------------------------
def test_a_send_to_an_unknown_topic_copies_the_template_without_its_right_to_be_inherited() -> None:
    table = table_with()
    entry, is_new = table.entry_for_send("t")
    assert is_new
    assert entry.config == config(read=DEFAULT_TOPIC_QUEUES, write=DEFAULT_TOPIC_QUEUES)
    assert table.entry_for_send("t") == (entry, False)


def test_a_small_template_makes_small_topics() -> None:
    table = TopicTable(auto_create=True)
    table.restore(1, config(TEMPLATE_TOPIC, 2, 2, READ_WRITE | Perm.INHERIT))
    assert table.entry_for_send("t")[0].config == config(read=2, write=2)


def test_a_template_that_may_not_be_inherited_makes_no_topic() -> None:
    table = TopicTable(auto_create=True)
    table.restore(1, config(TEMPLATE_TOPIC))
    with pytest.raises(TopicNotExist, match="automatic creation is off"):
        table.entry_for_send("t")


def test_without_automatic_creation_a_send_needs_an_existing_topic() -> None:
    table = TopicTable(auto_create=False)
    # A template that an earlier run with automatic creation left behind does not turn it on again.
    table.restore(1, config(TEMPLATE_TOPIC, 8, 8, READ_WRITE | Perm.INHERIT))
    with pytest.raises(TopicNotExist, match="rlab topic create"):
        table.entry_for_send("t")
    table.put(config())
    assert table.entry_for_send("t")[0].config == config()


def test_an_illegal_name_makes_no_topic() -> None:
    with pytest.raises(InvalidParameter, match="a topic"):
        table_with().entry_for_send("a topic")


# --- system topics ---------------------------------------------------------------------------------------------------
def test_a_broker_has_its_system_topics_and_makes_only_the_missing_ones() -> None:
    table = TopicTable(auto_create=True)
    assert [entry.config.topic for entry in table.add_system_topics()] == [
        TRACE_TOPIC,
        SCHEDULE_TOPIC,
        TEMPLATE_TOPIC,
    ]
    assert table.existing(TEMPLATE_TOPIC).config.read_queue_nums == TEMPLATE_TOPIC_QUEUES
    assert table.add_system_topics() == []


def test_without_automatic_creation_there_is_no_template() -> None:
    made = TopicTable(auto_create=False).add_system_topics()
    assert [entry.config.topic for entry in made] == [TRACE_TOPIC, SCHEDULE_TOPIC]


def test_a_topic_of_a_features_own_is_made_once_and_no_client_can_use_it() -> None:
    table = table_with()
    entry, is_new = table.ensure(STAGE_TOPIC, Perm.NONE)
    assert is_new
    assert (entry.accepts_below, entry.serves_below, entry.config.read_queue_nums) == (0, 0, 1)
    assert table.ensure(STAGE_TOPIC, Perm.NONE) == (entry, False)


def test_system_topics_can_neither_be_changed_nor_deleted() -> None:
    table = table_with()
    with pytest.raises(IllegalOperation, match="SYS_TRACE"):
        table.put(config(TRACE_TOPIC))
    with pytest.raises(IllegalOperation, match="TBW102"):
        table.delete(TEMPLATE_TOPIC)


def test_the_retry_topic_of_a_group_is_made_once() -> None:
    table = table_with()
    entry, is_new = table.ensure(retry_topic("g"))
    assert is_new
    assert entry.config == config("%RETRY%g", 1, 1)
    assert table.ensure(retry_topic("g")) == (entry, False)


# --- create, change, delete ------------------------------------------------------------------------------------------
def test_putting_a_topic_reports_whether_anything_is_different() -> None:
    table = table_with()
    entry, changed = table.put(config())
    assert changed
    assert table.put(config()) == (entry, False)
    assert table.put(config(read=8)) == (entry, True)
    assert entry.config.read_queue_nums == 8


def test_a_topic_keeps_its_number_while_it_is_scaled() -> None:
    table = table_with(config())
    before = table.existing("t").topic_id
    table.put(config(read=8, write=2))
    assert table.existing("t").topic_id == before


def test_a_topic_that_is_recreated_gets_a_new_number() -> None:
    table = table_with(config())
    deleted = table.delete("t")
    entry, _ = table.put(config())
    assert entry.topic_id > deleted.topic_id


def test_a_number_that_an_earlier_run_gave_is_not_given_again() -> None:
    table = TopicTable(auto_create=False)
    table.restore(3, config("t"))
    table.restore_last_topic_id(9)
    assert table.put(config("u"))[0].topic_id == 10


def test_an_unknown_topic_is_not_found_and_not_deleted() -> None:
    table = table_with()
    assert table.get("t") is None
    for look in (table.existing, table.delete):
        with pytest.raises(TopicNotExist, match="'t' does not exist"):
            look("t")


def test_a_registration_lists_the_topics_by_name() -> None:
    table = table_with(config("b"), config("a"))
    system = [SCHEDULE_TOPIC, TRACE_TOPIC, TEMPLATE_TOPIC]
    assert [each.topic for each in table.configs()] == [*system, "a", "b"]


def test_a_broker_takes_its_limit_of_topics_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_with(config("a"))
    limit = len(table.configs())
    monkeypatch.setattr("broker.topics.table.MAX_TOPICS", limit)
    makers: tuple[Callable[[], object], ...] = (
        lambda: table.put(config("b")),
        lambda: table.entry_for_send("b"),
        lambda: table.ensure(retry_topic("b")),
    )
    for make in makers:
        with pytest.raises(SystemBusy, match=f"{limit} topics"):
            make()
    assert table.put(config("a", read=5))[1]


# --- which queues there are ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("read", "write"), [(8, 4), (4, 8)])
def test_while_a_topic_grows_or_shrinks_it_has_every_queue_that_is_read_or_written(read: int, write: int) -> None:
    topic = config(read=read, write=write)
    assert queue_count(topic) == 8
    for queue_id in range(8):
        check_writable(topic, queue_id)
        check_exists(topic, queue_id)
    with pytest.raises(InvalidParameter, match="no queue 8"):
        check_writable(topic, 8)
    with pytest.raises(InvalidParameter, match="no queue 8"):
        check_exists(topic, 8)


def test_only_queues_below_the_read_count_can_be_read() -> None:
    topic = config(read=4, write=8)
    check_readable(topic, 3)
    with pytest.raises(InvalidParameter, match="no queue 4"):
        check_readable(topic, 4)


def test_permissions_are_kept_apart() -> None:
    check_readable(config(perm=Perm.READ), 0)
    check_writable(config(perm=Perm.WRITE), 0)
    with pytest.raises(NoPermission, match="not writable"):
        check_writable(config(perm=Perm.READ), 0)
    with pytest.raises(NoPermission, match="not readable"):
        check_readable(config(perm=Perm.WRITE), 0)


@pytest.mark.parametrize(
    ("changed", "accepts_below", "serves_below"),
    [
        (config(read=8, write=2), 8, 8),
        (config(read=2, write=8), 8, 2),
        (config(perm=Perm.READ), 0, 4),
        (config(perm=Perm.WRITE), 4, 0),
    ],
)
def test_what_a_topic_takes_and_serves_follows_its_config(
    changed: TopicConfig, accepts_below: int, serves_below: int
) -> None:
    for table in (table_with(changed), table_with(config(), changed)):
        entry = table.existing("t")
        assert (entry.accepts_below, entry.serves_below) == (accepts_below, serves_below)
