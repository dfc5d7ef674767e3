"""Command: one frame, decoded. RocketMQ: RemotingCommand. Pure.

A connection handles only some commands in an event-loop iteration (`connection.py` has the reason), but more than one:
otherwise requests could not share a write to the disk. So a command has a cost, and an iteration handles commands of a
total cost of `COMMANDS_PER_ITERATION`:

    a send, a heartbeat, an answer       1
    a batch of sends                     1, and 1 for each 512 bytes
    a pull, a pop, an acknowledgement    4: each is about some dozens of messages
"""

from __future__ import annotations

from typing import Any, NamedTuple

from model.errors import NotMaster, RlabError, SystemBusy, make_error
from model.limits import BODY_BYTES_AS_ONE_COMMAND, COMMANDS_PER_BATCH
from remoting.request_code import RequestCode

REQUEST = 0
RESPONSE = 1
ONE_WAY = 2
"""Values of `flags`, as in RocketMQ: bit 0 marks a response, bit 1 a request that wants no answer."""

_SHOWN_CHARS = 80


class Command(NamedTuple):
    """One frame; `remoting/wire/schema.py` lists the fields of headers."""

    flags: int
    code: int  # the request code; in a response the response code
    opaque: int  # chosen by the sender of a request and returned in its response
    header: dict[str, Any]
    body: bytes | None


class NamedOpaque(int):
    """The opaque number of a request that came as a call of another protocol, with the name of the call there.

    Such a protocol has the frames of several calls in one stream that cannot lose one of them.

    Attributes:
        outcomes: error codes that the translator of the call answers otherwise, so they do not refuse the call.
    """

    name: str
    outcomes: tuple[int, ...] = ()


def call_name(command: Command) -> str:
    """The name of a request in the protocol of its client; "" if that is the protocol of this project."""
    return command.opaque.name if isinstance(command.opaque, NamedOpaque) else ""


def is_outcome(command: Command, code: int) -> bool:
    """Whether an error code does not refuse the call that a request came as; see `NamedOpaque`."""
    return isinstance(command.opaque, NamedOpaque) and code in command.opaque.outcomes


class Reply(NamedTuple):
    """The answer of a request handler; the connection adds the opaque."""

    header: dict[str, Any]
    body: bytes | None = None
    code: int = 0


def short_text(value: object) -> str:
    """Return a short text for any value that a peer sent, for an error message.

    Not `repr`: for a string of megabytes the error would be longer than a frame may be, and a list nested a thousand
    deep would end in a RecursionError.
    """
    if isinstance(value, str | bytes):
        return repr(value[:_SHOWN_CHARS]) + ("..." if len(value) > _SHOWN_CHARS else "")
    if value is None or isinstance(value, int | float):
        return "nothing" if value is None else repr(value)
    return f"a {type(value).__name__}"


_BATCHES: dict[int, int] = dict.fromkeys(
    (
        *(RequestCode.PULL_MESSAGE, RequestCode.PULL_MESSAGE_BY_SQL),
        *(RequestCode.POP_MESSAGE, RequestCode.POP_MESSAGE_BY_SQL, RequestCode.BATCH_ACK_MESSAGE),
    ),
    COMMANDS_PER_BATCH,
)


def request_cost(command: Command) -> int:
    """Return the cost of a command; see the module header."""
    if command.flags == RESPONSE:
        # The answer to a pull only wakes its caller; with fewer of them per iteration a consumer got half as many
        # messages.
        return 1
    cost = _BATCHES.get(command.code, 1)
    return cost + len(command.body) // BODY_BYTES_AS_ONE_COMMAND if command.body else cost


def error_of_response(response: Command) -> RlabError:
    """The error for a response whose code is not SUCCESS."""
    error = make_error(response.code, str(response.header.get("remark", "no remark")))
    if isinstance(error, SystemBusy) and type(retry_after_ms := response.header.get("retry_after_ms")) is int:
        error.retry_after_s = retry_after_ms / 1000
    elif isinstance(error, NotMaster) and type(address := response.header.get("master_address")) is str:
        error.master_address = address
        error.epoch = epoch if type(epoch := response.header.get("epoch")) is int else 0
    return error
