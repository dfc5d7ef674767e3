"""What BALANCED_STICKY remembers; what it computes is tested with the strategy itself."""

from __future__ import annotations

import subprocess
import sys

from client.allocate.balanced_queues import BalancedQueues
from model.message_queue import MessageQueue

QUEUES = [MessageQueue("t", "b", number) for number in range(7)]


def test_a_queue_that_is_listed_twice_is_there_once() -> None:
    sharing = BalancedQueues()
    shares = [sharing.share_of_all(member, [*QUEUES, QUEUES[3]], ["m", "n"]) for member in "mn"]
    assert sorted(queue for share in shares for queue in share) == QUEUES


def test_what_is_handed_out_is_the_callers_to_change() -> None:
    sharing = BalancedQueues()
    sharing.share_of_all("m", QUEUES, ["m"]).clear()
    assert sharing.share_of_all("m", QUEUES, ["m"]) == QUEUES


def test_a_topic_without_queues_and_a_member_without_topics_are_left_out() -> None:
    assert BalancedQueues().share_of("m", {"t": [], "u": QUEUES}, {"m": ["u", "t"], "n": []}) == QUEUES


def test_a_client_with_another_strategy_does_not_wait_for_numpy() -> None:
    code = (
        "from client.allocate import *; import sys; AllocateMessageQueueBalancedSticky(); print('numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "False\n"
