"""The Python API: producers, consumers, the admin client, and the nouns they work with.

    from rlab.client import Message, Producer, PushConsumer

Strategies are in `rlab.client.allocate`, errors in `rlab.model.errors`; all else below is the project's own and may
change.

The members of a group are residents of one `instance` per process (connections, routes, heartbeats, the schedule of
passes). `rebalance` decides and owns queues, under `leases`; `pull` fetches, `listeners` runs users' code, `push`,
`pop` and `lite_pull` are the three kinds of consumers on top. `produce` sends, `transactions` sends together with a
local change, `admin` asks on behalf of operators.

Read `rebalance/member`, `instance/heartbeats`, `instance/schedule`, `rebalance/plan`, `rebalance/leased_queues`,
`pull/loop`, `push/consumer`, in this order; docs/reading.md names the lines.
"""

from __future__ import annotations

from client.admin.admin import Admin
from client.listeners.failed import Failed
from client.listeners.listener import ConsumeResult
from client.lite_pull.consumer import LitePullConsumer
from client.pop.consumer import PopConsumer
from client.pop.message import PopMessage
from client.produce.producer import Producer
from client.push.consumer import PushConsumer
from client.transactions.producer import TransactionProducer
from model.heartbeat import ConsumeFrom, MessageModel
from model.message import Message, MessageExt, SendResult
from model.message_queue import MessageQueue
from model.subscription import Sql
from model.transaction import TransactionState

__all__ = [
    "Admin",
    "ConsumeFrom",
    "ConsumeResult",
    "Failed",
    "LitePullConsumer",
    "Message",
    "MessageExt",
    "MessageModel",
    "MessageQueue",
    "PopConsumer",
    "PopMessage",
    "Producer",
    "PushConsumer",
    "SendResult",
    "Sql",
    "TransactionProducer",
    "TransactionState",
]
