from __future__ import annotations

import importlib.util
import sys
from importlib.abc import InspectLoader
from pathlib import Path

import pytest

import client
import rlab.client
import testbed.simulation.kernel.run as real_run
from client.admin.admin import Admin
from rlab.client.admin.admin import Admin as InstalledAdmin
from rlab.testbed.simulation.kernel import run
from tools.name_stubs import FOLDER, stubs
from tools.one_name import modules_of, rewritten

pytestmark = pytest.mark.walk

MODULES = frozenset({"client", "client.allocate", "client.admin", "client.admin.admin", "cli", "cli.main", "model"})


def test_a_module_of_a_checkout_is_one_module_under_both_names() -> None:
    assert rlab.client is client
    assert run is real_run
    assert InstalledAdmin is Admin
    assert (run.__name__, run.__spec__ and run.__spec__.name) == ("testbed.simulation.kernel.run",) * 2


def test_a_module_runs_by_its_installed_name_in_a_checkout() -> None:
    found = importlib.util.find_spec("rlab.metrics.page")
    assert found is not None
    assert isinstance(found.loader, InspectLoader)
    code = found.loader.get_code("rlab.metrics.page")
    assert code is not None
    assert code.co_filename.endswith("metrics/page.py")


@pytest.mark.parametrize("name", ["rlab.nothing", "rlab.client.nothing", "rlab.pytest", "rlab.tests", "rlab.tools"])
def test_below_the_installed_name_is_nothing_else(name: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=name):
        importlib.import_module(name)


def test_a_name_that_a_project_has_taken_from_a_checkout_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [each for each in sys.modules if each.partition(".")[0] == "metrics"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "rlab.metrics", raising=False)
    with pytest.raises(ImportError, match=r"taken by .*__init__.py: install rebalance-lab without -e"):
        importlib.import_module("rlab.metrics")


def test_the_stubs_are_those_of_what_examples_and_pages_import() -> None:
    written = {path.relative_to(FOLDER).as_posix(): path.read_text() for path in FOLDER.rglob("*.pyi")}
    assert written == stubs(), "run python -m tools.name_stubs"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from client.admin import admin", "from rlab.client.admin import admin"),
        ("from client  import (\n    Producer,\n)", "from rlab.client  import (\n    Producer,\n)"),
        ("if x: from  model import y", "if x: from  rlab.model import y"),
        ("import client.admin as a, json", "import rlab.client.admin as a, json"),
        ("import client  # why", "from rlab import client  # why"),
        ("import client.admin.admin", "import rlab.client.admin.admin; from rlab import client"),
        ("'é'; run('cli.main', x)", "'é'; run('rlab.cli.main', x)"),
        ("run('import json\\nfrom client import x')", "run('import json\\nfrom rlab.client import x')"),
        ("at = 'client.admin.admin.Admin'", "at = 'rlab.client.admin.admin.Admin'"),
    ],
)
def test_a_name_of_a_module_is_written_below_the_installed_name(before: str, after: str) -> None:
    assert rewritten(before, MODULES) == after


@pytest.mark.parametrize(
    "text",
    [
        "import json, re\nfrom clients import client",
        "from . import client",
        "client = model.client",
        "'client', 'client.port', 'see client.admin', f'{x} client.admin'",
        '"""from client import Producer"""',
        "from client_of import x  # from client import y",
    ],
)
def test_what_names_no_module_stays_as_it_is(text: str) -> None:
    assert rewritten(text, MODULES) == text


def test_a_module_among_several_of_one_import_is_refused_because_two_names_have_to_be_bound() -> None:
    with pytest.raises(SyntaxError, match=r"import client.admin in a statement of its own"):
        rewritten("import json, client.admin", MODULES)


def test_the_modules_of_a_package_are_its_files_and_itself() -> None:
    found = modules_of({"client", "client.admin"})
    assert {"client", "client.options", "client.admin", "client.admin.admin"} <= found
    assert not [name for name in found if "__init__" in name or name.startswith("cli.")]
