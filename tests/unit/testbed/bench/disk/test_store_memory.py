from __future__ import annotations

from broker.store.disk.options import StoreOptions
from testbed.bench.disk.store_memory import budget_bytes


def test_the_budget_is_the_sum_that_the_documentation_names() -> None:
    options = StoreOptions(tail_bytes=1_000, index_cache_bytes=200, segment_records=3)
    assert budget_bytes(options) == 1_000 + 200 + 3 * 20
