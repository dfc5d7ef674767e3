"""The packages that not everybody needs, each with the extra that installs it. Pure.

A base installation has the client, the servers and the command, in a third of the space.
"""

from __future__ import annotations

EXTRA_OF = {
    "aiohttp": "console",
    "trustme": "certs",
    "numpy": "sticky",
    "pandas": "spark",
    "pyarrow": "spark",
    "pyspark": "spark",
    "matplotlib": "spark",
}


def how_to_install(package: str) -> str:
    """What to type where one of these packages is missing."""
    return f"{package} is missing: pip install 'rebalance-lab[{EXTRA_OF[package]}]'"
