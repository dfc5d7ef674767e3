"""The frames of `rlab fuzz --grpc`."""

from __future__ import annotations

from itertools import chain
from random import Random

import pytest

from rocketmq.edge import ServerFacts
from rocketmq.grpc.dialect import broker_grpc
from rocketmq.grpc.http2.call import CallEvent
from rocketmq.grpc.http2.connection import Http2
from testbed.fuzz.grpc import GrpcAnswers, GrpcFrames, encode_http2_frame


def test_equal_seeds_make_equal_frames_and_other_seeds_others() -> None:
    first, again, other = (GrpcFrames(Random(), seed) for seed in (1, 1, 2))
    batches = [first.batch(number) for number in range(3)]
    assert batches == [again.batch(number) for number in range(3)]
    assert batches[2] == GrpcFrames(Random(), 1).batch(2)[:2]  # also without those before it
    assert batches != [other.batch(number) for number in range(3)]


@pytest.mark.walk
def test_every_call_that_needs_an_answer_arrives_and_all_rpcs_come() -> None:
    frames, server = GrpcFrames(Random(), 1), Http2()
    server.receive(frames.opening)
    seen: dict[str, None] = {}
    for sent in chain.from_iterable(frames.batch(number)[0] for number in range(4)):
        for kind, call in server.receive(sent.data):
            seen[call.method] = None
            assert (kind is CallEvent.CANCELLED) <= (sent.opaque is None)
            if kind is CallEvent.ENDED:
                assert call.stream_id == sent.opaque
                server.fail(call, 12, "not here")
    assert set(broker_grpc(ServerFacts()).rpcs) <= set(seen)


def test_the_end_of_a_call_and_the_reason_of_a_goaway_are_answers() -> None:
    server, answers = Http2(), GrpcAnswers()
    frames = GrpcFrames(Random(), 1)
    server.receive(frames.opening)
    number, sent = next((each.opaque, each) for each in frames.batch(0)[0] if each.opaque is not None)
    call = next(call for _, call in server.receive(sent.data))
    server.fail(call, 12, "not here")
    data = server.take() + server.encode_goaway("enough")
    found = [answer for at in range(len(data)) for answer in answers.feed(data[at : at + 1])]
    assert [(each.opaque, each.code, each.remark) for each in found] == [
        (number, 12, "not here"),
        (0, 90_001, "enough"),
    ]


def test_a_ping_of_the_server_is_answered() -> None:
    [answer] = GrpcAnswers().feed(encode_http2_frame(6, b"12345678"))
    assert answer.reply == encode_http2_frame(6, b"12345678", flags=1)
