"""The frames of `rlab fuzz --rocketmq`."""

from __future__ import annotations

from random import Random

from cli.security.fuzz_rocketmq import RocketmqFrames
from rocketmq.dialects import broker_dialect, name_server_dialect
from rocketmq.edge import Facts
from rocketmq.frame import RESPONSE_BIT, Frame, FrameDecoder, encode_frame


def test_equal_seeds_make_equal_frames_and_other_seeds_others() -> None:
    first, again, other = (RocketmqFrames(Random(seed)) for seed in (1, 1, 2))
    row = [first.next() for _ in range(50)]
    assert row == [again.next() for _ in range(50)]
    assert row != [other.next() for _ in range(50)]


def test_every_frame_that_needs_an_answer_is_whole_in_either_form_and_all_requests_of_the_dialects_come() -> None:
    frames, seen, forms = RocketmqFrames(Random(1)), set(), set()
    for _ in range(1_000):
        sent = frames.next()
        if sent.opaque is None:
            continue
        [frame] = FrameDecoder().feed(sent.data)
        assert frame.opaque == sent.opaque
        seen.add(frame.code)
        forms.add(frame.binary)
    assert forms == {True, False}
    assert {code for code in broker_dialect(Facts()).translators if code <= 0x7FFF} <= seen
    assert set(name_server_dialect().translators) <= seen


def test_what_a_broker_asks_is_refused_and_what_it_tells_is_not_answered() -> None:
    read = RocketmqFrames(Random(1)).reader()
    [answered] = read(encode_frame(Frame(17, RESPONSE_BIT, 5, {}, remark="no topic")))
    assert answered == (5, 17, "no topic", None)
    [asked] = read(encode_frame(Frame(307, 0, 9, {})))
    [refusal] = FrameDecoder().feed(asked.reply or b"")
    assert (refusal.opaque, refusal.flag, refusal.code) == (9, RESPONSE_BIT, 1)
    [told] = read(encode_frame(Frame(40, 2, 9, {})))
    assert told.reply == b""
