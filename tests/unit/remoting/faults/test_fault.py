"""Faults as documents: what is refused, and which frames and connections are chosen."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.errors import InvalidParameter
from remoting.faults.fault import DIRECTIONS, RPCS, TO_CLIENT, TO_SERVER, VERBS, ConnectionFault, Traffic, parse_fault
from remoting.request_code import RequestCode
from rocketmq.edge import ServerFacts
from rocketmq.grpc.dialect import broker_grpc

SEND = RequestCode.SEND_MESSAGE
texts = st.sampled_from(["", "c1", "c2", "10.0.0.1@c1"])


def traffic(code: int = SEND, *, direction: str = TO_SERVER, is_answer: bool = False, **more: Any) -> Traffic:
    return Traffic(code, direction, is_answer, *({"client": "h@c1", "groups": ("g",), "peer": "h:1"} | more).values())


def test_every_call_that_a_broker_serves_has_a_name_for_faults() -> None:
    assert broker_grpc(ServerFacts()).rpcs.keys() <= set(RPCS)


def test_a_call_of_another_protocol_is_chosen_by_its_name_and_its_answer_by_a_direction() -> None:
    request, answer = traffic(rpc="AckMessage"), traffic(rpc="AckMessage", direction=TO_CLIENT, is_answer=True)
    drop = parse_fault({"do": "drop", "rpc": "AckMessage"})
    assert [drop.hits(each) for each in (request, answer, traffic(), traffic(rpc="SendMessage"))] == [
        *(True, False),
        *(False, False),
    ]
    assert parse_fault({"do": "drop", "rpc": "AckMessage", "direction": TO_CLIENT}).hits(answer)
    assert parse_fault({"do": "cut", "rpc": "AckMessage"}).on_frames, "it waits for such a call"


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({}, "needs do"),
        ({"do": "dorp"}, "did you mean drop?"),
        ({"do": "drop", "rpc": "AckMesage"}, "there is no call 'AckMesage' of gRPC; did you mean AckMessage?"),
        ({"do": "delay"}, "the fault delay needs by_s"),
        ({"do": "drop", "by_s": 1}, "drop does not read by_s"),
        ({"do": "pause", "code": "HEART_BEAT"}, "pause does not read code"),
        ({"do": "drop", "code": "HEARTBEAT"}, "did you mean HEART_BEAT?"),
        ({"do": "drop", "whom": "c1"}, "a fault has no column 'whom'"),
        ({"do": "drop", "client": 7}, "client is a text"),
        ({"do": "drop", "n": True}, "n is a number"),
        ({"do": "drop", "n": 1.5}, "n is a number"),
        ({"do": "drop", "share": 0}, "share is more than 0"),
        ({"do": "drop", "one_in": 0}, "one_in is at least 1"),
        ({"do": "drop", "direction": "up"}, "to_server or to_client"),
        ({"do": "half_open", "end": "middle"}, "server or client"),
        ({"do": "delay", "by_s": 1e9}, "by_s is 0 to"),
        ({"do": "delay", "by_s": float("nan")}, "by_s is 0 to"),
        ({"do": "slow_reader", "rate": float("inf")}, "bytes a second"),
    ],
)
def test_a_fault_that_makes_no_sense_is_refused_with_one_line_that_says_why(
    document: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidParameter) as caught:
        parse_fault(document)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("do", VERBS)
def test_each_verb_can_be_begun_with_what_it_needs_and_is_read_again_from_what_it_shows(do: str) -> None:
    fault = parse_fault({"do": do, "client": "c1", **dict.fromkeys(VERBS[do].needs, 1.0)})
    assert parse_fault(fault.given()) == fault
    assert str(fault).startswith(f"{do} client=c1")


@given(client=texts, group=texts, peer=st.sampled_from(["", "h", "h:1", "h:2"]))
def test_what_is_not_chosen_is_everything_and_what_is_chosen_has_to_fit(client: str, group: str, peer: str) -> None:
    fault = ConnectionFault(do="cut", client=client, group=group, peer=peer)
    chosen = fault.chooses("10.0.0.1@c1", ("c2",), "h:1")
    assert chosen == (client in ("", "c1", "10.0.0.1@c1") and group in ("", "c2") and peer in ("", "h", "h:1"))


@given(direction=st.sampled_from(DIRECTIONS), of_frame=st.sampled_from([TO_SERVER, TO_CLIENT]), is_answer=st.booleans())
def test_a_code_means_requests_and_with_a_direction_all_that_goes_there(
    direction: str, of_frame: str, is_answer: bool
) -> None:
    fault = ConnectionFault(do="drop", code="SEND_MESSAGE", direction=direction)
    hits = fault.hits(traffic(direction=of_frame, is_answer=is_answer))
    assert hits == ((direction == of_frame) if direction else not is_answer)
    assert not fault.hits(traffic(RequestCode.HEART_BEAT, direction=of_frame))


def test_a_cut_is_done_to_frames_only_if_it_names_their_code() -> None:
    assert not ConnectionFault(do="cut").on_frames
    assert ConnectionFault(do="cut", code="SEND_MESSAGE").on_frames
    assert [
        do
        for do in VERBS
        if ConnectionFault(do=do, by_s=float(do == "delay"), rate=float(do == "slow_reader")).is_lasting
    ] == [
        "refuse",
        "pause",
        "half_open",
        "slow_reader",
    ]
