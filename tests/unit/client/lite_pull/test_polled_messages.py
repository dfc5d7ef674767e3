from __future__ import annotations

import pytest

from client.lite_pull.polled_messages import PolledMessages
from client.pull.owned_queue import OwnedQueue
from model.message_queue import MessageQueue
from tests.unit.client.pull.owned_queues import owned_queue

QUEUE = MessageQueue("t", "b", 0)


def begun(commits: PolledMessages, start: int = 0, n: int = 5) -> OwnedQueue:
    owned = owned_queue(QUEUE, start, n)
    commits.begin(owned)
    return owned


def poll(commits: PolledMessages, owned: OwnedQueue, n: int) -> None:
    commits.finish_polled()
    commits.add_polled(owned, owned.process_queue.next_batch(n, 0.0), 0.0)


@pytest.mark.parametrize(("auto_commit", "after_polls"), [(True, [0, 2, 3]), (False, [0, 0, 0])])
def test_what_a_poll_returned_counts_when_the_next_one_comes(auto_commit: bool, after_polls: list[int]) -> None:
    commits = PolledMessages(auto_commit=auto_commit)
    owned = begun(commits)
    seen = []
    for n in (2, 1, 2):
        poll(commits, owned, n)
        seen.append(owned.commit_offset)
    assert seen == after_polls
    commits.commit([owned])
    assert owned.commit_offset == 5
    assert owned.process_queue.dispatched == 0


def test_what_no_one_comes_back_for_is_not_processed_and_waited_for_by_no_one() -> None:
    commits = PolledMessages(auto_commit=True)
    owned = begun(commits)
    poll(commits, owned, 2)
    poll(commits, owned, 2)
    commits.abandon()
    assert (owned.process_queue.dispatched, owned.commit_offset) == (0, 2)
    commits.finish_polled()
    assert owned.commit_offset == 2


@pytest.mark.parametrize("auto_commit", [True, False])
@pytest.mark.parametrize("target", [1, 4])
def test_a_queue_that_was_moved_by_its_user_commits_there_and_says_that_it_was_moved(
    auto_commit: bool, target: int
) -> None:
    commits = PolledMessages(auto_commit=auto_commit)
    old = begun(commits)
    poll(commits, old, 3)
    commits.commit([old])
    new = begun(commits, target, 1)
    commits.replace_queue(old, new)
    assert new.commit_offset == (target if auto_commit else 3)
    assert new.rewound == auto_commit
    poll(commits, new, 1)
    commits.commit([new])
    assert new.commit_offset == target + 1
    assert new.rewound
