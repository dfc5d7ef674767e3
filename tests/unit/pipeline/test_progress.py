from __future__ import annotations

from typing import Any

import msgpack

from model.message_queue import MessageQueue
from model.response_code import ResponseCode
from pipeline.progress import GroupProgress, offsets_of, skipped_rows
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


def test_a_broker_that_is_away_does_not_end_a_stream() -> None:
    cluster = CommittingCluster()
    cluster.down.add("a")
    progress = GroupProgress(cluster.client(retries=1), "g")
    progress.commit({FIRST: 3})
    assert "not registered" in progress.failures[FIRST]


def test_offsets_of_other_sources_are_left_alone() -> None:
    assert offsets_of('{"t": {"a": {"0": 3}}}') == {FIRST: 3}
    assert offsets_of("None") == offsets_of(None) == offsets_of('{"logOffset": 3}') == offsets_of("12") == {}


def test_what_a_batch_skipped_is_what_lies_between_its_offsets_and_gave_no_row() -> None:
    start, end = '{"t": {"a": {"0": 3, "1": 9}}}', '{"t": {"a": {"0": 10, "1": 2, "2": 5}}}'
    assert skipped_rows(start, end, 5) == 2
    assert skipped_rows("None", end, 0) == 0
