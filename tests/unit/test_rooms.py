"""The house: how full a room may be, what stands at its door, and the walls that `rooms.toml` draws."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import client
from model.own_name import PREFIX
from tests.unit.source_tree import PACKAGES, ROOT, Source, shipped, texts

MAX_ENTRIES = 16
"""Files and folders that a folder may have: as many as can be seen at one look."""

FLAT = {"model", "tests/unit/model", "tests/unit"}
"""Folders that may have more: twenty small nouns, a folder for each package, and a script for each task."""

DOORS = {"client", "client.allocate"}
"""Packages whose `__init__` exports names: what people import."""

MAX_CONSTRUCTOR_PARAMETERS = 10


@functools.cache
def folders() -> dict[str, list[str]]:
    """The entries of each folder of the packages and of their unit tests."""
    entries: dict[str, set[str]] = {}
    for name in texts():
        path = Path(name)
        for folder in path.parents:
            entries.setdefault(folder.as_posix(), set()).add(path.relative_to(folder).parts[0])
    tops = {package.partition(".")[0] for package in PACKAGES}
    return {
        folder: sorted(names)
        for folder, names in entries.items()
        if folder.split("/")[0] in tops or folder.startswith("tests/unit")
    }


def test_no_folder_has_more_entries_than_can_be_seen_at_one_look() -> None:
    full = {
        folder: len(names) for folder, names in folders().items() if len(names) > MAX_ENTRIES and folder not in FLAT
    }
    assert full == {}


def test_every_folder_with_source_files_is_an_installed_package() -> None:
    found = {folder.replace("/", ".") for folder, names in folders().items() if "__init__.py" in names}
    assert found == set(PACKAGES)


@pytest.mark.parametrize("package", PACKAGES)
def test_the_door_of_a_room_says_what_is_behind_it_and_hands_nothing_on(package: str) -> None:
    [source] = [source for source in shipped() if source.path == f"{package.replace('.', '/')}/__init__.py"]
    docstring = ast.get_docstring(source.tree) or ""
    assert len(docstring.splitlines()) >= 4, "say what the feature is, which file decides, which acts, where to begin"
    if package not in DOORS:
        assert len(source.tree.body) == 1, "a re-export doubles a name, and loads the whole room for it"


@pytest.mark.parametrize("package", PACKAGES)
def test_a_room_that_lists_its_files_lists_them_all(package: str) -> None:
    folder = package.replace(".", "/")
    [source] = [source for source in shipped() if source.path == f"{folder}/__init__.py"]
    listed = set(re.findall(r"^\s*(\w+\.py) {2,}", ast.get_docstring(source.tree) or "", re.MULTILINE))
    files = {name for name in folders()[folder] if name.endswith(".py")} - {"__init__.py"}
    assert listed in (set(), files)


def constructors(source: Source) -> list[tuple[str, int]]:
    """The parameters of each constructor of a file, without self."""
    return [
        (
            f"{source.path}: {owner.name}",
            len(node.args.posonlyargs) + len(node.args.args) + len(node.args.kwonlyargs) - 1,
        )
        for owner in source.nodes
        if isinstance(owner, ast.ClassDef)
        for node in owner.body
        if isinstance(node, ast.FunctionDef) and node.name == "__init__"
    ]


def test_no_constructor_has_more_collaborators_than_one_can_keep_in_mind() -> None:
    many = [each for source in shipped() for each in constructors(source) if each[1] > MAX_CONSTRUCTOR_PARAMETERS]
    assert many == []


def test_the_walls_between_rooms_stand() -> None:
    # In a process of its own: it configures logging anew, which silences every logger that there was.
    command = [str(Path(sys.executable).with_name("lint-imports")), "--config", "rooms.toml", "--no-cache", "--no-logo"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_people_import_these_names_and_no_others() -> None:
    assert sorted(client.__all__) == [
        "Admin",
        "ConsumeFrom",
        "ConsumeResult",
        "Failed",
        "LitePullConsumer",
        "MESSAGE_GROUP",
        "Message",
        "MessageExt",
        "MessageModel",
        "MessageQueue",
        "MessageType",
        "PopConsumer",
        "PopMessage",
        "Producer",
        "PushConsumer",
        "SendResult",
        "Sql",
        "TransactionProducer",
        "TransactionState",
    ]
    assert all(hasattr(client, name) for name in client.__all__)
    assert set(client.__all__) <= set(dir(client))
    assert not hasattr(client, "Produser")


def test_a_strategy_is_imported_without_the_connections_of_a_client() -> None:
    needed = "client.allocate.registry, client.rebalance.plan, client.instance.schedule"
    code = f"import sys, {', '.join(PREFIX + name for name in needed.split(', '))}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = {name.removeprefix(PREFIX) for name in done.stdout.split()}
    assert "client.allocate.registry" in imported
    assert imported.isdisjoint({"asyncio", "remoting", "client.admin", "client.instance.instance"})


def test_every_room_has_a_door() -> None:
    contracts = tomllib.loads((ROOT / "rooms.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    behind = [room for contract in contracts for room in contract.get("protected_modules", ())]
    assert sorted(behind) == sorted({package for package in PACKAGES if "." in package} - DOORS), "one door each"


LATE_CALLBACK = re.compile(r"^\| `\w+\.(\w+)` \| `([\w/.]+)` \|", re.MULTILINE)


def is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def callbacks_set_on_others(source: Source) -> Iterator[tuple[str, str]]:
    """(attribute, path) of each method that an object stores in another object, and of each `on_...` that it sets."""
    for found in (node for node in source.tree.body if isinstance(node, ast.ClassDef)):
        methods = {each.name for each in found.body if isinstance(each, ast.FunctionDef) and not each.decorator_list}
        for assigned in (node for node in ast.walk(found) if isinstance(node, ast.Assign)):
            value = assigned.value
            is_method = isinstance(value, ast.Attribute) and is_self(value.value) and value.attr in methods
            for target in assigned.targets:
                is_other = isinstance(target, ast.Attribute) and not is_self(target.value)
                if isinstance(target, ast.Attribute) and is_other and (is_method or target.attr.startswith("on_")):
                    yield target.attr, source.path


def test_the_architecture_page_names_every_callback_that_is_set_from_outside() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    found = [callback for source in shipped() for callback in callbacks_set_on_others(source)]
    assert sorted(LATE_CALLBACK.findall(page)) == sorted(found)
