"""A trace of 25 seconds made by hand, whose moves, pauses and duplicates can be worked out on paper.

Two queues on one broker. c1 joins; c2 joins and waits 46 ms for q1, until the listener of c1 is done; c2 leaves and c1
has both again; c3 joins and gets q1; c1 hangs at 15,000 ms and is taken out 5 s later, which is the session timeout.

    q0   c1 16 ............................................ 15000 (silent)      c3 20007 ...... 25000
    q1   c1 16 .. 1004   c2 1056 .. 5000   c1 5010 .. 12004      c3 12011 ..................... 25000
"""

from __future__ import annotations

from model.events import Event, EventKind

K = EventKind
TIMEOUT_MS = 5_000.0
START_MS = 1_700_000_000_000.0


class _Trace:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def say(self, t_ms: float, node: str, kind: EventKind, **columns: object) -> None:
        group = "" if kind == K.ROUTE_CHANGED else "g"
        event = Event(START_MS + t_ms, node, len(self.events) + 1, kind, group=group, **columns)  # type: ignore[arg-type]
        self.events.append(event)

    def join(self, t_ms: float, client: str, version: int) -> None:
        self.say(t_ms - 5, client, K.ROUTE_CHANGED, topic="t", client=client, n=2)
        self.say(t_ms, "b", K.MEMBER_JOIN, broker="b", client=client, version=version, detail="t=*")

    def begin(self, t_ms: float, client: str, trigger: str) -> None:
        self.say(t_ms, client, K.REBALANCE_BEGIN, client=client, detail=trigger)

    def end(self, t_ms: float, client: str, trigger: str, version: int, state: str = "balanced") -> None:
        self.say(t_ms, client, K.REBALANCE_END, client=client, version=version, detail=f"{trigger} {state}")

    def queue(self, t_ms: float, node: str, kind: EventKind, queue_id: int, client: str, **columns: object) -> None:
        self.say(t_ms, node, kind, topic="t", broker="b", queue_id=queue_id, client=client, **columns)


def golden_events() -> list[Event]:
    trace = _Trace()
    say, join, begin, end, queue = trace.say, trace.join, trace.begin, trace.end, trace.queue
    say(0, "b", K.ROUTE_CHANGED, topic="t", broker="b", n=2, detail="read=2 write=2 perm=6")
    join(10, "c1", 1)
    begin(12, "c1", "START")
    queue(14, "b", K.LOCK_GRANTED, 0, "c1", offset=0, n=0)
    queue(14, "b", K.LOCK_GRANTED, 1, "c1", offset=0, n=0)
    end(16, "c1", "START", 1)

    join(1000, "c2", 2)
    begin(1003, "c1", "NOTIFY")
    begin(1003.5, "c2", "START")
    queue(1004, "c1", K.QUEUE_DROPPED, 1, "c1", detail="revoked")
    end(1005, "c1", "NOTIFY", 2)
    queue(1006, "b", K.LOCK_REFUSED, 1, "c2", detail="c1")
    end(1007, "c2", "START", 2, "unbalanced")
    queue(1050, "b", K.QUEUE_RELEASED, 1, "c1")
    begin(1052, "c2", "LOCK")
    queue(1054, "b", K.LOCK_GRANTED, 1, "c2", offset=10, n=0)
    end(1056, "c2", "LOCK", 2)

    say(5000, "c2", K.CLIENT_STOP, client="c2")
    queue(5000, "c2", K.QUEUE_DROPPED, 1, "c2", detail="shutdown")
    queue(5000, "b", K.OFFSET_COMMITTED, 0, "c1", offset=50, n=0)
    queue(5002, "b", K.QUEUE_RELEASED, 1, "c2")
    say(5003, "b", K.MEMBER_LEAVE, broker="b", client="c2", version=3, detail="unregister")
    begin(5006, "c1", "NOTIFY")
    queue(5008, "b", K.LOCK_GRANTED, 1, "c1", offset=50, n=0)
    end(5010, "c1", "NOTIFY", 3)

    queue(10000, "b", K.OFFSET_COMMITTED, 0, "c1", offset=100, n=0)
    join(12000, "c3", 4)
    begin(12003, "c1", "NOTIFY")
    queue(12004, "c1", K.QUEUE_DROPPED, 1, "c1", detail="revoked")
    end(12005, "c1", "NOTIFY", 4)
    queue(12006, "b", K.QUEUE_RELEASED, 1, "c1")
    begin(12007, "c3", "START")
    queue(12009, "b", K.LOCK_GRANTED, 1, "c3", offset=120, n=0)
    end(12011, "c3", "START", 4)

    say(20000, "b", K.MEMBER_LEAVE, broker="b", client="c1", version=5, detail="expiry")
    begin(20003, "c3", "NOTIFY")
    queue(20005, "b", K.LOCK_GRANTED, 0, "c3", offset=100, n=100)
    end(20007, "c3", "NOTIFY", 5)
    queue(25000, "b", K.OFFSET_COMMITTED, 1, "c3", offset=250, n=0)
    return trace.events
