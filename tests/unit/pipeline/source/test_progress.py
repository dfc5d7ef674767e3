from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.message_queue import MessageQueue
from model.response_code import ResponseCode
from pipeline.source.offsets import to_text
from pipeline.source.progress import GroupProgress, parse_progress, skipped_rows, topics_recreated
from tests.unit.pipeline.fake_cluster import FakeCluster

FIRST, SECOND = MessageQueue("t", "a", 0), MessageQueue("t", "a", 1)


class CommittingCluster(FakeCluster):
    """Takes commits, and refuses those of the second queue when told to."""

    refuses = False

    def answer(self, address: str, code: Any, header: Any) -> tuple[int, dict[str, Any], bytes]:
        if "group" in header:
            rows = [["t", 1, int(ResponseCode.LEASE_LOST), "it is leased"]] if self.refuses else []
            return 0, {}, msgpack.packb(rows)
        return super().answer(address, code, header)


def test_only_what_has_changed_is_committed() -> None:
    cluster = CommittingCluster()
    progress = GroupProgress(cluster.client(), "g")
    progress.commit({FIRST: 3, SECOND: 4})
    progress.commit({FIRST: 3, SECOND: 4})
    assert len([header for _, header in cluster.asked if "group" in header]) == 1
    progress.commit({FIRST: 5, SECOND: 4})
    assert progress.committed == {FIRST: 5, SECOND: 4}


def test_the_same_offset_of_a_topic_that_was_recreated_is_committed_again() -> None:
    """Brokers forget the commits of a topic that is deleted, and the group had none in the new one."""
    cluster = CommittingCluster()
    progress = GroupProgress(cluster.client(), "g")
    sources = [
        ("{}", {"0": 5, "topic_id": 1}),
        ('{"t": {"a": {"0": 5, "topic_id": 1}}}', {"0": 5, "topic_id": 2}),
    ]
    for start, end in sources:
        source = SimpleNamespace(startOffset=start, endOffset=json.dumps({"t": {"a": end}}))
        progress.onQueryProgress(cast("Any", SimpleNamespace(progress=SimpleNamespace(id="q", sources=[source]))))
    assert len([header for _, header in cluster.asked if "group" in header]) == 2


def test_a_commit_that_is_refused_is_noted_and_tried_again_with_the_next_batch() -> None:
    cluster = CommittingCluster()
    cluster.refuses = True
    progress = GroupProgress(cluster.client(), "g")
    progress.commit({FIRST: 3, SECOND: 4})
    assert progress.committed == {FIRST: 3}
    assert progress.failures == {SECOND: "it is leased"}
    cluster.refuses = False
    progress.commit({FIRST: 3, SECOND: 4})
    assert progress.committed == {FIRST: 3, SECOND: 4}
    assert progress.failures == {}


def test_progress_that_is_reported_too_late_opens_no_connection() -> None:
    cluster = CommittingCluster()
    with cluster.client() as client:
        progress = GroupProgress(client, "g")
        progress.commit({FIRST: 3})
        progress.close()
    cluster.asked.clear()
    progress.commit({FIRST: 5})
    assert cluster.asked == []
    assert progress.committed == {FIRST: 3}


def test_a_broker_that_is_away_does_not_end_a_stream() -> None:
    cluster = CommittingCluster()
    cluster.down.add("a")
    progress = GroupProgress(cluster.client(retries=1), "g")
    progress.commit({FIRST: 3})
    assert "not registered" in progress.failures[FIRST]


def test_offsets_of_other_sources_are_left_alone() -> None:
    assert parse_progress('{"t": {"a": {"0": 3}}}') == {FIRST: 3}
    assert (
        parse_progress("None")
        == parse_progress(None)
        == parse_progress('{"logOffset": 3}')
        == parse_progress("12")
        == {}
    )


@given(
    st.dictionaries(
        st.integers(0, 9).map(lambda number: MessageQueue("t", "a", number)),
        st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50)),
    )
)
def test_what_a_batch_skipped_is_what_lies_between_its_offsets_and_gave_no_row(
    queues: dict[MessageQueue, tuple[int, int, int]],
) -> None:
    start = to_text({queue: first for queue, (first, _, _) in queues.items()})
    end = to_text({queue: first + given + skipped for queue, (first, given, skipped) in queues.items()})
    rows = sum(given for _, given, _ in queues.values())
    assert skipped_rows(start, end, rows) == sum(skipped for _, _, skipped in queues.values())


def test_a_topic_that_was_recreated_was_read_from_its_beginning() -> None:
    start, end = '{"t": {"a": {"0": 9, "topic_id": 1}}}', '{"t": {"a": {"0": 10, "topic_id": 2}}}'
    assert topics_recreated(start, end) == [("t", "a")]
    assert skipped_rows(start, end, 8) == 2
    assert topics_recreated(end, end) == topics_recreated(None, end) == topics_recreated("None", "12") == []


def test_a_queue_that_was_truncated_has_skipped_nothing_and_one_that_is_empty_neither() -> None:
    assert skipped_rows('{"t": {"a": {"0": 3, "1": 9}}}', '{"t": {"a": {"0": 10, "1": 2, "2": 0}}}', 5) == 2


@pytest.mark.parametrize("start", [None, "None", '{"t": {"a": {"1": 3}}}'])
def test_what_a_batch_skipped_is_not_known_where_a_queue_has_no_start(start: str | None) -> None:
    assert skipped_rows(start, '{"t": {"a": {"0": 5, "1": 10}}}', 5) is None


def test_an_empty_batch_has_skipped_nothing() -> None:
    assert skipped_rows(None, None, 0) == 0
