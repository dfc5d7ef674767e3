"""Which codecs can announce the end of a server, and ask their peer for a sign of life."""

from __future__ import annotations

from remoting.codec import CODEC
from remoting.overload.lifecycle import Lifecycle
from rocketmq.edge import ServerFacts
from rocketmq.grpc.dialect import name_server_grpc
from tests.unit.rocketmq.outward.test_edge import Server


def test_only_a_protocol_with_frames_for_it_has_a_lifecycle() -> None:
    server = Server()
    assert isinstance(name_server_grpc(ServerFacts()).codec(server), Lifecycle)
    assert not isinstance(server.edge, Lifecycle)
    assert not isinstance(CODEC, Lifecycle)
