"""Frames of RocketMQ's own clients and servers, as `make interop RECORD=1` saw them, are read, written, translated."""

from __future__ import annotations

import base64
import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from model.response_code import ResponseCode
from remoting.codec import Codec, Decoder
from remoting.command import Command
from rocketmq.dialects import broker_dialect, name_server_dialect
from rocketmq.edge import ServerFacts
from rocketmq.frame import ONE_WAY_BIT, RESPONSE_BIT, Frame, FrameDecoder, encode_frame

PATH = Path(__file__).with_name("frames.jsonl")


class Recorded(NamedTuple):
    client: str
    by_client: bool
    code: int
    data: bytes


@cache
def recorded() -> list[Recorded]:
    lines = [json.loads(line) for line in PATH.read_text().splitlines()]
    return [
        Recorded(each["client"], each["by_client"], each["code"], base64.b64decode(each["frame"])) for each in lines
    ]


def decoded(data: bytes, piece: int) -> list[Frame]:
    decoder = FrameDecoder()
    found = [frame for at in range(0, len(data), piece) for frame in decoder.feed(data[at : at + piece])]
    assert decoder.error is None
    assert decoder.at_frame_boundary()
    return found


def test_the_recording_has_every_client_both_directions_and_the_requests_that_matter() -> None:
    java = {each.code for each in recorded() if each.client == "java-5.3.3" and each.by_client}
    assert java >= {105, 34, 38, 310, 320, 11, 361, 14, 15, 30, 36, 37, 41, 42, 35, 46, 400, 200_050, 200_051, 200_053}
    assert {each.client for each in recorded()} == {
        *("java-4.9.8", "java-5.3.3", "java-5.3.3-binary", "go", "cpp", "node")
    }
    assert {each.by_client for each in recorded()} == {True, False}


def test_every_frame_is_decoded_whole_and_in_pieces() -> None:
    for each in recorded():
        [frame] = decoded(each.data, len(each.data))
        assert decoded(each.data, 7) == [frame]


def test_frames_of_java_are_encoded_byte_for_byte_and_the_others_with_the_same_meaning() -> None:
    exact = 0
    for each in recorded():
        [frame] = decoded(each.data, len(each.data))
        again = encode_frame(frame)
        assert decoded(again, len(again)) == [frame]
        if each.client.startswith("java") and (frame.binary or b'"extFields"' in each.data):
            exact += 1
            assert again == each.data
    assert exact > 50


class Connection:
    """As much of a connection as an edge needs."""

    peer, number, local_host, local_port = "10.0.0.2:1", 1, "10.0.0.1", 10911

    def __init__(self) -> None:
        self.sent = b""

    def send_frame(self, frame: bytes) -> None:
        self.sent += frame

    def handle_soon(self, command: Command) -> None:
        raise AssertionError("this protocol asks nothing by itself")

    def use(self, codec: Codec) -> Decoder:
        return codec.decoder()


class SomeFacts(ServerFacts):
    """A broker that knows every topic."""

    def topic_id(self, topic: str) -> int:
        return 1

    def topic_of(self, topic_id: int) -> str | None:
        return "t"

    def write_queues(self, topic: str) -> int:
        return 4


@pytest.mark.walk
def test_every_request_of_every_client_is_translated() -> None:
    """To a command, or to an answer of the edge: nothing is left that a client sends by itself and nobody knows."""
    for client in dict.fromkeys(each.client for each in recorded()):
        peers = {code: Connection() for code in (True, False)}
        edges = {True: name_server_dialect().codec(peers[True]), False: broker_dialect(SomeFacts()).codec(peers[False])}
        own = [each for each in recorded() if each.client == client and each.by_client]
        for each in sorted(own, key=lambda one: one.code != 34):  # a pull needs the heartbeat before it
            [frame] = decoded(each.data, len(each.data))
            if frame.flag & RESPONSE_BIT:
                continue
            of_name_server = 100 <= frame.code < 200
            peer, edge = peers[of_name_server], edges[of_name_server]
            peer.sent = b""
            commands = edge.decoder().feed(each.data)
            if not commands and not frame.flag & ONE_WAY_BIT:
                [answer] = decoded(peer.sent, len(peer.sent) or 1)
                assert answer.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED, (client, frame)
