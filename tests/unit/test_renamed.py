"""Old names of modules are importable for one version, and warn."""

from __future__ import annotations

import importlib
import sys
import warnings

import pytest

from rlab.renamed import RENAMED, new_name


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("rlab.simulation.cluster.cluster", "rlab.testbed.simulation.cluster.cluster"),
        ("rlab.simulation.swarm.observer", "rlab.testbed.swarm.observer"),
        ("rlab.simulation.swarm.swarm", "rlab.testbed.swarm.members"),
        ("rlab.figures.history.delivery", "rlab.traces.check.delivery"),
        ("rlab.figures.records", "rlab.traces.figures.records"),
        ("rlab.client", ""),
    ],
)
def test_an_old_name_leads_to_the_new_one(old: str, new: str) -> None:
    assert new_name(old) == new


@pytest.fixture
def no_old_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing has been imported by an old name yet."""
    for name in [each for each in sys.modules if each.startswith(("rlab.simulation", "rlab.figures"))]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.usefixtures("no_old_names")
@pytest.mark.parametrize("old", [*RENAMED, "rlab.figures.history.delivery", "rlab.simulation.kernel.run"])
def test_a_module_is_the_same_one_by_its_old_name_and_the_import_warns(old: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        module = importlib.import_module(old)
    assert f"{old} is now {new_name(old)}" in str(caught[-1].message)
    assert {each.category for each in caught} == {DeprecationWarning}
    assert module is importlib.import_module(new_name(old))
    assert module.__spec__ is not None
    assert not module.__spec__.name.startswith(("rlab.simulation", "rlab.figures"))


@pytest.mark.usefixtures("no_old_names")
def test_a_module_that_an_old_package_never_had_is_not_found() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ModuleNotFoundError, match="nothing"):
            importlib.import_module("rlab.simulation.nothing")
