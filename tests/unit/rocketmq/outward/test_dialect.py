"""The table of the requests that our clients may make of servers of RocketMQ."""

from __future__ import annotations

import msgpack
import pytest

from model.errors import RequestCodeNotSupported
from remoting.request_code import RequestCode
from remoting.wire.schema import SCHEMA
from tests.unit.rocketmq.outward.test_edge import Server

OF_CLIENTS = {
    *(RequestCode.GET_SERVER_STATE, RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.GET_BROKER_CLUSTER_INFO),
    *(RequestCode.SEND_MESSAGE, RequestCode.SEND_BATCH_MESSAGE, RequestCode.CONSUMER_SEND_MSG_BACK),
    *(RequestCode.HEART_BEAT, RequestCode.UNREGISTER_CLIENT, RequestCode.GET_CONSUMER_LIST_BY_GROUP),
    *(RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ, RequestCode.PULL_MESSAGE),
    *(RequestCode.PULL_MESSAGE_BY_SQL, RequestCode.POP_MESSAGE_BY_SQL),
    *(RequestCode.UPDATE_CONSUMER_OFFSET, RequestCode.QUERY_CONSUMER_OFFSET, RequestCode.GET_MAX_OFFSET),
    *(RequestCode.GET_MIN_OFFSET, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, RequestCode.UPDATE_AND_CREATE_TOPIC),
    *(RequestCode.GET_GROUP_LIST, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, RequestCode.GET_CONSUMER_CONNECTION_LIST),
    *(RequestCode.GET_CONSUME_STATS, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, RequestCode.QUERY_MESSAGE),
    *(RequestCode.DELETE_TOPIC_IN_BROKER, RequestCode.DELETE_TOPIC_IN_NAMESRV),
    *(RequestCode.POP_MESSAGE, RequestCode.ACK_MESSAGE, RequestCode.BATCH_ACK_MESSAGE),
    *(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, RequestCode.CHANGE_MESSAGE_INVISIBLETIME),
    *(RequestCode.SEND_HALF_MESSAGE, RequestCode.END_TRANSACTION, RequestCode.RECALL_MESSAGE),
    *(RequestCode.GET_BROKER_RUNTIME_INFO, RequestCode.VIEW_MESSAGE_BY_ID),
}


def is_known(code: RequestCode) -> bool:
    try:
        Server().ask(code, {}, b"")
    except RequestCodeNotSupported:
        return False
    except (KeyError, ValueError, msgpack.UnpackException):
        pass  # it is translated, and needs a header and a body
    return True


@pytest.mark.walk
def test_what_producers_and_consumers_need_is_translated_and_nothing_else() -> None:
    assert {code for code in SCHEMA if is_known(code)} == OF_CLIENTS
