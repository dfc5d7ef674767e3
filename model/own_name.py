"""The names of this project's modules at run time: `client` in a checkout, `rlab.client` where it is installed. Pure.

Modules import each other by the names of the repository, and a build writes the installed ones in their place. Code
that needs a name elsewhere, for instance of a logger, calls this module.

    package_of("rlab.client.push.consumer")    client, where it is installed
"""

from __future__ import annotations

from pathlib import Path

PREFIX = __name__.removesuffix("own_name").removesuffix("model.")
"""Prefix of each module's name: "" or "rlab.". Computed in two steps, because a build would rewrite the whole name."""
IMPORT_FOLDER = Path(__file__).resolve().parents[1 + PREFIX.count(".")]
"""The folder that other processes need on their import path."""


def package_of(module: str) -> str:
    """The folder at the top of the repository that holds a module of ours; the first name of any other module."""
    return module.removeprefix(PREFIX).partition(".")[0]
