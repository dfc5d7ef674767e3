from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from pipeline.garbage import no_search_for_cycles


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    was_enabled = gc.isenabled()
    yield
    (gc.enable if was_enabled else gc.disable)()


def fail_within() -> None:
    with no_search_for_cycles():
        raise KeyError(gc.isenabled())


@pytest.mark.parametrize("was_enabled", [True, False])
def test_the_search_for_cycles_is_off_in_the_block_and_as_it_was_after_an_error(was_enabled: bool) -> None:
    (gc.enable if was_enabled else gc.disable)()
    with pytest.raises(KeyError, match="False"):
        fail_within()
    assert gc.isenabled() is was_enabled
