from __future__ import annotations

from rocketmq.edge import ServerFacts
from rocketmq.grpc.dialect import broker_grpc, name_server_grpc
from rocketmq.grpc.proto import MESSAGES


def test_each_rpc_has_a_message_and_an_answer_with_a_status() -> None:
    for dialect in (name_server_grpc(ServerFacts()), broker_grpc(ServerFacts())):
        for rpc in dialect.rpcs.values():
            assert rpc.request in MESSAGES
            assert "status" in MESSAGES[rpc.response].DESCRIPTOR.fields_by_name


def test_a_refusal_names_what_is_served() -> None:
    dialect = broker_grpc(ServerFacts())
    assert all(name in dialect.unimplemented_hint for name in dialect.rpcs)
