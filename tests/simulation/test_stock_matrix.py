"""Every request of RocketMQ's protocol, sent by the users of `test_matrix.py`, with the answers that it has to get."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest

from model.response_code import ResponseCode
from rocketmq.dialects import broker_dialect, name_server_dialect
from rocketmq.edge import ServerFacts
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.signed import Signed, connected
from tests.simulation.test_matrix import ORDERS, RECALL, ROLES, USERS, WITH_USERS, WORDS, Case, started, take_rights
from tests.unit.rocketmq.stock_client import StockClient

pytestmark = [pytest.mark.simulation, pytest.mark.walk]

STOCK_WORDS = {
    "ok": 0,
    "no": ResponseCode.NO_PERMISSION,
    "own": ResponseCode.SYSTEM_ERROR,  # CLIENT_ID_CONFLICT, which its clients do not know
    "error": ResponseCode.SYSTEM_ERROR,
    "illegal": ResponseCode.SYSTEM_ERROR,
    "not-subscribed": 24,
    "empty": ResponseCode.QUERY_NOT_FOUND,
    "no-topic": ResponseCode.TOPIC_NOT_EXIST,
    "no-group": ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    "dead": ResponseCode.NO_MESSAGE,
    "bad": ResponseCode.INVALID_PARAMETER,
    "not-online": ResponseCode.CONSUMER_NOT_ONLINE,
    "unknown": ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
}


def stock(
    code: int, fields: dict[str, Any], answers: str, body: Any = None, to: str = "broker", by: str = "owner"
) -> Case:
    return Case(code, fields, body, answers, to, by)


def as_json(**fields: Any) -> Any:
    """A JSON body, with the id of a client in its texts."""
    return lambda role: Case.text_of(json.dumps(fields), role).encode()


AT = {"topic": "orders", "queueId": 0}
OF_G = {"consumerGroup": "g"}
STOCK_QUEUE = {**AT, "brokerName": "broker-a"}
LOCKS = as_json(consumerGroup="g", clientId="c-{id}", mqSet=[STOCK_QUEUE])
SUBSCRIBED = {"groupName": "g", "subscriptionDataSet": [{"topic": "orders", "subString": "*", "subVersion": 1}]}
STOCK_BEAT = as_json(clientID="c-{id}", consumerDataSet=[SUBSCRIBED], producerDataSet=[{"groupName": "p"}])
SHORT = {"a": "p", "b": "orders", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1000, "h": 0}
LONG = {"producerGroup": "p", "topic": "orders", "queueId": 0, "sysFlag": 0, "bornTimestamp": 1000, "flag": 0}
BATCH_BODY = struct.pack(">IIIII", 23, 0, 0, 0, 1) + b"x" + struct.pack(">H", 0)
PULL = {**OF_G, **AT, "queueOffset": 0, "maxMsgNums": 1, "sysFlag": 0, "commitOffset": 0, "suspendTimeoutMillis": 0}
HANDLE = "7 0 0 0 0 broker-a 0 0"
ACK = {**OF_G, **AT, "extraInfo": HANDLE, "offset": 0}
POP = {**OF_G, **AT, "maxMsgNums": 1, "invisibleTime": 10_000, "pollTime": 0}
# A request that names a topic by the place of a message, which nobody has here:
NOWHERE = {"offset": 2**62}
NO_HALF = {"tranStateTableOffset": 10**6, "msgId": "none", "commitOrRollback": 0}

STOCK_MATRIX = (
    stock(34, {}, "no no no no no ok own", STOCK_BEAT),
    stock(10, LONG, "no no no ok no ok ok", b"m"),
    stock(310, SHORT, "no no no ok no ok ok", b"m"),
    stock(320, SHORT, "no no no ok no ok ok", BATCH_BODY),
    stock(310, {**SHORT, "f": 4}, "no no no no no ok ok", b"half"),
    stock(37, {**NO_HALF, "producerGroup": "p"}, "no no error no no error error"),
    stock(370, {**ORDERS, "recallHandle": RECALL}, "no no no empty no empty empty"),
    # The pull of a member; without a heartbeat that was taken, of somebody who only looks.
    stock(11, PULL, "no no no no no ok own"),
    stock(361, PULL, "no no no no no ok own"),
    stock(36, {**NOWHERE, "group": "g", "delayLevel": 0}, "no no bad bad bad bad bad"),
    stock(30, AT, "no no no ok no ok ok"),
    stock(31, AT, "no no no ok no ok ok"),
    stock(29, {**AT, "timestamp": 0}, "no no no ok no ok ok"),
    stock(15, {**OF_G, **AT, "commitOffset": 0}, "no no no no no ok own"),
    stock(14, {**OF_G, **AT}, "no no no no no ok own"),
    stock(38, OF_G, "no no ok no no ok ok"),
    stock(41, {}, "no no no no no ok own", LOCKS),
    stock(42, {}, "no no no no no ok own", LOCKS),
    stock(46, {}, "no no ok ok ok ok ok", as_json(subscriptionData={"expressionType": "TAG"})),
    stock(400, {}, "no no no no no ok own", as_json(consumerGroup="g", clientId="c-{id}", topic="orders")),
    stock(401, {}, "no no no no no ok ok", as_json(consumerGroup="g", topic="orders", mode="PULL")),
    stock(200_050, POP, "no no no no no ok own"),
    stock(200_051, ACK, "no no dead no no dead own"),
    stock(200_053, {**ACK, "invisibleTime": 0}, "no no dead no no dead own"),
    stock(3442, POP, "no no no no no ok own"),
    stock(3443, ACK, "no no dead no no dead own"),
    stock(3445, {**ACK, "invisibleTime": 0}, "no no dead no no dead own"),
    stock(17, {**ORDERS, "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}, "no no no ok no ok ok"),
    stock(215, ORDERS | {"topic": "gone"}, "no no ok ok ok ok ok"),  # of a topic that is not there nothing is asked
    stock(202, ORDERS, "no no no ok no ok ok"),
    stock(351, ORDERS, "no no no ok no ok ok"),
    stock(28, {}, "no no no no no ok no", by="admin"),
    stock(200, {}, "no no ok no no ok ok", as_json(groupName="g", consumeEnable=True, consumeBroadcastEnable=True)),
    stock(207, {"groupName": "gone-{id}"}, "no no no no no no-group no-group"),
    stock(300, ORDERS, "no no no ok no ok ok"),
    stock(208, OF_G, "no no ok no no ok ok"),
    stock(203, OF_G, "no no ok no no ok ok"),
    stock(317, {}, "no no no no no ok no", by="admin"),
    stock(307, {**OF_G, "clientId": "none"}, "no no not-online no no not-online not-online"),
    stock(309, {**OF_G, "clientId": "none", "msgId": "0" * 32}, "no no bad bad bad bad bad"),
    stock(204, {"producerGroup": "p"}, "no no ok no no ok ok"),
    stock(315, {}, "no no error error error error error"),
    stock(222, {"group": "g", **ORDERS, "timestamp": 0, "isForce": True}, "no no no no no ok ok"),
    stock(33, NOWHERE, "no no bad bad bad bad bad"),
    stock(12, {**ORDERS, "key": "k", "maxNum": 1}, "no no no empty no empty empty"),
    stock(35, {"clientID": "c-{id}", **OF_G}, "no no ok no no ok own"),
    stock(105, ORDERS, "no no no ok no ok ok", to="name server"),
    stock(106, {}, "no no ok ok ok ok ok", to="name server"),
    stock(206, {}, "no no no no no ok no", to="name server", by="admin"),
    stock(216, {"topic": "doomed-{id}"}, "no no no ok no ok ok", to="name server"),
    stock(205, {"brokerName": "broker-a"}, "no no no no no ok no", to="name server", by="admin"),
    stock(327, {"brokerName": "broker-a"}, "no no no no no ok no", to="name server", by="admin"),
    stock(101, {}, "no no empty empty empty empty empty", to="name server"),
    stock(102, {}, "no no ok ok ok ok ok", to="name server"),
    stock(219, {}, "no no empty empty empty empty empty", to="name server"),
)


def test_each_request_of_rocketmqs_protocol_is_answered_as_the_rights_of_its_sender_say(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        addresses = await started(cluster)
        clients: dict[tuple[str, str], StockClient] = {}

        async def ask(case: Case, role: str) -> tuple[int, bool]:
            body = case.body(role) if callable(case.body) else case.body
            user = case.by if role == "owner" else role
            client = clients.get((case.to, user))
            if client is None:
                made = {"stranger": StockClient("c"), "wrong": Signed("c", "owner", "another")}.get(user)
                client = await connected(cluster, addresses[case.to], made or Signed("c", user))
                if user in USERS:
                    clients[case.to, user] = client
            answer = await client.call(case.code, case.header_of(role), body)
            if user not in USERS:
                client.close()
            return answer.code, "belongs to another user" in str(answer.remark)

        for case in STOCK_MATRIX:
            if case.by == "owner":
                assert (await ask(case, "removed"))[0] != WORDS["no"], case
        take_rights(cluster)
        wrong_answers = []
        for case in STOCK_MATRIX:
            for role, word in zip(ROLES, case.answers.split(), strict=True):
                answer = await ask(case, role)
                if answer != (STOCK_WORDS[word], word == "own"):
                    wrong_answers.append((case.code, case.header, role, word, answer))
        for client in clients.values():
            client.close()
        assert not wrong_answers, "\n".join(map(str, wrong_answers))

    served = {*broker_dialect(ServerFacts()).translators, *name_server_dialect().translators}
    assert {case.code for case in STOCK_MATRIX} == served
    simulate(scenario, brokers=1, **WITH_USERS)
