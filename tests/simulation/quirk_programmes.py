"""Programmes for quirks of replica sets and for a planted bug, which keep every promise without it."""

from __future__ import annotations

from model.quirks import Quirk

PROGRAMME = """
lasts_s = 30.0
[cluster]
brokers = 1
copies = {copies}
elect = "{elect}"
[promise]
converge_s = 40.0
settle_s = 90.0
stale_s = 120.0
[load]
messages = 300
pause_s = 0.05
[[topic]]
name = "orders"
queues = 2
[[group]]
name = "billing"
members = 2
{steps}
"""
SLOW_WAY = """
[[step]]
at_s = 4.0
do = "delay"
who = "broker-a-1"
to = "broker-a-{last}"
for_s = 3.0
by_s = 0.3
"""
LOST_MASTER = """
[[step]]
at_s = 6.5
do = "crash"
who = "broker-a-1"
[[step]]
at_s = 8.0
do = "elect"
who = "broker-a-{last}"
[[step]]
at_s = 20.0
do = "start"
who = "broker-a-1"
"""
MEMBERS_RETURN = """
[[step]]
at_s = 5.0
do = "stop"
who = "billing-1"
[[step]]
at_s = 5.5
do = "restart"
who = "billing-2"
for_s = 6.0
"""
LOST_EARLY = """
[[step]]
at_s = 2.0
do = "crash"
who = "broker-a-1"
[[step]]
at_s = 3.5
do = "elect"
who = "broker-a-2"
[[step]]
at_s = 20.0
do = "start"
who = "broker-a-1"
"""
LEFT_OUT = """
[[step]]
at_s = 2.0
do = "partition"
who = "broker-a-1"
to = "broker-a-2"
for_s = 8.0
[[step]]
at_s = 7.0
do = "crash"
who = "broker-a-1"
[[step]]
at_s = 20.0
do = "start"
who = "broker-a-1"
"""


def _run(steps: str, *, copies: int = 2, elect: str = "operator") -> str:
    return PROGRAMME.format(copies=copies, elect=elect, steps=steps.format(last=copies))


WRITTEN = {
    Quirk.ACK_BEFORE_REPLICATED: _run(SLOW_WAY + LOST_MASTER),
    Quirk.ACK_WITHOUT_IDENTITY: _run(SLOW_WAY + LOST_MASTER, copies=3),
    Quirk.ELECT_OUT_OF_SYNC: _run(LEFT_OUT, elect="auto"),
    Quirk.SLAVE_OFFSETS_GO_BACK: _run(MEMBERS_RETURN + LOST_MASTER),
    Quirk.SLAVE_SYNC_DELETES_TOPICS: _run(LOST_EARLY),
}
"""The last replica is slow but in sync, the master is lost, and that replica is elected; or it is not in sync."""

MASTER_IS_STOPPED = """
lasts_s = 14.0
[cluster]
brokers = 1
copies = 2
elect = "auto"
[load]
producers = 4
messages = 300
pause_s = 0.02
[[topic]]
name = "orders"
queues = 2
[[group]]
name = "billing"
members = 2
session_s = 4.0
[[group]]
name = "poppers"
mode = "pop"
members = 2
session_s = 4.0
[[step]]
at_s = 1.0
do = "freeze_master"
who = "broker-a-1"
for_s = 4.0
[[step]]
at_s = 8.0
do = "freeze_master"
who = "broker-a-1"
for_s = 4.0
"""
"""Frames of a busy master are confirmed while its process is stopped: it reads that when another master serves.

A pop that waits for its delivery to be stored is still there then: producers have closed their connections.
"""

MASTER_IS_PAUSED = MASTER_IS_STOPPED.replace("freeze_master", "pause_vm")
"""The same while its machine is paused: the clock of its lease stands where it was when it reads that."""

MEMBER_IS_CUT_OFF = """
lasts_s = 26.0
[cluster]
brokers = 1
copies = 2
elect = "auto"
[promise]
converge_s = 40.0
settle_s = 90.0
stale_s = 120.0
[load]
producers = 3
messages = 400
pause_s = 0.1
keys = 20
[[topic]]
name = "orders"
queues = 2
[[group]]
name = "billing"
members = 2
session_s = 4.0
order = "key"
work_s = 0.5
[[step]]
at_s = 1.0
do = "slow"
who = "billing-1"
by_s = 4.0
for_s = 20.0
[[step]]
at_s = 2.0
do = "freeze_master"
who = "broker-a-1"
for_s = 12.0
[[step]]
at_s = 6.0
do = "partition"
who = "billing-1"
to = "broker-a-2"
for_s = 12.0
"""
"""A slow member keeps its queue through an election, and then does not reach the new master, which gives the queue to
the other member. The first one still has messages when its session ends, and the old master wakes up.
"""
