from __future__ import annotations

from traces.figures.clocks.pairs import Pair, Point
from traces.figures.clocks.solve import compute_courses, is_consistent

TIMES = [float(t_ms) for t_ms in range(0, 10_000, 1_000)]


def pairs(one: int, other: int, apart_ms: float) -> list[Pair]:
    """Requests and answers between two clocks, of which the second is ahead by so much."""
    found = []
    for seq in range(0, 8, 2):
        sent, answered = seq * 1_000.0, (seq + 1) * 1_000.0
        found.append(Pair(Point(one, seq, sent), Point(other, seq, sent + 2 + apart_ms)))
        found.append(Pair(Point(other, seq + 1, answered + apart_ms), Point(one, seq + 1, answered + 2)))
    return found


def solved(found: list[Pair], clocks: int, preferred: int = 0) -> dict[int, float]:
    timelines = [(list(range(10)), TIMES) for _ in range(clocks)]
    courses = compute_courses(timelines, found, [str(clock) for clock in range(clocks)], {preferred})
    assert all(len(pieces) == 1 for pieces in courses.values())
    return {clock: pieces[0].ahead_ms for clock, pieces in courses.items()}


def test_pairs_of_right_clocks_are_consistent() -> None:
    assert is_consistent(pairs(0, 1, 0.0))
    assert not is_consistent(pairs(0, 1, 5_000.0))


def test_the_clock_with_which_most_others_agree_is_right() -> None:
    """0 is a broker whose clock is wrong; 1, 2 and 3 are clients, which have no pairs with each other."""
    found = [*pairs(0, 1, -60_000), *pairs(0, 2, -60_000), *pairs(0, 3, -60_000)]
    assert solved(found, 4) == {0: 60_000, 1: 0, 2: 0, 3: 0}


def test_the_clock_of_a_broker_is_right_where_as_many_agree_with_another_one() -> None:
    assert solved(pairs(0, 1, 2_000), 2, preferred=0) == {0: 0, 1: 2_000}
    assert solved(pairs(0, 1, 2_000), 2, preferred=1) == {0: -2_000, 1: 0}


def test_clocks_that_nothing_connects_are_compared_with_no_one() -> None:
    assert solved([*pairs(0, 1, 3_000), *pairs(2, 3, 0)], 5) == {0: 0, 1: 3_000, 2: 0, 3: 0}


def test_an_offset_is_known_over_a_third_clock() -> None:
    assert solved([*pairs(0, 1, 0), *pairs(1, 2, 86_400_000), *pairs(0, 3, 0)], 4) == {0: 0, 1: 0, 2: 86_400_000, 3: 0}


def test_a_clock_that_is_set_forward_where_no_pair_shows_it_at_first_leaves_the_others_right() -> None:
    """Member 1 is set 200 s forward; only broker 3, which it had not asked before, has an answer after that."""
    set_forward = [t_ms + 200_000 * (t_ms >= 5_000) for t_ms in TIMES]
    timelines = [(list(range(10)), set_forward if clock == 1 else TIMES) for clock in range(4)]
    asked = [pair for pair in pairs(0, 1, 0) if max(pair.reason.seq, pair.effect.seq) < 5]
    stopped = Pair(Point(1, 7, 207_000.0), Point(3, 7, 7_002.0))
    courses = compute_courses(timelines, [*asked, *pairs(0, 2, 0), *pairs(2, 3, 0), stopped], [*"abcd"], {0, 3})
    assert [(piece.begin, round(piece.ahead_ms, -2)) for piece in courses[1]] == [(0, 0), (5, 200_000)]
    for clock in (0, 2, 3):
        assert [piece.ahead_ms for piece in courses[clock]] == [0.0]
