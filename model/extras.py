"""The optional packages, each with the extra that installs it. Pure.

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
    """The command that installs one of these packages, for errors."""
    return f"{package} is missing: pip install 'rebalance-lab[{EXTRA_OF[package]}]'"
