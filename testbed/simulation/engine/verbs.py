"""The verbs of a programme: the kinds of hosts that each applies to, and the columns of a step that it reads. Pure.

    crash     who = "billing-1"                 a member, a producer, a broker or a name server
    partition who = "broker-a", to = "billing-1", one_way = true, for_s = 5.0

A verb with `for_s` ends by itself after that many seconds; without it, or with 0, when the cluster is healed. What each
does is in `docs/simulation.md`, and how in `testbed/simulation/engine/acts.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

MEMBER, PRODUCER, BROKER, NAME_SERVER = "a member", "a producer", "a broker", "a name server"
REPLICA = "a replica of a broker"
BROKERS = (BROKER, REPLICA)
SERVERS = (*BROKERS, NAME_SERVER)
CLIENTS = (MEMBER, PRODUCER)
ANY = (*CLIENTS, *SERVERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """One verb."""

    who: tuple[str, ...]  # kinds of hosts it may be done to; empty if it is done to no host
    needs: tuple[str, ...] = ()  # columns beside `who` that it must have
    may: tuple[str, ...] = ()  # columns that it may have


VERBS: dict[str, Verb] = {
    "start": Verb(who=ANY),
    "stop": Verb(who=ANY),
    "crash": Verb(who=ANY),
    "restart": Verb(who=ANY, may=("for_s",)),
    "pause": Verb(who=ANY, may=("for_s",)),
    "cut": Verb(who=ANY, may=("to",)),
    "partition": Verb(who=ANY, needs=("to",), may=("one_way", "for_s")),
    "delay": Verb(who=ANY, needs=("to", "by_s"), may=("one_way", "for_s")),
    "drop_code": Verb(who=ANY, needs=("code",), may=("for_s", "one_in")),
    "delay_code": Verb(who=ANY, needs=("code", "by_s"), may=("for_s",)),
    "delay_heartbeats": Verb(who=CLIENTS, needs=("by_s",), may=("for_s",)),
    "clock_skew": Verb(who=ANY, needs=("by_s",), may=("for_s",)),
    "stale_route": Verb(who=CLIENTS, may=("for_s",)),
    "duplicate_id": Verb(who=(MEMBER,), may=("for_s",)),
    "half_open": Verb(who=ANY, may=("to", "for_s")),
    "slow": Verb(who=(MEMBER,), needs=("by_s",), may=("for_s",)),
    "flap": Verb(who=ANY, needs=("n", "period_s")),
    "unsubscribe": Verb(who=(MEMBER,), needs=("topic",)),
    "subscribe": Verb(who=(MEMBER,), needs=("topic",)),
    "scale": Verb(who=(), needs=("topic", "n")),
    "full_disk": Verb(who=BROKERS, may=("for_s",)),
    "power_cut": Verb(who=BROKERS, may=("for_s",)),
    "bit_rot": Verb(who=BROKERS, may=("for_s",)),
    "crash_at_change": Verb(who=BROKERS, needs=("n",)),
    "hand_over": Verb(who=(REPLICA,)),
    "elect": Verb(who=(REPLICA,)),
    "elect_beside": Verb(who=(REPLICA,)),
    "freeze_master": Verb(who=(REPLICA,), may=("for_s",)),
    "pause_vm": Verb(who=(REPLICA,), may=("for_s",)),
    "put_back": Verb(who=(REPLICA,), may=("for_s",)),
    "cut_register": Verb(who=(REPLICA,), may=("one_way", "for_s")),
    "delay_register": Verb(who=(REPLICA,), needs=("by_s",), may=("for_s",)),
    "lose_register_answers": Verb(who=(REPLICA,), needs=("n",)),
    "heal_core": Verb(who=()),
    "heal": Verb(who=()),
}
"""Every verb by its name."""
