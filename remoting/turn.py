"""How much of a turn of the loop a command takes. Pure.

A connection handles some work in a turn, then lets others have theirs, and what it answered be sent. Handled all at
once, twenty requests would be answered all at once: then the peer works while this side waits, and the other way round,
and half of each core idles. Handled one by one, requests that could share a write to the disk would not.

    a send, a heartbeat, an answer       1
    a batch of sends                     1, and 1 for each 512 bytes
    a pull, a pop, an acknowledgement    4: each is about some dozens of messages
"""

from __future__ import annotations

from model.limits import BODY_BYTES_AS_ONE_COMMAND, COMMANDS_PER_BATCH
from remoting.command import RESPONSE, Command
from remoting.wire.request_code import RequestCode

_BATCHES: dict[int, int] = dict.fromkeys(
    (RequestCode.PULL_MESSAGE, RequestCode.POP_MESSAGE, RequestCode.BATCH_ACK_MESSAGE), COMMANDS_PER_BATCH
)


def work_of(command: Command) -> int:
    """As how many commands it counts; a turn takes `COMMANDS_PER_TURN`."""
    if command.flags == RESPONSE:
        # What a pull brought only wakes the one who waits for it; with fewer per turn a consumer took half as much.
        return 1
    work = _BATCHES.get(command.code, 1)
    return work + len(command.body) // BODY_BYTES_AS_ONE_COMMAND if command.body else work
