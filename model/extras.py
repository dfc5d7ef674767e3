"""The optional packages, each with the extra that installs it. Pure.

A base installation has the client, the servers and the command, in a third of the space.
"""

from __future__ import annotations

EXTRA_BY_PACKAGE = {
    "aiohttp": "console",
    "trustme": "certs",
    "numpy": "sticky",
    "pandas": "spark",
    "pyarrow": "spark",
    "pyspark": "spark",
    "matplotlib": "spark",
}


def install_command(package: str) -> str:
    """How one of these packages is installed, for errors.

    pip takes the rebalance-lab that is installed, so the command needs no package index that has this project.
    """
    return f"{package} is missing: {extras_command(EXTRA_BY_PACKAGE[package])}"


def extras_command(*extras: str) -> str:
    """The command that adds extras where rebalance-lab is installed."""
    return f"pip install 'rebalance-lab[{','.join(extras)}]' adds it to the installed rebalance-lab"
