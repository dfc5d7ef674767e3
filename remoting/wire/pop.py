"""What the requests of POP carry and answer. RocketMQ: PopMessageRequestHeader, AckMessageRequestHeader.

A receipt handle is (broker, topic, queue id, offset, token): the broker made the token up for one delivery, at random,
and gives it with the batch. It is dead as soon as the message is acknowledged, delivered again or made invisible anew.
"""

from __future__ import annotations

from model.limits import MAX_INVISIBLE_MS, MAX_POP_BATCH, MIN_INVISIBLE_MS
from remoting.wire.field import CLIENT, GROUP, QUEUE, TOPIC, Field, RequestSchema
from remoting.wire.request_code import RequestCode

ANY_QUEUE = -1
"""Queue id of a pop that takes messages of whatever queue of the topic has some."""

_ACK_BODY = "msgpack array of [topic, queue id, token, [offset, ...]]"
_ACK_ANSWER = (
    "once it is stored: body: msgpack array of [topic, queue id, offset] of the messages whose handles were dead: "
    "acknowledged, delivered again or made invisible anew before. The others are done with"
)

POP_SCHEMA: dict[RequestCode, RequestSchema] = {
    RequestCode.POP_MESSAGE: RequestSchema(
        sender="consumer -> broker",
        purpose="Take messages of a topic for a time in which nobody else of the group gets them; held until there are "
        "some when `suspend_ms` is positive. A message that is not acknowledged in that time comes again. A message "
        "that `tag_hashes` passes over is done with for the group.",
        fields=(
            GROUP,
            TOPIC,
            Field("queue_id", int, f"queue of the topic on this broker; {ANY_QUEUE} for any", minimum=ANY_QUEUE),
            CLIENT,
            Field("max_n", int, "messages at the most", minimum=1, maximum=MAX_POP_BATCH),
            Field(
                "invisible_ms",
                int,
                "how long nobody else gets them",
                minimum=MIN_INVISIBLE_MS,
                maximum=MAX_INVISIBLE_MS,
            ),
            Field("suspend_ms", int, "how long the broker may hold the request", minimum=0, maximum=60_000),
            Field("tag_hashes", list, "hashes of the wanted tags; absent for all", required=False),
            Field("order", bool, "only of queues of which the group has no message in flight, in their order", False),
            Field(
                "max_attempts", int, "deliveries after which a message becomes a dead letter; absent for 16", False, 1
            ),
            Field(
                "consume_from",
                str,
                "where a group begins that has committed nothing: `LAST_OFFSET`, `FIRST_OFFSET` or `TIMESTAMP`; absent "
                "for what the member's heartbeat says, or the last",
                required=False,
            ),
            Field("consume_timestamp_ms", int, "for `TIMESTAMP`, wall clock in milliseconds", False, minimum=0),
            Field(
                "retry",
                bool,
                f"also messages of the group's retry topic; absent for yes with queue {ANY_QUEUE} and no `order`",
                required=False,
            ),
        ),
        answer="once it is stored: body: msgpack array of batches [topic, queue id, token, when they come again in "
        "wall clock ms, [how often each was delivered, this time included, ...], stored records back to back]. "
        "PULL_NOT_FOUND when nothing came, before `suspend_ms` is over if a filter passes over so much that others "
        "should have their turn; POLLING_FULL when too many pops are held",
    ),
    RequestCode.ACK_MESSAGE: RequestSchema(
        sender="consumer -> broker",
        purpose="Messages were consumed.",
        fields=(GROUP, CLIENT),
        body=_ACK_BODY,
        answer=_ACK_ANSWER,
    ),
    RequestCode.BATCH_ACK_MESSAGE: RequestSchema(
        sender="consumer -> broker",
        purpose="The same as ACK_MESSAGE.",
        fields=(GROUP, CLIENT),
        body=_ACK_BODY,
        answer=_ACK_ANSWER,
    ),
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: RequestSchema(
        sender="consumer -> broker",
        purpose="Let a message stay invisible for so long from now on; 0 gives it back at once.",
        fields=(
            GROUP,
            TOPIC,
            QUEUE,
            CLIENT,
            Field("offset", int, "its offset", minimum=0),
            Field("token", int, "of its handle", minimum=1),
            Field(
                "invisible_ms",
                int,
                "how long nobody else gets it, up to 10 ms longer",
                minimum=0,
                maximum=MAX_INVISIBLE_MS,
            ),
        ),
        answer="once it is stored: header `token`: of the new handle, for the old one is dead; `visible_ms`: when it "
        "comes again, wall clock in milliseconds. NO_MESSAGE when the handle is dead",
    ),
    RequestCode.GET_POP_STATS: RequestSchema(
        sender="admin -> broker",
        purpose="What a group has in flight by POP, of every queue of which it has something unacknowledged.",
        fields=(GROUP, Field("topic", str, "only this topic", required=False)),
        answer="body: msgpack array of [topic, queue id, first offset not acknowledged, first offset never delivered, "
        "messages in flight, messages that wait to be delivered again, for how many ms the oldest of those in flight "
        "has been, in how many ms the next comes again (both -1 when none is), most deliveries of one message, whether "
        "the queue is being handed over to PULL, [[client id, messages in flight], ...]]",
    ),
}
