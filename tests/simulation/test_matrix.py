"""Every request of our protocol, sent by seven kinds of users, with the answers that they have to get.

The columns: a stranger without a key; one with a wrong key; a user of the group without the topic; a user of the topic
without the group; a user who may do everything here, until its rights are taken a moment before; the owner of topic and
group (of what is about the cluster an administrator, or the user of a broker); and a user with the rights of the owner
who names the owner's client id and query.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import msgpack
import pytest

from model.errors import NotAuthenticated
from model.message import Message, encode_payload
from model.recall import RecallHandle
from model.response_code import ResponseCode
from remoting.client import RemotingClient
from remoting.request_code import RequestCode
from remoting.security.key import Key
from remoting.security.policy import NamePatterns, Rights, User
from testbed.simulation.cluster.access import SERVER_ACCESS, derived_key, derived_user
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.signed import SECRET
from tests.unit.broker.harness import consumer
from tests.unit.remoting.security.test_right_fields import PUSHED

pytestmark = [pytest.mark.simulation, pytest.mark.walk]

ROLES = ("stranger", "wrong", "no-topic", "no-group", "removed", "owner", "twin")
KEYS = ROLES[2:]
WORDS = {
    "ok": ResponseCode.SUCCESS,
    "key": ResponseCode.NOT_AUTHENTICATED,
    "no": ResponseCode.NO_PERMISSION,
    "own": ResponseCode.CLIENT_ID_CONFLICT,  # the id is another user's
    # What a handler answers to a user whose rights suffice:
    "unknown": ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
    "illegal": ResponseCode.ILLEGAL_OPERATION,
    "no-group": ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    "no-topic": ResponseCode.TOPIC_NOT_EXIST,
    "dead": ResponseCode.NO_MESSAGE,
    "lost": ResponseCode.LEASE_LOST,
    "gone": ResponseCode.QUERY_NOT_FOUND,
}
RECALL = RecallHandle("orders", "broker-a", 0, "id", 0).text()
GROUPS, TOPICS = NamePatterns(["g", "p"]), NamePatterns(["orders", "doomed-*"])
ALL = Rights(
    produce=TOPICS, consume=TOPICS, groups=GROUPS, manage=NamePatterns(["orders", "g", "p", "doomed-*", "gone-*"])
)
RIGHTS = {
    "no-topic": Rights(groups=GROUPS, manage=NamePatterns(["g", "p"])),
    "no-group": Rights(produce=TOPICS, consume=TOPICS, manage=TOPICS),
    **dict.fromkeys(("removed", "owner", "twin"), ALL),
    "admin": Rights(admin=True),
    "reader": Rights(consume=NamePatterns(["*"])),
    "broker": Rights(brokers=NamePatterns(["broker-z"]), replicate=NamePatterns(["broker-z"])),
}
USERS: dict[str, User] = {name: derived_user(name, rights, rocketmq_secret=SECRET) for name, rights in RIGHTS.items()}
WITH_USERS = {**SERVER_ACCESS, "access": {**SERVER_ACCESS["access"], **USERS}}

QUEUE = {"topic": "orders", "queue_id": 0}
MEMBER = {"group": "g", "client_id": "c-{id}"}
PAYLOAD = encode_payload(Message("orders", b"x"), 1, "id")
CONFIG = {"read_queue_nums": 1, "write_queue_nums": 1, "perm": 6}
BATCH = {"query_id": "q-{id}", "batch_id": 1}
BROKER = {"broker_name": "broker-z", "broker_id": 0, "address": "h:1"}
REGISTERED = {**BROKER, "cluster": "c", "version": 2**40, "expiry_ms": 1000}
ORDERS, GROUP = {"topic": "orders"}, {"group": "g"}


@dataclass(frozen=True)
class Case:
    """One request, and its answers in the order of `ROLES`; `by` is the user in the column of the owner."""

    code: int
    header: dict[str, Any]
    body: Any
    answers: str
    to: str = "broker"
    by: str = "owner"

    def header_of(self, role: str) -> dict[str, Any]:
        return {name: self.text_of(value, role) for name, value in self.header.items()}

    @staticmethod
    def text_of(value: Any, role: str) -> Any:
        return value.replace("{id}", "owner" if role == "twin" else role) if isinstance(value, str) else value


def beat(role: str) -> bytes:
    client_id = Case.text_of("c-{id}", role)
    data = {
        "client_id": client_id,
        "producers": ["p"],
        "checkers": ["p"],
        "consumers": [consumer("g", "orders").to_wire()],
    }
    return msgpack.packb(data)


def of_name_server(
    code: RequestCode, header: dict[str, Any], answers: str, by: str = "owner", body: Any = None
) -> Case:
    return Case(code, header, body, answers, "name server", by)


C = RequestCode
MATRIX = (
    # Members first, so that the owner is one:
    Case(C.HEART_BEAT, {}, beat, "key key no no no ok own"),
    Case(C.SEND_MESSAGE, {**QUEUE, "tag_hash": 0}, PAYLOAD, "key key no ok no ok ok"),
    Case(C.RECALL_MESSAGE, {**ORDERS, "handle": RECALL}, None, "key key no gone no gone gone"),
    Case(C.SEND_BATCH_MESSAGE, QUEUE, [[0, PAYLOAD]], "key key no ok no ok ok"),
    Case(C.SEND_MESSAGES, ORDERS, [[0, 0, PAYLOAD]], "key key no ok no ok ok"),
    Case(C.SEND_HALF_MESSAGE, {"group": "p"}, [["orders", 0, 0, -1, PAYLOAD]], "key key no no no ok ok"),
    Case(C.END_TRANSACTION, {"group": "p"}, [[0, "id", 0]], "key key ok no no ok ok"),
    Case(
        C.PULL_MESSAGE,
        {**QUEUE, **MEMBER, "offset": 0, "max_n": 1, "suspend_ms": 0, "token": -1},
        None,
        "key key no no no lost own",
    ),
    Case(C.PULL_MESSAGE, {**QUEUE, **GROUP, "offset": 0, "max_n": 1, "suspend_ms": 0}, None, "key key no ok no ok ok"),
    Case(
        C.PULL_MESSAGE_BY_SQL,
        {**QUEUE, **MEMBER, "offset": 0, "max_n": 1, "suspend_ms": 0, "token": -1, "sql": "a = 1"},
        None,
        "key key no no no lost own",
    ),
    Case(C.QUERY_MESSAGE, {**ORDERS, "key": "k", "max_n": 1}, None, "key key no ok no ok ok"),
    Case(C.VIEW_MESSAGE_BY_ID, {"message_id": "id", "max_n": 1}, None, "key key no no no ok no", by="reader"),
    Case(C.LOCK_BATCH_MQ, MEMBER, [["orders", 0]], "key key no no no ok own"),
    Case(C.UNLOCK_BATCH_MQ, MEMBER, [["orders", 0, -1, -1]], "key key no no no ok own"),
    Case(C.QUERY_CONSUMER_OFFSET, {**GROUP, **QUEUE}, None, "key key no no no ok ok"),
    Case(C.UPDATE_CONSUMER_OFFSET, MEMBER, [["orders", 0, 0, -1]], "key key no no no ok own"),
    Case(C.QUERY_CONSUMER_OFFSET, {**MEMBER, **QUEUE}, None, "key key no no no ok own"),
    Case(C.CONSUMER_SEND_MSG_BACK, {**GROUP, **QUEUE, "offset": 0, "max_attempts": 16}, None, "key key no no no ok ok"),
    Case(C.SEARCH_OFFSET_BY_TIMESTAMP, {**QUEUE, "timestamp_ms": 0}, None, "key key no ok no ok ok"),
    Case(C.GET_MAX_OFFSET, QUEUE, None, "key key no ok no ok ok"),
    Case(C.GET_MIN_OFFSET, QUEUE, None, "key key no ok no ok ok"),
    Case(C.GET_CONSUMER_LIST_BY_GROUP, {**GROUP, "known_version": -1}, None, "key key ok no no ok ok"),
    Case(C.GET_CONSUMER_CONNECTION_LIST, GROUP, None, "key key ok no no ok ok"),
    Case(C.GET_PRODUCER_CONNECTION_LIST, {"group": "p"}, None, "key key ok no no ok ok"),
    Case(C.GET_CONSUMER_RUNNING_INFO, {**GROUP, "client_id": "c-owner"}, None, "key key illegal no no illegal illegal"),
    Case(
        C.CONSUME_MESSAGE_DIRECTLY,
        {**GROUP, **QUEUE, "client_id": "c-owner", "offset": 0},
        None,
        "key key no no no illegal illegal",
    ),
    Case(C.GET_CONSUME_STATS, GROUP, None, "key key ok no no ok ok"),
    Case(C.GET_SUBSCRIPTIONGROUP_CONFIG, GROUP, None, "key key ok no no ok ok"),
    Case(C.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, GROUP, None, "key key ok no no ok ok"),
    Case(C.INVOKE_BROKER_TO_RESET_OFFSET, {**GROUP, **ORDERS, "to": "earliest"}, None, "key key no no no ok ok"),
    Case(
        C.SET_MESSAGE_REQUEST_MODE,
        {**GROUP, **ORDERS, "mode": "PULL", "pop_share_queue_num": 0},
        None,
        "key key no no no ok ok",
    ),
    Case(C.MARK_DEAD_LETTERS, {**GROUP, "queue_id": 0}, None, "key key no-topic no no no-topic no-topic"),
    Case(C.QUERY_ASSIGNMENT, {**MEMBER, "version": 0}, [[], [], []], "key key no-group no no illegal own"),
    Case(C.QUERY_TOPIC_ASSIGNMENT, {**MEMBER, **ORDERS, "strategy": "AVG"}, None, "key key no no no ok own"),
    Case(C.GET_GROUP_ASSIGNMENT, GROUP, None, "key key ok no no ok ok"),
    Case(
        C.POP_MESSAGE,
        {**MEMBER, **QUEUE, "max_n": 1, "invisible_ms": 10_000, "suspend_ms": 0},
        None,
        "key key no no no ok own",
    ),
    Case(
        C.POP_MESSAGE_BY_SQL,
        {**MEMBER, **QUEUE, "max_n": 1, "invisible_ms": 10_000, "suspend_ms": 0, "sql": "a IS NULL"},
        None,
        "key key no no no ok own",
    ),
    Case(C.ACK_MESSAGE, MEMBER, [["orders", 0, 1, [0]]], "key key ok no no ok own"),
    Case(C.BATCH_ACK_MESSAGE, MEMBER, [["orders", 0, 1, [0]]], "key key ok no no ok own"),
    Case(
        C.CHANGE_MESSAGE_INVISIBLETIME,
        {**MEMBER, **QUEUE, "offset": 0, "token": 1, "invisible_ms": 0},
        None,
        "key key dead no no dead own",
    ),
    Case(C.KEEP_MESSAGES, MEMBER, [["orders", 0, 1]], "key key ok no no ok own"),
    Case(C.RETURN_MESSAGES, MEMBER, [["orders", 0, 1, [0]]], "key key ok no no ok own"),
    Case(C.CANCEL_POP, {**MEMBER, "pop": 1}, None, "key key ok no no ok own"),
    Case(C.POP_DEAD_LETTER, {**MEMBER, **QUEUE, "offset": 0, "token": 1}, None, "key key dead no no dead own"),
    Case(C.GET_POP_STATS, GROUP, None, "key key ok no no ok ok"),
    Case(
        C.SINK_STAGE,
        {**BATCH, "partition": 0, "attempt": 0, "seq": 0},
        [["orders", 0, 0, PAYLOAD]],
        "key key no ok no ok own",
    ),
    Case(C.SINK_SPREAD, {**BATCH, **ORDERS}, ["broker-a"], "key key no ok no ok own"),
    Case(C.SINK_COMMIT, BATCH, [[0, 0, 1]], "key key no ok no ok own"),
    Case(C.SINK_ABORT, BATCH, None, "key key no ok no ok own"),
    # Topics:
    Case(C.UPDATE_AND_CREATE_TOPIC, {**ORDERS, **CONFIG}, None, "key key no ok no ok ok"),
    Case(C.GET_ROUTEINFO_FROM_BROKER, ORDERS, None, "key key no ok no ok ok"),
    of_name_server(C.GET_ROUTEINFO_BY_TOPIC, ORDERS, "key key no ok no ok ok"),
    of_name_server(C.FORWARD_RECALL, {**ORDERS, "handle": RECALL}, "key key no gone no gone gone"),
    Case(C.DELETE_TOPIC_IN_BROKER, {"topic": "doomed-{id}"}, None, "key key no no-topic no no-topic no-topic"),
    of_name_server(C.DELETE_TOPIC_IN_NAMESRV, {"topic": "doomed-{id}"}, "key key no ok no ok ok"),
    # The cluster:
    Case(C.GET_BROKER_RUNTIME_INFO, {}, None, "key key no no no ok no", by="admin"),
    Case(C.GET_BROKER_RUNTIME_INFO, ORDERS, None, "key key no ok no ok ok"),
    Case(C.GET_GROUP_LIST, {}, None, "key key no no no ok no", by="admin"),
    Case(C.GET_GROUP_LIST, ORDERS, None, "key key no ok no ok ok"),
    Case(C.GET_BROKER_CONSUME_STATS, {}, None, "key key no no no ok no", by="admin"),
    Case(C.GET_ALL_PRODUCER_INFO, {}, None, "key key no no no ok no", by="admin"),
    Case(C.GET_SERVER_STATE, {}, None, "key key ok ok ok ok ok"),
    of_name_server(C.GET_SERVER_STATE, {}, "key key ok ok ok ok ok"),
    of_name_server(C.GET_BROKER_CLUSTER_INFO, {}, "key key ok ok ok ok ok"),
    of_name_server(C.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, {}, "key key no no no ok no", by="admin"),
    of_name_server(C.GET_ABSENT_BROKERS, {}, "key key no no no ok no", by="admin"),
    of_name_server(C.GET_ABSENT_BROKERS, ORDERS, "key key no ok no ok ok"),
    of_name_server(C.FORGET_BROKER, {"broker_name": "broker-z"}, "key key no no no ok no", by="admin"),
    of_name_server(C.REGISTER_BROKER, REGISTERED, "key key no no no ok no", by="broker", body=[]),
    of_name_server(C.WIPE_WRITE_PERM_OF_BROKER, {"broker_name": "broker-z"}, "key key no no no ok no", by="admin"),
    of_name_server(C.ADD_WRITE_PERM_OF_BROKER, {"broker_name": "broker-z"}, "key key no no no ok no", by="admin"),
    of_name_server(C.UNREGISTER_BROKER, BROKER, "key key no no no ok no", by="broker"),
    # This name server keeps no elections; tests/simulation/test_elections.py has one that does.
    of_name_server(C.GET_REPLICA_SET, {"broker_name": "broker-z"}, "key key no no no unknown no", by="broker"),
    of_name_server(C.GET_REPLICA_SET, {}, "key key no no no unknown no", by="admin"),
    of_name_server(
        C.PUT_REPLICA_SET,
        {"broker_name": "broker-z", "expected_version": 0},
        "key key no no no unknown no",
        by="broker",
    ),
    of_name_server(
        C.REMOVE_REPLICA_SET,
        {"broker_name": "broker-z", "expected_version": 1},
        "key key no no no unknown no",
        by="admin",
    ),
    # This broker has no other replicas; tests/simulation/test_replica_rights.py has one that does.
    *(
        Case(code, {}, None, "key key unknown unknown unknown unknown unknown")
        for code in (C.REPLICA_HELLO, C.REPLICATED, C.REPLICA_SEGMENT, C.GET_REPLICAS, C.HAND_OVER)
    ),
    # A challenge is how a key is proved, and is answered to everybody who has not proved one.
    Case(C.GET_CHALLENGE, {"user": "owner", "nonce": "n"}, None, "ok key unknown unknown unknown unknown unknown"),
    Case(C.AUTHENTICATE, {"proof": "0"}, None, "key key unknown unknown unknown unknown unknown"),
    # What brokers say to members, nobody says to a broker:
    *(Case(code, {}, None, "key key unknown unknown unknown unknown unknown") for code in PUSHED),
    # Last, because it ends something:
    Case(C.DELETE_SUBSCRIPTIONGROUP, {"group": "gone-{id}"}, None, "key key no no no no-group no-group"),
    Case(C.UNREGISTER_CLIENT, {"client_id": "c-{id}", "groups": ["g"]}, None, "key key ok no no ok own"),
)


def code_of(word: str) -> int:
    return int(word) if word.isdigit() else WORDS[word]


async def started(cluster: SimulatedCluster) -> dict[str, str]:
    """Create the topic; returns the addresses of the servers."""
    cluster.client_options["key"] = derived_key("client")
    await cluster.create_topic("orders", queues=1)
    return {"broker": cluster.brokers["broker-a"].address, "name server": cluster.addresses[0]}


def take_rights(cluster: SimulatedCluster) -> None:
    """Take all rights from one user, at every server; it keeps its connections and its key."""
    policy = {**WITH_USERS["access"], "removed": replace(USERS["removed"], rights=Rights())}
    gates = [
        cluster.brokers["broker-a"].running.server.gate,
        *(each.running.server.gate for each in cluster.name_servers.values()),
    ]
    for gate in gates:
        assert gate is not None
        gate.apply(policy)


def test_each_request_of_our_protocol_is_answered_as_the_rights_of_its_sender_say(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        addresses = await started(cluster)
        clients = {name: RemotingClient(key=derived_key(name)) for name in USERS}
        unauthenticated = {"stranger": None, "wrong": Key("owner", derived_key("another").secret)}

        async def ask(case: Case, role: str) -> int:
            body = case.body(role) if callable(case.body) else case.body
            packed = body if body is None or isinstance(body, bytes) else msgpack.packb(body)
            user = case.by if role == "owner" else role
            # A guest is cut off after some refusals, and its client waits before it comes again: each time another one.
            client = clients.get(user) or RemotingClient(key=unauthenticated[user])
            try:
                connection = await client.connect(addresses[case.to])
                answer = await connection.request(case.code, case.header_of(role), packed)
            except NotAuthenticated:
                return int(ResponseCode.NOT_AUTHENTICATED)
            finally:
                if user in unauthenticated:
                    await client.aclose()
            return answer.code

        # What it was allowed is remembered.
        for case in MATRIX[:-1]:
            if case.by == "owner" and case.code not in PUSHED:
                assert await ask(case, "removed") not in (WORDS["no"], WORDS["key"]), case
        take_rights(cluster)
        wrong_answers = []
        for case in MATRIX:
            for role, word in zip(ROLES, case.answers.split(), strict=True):
                code = await ask(case, role)
                if code != code_of(word):
                    wrong_answers.append(
                        (RequestCode(case.code).name, case.header, role, word, ResponseCode(code).name)
                    )
        for client in clients.values():
            await client.aclose()
        assert not wrong_answers, "\n".join(map(str, wrong_answers))

    assert {case.code for case in MATRIX} == set(RequestCode)
    simulate(scenario, brokers=1, **WITH_USERS)
