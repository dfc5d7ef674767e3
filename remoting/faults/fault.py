"""ConnectionFault: a fault of live connections, and the frames and connections that it affects. Pure.

    parse_fault({"do": "drop", "code": "NOTIFY_CONSUMER_IDS_CHANGED", "client": "c2", "n": 1})
        loses the next notification to the client c2
    parse_fault({"do": "delay", "peer": "10.0.0.7", "by_s": 0.2, "jitter_s": 0.1, "for_s": 30})
        delays all frames from or to that host

The verbs and columns have the names of the programmes of `rlab sim`, where those have them. A column that is left out
restricts nothing: a fault without a client affects all connections of the server.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

from model.errors import InvalidParameter
from model.limits import MAX_FAULT_S
from remoting.command import short_text
from remoting.request_code import RequestCode

TO_SERVER, TO_CLIENT = "to_server", "to_client"
DIRECTIONS = ("", TO_SERVER, TO_CLIENT)
SERVER_END, CLIENT_END = "server", "client"
RPCS = (
    *("QueryRoute", "Telemetry", "Heartbeat", "NotifyClientTermination", "SendMessage", "QueryAssignment"),
    *("ReceiveMessage", "AckMessage", "ChangeInvisibleDuration", "ForwardMessageToDeadLetterQueue"),
    *("EndTransaction", "RecallMessage"),
)
"""The calls of gRPC clients. RocketMQ: service.proto."""


class FaultVerb(NamedTuple):
    """One verb: its effect, in words that continue "the fault ...", and the columns that it reads for that."""

    does: str
    needs: tuple[str, ...] = ()
    may: tuple[str, ...] = ()
    on_frames: bool = True  # it affects frames; else whole connections


VERBS: dict[str, FaultVerb] = {
    "drop": FaultVerb("loses frames"),
    "delay": FaultVerb("delays frames by `by_s`, and up to `jitter_s` more", needs=("by_s",), may=("jitter_s",)),
    "duplicate": FaultVerb("sends or handles frames twice"),
    "cut": FaultVerb("resets connections at once; with a code, whenever such a frame passes"),
    "refuse": FaultVerb("resets connections, and each new one as soon as its client is known", on_frames=False),
    "pause": FaultVerb("reads nothing and sends nothing, as when the client hangs", on_frames=False),
    "half_open": FaultVerb(
        "ends connections at one `end`, server or client; the other end does not notice it",
        may=("end",),
        on_frames=False,
    ),
    "slow_reader": FaultVerb(
        "sends at most `rate` bytes a second, as to a slow reader", needs=("rate",), on_frames=False
    ),
}
"""Every verb by its name."""

_CHOICE = ("client", "group", "peer", "for_s", "n")
_OF_FRAMES = ("code", "rpc", "direction", "share", "one_in")


class Traffic(NamedTuple):
    """The properties of a frame by which a fault can choose it; code -1 stands for an unknown code."""

    code: int
    direction: str
    is_answer: bool
    client: str
    groups: tuple[str, ...]
    peer: str
    rpc: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionFault:
    """One fault.

    Attributes:
        do: a verb.
        client: a client id, or the part of one after the `@`.
        group: a consumer or producer group.
        peer: host of the client, or host:port.
        code: name of a request. Without a direction it means the requests, not their answers.
        rpc: name of a call of gRPC clients, such as AckMessage; in the same way.
        direction: `to_server` or `to_client`; "" for both.
        share: the part of the chosen frames that it affects, at random.
        one_in: it affects one in this many frames.
        n: how often it is carried out before it is over; 0 for any number.
        for_s: time after which it is over; 0 for until it is healed.
        by_s, jitter_s: the delay of frames, and the most that is added to it at random.
        rate: bytes a second.
        end: the end that is closed: `server` or `client`.
    """

    do: str
    client: str = ""
    group: str = ""
    peer: str = ""
    code: str = ""
    rpc: str = ""
    direction: str = ""
    share: float = 1.0
    one_in: int = 1
    n: int = 0
    for_s: float = 0.0
    by_s: float = 0.0
    jitter_s: float = 0.0
    rate: float = 0.0
    end: str = SERVER_END

    def __post_init__(self) -> None:
        verb = VERBS.get(self.do)
        if verb is None:
            raise InvalidParameter(f"there is no fault {short_text(self.do)}{_near(self.do, VERBS)}")
        reported = [name for name, value in _DEFAULTS.items() if getattr(self, name) != value]
        reads = (*_CHOICE, *(_OF_FRAMES if verb.on_frames else ()), *verb.needs, *verb.may)
        if foreign := [name for name in reported if name not in reads]:
            raise InvalidParameter(f"the fault {self.do} does not read {foreign[0]}; it reads {', '.join(reads)}")
        if missing := [name for name in verb.needs if name not in reported]:
            raise InvalidParameter(f"the fault {self.do} needs {missing[0]}")
        if self.code and self.code not in RequestCode.__members__:
            raise InvalidParameter(f"there is no request {self.code[:60]!r}{_near(self.code, RequestCode.__members__)}")
        if self.rpc and self.rpc not in RPCS:
            raise InvalidParameter(f"there is no call {self.rpc[:60]!r} of gRPC{_near(self.rpc, dict.fromkeys(RPCS))}")
        if self.direction not in DIRECTIONS or self.end not in (SERVER_END, CLIENT_END):
            raise InvalidParameter("direction is to_server or to_client, end is server or client")
        if not 0 < self.share <= 1:
            raise InvalidParameter(f"share is more than 0 and at most 1, got {self.share:g}")
        if self.one_in < 1 or self.n < 0:
            raise InvalidParameter("one_in is at least 1, n at least 0")
        for name in ("for_s", "by_s", "jitter_s"):
            if not 0 <= getattr(self, name) <= MAX_FAULT_S:
                raise InvalidParameter(f"{name} is 0 to {MAX_FAULT_S:g}, got {getattr(self, name):g}")
        if not 0 <= self.rate < float("inf"):
            raise InvalidParameter(f"rate is a number of bytes a second, got {self.rate:g}")

    @property
    def on_frames(self) -> bool:
        """Whether it affects frames, not connections as a whole."""
        return VERBS[self.do].on_frames and (self.do != "cut" or bool(self.code or self.rpc))

    @property
    def is_lasting(self) -> bool:
        """Whether it affects connections, new ones too, while it is active."""
        return not VERBS[self.do].on_frames

    def chooses(self, client: str, groups: tuple[str, ...], peer: str) -> bool:
        """Whether a connection is among those that it affects."""
        if self.client and self.client != client and self.client != client.rpartition("@")[2]:
            return False
        if self.group and self.group not in groups:
            return False
        return not self.peer or self.peer in (peer, peer.rpartition(":")[0])

    def hits(self, traffic: Traffic) -> bool:
        """Whether a frame is among those that it affects."""
        if self.code and (traffic.code != RequestCode[self.code] or (traffic.is_answer and not self.direction)):
            return False
        if self.rpc and (traffic.rpc != self.rpc or (traffic.is_answer and not self.direction)):
            return False
        if self.direction not in ("", traffic.direction):
            return False
        return self.chooses(traffic.client, traffic.groups, traffic.peer)

    def given(self) -> dict[str, Any]:
        """The columns that differ from their defaults, and the verb."""
        return {name: value for name, value in asdict(self).items() if value != _DEFAULTS.get(name)}

    def __str__(self) -> str:
        return " ".join([self.do, *(f"{name}={value}" for name, value in self.given().items() if name != "do")])


_DEFAULTS = {field.name: field.default for field in fields(ConnectionFault) if field.name != "do"}
_TYPES: dict[str, tuple[type, ...]] = {"str": (str,), "int": (int,), "float": (float, int)}


def parse_fault(document: Mapping[str, Any]) -> ConnectionFault:
    """Read a fault as a request or a command line gives it.

    Raises:
        InvalidParameter: an unknown verb, column or value; the text names the known ones.
    """
    types = {field.name: str(field.type) for field in fields(ConnectionFault)}
    for name, value in document.items():
        if name not in types:
            raise InvalidParameter(f"a fault has no column {short_text(name)}{_near(str(name), types)}")
        if isinstance(value, bool) or not isinstance(value, _TYPES[types[name]]):
            raise InvalidParameter(
                f"{name} is {'a text' if types[name] == 'str' else 'a number'}, got {short_text(value)}"
            )
    if "do" not in document:
        raise InvalidParameter(f"a fault needs do: one of {', '.join(VERBS)}")
    return ConnectionFault(**document)


def _near(name: object, known_names: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(str(name)[:60], list(known_names), 1)
    if near:
        return f"; did you mean {near[0]}?"
    return f"; there are {', '.join(known_names)}" if len(known_names) < 20 else "; docs/wire-protocol.md lists them"
