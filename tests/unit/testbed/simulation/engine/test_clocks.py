from __future__ import annotations

import pytest

from model.errors import ConfigError
from model.limits import MAX_SIM_S
from testbed.simulation.engine.clocks import with_wrong_clocks
from testbed.simulation.engine.draw import KINDS, draw
from testbed.simulation.engine.programme import ClockPart, Programme
from testbed.simulation.engine.text import parse_programme, write_programme

PROGRAMMES = [with_wrong_clocks(draw(seed, kind)) for kind in KINDS for seed in range(30)]


def test_some_clocks_are_wrong_and_at_least_half_of_the_brokers_and_of_the_clients_are_right() -> None:
    for programme in PROGRAMMES:
        hosts = programme.hosts()
        wrong = [clock.who for clock in programme.clock]
        assert wrong
        for kinds in (("a broker",), ("a member", "a producer")):
            all_of = [host for host, kind in hosts.items() if kind in kinds]
            assert len([host for host in wrong if host in all_of]) <= max(1, len(all_of) // 2)


def test_clocks_are_off_by_milliseconds_up_to_a_day_some_drift_and_some_are_set() -> None:
    clocks = [clock for programme in PROGRAMMES for clock in programme.clock]
    assert min(abs(clock.ahead_s) for clock in clocks) < 0.1
    assert MAX_SIM_S / 2 < max(abs(clock.ahead_s) for clock in clocks) <= MAX_SIM_S
    assert 0.3 < sum(clock.drift_ms != 0 for clock in clocks) / len(clocks) < 0.7
    assert 0.3 < sum(clock.set_by_s != 0 for clock in clocks) / len(clocks) < 0.7


def test_the_faults_stay_and_equal_seeds_have_equal_clocks() -> None:
    plain = draw(5, "plain")
    wrong = with_wrong_clocks(plain)
    assert wrong == with_wrong_clocks(plain)
    assert [step for step in plain.step if step.do != "clock_skew"] == list(wrong.step)
    assert parse_programme(write_programme(wrong)) == wrong


def test_a_clock_is_ahead_drifts_and_is_set() -> None:
    clock = ClockPart(who="billing-1", ahead_s=2.0, drift_ms=1.0, set_at_s=10.0, set_by_s=-60.0)
    assert [clock.ahead_ms(now_s) for now_s in (0.0, 9.0, 10.0)] == [2_000, 2_009, -57_990]


def test_a_clock_of_no_one_and_two_of_one_host_are_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean billing-1"):
        Programme(clock=(ClockPart(who="biling-1"),))
    with pytest.raises(ConfigError, match="two clocks have the name"):
        Programme(clock=(ClockPart(who="billing-1"), ClockPart(who="billing-1")))
    with pytest.raises(ConfigError, match="ahead_s must be"):
        ClockPart(who="billing-1", ahead_s=1e6)
