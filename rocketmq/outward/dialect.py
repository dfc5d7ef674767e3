"""The dialect of our client at servers of RocketMQ: the translator of each request. Pure."""

from __future__ import annotations

from remoting.codec import Peer
from remoting.request_code import RequestCode
from rocketmq.outward import admin, members, messages, pops, queues, routes, transactions
from rocketmq.outward.edge import ClientEdge, Cluster, ForwardedHandler, Listener, OutwardTranslator, Server

_TRANSLATORS: dict[int, OutwardTranslator] = {
    RequestCode.GET_SERVER_STATE: routes.state,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: routes.route,
    RequestCode.GET_BROKER_CLUSTER_INFO: routes.brokers,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: routes.topics,
    RequestCode.UPDATE_AND_CREATE_TOPIC: routes.put_topic,
    RequestCode.SEND_MESSAGE: messages.send,
    RequestCode.SEND_BATCH_MESSAGE: messages.send_batch,
    RequestCode.RECALL_MESSAGE: messages.recall,
    RequestCode.SEND_HALF_MESSAGE: transactions.half,
    RequestCode.END_TRANSACTION: transactions.end,
    RequestCode.HEART_BEAT: members.heartbeat,
    RequestCode.UNREGISTER_CLIENT: members.leave,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: members.members,
    RequestCode.LOCK_BATCH_MQ: queues.lock,
    RequestCode.UNLOCK_BATCH_MQ: queues.unlock,
    RequestCode.UPDATE_CONSUMER_OFFSET: queues.commit,
    RequestCode.QUERY_CONSUMER_OFFSET: queues.query_committed,
    RequestCode.GET_MAX_OFFSET: queues.max_offset,
    RequestCode.GET_MIN_OFFSET: queues.min_offset,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: queues.search_offset,
    RequestCode.PULL_MESSAGE: messages.pull,
    RequestCode.PULL_MESSAGE_BY_SQL: messages.pull,
    RequestCode.CONSUMER_SEND_MSG_BACK: messages.send_back,
    RequestCode.GET_BROKER_RUNTIME_INFO: admin.broker_info,
    RequestCode.GET_GROUP_LIST: admin.groups,
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: admin.settings,
    RequestCode.GET_CONSUMER_CONNECTION_LIST: admin.connections,
    RequestCode.GET_CONSUME_STATS: admin.progress,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: admin.reset,
    RequestCode.QUERY_MESSAGE: admin.query_message,
    RequestCode.VIEW_MESSAGE_BY_ID: admin.view_message,
    RequestCode.DELETE_TOPIC_IN_BROKER: admin.delete_topic,
    RequestCode.DELETE_TOPIC_IN_NAMESRV: admin.forget_topic,
    RequestCode.POP_MESSAGE: pops.pop,
    RequestCode.POP_MESSAGE_BY_SQL: pops.pop,
    RequestCode.ACK_MESSAGE: pops.acknowledge,
    RequestCode.BATCH_ACK_MESSAGE: pops.acknowledge,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: pops.change_invisible_time,
}
_LISTENERS: dict[int, Listener] = {
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: members.members_changed,
    RequestCode.CHECK_TRANSACTION_STATE: transactions.check,
}
_ANSWERED_BY_CLIENT: dict[int, ForwardedHandler] = {RequestCode.GET_CONSUMER_RUNNING_INFO: members.running_info}


class OutwardDialect:
    """RocketMQ's protocol as the connections of one client speak it."""

    def __init__(self) -> None:
        self._cluster = Cluster()

    def codec(self, peer: Peer, address: str) -> ClientEdge:
        """The codec of a new connection to an address."""
        return ClientEdge(_TRANSLATORS, _LISTENERS, _ANSWERED_BY_CLIENT, peer, Server(self._cluster, address))
