"""A package with a strategy, installed for one test: a module and a folder of metadata on the import path."""

from __future__ import annotations

from pathlib import Path

import pytest

STRATEGY = """
from client.allocate import position_of


class LastMemberTakesAll:
    name = "NAME"

    def allocate(self, consumer_group, current_cid, mq_all, cid_all):
        index = position_of(consumer_group, current_cid, mq_all, cid_all)
        return list(mq_all) if index == len(cid_all) - 1 else []
"""


def install(
    monkeypatch: pytest.MonkeyPatch, folder: Path, name: str, *, package: str = "takes-all", code: str = STRATEGY
) -> None:
    """Install a package whose entry point has this name, which its code calls NAME.

    Names are cached: each test takes its own.
    """
    module = f"{package}_{name}".replace("-", "_").lower()
    (site := folder / package).mkdir()
    (site / f"{module}.py").write_text(code.replace("NAME", name), encoding="utf-8")
    (info := site / f"{module}-1.0.dist-info").mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(
        f"[rlab.strategies]\n{name} = {module}:LastMemberTakesAll\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(site)
