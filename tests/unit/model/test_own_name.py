from __future__ import annotations

import pytest

from model import own_name
from model.own_name import IMPORT_FOLDER, PREFIX, package_of


def test_the_prefix_stands_before_the_name_of_each_module() -> None:
    assert ".".join([*PREFIX.split(".")[:-1], "model", "own_name"]) == own_name.__name__


def test_other_processes_find_the_packages_in_the_import_folder() -> None:
    assert IMPORT_FOLDER.joinpath(*PREFIX.split("."), "model", "own_name.py").samefile(own_name.__file__)


@pytest.mark.parametrize("prefix", ["", "rlab."])
def test_a_module_of_ours_is_of_the_folder_at_the_top(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_name, "PREFIX", prefix)
    assert package_of(f"{prefix}client.push.consumer") == "client"
    assert package_of("asyncio.events") == "asyncio"
