"""A pull loop that is answered that its topic was deleted and created again."""

from __future__ import annotations

from model.response_code import ResponseCode
from model.topic_incarnation import TopicIncarnation
from tests.unit.client.pull.test_loop import QUEUE, Member, ScriptedBroker, answer, run


def test_a_pull_without_a_lease_has_the_number_of_its_topic_and_ends_when_the_broker_has_another() -> None:
    moved = answer(ResponseCode.PULL_OFFSET_MOVED, 0)
    moved.header.update({"topic_id": 9, "data_id": 3})

    def member() -> Member:
        made = Member(ScriptedBroker(answer(ResponseCode.PULL_NOT_FOUND, 5), moved))
        made.owned.token, made.owned.incarnation = -1, TopicIncarnation(7, 3)
        return made

    ended = run(member, 1)
    sent = [(header["topic_id"], header["data_id"], header.get("token")) for _, header in ended.broker.pulled]
    assert (sent, ended.reported, ended.ended) == ([(7, 3, None)] * 2, [("created again", QUEUE)], True)
