from __future__ import annotations

import pytest

from pipeline.session import is_local_master


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local", True),
        ("local[2,3]", True),
        ("local-cluster[2,1,1024]", True),
        ("spark://127.0.0.1:7077", True),
        ("spark://localhost:7077", True),
        ("spark://master:7077", False),
        ("spark://127.0.0.10:7077", False),
    ],
)
def test_only_a_master_on_this_machine_is_bound_to_loopback(master: str, expected: bool) -> None:
    assert is_local_master(master) is expected
