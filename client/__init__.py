"""What people import: producers, consumers, the admin client, and the nouns they work with.

from client import Message, Producer, PushConsumer
"""

from __future__ import annotations

from client.admin import Admin
from client.consumer import ConsumeResult
from client.lite_pull_consumer import LitePullConsumer
from client.pop_consumer import PopConsumer
from client.pop_message import PopMessage
from client.producer import Producer
from client.push_consumer import PushConsumer
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
