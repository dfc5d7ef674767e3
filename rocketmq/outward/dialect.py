"""The dialect of our client at servers of RocketMQ: which request is translated by whom. Pure."""

from __future__ import annotations

from remoting.codec import Peer
from remoting.request_code import RequestCode
from rocketmq.outward import calls, messages
from rocketmq.outward.edge import ClientEdge, OutwardTranslator

_OF_CLIENT: dict[int, OutwardTranslator] = {
    RequestCode.GET_SERVER_STATE: calls.state,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: calls.route,
    RequestCode.GET_BROKER_CLUSTER_INFO: calls.brokers,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: calls.topics,
    RequestCode.UPDATE_AND_CREATE_TOPIC: calls.put_topic,
    RequestCode.SEND_MESSAGE: messages.send,
    RequestCode.SEND_BATCH_MESSAGE: messages.send_batch,
    RequestCode.HEART_BEAT: calls.heartbeat,
    RequestCode.UNREGISTER_CLIENT: calls.leave,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: calls.members,
    RequestCode.LOCK_BATCH_MQ: calls.lock,
    RequestCode.UNLOCK_BATCH_MQ: calls.commit,
    RequestCode.UPDATE_CONSUMER_OFFSET: calls.commit,
    RequestCode.QUERY_CONSUMER_OFFSET: calls.committed,
    RequestCode.GET_MAX_OFFSET: calls.max_offset,
    RequestCode.GET_MIN_OFFSET: calls.min_offset,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: calls.search_offset,
    RequestCode.PULL_MESSAGE: messages.pull,
    RequestCode.CONSUMER_SEND_MSG_BACK: messages.send_back,
}


def client_codec(peer: Peer) -> ClientEdge:
    """RocketMQ's protocol as our client speaks it over one connection."""
    return ClientEdge(_OF_CLIENT, {RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: calls.members_changed}, peer)
