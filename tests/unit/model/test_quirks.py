"""Quirks: names that people type, each explained where it is defined."""

from __future__ import annotations

import inspect
import re

import pytest

from model import quirks
from model.errors import ConfigError
from model.quirks import CLIENT_QUIRKS, Quirk, check_quirks

pytestmark = pytest.mark.walk


@pytest.mark.parametrize("quirk", list(Quirk))
def test_a_quirk_is_switched_on_by_its_own_name(quirk: Quirk) -> None:
    assert Quirk(quirk.name) is quirk


@pytest.mark.parametrize("quirk", list(Quirk))
def test_a_quirk_says_what_users_saw(quirk: Quirk) -> None:
    assert re.search(rf'{quirk.name} = "{quirk.name}"\n    """[A-Z]', inspect.getsource(quirks))


def test_an_unknown_quirk_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="NO_SUCH_QUIRK"):
        Quirk("NO_SUCH_QUIRK")


@pytest.mark.parametrize("quirk", list(Quirk))
def test_a_quirk_is_refused_where_it_would_do_nothing(quirk: Quirk) -> None:
    of_client = quirk in CLIENT_QUIRKS
    check_quirks({quirk}, of_client=of_client)
    with pytest.raises(ConfigError, match=rf"quirk {quirk} belongs to {'clients' if of_client else 'brokers'}: "):
        check_quirks({quirk}, of_client=not of_client)
