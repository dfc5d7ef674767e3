"""A programme that was made is valid, and what is wrong is named with its place."""

from __future__ import annotations

from typing import Any

import pytest

from model.errors import ConfigError
from model.quirks import Quirk
from testbed.simulation.engine.programme import ClusterPart, GroupPart, LoadPart, Programme, Step, TopicPart
from testbed.simulation.engine.verbs import BROKER, MEMBER, NAME_SERVER, PRODUCER


def test_hosts_are_named_by_what_they_are() -> None:
    programme = Programme(
        cluster=ClusterPart(name_servers=2, brokers=2),
        group=(GroupPart(name="g", members=2),),
        load=LoadPart(producers=1),
    )
    assert programme.hosts() == {
        "namesrv-1": NAME_SERVER,
        "namesrv-2": NAME_SERVER,
        "broker-a": BROKER,
        "broker-b": BROKER,
        "g-1": MEMBER,
        "g-2": MEMBER,
        "producer-1": PRODUCER,
    }


def test_steps_are_in_the_order_of_their_times_and_equal_times_keep_theirs() -> None:
    steps = (Step(at_s=2.0, do="heal"), Step(at_s=1.0, do="cut", who="billing-2"), Step(at_s=1.0, do="heal"))
    assert [(step.at_s, step.do) for step in Programme(step=steps).step] == [(1.0, "cut"), (1.0, "heal"), (2.0, "heal")]


def test_quirks_are_those_of_brokers_and_those_of_clients() -> None:
    cluster = Programme().with_quirks([Quirk.RANDOM_VIEW, Quirk.SILENT_EXPIRY]).cluster
    assert cluster.broker_quirks == {Quirk.SILENT_EXPIRY}
    assert cluster.client_quirks == {Quirk.RANDOM_VIEW}


def test_a_step_shows_what_it_does() -> None:
    step = Step(at_s=1.5, do="partition", who="broker-a", to="billing-1", one_way=True)
    assert str(step) == "1.500 s: partition broker-a to=billing-1 one_way=True"


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ({"do": "crahs", "who": "billing-1"}, "step 1: no verb 'crahs'; did you mean crash?"),
        ({"do": "crash", "who": "biling-1"}, "step 1 (crash): no host 'biling-1'; did you mean billing-1?"),
        ({"do": "crash"}, "step 1 (crash): no host ''; there are"),
        ({"do": "full_disk", "who": "billing-1"}, "billing-1 is a member; this verb is for a broker"),
        ({"do": "scale", "topic": "orders", "who": "broker-a"}, "remove who = 'broker-a'"),
        ({"do": "scale", "topic": "orders"}, "step 1 (scale): 'n' is missing"),
        ({"do": "crash", "who": "billing-1", "by_s": 1.0}, "this verb does not read 'by_s'; remove it"),
        ({"do": "cut", "who": "billing-1", "to": "broker-z"}, "no host 'broker-z'"),
        ({"do": "unsubscribe", "who": "billing-1", "topic": "order"}, "no topic 'order'; did you mean orders?"),
        ({"do": "drop_code", "who": "billing-1", "code": "NOTIFY"}, "no request code 'NOTIFY'"),
        ({"do": "pause", "who": "billing-1", "for_s": -1.0}, "for_s must be 0 to 86400, got -1"),
        ({"do": "heal", "at_s": 1e9}, "at_s must be 0 to 86400"),
    ],
)
def test_a_step_that_cannot_be_done_is_refused(step: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Programme(step=(Step(**{"at_s": 0.0, **step}),))
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ClusterPart(brokers=0), "cluster: brokers must be 1 to 16, got 0"),
        (lambda: ClusterPart(quirks=("SILENT_EXPIRI",)), "did you mean SILENT_EXPIRY?"),
        (lambda: ClusterPart(flush="never"), "no flush 'never'"),
        (lambda: GroupPart(name="g", members=2_001), "group 'g': members must be 1 to 2000"),
        (lambda: GroupPart(name="g", waiting=4), "waiting must be 0 to 3, got 4"),
        (lambda: GroupPart(name="g", mode="pop", order="key"), "a group in mode pop has no order"),
        (lambda: Programme(group=(GroupPart(name="g"), GroupPart(name="g"))), "two groups have the name 'g'"),
        (lambda: GroupPart(name="g", stock=1), "stock must be 0 to 0, got 1"),
        (lambda: GroupPart(name="g", mode="pop", receivers=2, stock=2), "stock must be 0 to 1, got 2"),
        (
            lambda: Programme(cluster=ClusterPart(access=True), group=(GroupPart(name="g", mode="pop", stock=1),)),
            "group 'g': clients of RocketMQ 5 have no key; remove stock or access",
        ),
        (lambda: Programme(topic=()), "the programme has no topic"),
        (lambda: Programme(group=(GroupPart(name="g", topics=("x",)),)), "group 'g': no topic 'x'"),
        (lambda: TopicPart(name="t", queues=0), "topic 't': queues must be 1 to 4096"),
        (lambda: LoadPart(pause_s=-1.0), "load: pause_s must be 0 to 3600"),
        (lambda: LoadPart(branch_s=1.0, keys=3), "load: a transaction is neither delayed nor in the order of a key"),
        (lambda: LoadPart(fails=0.1), "load: fails and undecided are of transactions; set branch_s too"),
    ],
)
def test_a_value_out_of_its_range_is_refused(make: Any, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make()
    assert said in str(refused.value)
