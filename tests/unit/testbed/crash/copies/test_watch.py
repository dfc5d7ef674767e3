from __future__ import annotations

from model.events import Event, EventKind
from testbed.crash.copies.watch import Counts, Effects, StepWatch
from testbed.crash.ledger import GROUP


def event(kind: EventKind, client: str = "c", t_ms: float = 0.0) -> Event:
    return Event(t_ms, client, 1, kind.value, group=GROUP, client=client, topic="t", broker="b", queue_id=0)


def test_the_longest_gap_and_the_longest_send_of_a_step_are_found_wherever_they_are() -> None:
    watch = StepWatch()
    watch.acknowledged(0.0, 9.0)  # before the step
    watch.begin(10.0, Counts(failed=1, twice=2))
    watch.acknowledged(9.5, 10.2)
    watch.acknowledged(10.1, 10.3)
    assert watch.end(10.35, Counts(failed=4, twice=2)) == Effects(
        gap_s=10.2 - 10.0, held_s=10.2 - 9.5, failed=3, moved=0, two_owners_ms=0.0, twice=0
    )
    watch.begin(20.0, Counts(failed=4, twice=2))
    assert watch.end(20.5, Counts(failed=4, twice=7)) == Effects(
        gap_s=0.5, held_s=0.0, failed=0, moved=0, two_owners_ms=0.0, twice=5
    )


def test_every_queue_that_a_member_gets_counts_as_moved() -> None:
    watch = StepWatch()
    watch.note(event(EventKind.QUEUE_ACQUIRED))
    watch.begin(0.0, Counts(0, 0))
    watch.note(event(EventKind.QUEUE_DROPPED))
    watch.note(event(EventKind.QUEUE_ACQUIRED))
    watch.note(event(EventKind.QUEUE_ACQUIRED))
    assert watch.end(1.0, Counts(0, 0)).moved == 2
    assert watch.moved == 3


def test_the_time_of_a_queue_with_two_owners_is_that_of_the_step() -> None:
    watch = StepWatch()
    watch.note(event(EventKind.QUEUE_ACQUIRED, "c", 0.0))
    watch.begin(0.0, Counts(0, 0))
    watch.note(event(EventKind.QUEUE_ACQUIRED, "d", 100.0))
    watch.note(event(EventKind.QUEUE_DROPPED, "c", 130.0))
    assert watch.end(1.0, Counts(0, 0)).two_owners_ms == 30.0
    watch.begin(1.0, Counts(0, 0))
    watch.note(event(EventKind.QUEUE_DROPPED, "d", 140.0))
    watch.note(event(EventKind.QUEUE_ACQUIRED, "c", 150.0))
    assert watch.end(2.0, Counts(0, 0)).two_owners_ms == 0.0
