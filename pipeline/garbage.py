"""Switches Python's search for reference cycles off for a block; with millions of objects it takes most of the time."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_search_for_cycles() -> Iterator[None]:
    """Switch the search off for the block, and restore its state, because a Spark worker runs other code as well."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
