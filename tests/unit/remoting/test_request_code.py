"""Numbers that RocketMQ has are RocketMQ's; the others are out of its way."""

from __future__ import annotations

from remoting.request_code import RequestCode
from remoting.wire.schema import SCHEMA

ROCKETMQ = {
    "SEND_MESSAGE": 10,
    "PULL_MESSAGE": 11,
    "QUERY_MESSAGE": 12,
    "QUERY_CONSUMER_OFFSET": 14,
    "UPDATE_CONSUMER_OFFSET": 15,
    "UPDATE_AND_CREATE_TOPIC": 17,
    "GET_BROKER_RUNTIME_INFO": 28,
    "SEARCH_OFFSET_BY_TIMESTAMP": 29,
    "GET_MAX_OFFSET": 30,
    "GET_MIN_OFFSET": 31,
    "VIEW_MESSAGE_BY_ID": 33,
    "HEART_BEAT": 34,
    "UNREGISTER_CLIENT": 35,
    "CONSUMER_SEND_MSG_BACK": 36,
    "GET_CONSUMER_LIST_BY_GROUP": 38,
    "NOTIFY_CONSUMER_IDS_CHANGED": 40,
    "LOCK_BATCH_MQ": 41,
    "UNLOCK_BATCH_MQ": 42,
    "REGISTER_BROKER": 103,
    "UNREGISTER_BROKER": 104,
    "GET_ROUTEINFO_BY_TOPIC": 105,
    "GET_BROKER_CLUSTER_INFO": 106,
    "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP": 200,
    "GET_CONSUMER_CONNECTION_LIST": 203,
    "WIPE_WRITE_PERM_OF_BROKER": 205,
    "GET_ALL_TOPIC_LIST_FROM_NAMESERVER": 206,
    "DELETE_SUBSCRIPTIONGROUP": 207,
    "GET_CONSUME_STATS": 208,
    "DELETE_TOPIC_IN_BROKER": 215,
    "DELETE_TOPIC_IN_NAMESRV": 216,
    "RESET_CONSUMER_CLIENT_OFFSET": 220,
    "INVOKE_BROKER_TO_RESET_OFFSET": 222,
    "SEND_BATCH_MESSAGE": 320,
    "ADD_WRITE_PERM_OF_BROKER": 327,
    "GET_SUBSCRIPTIONGROUP_CONFIG": 352,
    "QUERY_ASSIGNMENT": 400,
    "SET_MESSAGE_REQUEST_MODE": 401,
    "POP_MESSAGE": 200_050,
    "ACK_MESSAGE": 200_051,
    "CHANGE_MESSAGE_INVISIBLETIME": 200_053,
    "BATCH_ACK_MESSAGE": 200_151,
}


def test_codes_that_rocketmq_has_carry_its_numbers() -> None:
    ours = {code.name: int(code) for code in RequestCode if not 90_000 <= code < 100_000}
    assert ours == ROCKETMQ


def test_every_code_has_a_schema() -> None:
    assert set(SCHEMA) == set(RequestCode)
