"""The dialects of a name server and of a broker: the translator of each request. Pure.

Three tables map request codes to functions of the modules beside this one. A request of RocketMQ that is not in the
table of a server is refused as not supported.
"""

from __future__ import annotations

from remoting.codec import Dialect
from remoting.request_code import RequestCode
from rocketmq import admin, joining, popping, pulling, routes, sending, transactions
from rocketmq.edge import Notifier, RocketmqDialect, ServerFacts, Translator
from rocketmq.grpc.lazy_dialect import lazy_broker_grpc, lazy_name_server_grpc

_MAX_BINARY_CODE = 0x7FFF
SEND_MESSAGE_V2 = 310
LITE_PULL_MESSAGE = 361
CHECK_CLIENT_CONFIG = 46
GET_TOPIC_STATS_INFO, GET_TOPIC_CONFIG = 202, 351
QUERY_TOPIC_CONSUME_BY_WHO, VIEW_BROKER_STATS_DATA = 300, 315
GET_KV_CONFIG, DELETE_KV_CONFIG, GET_KVLIST_BY_NAMESPACE = 101, 102, 219

_NAME_SERVER_TRANSLATORS: dict[int, Translator] = {
    RequestCode.GET_ROUTEINFO_BY_TOPIC: routes.route,
    RequestCode.GET_BROKER_CLUSTER_INFO: routes.cluster_info,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: routes.topics,
    RequestCode.DELETE_TOPIC_IN_NAMESRV: routes.delete_topic,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: routes.wipe_write_perm,
    RequestCode.ADD_WRITE_PERM_OF_BROKER: routes.add_write_perm,
    GET_KV_CONFIG: routes.get_kv_config,
    DELETE_KV_CONFIG: routes.delete_kv_config,
    GET_KVLIST_BY_NAMESPACE: routes.get_kv_config,
}
_BROKER_TRANSLATORS: dict[int, Translator] = {
    RequestCode.SEND_MESSAGE: sending.send,
    SEND_MESSAGE_V2: sending.send,
    RequestCode.SEND_BATCH_MESSAGE: sending.send,
    RequestCode.RECALL_MESSAGE: sending.recall,
    RequestCode.END_TRANSACTION: transactions.end,
    RequestCode.PULL_MESSAGE: pulling.pull,
    LITE_PULL_MESSAGE: pulling.pull,
    RequestCode.CONSUMER_SEND_MSG_BACK: pulling.send_back,
    RequestCode.GET_MAX_OFFSET: pulling.max_offset,
    RequestCode.GET_MIN_OFFSET: pulling.min_offset,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: pulling.search_offset,
    RequestCode.QUERY_CONSUMER_OFFSET: pulling.query_offset,
    RequestCode.UPDATE_CONSUMER_OFFSET: pulling.update_offset,
    RequestCode.HEART_BEAT: joining.heartbeat,
    RequestCode.UNREGISTER_CLIENT: joining.unregister,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: joining.members,
    RequestCode.LOCK_BATCH_MQ: joining.lock,
    RequestCode.UNLOCK_BATCH_MQ: joining.unlock,
    CHECK_CLIENT_CONFIG: joining.check_config,
    RequestCode.QUERY_ASSIGNMENT: popping.query_assignment,
    RequestCode.SET_MESSAGE_REQUEST_MODE: popping.set_mode,
    RequestCode.POP_MESSAGE: popping.pop,
    RequestCode.ACK_MESSAGE: popping.acknowledge,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: popping.change_invisible_time,
    RequestCode.UPDATE_AND_CREATE_TOPIC: routes.update_topic,
    RequestCode.DELETE_TOPIC_IN_BROKER: routes.delete_broker_topic,
    GET_TOPIC_STATS_INFO: routes.topic_stats,
    GET_TOPIC_CONFIG: routes.topic_config,
    RequestCode.GET_BROKER_RUNTIME_INFO: admin.runtime_info,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: admin.update_group,
    RequestCode.DELETE_SUBSCRIPTIONGROUP: admin.delete_group,
    QUERY_TOPIC_CONSUME_BY_WHO: admin.groups_of_topic,
    RequestCode.GET_CONSUME_STATS: admin.consume_stats,
    RequestCode.GET_CONSUMER_CONNECTION_LIST: admin.consumers,
    RequestCode.GET_BROKER_CONSUME_STATS: admin.all_consume_stats,
    RequestCode.GET_CONSUMER_RUNNING_INFO: admin.running_info,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: admin.consume_directly,
    RequestCode.GET_PRODUCER_CONNECTION_LIST: admin.producers,
    VIEW_BROKER_STATS_DATA: admin.view_broker_stats,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: admin.reset_offsets,
    RequestCode.VIEW_MESSAGE_BY_ID: admin.view_message,
    RequestCode.QUERY_MESSAGE: admin.query_message,
}
_BROKER_TRANSLATORS |= {
    code & 0xFFFF: translator for code, translator in _BROKER_TRANSLATORS.items() if code > _MAX_BINARY_CODE
}
"""A binary header has 16 bits for the code: clients truncate the codes of POP, and the truncated codes are unique."""
_BROKER_NOTIFIERS: dict[int, Notifier] = {
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: joining.members_changed,
    RequestCode.NOTIFY_QUEUES_RELEASED: joining.members_changed,
    RequestCode.CHECK_TRANSACTION_STATE: transactions.check,
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET: admin.offsets_reset,
    RequestCode.GET_CONSUMER_RUNNING_INFO: admin.ask_running_info,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: admin.ask_to_consume,
}


def name_server_dialect() -> RocketmqDialect:
    """RocketMQ's protocol as a name server accepts it."""
    return RocketmqDialect(ServerFacts(), _NAME_SERVER_TRANSLATORS, {})


def broker_dialect(facts: ServerFacts) -> RocketmqDialect:
    """RocketMQ's protocol as a broker accepts it."""
    return RocketmqDialect(facts, _BROKER_TRANSLATORS, _BROKER_NOTIFIERS)


def name_server_dialects() -> tuple[Dialect, ...]:
    """Both protocols of RocketMQ, remoting and gRPC, as a name server accepts them."""
    return name_server_dialect(), lazy_name_server_grpc()


def broker_dialects(facts: ServerFacts) -> tuple[Dialect, ...]:
    """Both protocols of RocketMQ, remoting and gRPC, as a broker accepts them."""
    return broker_dialect(facts), lazy_broker_grpc(facts)
