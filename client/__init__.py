"""What people import: producers, consumers, the admin client, and the nouns they work with.

from client import Message, Producer, PushConsumer
"""

from __future__ import annotations

from client.admin.admin import Admin
from client.listeners.listener import ConsumeResult
from client.lite_pull.consumer import LitePullConsumer
from client.pop.consumer import PopConsumer
from client.pop.message import PopMessage
from client.produce.producer import Producer
from client.push.consumer import PushConsumer
from model.heartbeat import ConsumeFrom, MessageModel
from model.message import Message, MessageExt, SendResult
from model.message_queue import MessageQueue

__all__ = [
    "Admin",
    "ConsumeFrom",
    "ConsumeResult",
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
]
