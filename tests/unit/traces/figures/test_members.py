from __future__ import annotations

from model.limits import MAX_STOPPED_MEMBERS
from tests.unit.traces.figures.group_events import E, Story
from traces.figures.members import GroupMembers


def after(story: Story) -> GroupMembers:
    members = GroupMembers()
    for event in story.events:
        members.process(event)
    return members


def test_a_member_is_one_until_every_broker_has_removed_it() -> None:
    story = Story()
    story.client(0, "c1", E.CLIENT_START)
    for broker in ("a", "b"):
        story.tell(1, broker, E.MEMBER_JOIN, client="c1", broker=broker, detail="t=*")
    story.tell(2, "a", E.MEMBER_LEAVE, client="c1", broker="a", detail="expiry")
    assert "c1" in after(story)
    story.tell(3, "b", E.MEMBER_LEAVE, client="c1", broker="b", detail="expiry")
    members = after(story)
    assert (len(members), members.joined, members.left) == (0, 1, 1)


def test_clients_alone_and_a_broker_alone_report_the_same() -> None:
    clients, broker = Story(), Story()
    clients.client(0, "c1", E.CLIENT_START)
    clients.client(1, "c2", E.CLIENT_START)
    clients.client(2, "c1", E.CLIENT_STOP)
    broker.tell(0, "b", E.MEMBER_JOIN, client="c1", broker="b", detail="t=*")
    broker.tell(1, "b", E.MEMBER_JOIN, client="c2", broker="b", detail="t=*")
    broker.tell(2, "b", E.MEMBER_LEAVE, client="c1", broker="b", detail="unregister")
    for story in (clients, broker):
        members = after(story)
        assert ("c1" in members, "c2" in members, members.joined, members.left) == (False, True, 2, 1)


def test_what_brokers_report_late_of_a_member_that_has_stopped_does_not_bring_it_back() -> None:
    story = Story()
    story.client(0, "c1", E.CLIENT_START)
    story.client(1, "c1", E.CLIENT_STOP)
    story.tell(2, "b", E.SUBSCRIPTION_CHANGE, client="c1", broker="b")
    assert len(after(story)) == 0
    story.client(3, "c1", E.CLIENT_START)
    assert after(story).joined == 2


def test_a_topic_is_wanted_while_a_member_subscribes_to_it_or_may_do_so() -> None:
    story = Story()
    story.client(0, "c1", E.CLIENT_START)
    assert after(story).wants("any")
    story.tell(1, "b", E.MEMBER_JOIN, client="c1", broker="b", detail="t=* u=red || blue")
    members = after(story)
    assert (members.wants("t"), members.wants("u"), members.wants("any")) == (True, True, False)
    story.tell(2, "b", E.SUBSCRIPTION_CHANGE, client="c1", broker="b", detail="u=*")
    assert not after(story).wants("t")


def test_members_that_have_stopped_are_forgotten_beyond_a_limit() -> None:
    story = Story()
    for number in range(MAX_STOPPED_MEMBERS + 5):
        story.client(number, f"c{number}", E.CLIENT_START)
        story.client(number, f"c{number}", E.CLIENT_STOP)
    assert len(after(story)._stopped) == MAX_STOPPED_MEMBERS
