from __future__ import annotations

from rocketmq.edge import Facts
from rocketmq.grpc.dialect import broker_grpc, name_server_grpc
from rocketmq.grpc.words import WORDS


def test_each_rpc_has_a_message_and_an_answer_with_a_status() -> None:
    for dialect in (name_server_grpc(Facts()), broker_grpc(Facts())):
        for rpc in dialect.rpcs.values():
            assert rpc.request in WORDS
            assert "status" in WORDS[rpc.response].DESCRIPTOR.fields_by_name


def test_a_refusal_names_what_is_served() -> None:
    dialect = broker_grpc(Facts())
    assert all(name in dialect.elsewhere for name in dialect.rpcs)
