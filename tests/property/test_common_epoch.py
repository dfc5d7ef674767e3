"""The cut by epochs against the obvious: the first byte at which two logs differ."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import takewhile

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.store.segments.epochs import Epoch, common_epoch, with_epoch


@dataclass
class NaiveLog:
    """A log of unique bytes, with the history that its heads would repeat."""

    content: list[tuple[int, int]] = field(default_factory=list)  # (epoch, number of the byte in all that was written)
    epochs: tuple[Epoch, ...] = ()

    def cut(self, position: int) -> None:
        del self.content[position:]
        # The head of an epoch is its first byte: without it the log does not know of the epoch.
        self.epochs = tuple(epoch for epoch in self.epochs if epoch.start_position < position)


def equal_bytes(one: NaiveLog, other: NaiveLog) -> int:
    pairs = zip(one.content, other.content, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


ACTS = st.lists(
    st.tuples(st.sampled_from(["elect", "write", "follow", "join", "lose"]), st.integers(0, 2), st.integers(1, 6)),
    min_size=1,
    max_size=40,
)


@settings(max_examples=100)
@given(acts=ACTS)
def test_the_cut_is_the_first_byte_at_which_two_logs_differ(acts: list[tuple[str, int, int]]) -> None:
    logs = [NaiveLog() for _ in range(3)]
    joined: set[int] = set()
    master, epoch, written = 0, 1, 1
    logs[0].content.append((1, 0))
    logs[0].epochs = (Epoch(1, 0, 0),)
    for act, who, n in acts:
        log = logs[who]
        if act == "elect":
            epoch += 1
            log.epochs = with_epoch(log.epochs, Epoch(epoch, len(log.content), who))
            log.content.append((epoch, written))
            written += 1
            master = who
            joined.clear()
        elif act == "write":
            logs[master].content += [(epoch, written + i) for i in range(n)]
            written += n
        elif who == master:
            continue  # one that loses bytes is a master again only after an election
        elif act == "lose":
            log.cut(max(len(log.content) - n, 0))
            joined.discard(who)
        elif act == "follow" and who in joined:
            log.content = logs[master].content[: len(log.content) + n]
            log.epochs = tuple(each for each in logs[master].epochs if each.start_position < len(log.content))
        elif act == "join":
            at = common_epoch(log.epochs, len(log.content), logs[master].epochs, len(logs[master].content))
            assert (at or 0) == equal_bytes(log, logs[master])
            log.cut(at or 0)
            joined.add(who)
