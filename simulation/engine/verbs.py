"""The verbs of a programme: what each does, to whom, and which columns of a step it reads. Pure.

    crash     who = "billing-1"                 a member, a producer, a broker or a name server
    partition who = "broker-a", to = "billing-1", one_way = true, for_s = 5.0

A verb with `for_s` ends by itself after so many seconds; without it, or with 0, when the cluster is healed.
"""

from __future__ import annotations

from dataclasses import dataclass

MEMBER, PRODUCER, BROKER, NAME_SERVER = "a member", "a producer", "a broker", "a name server"
SERVERS = (BROKER, NAME_SERVER)
CLIENTS = (MEMBER, PRODUCER)
ANY = (*CLIENTS, *SERVERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """One verb."""

    does: str  # what it does, in words that continue "the step ..."
    who: tuple[str, ...]  # kinds of hosts it may be done to; empty if it is done to nobody
    needs: tuple[str, ...] = ()  # columns beside `who` that it must have
    may: tuple[str, ...] = ()  # columns that it may have


VERBS: dict[str, Verb] = {
    "start": Verb(does="starts a process that does not run", who=ANY),
    "stop": Verb(does="ends a process as SIGTERM does", who=ANY),
    "crash": Verb(does="ends a process as SIGKILL does", who=ANY),
    "restart": Verb(does="stops a process and starts it again, after `for_s` seconds", who=ANY, may=("for_s",)),
    "pause": Verb(does="delivers nothing to or from a host, as when its process hangs", who=ANY, may=("for_s",)),
    "cut": Verb(does="resets the connections of a host, or those to `to`", who=ANY, may=("to",)),
    "partition": Verb(
        does="stops everything between two hosts, or one way only", who=ANY, needs=("to",), may=("one_way", "for_s")
    ),
    "delay": Verb(
        does="delays everything between two hosts, or one way, by `by_s`",
        who=ANY,
        needs=("to", "by_s"),
        may=("one_way", "for_s"),
    ),
    "drop_code": Verb(
        does="loses every request of one code that comes to a host; with `one_in`, one in so many",
        who=ANY,
        needs=("code",),
        may=("for_s", "one_in"),
    ),
    "delay_code": Verb(
        does="delays every request of one code that comes to a host by `by_s`",
        who=ANY,
        needs=("code", "by_s"),
        may=("for_s",),
    ),
    "delay_heartbeats": Verb(
        does="delays the heartbeats of a client by `by_s`", who=CLIENTS, needs=("by_s",), may=("for_s",)
    ),
    "clock_skew": Verb(does="moves the wall clock of a host by `by_s`", who=ANY, needs=("by_s",), may=("for_s",)),
    "stale_route": Verb(
        does="leaves a client with the routes that it has: no name server answers it", who=CLIENTS, may=("for_s",)
    ),
    "duplicate_id": Verb(does="starts a second process with the client id of a member", who=(MEMBER,), may=("for_s",)),
    "half_open": Verb(
        does="resets the connections of a host at its own end; the other end does not learn of it",
        who=ANY,
        may=("to", "for_s"),
    ),
    "slow": Verb(
        does="makes a member work `by_s` longer on each message", who=(MEMBER,), needs=("by_s",), may=("for_s",)
    ),
    "flap": Verb(does="crashes and starts a process `n` times, every `period_s`", who=ANY, needs=("n", "period_s")),
    "unsubscribe": Verb(does="makes a member give up a topic", who=(MEMBER,), needs=("topic",)),
    "subscribe": Verb(does="makes a member take a topic up again", who=(MEMBER,), needs=("topic",)),
    "scale": Verb(does="gives a topic `n` queues on each broker", who=(), needs=("topic", "n")),
    "full_disk": Verb(does="lets the disk of a broker be full", who=(BROKER,), may=("for_s",)),
    "power_cut": Verb(
        does="cuts the power of a broker: what it has not synced may be lost; it starts again after `for_s`",
        who=(BROKER,),
        may=("for_s",),
    ),
    "bit_rot": Verb(
        does="stops a broker, damages one of its files at random, and starts it again", who=(BROKER,), may=("for_s",)
    ),
    "heal": Verb(does="repairs everything, and judges that all groups converge and get every message", who=()),
}
"""Every verb by its name."""

FOREVER = ("start", "stop", "crash")
"""Verbs that leave a process running or not until the next one."""
