from __future__ import annotations

from traces.figures.clocks.course import Bound, Piece, compute_course

EVENTS = [float(t_ms) for t_ms in range(0, 10_000, 1_000)]


def least(at: int, ms: float) -> Bound:
    return Bound(at, ms, True)


def most(at: int, ms: float) -> Bound:
    return Bound(at, ms, False)


def shifts(pieces: list[Piece]) -> list[tuple[int, int, float]]:
    return [(piece.begin, piece.end, piece.ahead_ms) for piece in pieces]


def test_a_clock_that_may_be_right_is_right() -> None:
    assert shifts(compute_course(EVENTS, [least(1, -5), most(3, 4), least(6, -900), most(9, 70)])) == [(0, 10, 0.0)]
    assert shifts(compute_course(EVENTS, [])) == [(0, 10, 0.0)]


def test_a_constant_offset_is_in_the_middle_of_its_bounds() -> None:
    [piece] = compute_course(EVENTS, [least(1, 1_990), most(3, 2_010), least(6, 1_000), most(9, 9_000)])
    assert (piece.ahead_ms, piece.is_vague, piece.known) == (2_000, False, (1, 9))


def test_an_offset_that_is_bounded_on_one_side_only_or_hardly_at_all_is_vague() -> None:
    assert compute_course(EVENTS, [least(1, 2_000)])[0].is_vague
    assert compute_course(EVENTS, [most(1, -2_000)])[0] == Piece(
        begin=0, end=10, ahead_ms=-2_000, is_vague=True, known=(1, 1), sure=(0, 9)
    )
    assert compute_course(EVENTS, [least(1, 2_000), most(2, 9_000)])[0].is_vague


def test_a_machine_keeps_its_offset_if_the_bounds_permit_it() -> None:
    assert shifts(compute_course(EVENTS, [most(1, 5_000)], before_ms=3_000)) == [(0, 10, 3_000)]
    assert shifts(compute_course(EVENTS, [most(1, 5)], before_ms=3_000)) == [(0, 10, 0)]


def test_a_clock_that_is_set_back_visibly_has_another_offset_from_there_on() -> None:
    times = [0.0, 1_000.0, 2_000.0, -57_000.0, -56_000.0]
    pieces = compute_course(times, [least(0, -1), most(1, 1), least(3, -60_001), most(4, -59_999)])
    assert shifts(pieces) == [(0, 3, 0), (3, 5, -60_000)]
    assert all(piece.is_placed for piece in pieces)


def test_a_clock_that_is_set_back_and_compared_with_no_other_goes_on_where_it_was() -> None:
    times = [0.0, 1_000.0, 2_000.0, -57_000.0, -56_000.0]
    [before, after] = compute_course(times, [least(0, -1), most(1, 1)])
    assert (before.ahead_ms, after.begin, after.ahead_ms, after.is_vague) == (0, 3, -59_000, True)


def test_a_clock_that_is_set_forward_shows_as_the_only_pause_that_is_long_enough() -> None:
    times = [0.0, 1_000.0, 2_000.0, 63_000.0, 64_000.0, 65_000.0]
    pieces = compute_course(times, [least(0, -1), most(1, 1), least(5, 59_999), most(5, 60_001)])
    assert shifts(pieces) == [(0, 3, 0), (3, 6, 60_000)]
    assert pieces[1].is_placed


def test_a_clock_that_is_set_by_less_than_its_pauses_may_have_been_set_at_any_of_them() -> None:
    times = [0.0, 10_000.0, 20_000.0, 31_000.0, 40_000.0]
    pieces = compute_course(times, [least(0, -1), most(0, 1), least(4, 4_999), most(4, 5_001)])
    assert shifts(pieces) == [(0, 3, 0), (3, 5, 5_000)]
    assert not pieces[1].is_placed


def test_a_clock_that_drifts_is_a_stair_of_small_steps() -> None:
    bounds = [each for at in range(10) for each in (least(at, at * 100.0 - 5), most(at, at * 100.0 + 5))]
    pieces = compute_course(EVENTS, bounds)
    assert all(piece.is_placed for piece in pieces)
    ahead = {at: piece.ahead_ms for piece in pieces for at in range(piece.begin, piece.end)}
    assert all(abs(ahead[at] - at * 100) < 60 for at in range(10))


def test_events_behind_a_long_pause_are_sure_only_by_a_bound_that_excludes_that_the_clock_was_set_forward() -> None:
    times = [0.0, 10.0, 100_010.0, 100_020.0]
    near = [least(1, -5), most(1, 5)]
    assert compute_course(times, near)[0].sure == (0, 1)
    assert compute_course(times, [*near, most(3, 99_000)])[0].sure == (0, 1)
    assert compute_course(times, [*near, most(3, 5)])[0].sure == (0, 3)
    assert compute_course(times, [least(3, -5), most(3, 5)])[0].sure == (2, 3)
    assert compute_course(times, [least(0, -5), most(3, 5)])[0].sure == (0, 3)
