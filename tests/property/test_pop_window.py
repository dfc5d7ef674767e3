"""The window of one queue against a naive twin that keeps one record per message and computes everything anew."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.pop.window import PopWindow


@dataclass
class Delivery:
    token: int = 0
    visible_at: float = 0.0
    attempts: int = 0
    done: bool = False


@dataclass
class Twin:
    start: int
    messages: dict[int, Delivery] = field(default_factory=dict)
    now: float = 0.0
    expired_at: float = 0.0

    @property
    def next_offset(self) -> int:
        return max(self.messages, default=self.start - 1) + 1

    @property
    def committed(self) -> int:
        return min((o for o, m in self.messages.items() if not m.done), default=self.next_offset)

    def is_due(self, delivery: Delivery) -> bool:
        return not delivery.done and delivery.visible_at <= self.expired_at

    def due(self) -> list[int]:
        return sorted(o for o, m in self.messages.items() if self.is_due(m))

    def invisible(self) -> int:
        return sum(not m.done and not self.is_due(m) for m in self.messages.values())


steps = st.one_of(
    st.tuples(st.just("pop_new"), st.lists(st.booleans(), min_size=1, max_size=8), st.integers(1, 4)),
    st.tuples(st.just("pop_due"), st.integers(1, 5), st.integers(1, 4)),
    st.tuples(st.just("ack"), st.integers(0, 20), st.lists(st.integers(0, 60), max_size=5)),
    st.tuples(st.just("ack_run"), st.integers(0, 20), st.tuples(st.integers(0, 60), st.integers(1, 8))),
    st.tuples(st.just("ack_all"), st.integers(0, 20), st.just(0)),
    st.tuples(st.just("give_back"), st.integers(0, 20), st.lists(st.integers(0, 60), max_size=5)),
    st.tuples(st.just("extend"), st.integers(0, 20), st.integers(0, 60)),
    st.tuples(st.just("skip"), st.integers(0, 60), st.just(0)),
    st.tuples(st.just("renew"), st.integers(0, 20), st.integers(1, 3)),
    st.tuples(st.just("sleep"), st.integers(1, 3), st.booleans()),
    st.tuples(st.just("store"), st.just(0), st.just(0)),
)


class Run:
    def __init__(self, start: int) -> None:
        self.window, self.twin = PopWindow(start), Twin(start)
        self.tokens: list[int] = []
        self.renewed: set[int] = set()

    def token(self) -> int:
        # Every third has nothing but zeros in seven of its bytes, whichever end they are at.
        n = len(self.tokens) + 1
        self.tokens.append(n if n % 3 else n << 56)
        return self.tokens[-1]

    def pop_new(self, wanted: list[bool], invisible_s: int) -> None:
        first, token, visible_at = self.window.next_offset, self.token(), self.twin.now + invisible_s
        offsets = [first + n for n, want in enumerate(wanted) if want]
        upto = first + len(wanted)
        counts = self.window.deliver(
            offsets, upto=upto, token=token, client_id="c", now=self.twin.now, visible_at=visible_at
        )
        assert counts == [1] * len(offsets)
        for offset in range(first, upto):
            taken = offset in offsets
            self.twin.messages[offset] = Delivery(token if taken else 0, visible_at, int(taken), done=not taken)

    def pop_due(self, max_n: int, invisible_s: int) -> None:
        offsets, attempts = self.window.due(max_n)
        assert offsets == self.twin.due()[:max_n]
        assert attempts == [self.twin.messages[offset].attempts for offset in offsets]
        token, visible_at = self.token(), self.twin.now + invisible_s
        upto = self.window.next_offset
        counts = self.window.deliver(
            offsets, upto=upto, token=token, client_id="c", now=self.twin.now, visible_at=visible_at
        )
        assert counts == [n + 1 for n in attempts]
        for offset in offsets:
            message = self.twin.messages[offset]
            message.token, message.visible_at, message.attempts = token, visible_at, message.attempts + 1

    def ack(self, n: int, offsets: list[int]) -> None:
        token = self.tokens[n % len(self.tokens)] if self.tokens else 7
        expected = []
        for offset in offsets:
            message = self.twin.messages.get(offset)
            if message is not None and not message.done and message.token == token:
                message.done = True
                expected.append(offset)
        assert self.window.ack(token, offsets) == expected

    def give_back(self, n: int, offsets: list[int]) -> None:
        token = self.tokens[n % len(self.tokens)] if self.tokens else 7
        expected = []
        for offset in offsets:
            message = self.twin.messages.get(offset)
            if message is not None and message.token == token and not message.done and not self.twin.is_due(message):
                message.visible_at, message.attempts = self.twin.expired_at, message.attempts - 1
                expected.append(offset)
        assert self.window.give_back(token, offsets) == expected

    def ack_run(self, n: int, run: tuple[int, int]) -> None:
        first, length = run
        self.ack(n, list(range(first, first + length)))

    def ack_all(self, n: int, _: int) -> None:
        self.ack(n, list(self.twin.messages))

    def extend(self, n: int, offset: int) -> None:
        token = self.tokens[n % len(self.tokens)] if self.tokens else 7
        new_token, visible_at = self.token(), self.twin.now + 2
        message = self.twin.messages.get(offset)
        good = message is not None and not message.done and message.token == token
        assert self.window.extend(token, offset, new_token=new_token, now=self.twin.now, visible_at=visible_at) == good
        if good and message is not None:
            message.token, message.visible_at = new_token, visible_at

    def skip(self, offset: int, _: int) -> None:
        self.window.skip([offset])
        if offset in self.twin.messages:
            self.twin.messages[offset].done = True

    def renew(self, n: int, renew_s: int) -> None:
        token = self.tokens[n % len(self.tokens)] if self.tokens else 7
        self.window.renew(token, self.twin.now + 2, renew_s)
        for message in self.twin.messages.values():
            if message.token == token and not message.done and not self.twin.is_due(message):
                message.visible_at = self.twin.now + 2
                self.renewed.add(token)

    def sleep(self, n: int, is_connected: bool) -> None:
        twin = self.twin
        twin.now += n
        before = len(twin.due())
        for message in twin.messages.values():
            ends = not message.done and not twin.is_due(message) and message.visible_at <= twin.now
            if is_connected and ends and message.token in self.renewed:
                message.visible_at = twin.now + 5
        twin.expired_at = twin.now
        until = twin.now + 5 if is_connected else None
        assert self.window.expire(twin.now, renew_until=lambda token, batch: until) == len(twin.due()) - before

    def store(self, _: int, __: int) -> None:
        self.window = PopWindow.restored(*self.window.columns(), self.window.batch_rows())


@settings(max_examples=400)
@given(start=st.integers(0, 50), program=st.lists(steps, max_size=50))
def test_what_is_in_flight_due_and_acknowledged_is_what_a_table_of_all_messages_says(
    start: int, program: list[tuple[str, object, object]]
) -> None:
    run = Run(start)
    for step, first, second in program:
        getattr(run, step)(first, second)
        window, twin = run.window, run.twin
        assert (window.committed, window.next_offset) == (twin.committed, twin.next_offset)
        assert (window.invisible, window.due_count) == (twin.invisible(), len(twin.due()))
        assert window.is_idle == (twin.committed == twin.next_offset)
        assert window.due(100).offsets == twin.due()
        waiting = [m.visible_at for m in twin.messages.values() if not m.done and not twin.is_due(m)]
        assert window.next_deadline() == min(waiting, default=None)
        committed, tokens, _ = window.columns()
        left = [committed + place for place, token in enumerate(array("Q", tokens)) if token]
        assert left == [offset for offset, message in twin.messages.items() if not message.done]
