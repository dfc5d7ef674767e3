"""The first to say among which brokers a batch is spread has said it for all its runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.durability.metadata import MetadataStore
from broker.sink.broker_sets import SinkBrokerSets
from model.errors import InvalidParameter, SystemBusy
from model.limits import LAST_BATCH_KEPT_S
from remoting.request_code import RequestCode
from tests.unit.broker.harness import World, simulated
from tests.unit.broker.sink.test_handlers import batch, started


@pytest.fixture
def metadata(tmp_path: Path) -> Iterator[MetadataStore]:
    with MetadataStore(tmp_path) as opened:
        yield opened


def test_what_was_said_first_counts_for_a_topic_of_a_batch(metadata: MetadataStore) -> None:
    broker_sets = SinkBrokerSets(metadata, lambda: 0)
    assert broker_sets.fix("q", 7, "t", ("a", "b")) == ("a", "b")
    assert broker_sets.fix("q", 7, "t", ("a", "c")) == ("a", "b")
    assert broker_sets.fix("q", 7, "u", ("a", "c")) == ("a", "c")
    assert broker_sets.fix("p", 7, "t", ("c",)) == ("c",)


def test_the_next_batch_begins_again_and_the_one_before_is_over(metadata: MetadataStore) -> None:
    broker_sets = SinkBrokerSets(metadata, lambda: 0)
    broker_sets.fix("q", 7, "t", ("a", "b"))
    assert broker_sets.fix("q", 8, "t", ("a",)) == ("a",)
    assert broker_sets.fix("q", 7, "t", ("x",)) == ("x",)
    assert broker_sets.fix("q", 8, "t", ("x",)) == ("a",)


def test_it_survives_a_restart(metadata: MetadataStore) -> None:
    before = SinkBrokerSets(metadata, lambda: 0)
    for batch_id in (7, 8):
        before.fix("q", batch_id, "t", ("a", f"b{batch_id}"))
        before.fix("q", batch_id, "u", ("a", f"b{batch_id}"))
    before.fix("q", 9, "u", ("c", "d"))
    metadata.commit()
    after = SinkBrokerSets(metadata, lambda: 0)
    assert after.fix("q", 9, "u", ("x",)) == ("c", "d")
    assert after.fix("q", 9, "t", ("x",)) == ("x",)


def test_queries_and_topics_are_bounded_and_old_queries_make_room(
    metadata: MetadataStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.sink.broker_sets.MAX_SINK_QUERIES", 2)
    monkeypatch.setattr("broker.sink.broker_sets.MAX_SPREAD_TOPICS", 2)
    now_ms = 0.0
    broker_sets = SinkBrokerSets(metadata, lambda: now_ms)
    broker_sets.fix("q", 0, "t", ("a",))
    broker_sets.fix("q", 0, "u", ("a",))
    with pytest.raises(SystemBusy, match="more than 2 topics"):
        broker_sets.fix("q", 0, "v", ("a",))
    now_ms = 10.0
    broker_sets.fix("p", 0, "t", ("a",))
    with pytest.raises(SystemBusy, match="2 queries"):
        broker_sets.fix("r", 0, "t", ("a",))
    now_ms = 5 + LAST_BATCH_KEPT_S * 1000
    assert broker_sets.fix("r", 0, "t", ("b",)) == ("b",)
    with pytest.raises(SystemBusy):
        broker_sets.fix("q", 0, "t", ("a",))


@simulated
async def test_it_is_answered_once_it_is_stored(world: World) -> None:
    peer = await started(world)
    header = {**batch(7), "topic": "t"}
    assert (await peer.call(RequestCode.SINK_SPREAD, header, ["a", "b"])).header == {"brokers": ["a", "b"]}
    await world.stop_broker()
    await world.sleep(1)  # until the peer has heard of it
    await world.start_broker()
    assert (await peer.call(RequestCode.SINK_SPREAD, header, ["a"])).header == {"brokers": ["a", "b"]}


@pytest.mark.parametrize("body", [b"\xc1", [], "a", [1], ["a"] * 5_000])
@simulated
async def test_a_body_that_is_not_a_list_of_brokers_is_refused(world: World, body: object) -> None:
    peer = await started(world)
    with pytest.raises(InvalidParameter, match="SINK_SPREAD"):
        await peer.call(RequestCode.SINK_SPREAD, {**batch(7), "topic": "t"}, body)
