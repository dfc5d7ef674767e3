"""Events of one group, made by hand: short names, and numbers that count by themselves."""

from __future__ import annotations

from typing import Any

from model.events import Event, EventKind
from traces.figures.group import GroupFigures, Row
from traces.figures.records import Ownership, Rebalance, order_of

E = EventKind


class Story:
    """Events of group g; causes and clients are given as they are."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._seqs: dict[str, int] = {}

    def tell(self, t_ms: float, node: str, kind: EventKind, cause: str = "", **columns: Any) -> str:
        seq = self._seqs[node] = self._seqs.get(node, 0) + 1
        cause = cause or f"{node}/{seq}"
        self.events.append(Event(t_ms, node, seq, kind.value, cause, **{"group": "g", **columns}))
        return cause

    def client(self, t_ms: float, client: str, kind: EventKind, cause: str = "", **columns: Any) -> str:
        return self.tell(t_ms, client, kind, cause, client=client, **columns)

    def queue(
        self, t_ms: float, client: str, kind: EventKind, cause: str = "", queue_id: int = 0, **columns: Any
    ) -> str:
        node = "b" if kind in (E.LOCK_GRANTED, E.LOCK_EXPIRED, E.OFFSET_RESET) else client
        place = {"topic": "t", "broker": "b", "queue_id": queue_id, "client": client}
        return self.tell(t_ms, node, kind, cause, **{**place, **columns})

    def run(self, end_ms: float | None = None) -> tuple[GroupFigures, list[Ownership], list[Rebalance]]:
        figures = GroupFigures("g")
        rows: list[Row] = []
        for event in sorted(self.events, key=order_of):
            rows += figures.feed(event)
        rows += figures.finish(end_ms)
        owned = [row for row in rows if isinstance(row, Ownership)]
        return figures, sorted(owned, key=lambda row: row.from_ms), [row for row in rows if isinstance(row, Rebalance)]


def moved_story() -> Story:
    """c1 has both queues, c2 joins and gets one of them."""
    story = Story()
    first = story.client(0, "c1", E.CLIENT_START)
    story.queue(5, "c1", E.LOCK_GRANTED, first, version=7, offset=0, n=100)
    story.queue(6, "c1", E.QUEUE_ACQUIRED, first, version=7, offset=0)
    story.queue(6, "c1", E.QUEUE_ACQUIRED, first, queue_id=1, version=7, offset=0)
    joined = story.client(100, "c2", E.CLIENT_START)
    story.client(103, "c1", E.REBALANCE_BEGIN, joined, detail="NOTIFY")
    story.queue(150, "c1", E.MESSAGES_HANDED_OUT, first, version=7, offset=60, n=60)
    story.queue(150, "c1", E.QUEUE_DROPPED, joined, version=7, detail="revoked")
    story.client(151, "c1", E.REBALANCE_END, joined, n=1, detail="NOTIFY balanced")
    story.client(104, "c2", E.REBALANCE_BEGIN, joined, detail="START+LOCK")
    story.queue(159, "c2", E.LOCK_GRANTED, joined, version=9, offset=55, n=45)
    story.queue(160, "c2", E.QUEUE_ACQUIRED, joined, version=9, offset=55)
    story.client(161, "c2", E.REBALANCE_END, joined, n=1, detail="START+LOCK balanced")
    story.queue(162, "c2", E.FIRST_PULL, joined, version=9, offset=55)
    story.queue(170, "c2", E.FIRST_MESSAGE, joined, version=9, offset=55)
    story.queue(5200, "c2", E.MESSAGES_HANDED_OUT, joined, version=9, offset=58, n=3)
    return story
