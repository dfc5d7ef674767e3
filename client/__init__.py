"""The Python API: producers, consumers, the admin client, and the nouns they work with.

    from rlab.client import Message, Producer, PushConsumer

Strategies are in `rlab.client.allocate`, errors in `rlab.model.errors`. All other modules of this folder are internal
and may change.

The clients of a process share one `instance`: its connections, routes, heartbeats, and the schedule of rebalance
passes. `rebalance` decides which queues a member owns, and acquires them under `leases`; `pull` fetches messages, and
`listeners` calls the code of users. `push`, `pop` and `lite_pull` are the three kinds of consumers on top. `produce`
sends messages, `transactions` sends them together with a local change, and `admin` has the calls for operators.

Read `rebalance/member`, `instance/heartbeats`, `instance/schedule`, `rebalance/plan`, `rebalance/leased_queues`,
`pull/loop`, `push/consumer`, in this order; docs/reading.md names the lines.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from model.heartbeat import ConsumeFrom, MessageModel
from model.message import MESSAGE_GROUP, Message, MessageExt, SendResult
from model.message_queue import MessageQueue
from model.subscription import Sql
from model.topic_route import MessageType
from model.transaction import TransactionState

if TYPE_CHECKING:
    from client.admin.admin import Admin
    from client.listeners.failed import Failed
    from client.listeners.listener import ConsumeResult
    from client.lite_pull.consumer import LitePullConsumer
    from client.pop.consumer import PopConsumer
    from client.pop.message import PopMessage
    from client.produce.producer import Producer
    from client.push.consumer import PushConsumer
    from client.transactions.producer import TransactionProducer

__all__ = [
    "MESSAGE_GROUP",
    "Admin",
    "ConsumeFrom",
    "ConsumeResult",
    "Failed",
    "LitePullConsumer",
    "Message",
    "MessageExt",
    "MessageModel",
    "MessageQueue",
    "MessageType",
    "PopConsumer",
    "PopMessage",
    "Producer",
    "PushConsumer",
    "SendResult",
    "Sql",
    "TransactionProducer",
    "TransactionState",
]

_MODULES = {
    "Admin": "client.admin.admin",
    "ConsumeResult": "client.listeners.listener",
    "Failed": "client.listeners.failed",
    "LitePullConsumer": "client.lite_pull.consumer",
    "PopConsumer": "client.pop.consumer",
    "PopMessage": "client.pop.message",
    "Producer": "client.produce.producer",
    "PushConsumer": "client.push.consumer",
    "TransactionProducer": "client.transactions.producer",
}
"""The names that are imported at their first use: a strategy or the schedule is used without the network of a client,
whose import takes 0.4 s of CPU time.
"""

if not TYPE_CHECKING:  # else type checkers would accept every name

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_MODULES[name]), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
