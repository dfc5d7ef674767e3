"""The old names of modules that moved, importable for one version: `rlab.simulation` is `rlab.testbed.simulation`.

Each import by an old name gives the module itself and a DeprecationWarning that names the new one.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

RENAMED = {
    "rlab.figures": "rlab.traces.figures",
    "rlab.figures.history": "rlab.traces.check",
    "rlab.figures.why": "rlab.traces.why",
    "rlab.simulation": "rlab.testbed.simulation",
    "rlab.simulation.swarm": "rlab.testbed.swarm",
    "rlab.simulation.swarm.swarm": "rlab.testbed.swarm.members",
}
"""Old name -> new name, for the module and all below it; the longest listed name wins. Removed in version 0.2."""


def new_name(name: str) -> str:
    """The new name of a module; empty if it was not renamed."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        renamed = RENAMED.get(".".join(parts[:end]))
        if renamed is not None:
            return ".".join([renamed, *parts[end:]])
    return ""


class _SameModule(Loader):
    """Loads an old name by importing the new one."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self._name)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the spec, which the import system has replaced by the spec of the old name."""
        module.__spec__ = self._spec


class RenamedModules(MetaPathFinder):
    """Finds a module by its old name."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a renamed module, or None."""
        name = new_name(fullname)
        real = find_spec(name) if name else None
        if real is None:
            return None
        warnings.warn(f"{fullname} is now {name}; the old name goes with version 0.2", DeprecationWarning, stacklevel=2)
        is_package = real.submodule_search_locations is not None
        return ModuleSpec(fullname, _SameModule(name), origin=real.origin, is_package=is_package)


def install() -> None:
    """Let the import system find old names. It is first; else a module would be loaded twice, by its folder too."""
    sys.meta_path.insert(0, RenamedModules())
