"""The frames of `rlab fuzz --rocketmq`."""

from __future__ import annotations

from itertools import chain
from random import Random

import pytest

from rocketmq.dialects import broker_dialect, name_server_dialect
from rocketmq.edge import ServerFacts
from rocketmq.frame import RESPONSE_BIT, Frame, FrameDecoder
from testbed.fuzz.rocketmq import RocketmqFrames


def test_equal_seeds_make_equal_frames_and_other_seeds_others() -> None:
    first, again, other = (RocketmqFrames(Random(), seed) for seed in (1, 1, 2))
    batches = [first.batch(number) for number in range(3)]
    assert batches == [again.batch(number) for number in range(3)]
    assert batches[2] == RocketmqFrames(Random(), 1).batch(2)  # also without those before it
    assert batches != [other.batch(number) for number in range(3)]


@pytest.mark.walk
def test_every_frame_that_needs_an_answer_is_whole_in_either_form_and_all_requests_of_the_dialects_come() -> None:
    frames, seen, forms = RocketmqFrames(Random(), 1), set(), set()
    for sent in chain.from_iterable(frames.batch(number)[0] for number in range(16)):
        [frame] = FrameDecoder().feed(sent.data)
        assert frame.opaque == sent.opaque
        seen.add(frame.code)
        forms.add(frame.binary)
    assert forms == {True, False}
    assert {code for code in broker_dialect(ServerFacts()).translators if code <= 0x7FFF} <= seen
    assert set(name_server_dialect().translators) <= seen


def test_what_a_broker_asks_is_refused_and_what_it_reports_is_not_answered() -> None:
    answer_of = RocketmqFrames(Random(), 1).answer_of
    assert answer_of(Frame(17, RESPONSE_BIT, 5, {}, remark="no topic")) == (5, 17, "no topic", None)
    [refusal] = FrameDecoder().feed(answer_of(Frame(307, 0, 9, {})).reply or b"")
    assert (refusal.opaque, refusal.flag, refusal.code) == (9, RESPONSE_BIT, 1)
    assert answer_of(Frame(40, 2, 9, {})).reply == b""
