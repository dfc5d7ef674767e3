"""What is in flight, through commits, snapshots and crashes, against a naive twin that is copied at each commit.

Whatever was committed, which comes before every answer, is so after a crash: no acknowledgement is forgotten, no
message is lost, every handle is as good as it was, and nothing stays invisible for longer.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass

import msgpack
from hypothesis import example, given, settings
from hypothesis import strategies as st

from broker.pop.journal import Entry, Times, WindowRow
from broker.pop.ledger import GroupQueue, PopKey, PopLedger
from broker.pop.window import PopBatch

KEYS = [PopKey("g", "t", 0), PopKey("g", "t", 1), PopKey("h", "t", 0)]
ANY_END = 10**9


@dataclass
class Message:
    token: int
    visible_at: int
    attempts: int = 1
    done: bool = False
    renew_s: int = 0


def unpacked(data: bytes) -> list[Entry]:
    entries: list[Entry] = msgpack.unpackb(data, use_list=False)  # type: ignore[assignment]
    return entries


class Run:
    """Wall clock in whole seconds; the clock of the loop begins somewhere else with each start."""

    def __init__(self) -> None:
        self.wall = 1_000
        self.base = 0
        self.twin: dict[PopKey, dict[int, Message]] = {}
        self.durable_twin: dict[PopKey, dict[int, Message]] = {}
        self.rows: list[WindowRow] = []
        self.entries: list[bytes] = []
        self.pending: list[Entry] = []
        self.tokens: list[int] = []
        self.extensions: dict[tuple[PopKey, int, int], int] = {}
        self.ledger = PopLedger(self.pending.append, lambda queue: None)
        self.is_connected = True

    @property
    def times(self) -> Times:
        return Times(float(self.wall - self.base), self.wall * 1000)

    def token(self, n: int) -> int:
        return self.tokens[n % len(self.tokens)] if self.tokens else 5

    def new_token(self) -> int:
        self.tokens.append(len(self.tokens) + 1)
        return self.tokens[-1]

    def queue(self, k: int) -> GroupQueue:
        key = KEYS[k % len(KEYS)]
        queue = self.ledger.queues.get(key)
        if queue is None:
            done = [offset for offset, m in self.twin.get(key, {}).items() if m.done]
            queue = self.ledger.open(key, max(done, default=-1) + 1)
            self.twin.setdefault(key, {})
        return queue

    def expire(self) -> None:
        while (deadline := self.ledger.next_deadline()) is not None and deadline <= self.times.now:
            self.ledger.expire(self.times, 3, self._renewal)
        for twin in self.twin.values():
            for message in twin.values():
                if message.renew_s and message.visible_at <= self.wall:
                    message.visible_at += (self.wall + message.renew_s - message.visible_at) * self.is_connected
                    message.renew_s *= self.is_connected

    def _renewal(self, queue: GroupQueue, batch: PopBatch) -> float | None:
        return self.times.now + batch.renew_s if self.is_connected else None

    # --- steps -------------------------------------------------------------------------------------------------------

    def new(self, k: int, n: int, passed: int) -> None:
        queue, token = self.queue(k), self.new_token()
        first = queue.window.next_offset
        offsets = [offset for offset in range(first, first + n) if offset % 3 != passed]
        is_renewed = passed > 2
        self._deliver(queue, offsets, first + n, token, 1 + passed)
        is_renewed = is_renewed and bool(offsets)
        if is_renewed:
            self.ledger.keep(queue, token, self.times)
        for offset in range(first, first + n):
            passed_over = offset not in offsets
            self.twin[queue.key][offset] = Message(
                token, self.wall + 1 + passed, int(not passed_over), passed_over, (1 + passed) * is_renewed
            )

    def again(self, k: int, n: int, invisible_s: int) -> None:
        queue, token = self.queue(k), self.new_token()
        self.expire()
        due = queue.window.due(n)
        twin = self.twin[queue.key]
        assert due.offsets == sorted(o for o, m in twin.items() if not m.done and m.visible_at <= self.wall)[:n]
        assert due.attempts == [twin[offset].attempts for offset in due.offsets]
        self._deliver(queue, due.offsets, queue.window.next_offset, token, invisible_s)
        for offset in due.offsets:
            twin[offset] = Message(token, self.wall + invisible_s, twin[offset].attempts + 1)

    def _deliver(self, queue: GroupQueue, offsets: list[int], upto: int, token: int, invisible_s: int) -> None:
        self.ledger.deliver(
            queue,
            offsets,
            upto=upto,
            token=token,
            client_id="c",
            times=self.times,
            invisible_s=invisible_s,
        )

    def connect(self, n: int, _: int, __: int) -> None:
        self.is_connected = bool(n % 2)

    def end_invisible(self, k: int, n: int, _: int) -> None:
        queue, token = self.queue(k), self.token(n)
        self.expire()
        self.ledger.end_invisible(queue, token, self.times)
        for message in self.twin[queue.key].values():
            if message.token == token and not message.done and message.visible_at > self.wall:
                message.visible_at, message.renew_s = self.wall, 0

    def ack(self, k: int, n: int, mask: int) -> None:
        queue, token = self.queue(k), self.token(n)
        twin = self.twin[queue.key]
        offsets = [offset for offset in twin if mask & 1 << offset % 8]
        offsets = offsets[:1] + offsets[:0:-1]
        good = [offset for offset in offsets if not twin[offset].done and twin[offset].token == token]
        assert self.ledger.ack(queue, token, offsets) == good
        for offset in good:
            twin[offset].done = True

    def give_back(self, k: int, n: int, mask: int) -> None:
        queue, token = self.queue(k), self.token(n)
        self.expire()
        twin = self.twin[queue.key]
        good = [
            offset
            for offset, m in twin.items()
            if mask & 1 << offset % 8 and not m.done and m.token == token and m.visible_at > self.wall
        ]
        assert self.ledger.give_back(queue, token, [offset for offset in twin if mask & 1 << offset % 8]) == good
        for offset in good:
            twin[offset].visible_at, twin[offset].renew_s = self.wall, 0
            twin[offset].attempts -= 1

    def extend(self, k: int, n: int, offset: int) -> None:
        queue, token = self.queue(k), self.token(n)
        extension = (queue.key, token, self.wall)
        new_token = self.extensions.setdefault(extension, len(self.tokens) + 1)
        if new_token > len(self.tokens):
            self.new_token()
        message = self.twin[queue.key].get(offset)
        good = message is not None and not message.done and message.token == token
        assert (
            self.ledger.extend(
                queue, token, offset, new_token=new_token, times=self.times, visible_at=self.times.now + 2
            )
            == good
        )
        if good and message is not None:
            message.token, message.visible_at, message.renew_s = new_token, self.wall + 2, 0

    def undo_delivery(self, k: int, n: int, _: int) -> None:
        queue, token = self.queue(k), self.token(n)
        self.expire()
        self.ledger.undo_delivery(queue, token, self.times)
        for message in self.twin[queue.key].values():
            if message.token == token and not message.done and message.visible_at > self.wall:
                message.visible_at, message.renew_s = self.wall, 0
                message.attempts -= 1

    def forget(self, k: int, _: int, __: int) -> None:
        queue = self.queue(k)
        if queue.window.is_idle:
            self.ledger.forget(queue)

    def sleep(self, n: int, _: int, __: int) -> None:
        self.wall += n

    def commit(self) -> None:
        if self.pending:
            self.entries.append(msgpack.packb(self.pending))
            self.pending.clear()
        self.durable_twin = deepcopy(self.twin)

    def compact(self, *_: int) -> None:
        self.rows = self.ledger.snapshot(self.times)
        self.pending.clear()
        self.entries = []
        self.durable_twin = deepcopy(self.twin)

    def crash(self, n: int, _: int, __: int) -> None:
        self.wall += n
        self.base = self.wall - 7 * n
        self.pending = []
        entries = [entry for data in self.entries for entry in unpacked(data)]
        self.ledger = PopLedger(self.pending.append, lambda queue: None)
        self.ledger.restore(self.rows, entries, self.times, lambda key: ANY_END)
        self.twin = deepcopy(self.durable_twin)
        self.compact()

    def check(self) -> None:
        self.expire()
        size = 0
        for key, twin in self.twin.items():
            queue = self.ledger.queues.get(key)
            left = {offset: m for offset, m in twin.items() if not m.done}
            if queue is None:
                assert not left
                continue
            window = queue.window
            size += window.next_offset - window.committed
            assert window.committed == min(left, default=window.next_offset)
            assert window.due(1_000).offsets == sorted(o for o, m in left.items() if m.visible_at <= self.wall)
            invisible = [m for m in left.values() if m.visible_at > self.wall]
            assert window.invisible == len(invisible)
            deadline = window.next_deadline()
            assert deadline == min((m.visible_at - self.base for m in invisible), default=None)
            assert all(window.attempts_of(offset) == m.attempts for offset, m in left.items())
        assert self.ledger.messages == size


numbers = st.integers(0, 5)
steps = st.one_of(
    st.tuples(st.just("new"), numbers, st.integers(1, 6), st.integers(0, 4)),
    st.tuples(st.just("again"), numbers, st.integers(1, 6), st.integers(1, 4)),
    st.tuples(st.sampled_from(["ack", "give_back"]), numbers, numbers, st.integers(1, 255)),
    st.tuples(
        st.sampled_from(["extend", "undo_delivery", "end_invisible", "forget", "compact"]), numbers, numbers, numbers
    ),
    st.tuples(st.sampled_from(["sleep", "sleep", "connect", "crash"]), st.integers(1, 3), numbers, numbers),
)


UNDONE_AFTER_ITS_END = ("new", 2, 1, 1), ("end_invisible", 2, 0, 0), ("undo_delivery", 2, 0, 0), ("crash", 1, 0, 0)


@settings(max_examples=400)
@example(program=[(step, True) for step in UNDONE_AFTER_ITS_END])
@given(program=st.lists(st.tuples(steps, st.sampled_from([True, True, True, False])), max_size=40))
def test_what_was_committed_is_so_after_a_crash_and_nothing_is_lost(
    program: list[tuple[tuple[str, int, int, int], bool]],
) -> None:
    run = Run()
    for (step, *arguments), is_committed in program:
        getattr(run, step)(*arguments)
        if is_committed:
            run.commit()
        run.check()
