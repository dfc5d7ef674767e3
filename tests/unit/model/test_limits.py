"""Limits: each relation between them is really checked when the module is imported."""

from __future__ import annotations

import inspect
import re

import pytest

from model import limits

pytestmark = pytest.mark.walk

SOURCE = inspect.getsource(limits)
VALUES = {name: value for name, value in vars(limits).items() if name.isupper()}


def run_with(name: str, value: float) -> None:
    """Run the module's text with one limit changed."""
    changed, count = re.subn(rf"^{name} = .*$", f"{name} = {value}", SOURCE, flags=re.MULTILINE)
    assert count == 1
    exec(compile(changed, "limits", "exec"), {})


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("MAX_FRAME_BYTES", 2 * limits.MAX_BODY_BYTES, "a body with its header must fit a frame"),
        ("MAX_UNSENT_BYTES", limits.MAX_FRAME_BYTES, "one largest answer must not cut its own peer off"),
        ("WRITE_LOW_WATER_BYTES", limits.WRITE_HIGH_WATER_BYTES, None),
        ("WRITE_HIGH_WATER_BYTES", limits.MAX_UNSENT_BYTES, None),
        ("HEARTBEAT_INTERVAL_S", limits.MEMBER_EXPIRY_S / 3, "two lost heartbeats must not expire a member"),
        ("BROKER_REGISTER_INTERVAL_S", limits.BROKER_EXPIRY_S / 3, "two lost registrations must not expire a broker"),
        ("PULL_SUSPEND_S", limits.PULL_TIMEOUT_S, "before the client times out"),
    ],
)
def test_a_limit_that_contradicts_another_one_fails_the_import(name: str, value: float, reason: str | None) -> None:
    with pytest.raises(AssertionError, match=reason):
        run_with(name, value)


def test_the_limits_as_they_are_do_not_contradict_each_other() -> None:
    run_with("MAX_KEYS", limits.MAX_KEYS)


def test_every_limit_is_a_positive_number_and_seconds_are_floats() -> None:
    assert VALUES
    for name, value in VALUES.items():
        assert value > 0, name
        assert isinstance(value, float) is name.endswith("_S"), name
