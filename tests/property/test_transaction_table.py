"""The table of transactions against a naive twin, over any order of arrivals, ends, failed writes and checks."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import example, given
from hypothesis import strategies as st

from broker.transactions.table import AbandonReason, OpenHalf, TransactionOptions, TransactionTable, producers_to_ask

OPTIONS = TransactionOptions(timeout_s=6.0, check_interval_s=30.0, max_checks=3, keep_h=400 / 3600)
GROUPS = ("a", "b")


@dataclass
class Naive:
    """Every half message as a row of plain numbers; each question looks at all rows."""

    rows: dict[int, dict[str, float]] = field(default_factory=dict)
    group: dict[int, str] = field(default_factory=dict)

    def due(self, now: float) -> dict[int, AbandonReason]:
        def why(row: dict[str, float]) -> AbandonReason:
            if now - row["born"] >= 400:
                return AbandonReason.AGE
            return AbandonReason.CHECKS if row["checks"] >= 3 else AbandonReason.NOT_YET

        return {offset: why(row) for offset, row in self.rows.items() if row["due"] <= now and not row["ending"]}


steps = st.lists(
    st.one_of(
        st.tuples(st.just("arrive"), st.integers(1, 4), st.sampled_from([6.0, 6.0, 50.0])),
        st.tuples(st.just("begin end"), st.integers(0, 12), st.just(0.0)),
        st.tuples(st.just("written"), st.booleans(), st.just(0.0)),
        st.tuples(st.just("look"), st.sampled_from(["ask", "no producer", "give up"]), st.integers(1, 5)),
        st.tuples(st.just("came"), st.sampled_from(GROUPS), st.just(0.0)),
        st.tuples(st.just("pass"), st.just(0), st.sampled_from([1.0, 6.0, 30.0, 100.0])),
    ),
    max_size=60,
)


@given(steps)
@example(
    [
        *(("arrive", 1, 6.0), ("pass", 0, 6.0), ("look", "no producer", 5), ("came", "a", 0.0)),
        *(("look", "no producer", 5), ("pass", 0, 30.0), ("look", "ask", 5)),
    ]
)
def test_what_is_due_and_what_becomes_of_it_is_as_a_naive_twin_says(steps: list[tuple[str, object, float]]) -> None:
    table, naive, now, end = TransactionTable(OPTIONS), Naive(), 1000.0, 0
    for step, what, how in steps:
        if step == "arrive":
            assert isinstance(what, int)
            group = GROUPS[end % 2]
            table.add_batch(end, what, OpenHalf(group, "c", 0, now, now + how))
            for offset in range(end, end + what):
                naive.rows[offset] = {"born": now, "due": now + how, "checks": 0, "ending": 0, "waits": 0}
                naive.group[offset] = group
            end += what
        elif step == "begin end":
            assert isinstance(what, int)
            row = naive.rows.get(what)
            assert (table.get(what) is not None) == (row is not None and not row["ending"])
            if row is not None and not row["ending"]:
                table.begin_end(what)
                row.update(ending=1, waits=0)
        elif step == "written":
            ending = [offset for offset, row in naive.rows.items() if row["ending"]]
            if what:
                table.ended(ending)
                for offset in ending:
                    del naive.rows[offset]
            else:
                table.reopen(ending, now)
                for offset in ending:
                    naive.rows[offset].update(ending=0, due=now + 30)
        elif step == "look":
            look(table, naive, now, str(what), int(how))
        elif step == "came":
            waited = [offset for offset, row in naive.rows.items() if row["waits"] and naive.group[offset] == what]
            assert table.producer_joined(str(what), now) == bool(waited)
            for offset in waited:
                naive.rows[offset].update(waits=0, due=now)
        else:
            now += how
        assert len(table) == len(naive.rows)
        assert table.first() == min(naive.rows, default=None)
        counts = [naive.group[offset] for offset, row in naive.rows.items() if row["waits"]]
        assert table.waiting() == {group: counts.count(group) for group in set(counts)}
        earliest = min((row["due"] for row in naive.rows.values() if not row["ending"]), default=None)
        assert earliest is None or (table.next_due() or 0) <= earliest, "nothing is due without a deadline for it"


def look(table: TransactionTable, naive: Naive, now: float, verdict: str, limit: int) -> None:
    expected = naive.due(now)
    due = table.remove_due(now, limit)
    assert len(due) == min(limit, len(expected))
    assert {each.offset: each.give_up for each in due}.items() <= expected.items()
    asked = [each.offset for each in due if not each.give_up]
    ended = [each.offset for each in due if each.give_up]
    for offset in ended:
        table.begin_end(offset)
        del naive.rows[offset]
    table.ended(ended)
    if verdict == "ask":
        table.checked(asked, now)
        for offset in asked:
            naive.rows[offset].update(due=now + 30, waits=0)
            naive.rows[offset]["checks"] += 1
    elif verdict == "no producer":
        table.wait(asked, now)
        for offset in asked:
            naive.rows[offset].update(due=now + 30, waits=1)
    else:
        table.later(asked, now + 1)
        for offset in asked:
            naive.rows[offset].update(due=now + 1)


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=6, unique=True), st.integers(0, 100), st.booleans())
def test_each_check_of_a_message_goes_to_another_producer_and_the_first_to_its_sender(
    producers: list[int], offset: int, sender_lives: bool
) -> None:
    half = OpenHalf("g", "c", producers[0] if sender_lives else 0, 0.0, 6.0)
    asked = []
    for _ in producers:
        order = producers_to_ask(producers, half, offset)
        assert sorted(order) == sorted(producers), "the others are there for one that reads nothing"
        asked.append(order[0])
        half.checks += 1
    assert sorted(asked) == sorted(producers)
    assert asked[0] == producers[0] or not sender_lives
