"""What a user of Spark sees when a read or a write is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.errors import PySparkException


def refusal(act: Callable[[], object]) -> str:
    """The last line of Python's traceback; what follows it is Spark's: an SQLSTATE, the plan, the stack of its JVM."""
    with pytest.raises(PySparkException) as caught:
        act()
    lines = str(caught.value).splitlines()
    number = next(number for number, line in enumerate(lines) if line.lstrip().startswith("SQLSTATE"))
    return next(line for line in reversed(lines[:number]) if line.strip())
