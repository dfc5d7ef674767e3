"""The one name under which all of rebalance-lab is imported: `from rlab.client import Producer`.

An installation has all packages below this name. In a checkout the packages are beside this folder, and `rlab.client`
is the module `client`: one module under two names, so its classes are the same under both. The stubs in this folder
give editors and mypy the same names.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, ModuleType

from rlab.renamed import install

_FOLDER = Path(__file__).resolve().parents[1]
_PREFIX = f"{__name__}."
_TAKEN = (
    "rlab.{name} of a checkout is its module {name}, and that name is taken by {taker}: "
    "install rebalance-lab without -e, then all of it is below rlab"
)


class _Alias(InspectLoader):
    """Loads `rlab.X` by importing X."""

    def __init__(self, real: ModuleSpec) -> None:
        self._real = real

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return importlib.import_module(self._real.name)

    def exec_module(self, module: ModuleType) -> None:
        """Restore attributes that the import system changed because it treats the module as new."""
        module.__spec__ = self._real

    def is_package(self, fullname: str) -> bool:
        return self._real.submodule_search_locations is not None

    def get_source(self, fullname: str) -> str | None:
        return self._file().get_source(self._real.name)

    def get_code(self, fullname: str) -> CodeType | None:
        """The code of the module, for `python -m rlab.X`."""
        return self._file().get_code(self._real.name)

    def _file(self) -> SourceFileLoader:
        # Not the loader of the module: pytest's loader, for example, returns no code.
        assert self._real.origin is not None, "all packages are plain files"
        return SourceFileLoader(self._real.name, self._real.origin)


class _RlabFinder(MetaPathFinder):
    """Finds `rlab.X` where the module X is found, beside this folder."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(_PREFIX) or fullname == f"{_PREFIX}__main__":
            return None
        name = fullname.removeprefix(_PREFIX)
        top = name.partition(".")[0]
        if top == "tools" or not (_FOLDER / top / "__init__.py").exists():
            return None  # not a package, or not an installed one
        real = find_spec(name)
        if real is None or real.origin is None:
            return None
        if _FOLDER not in Path(real.origin).parents:
            raise ImportError(_TAKEN.format(name=name, taker=real.origin), name=fullname)
        is_package = real.submodule_search_locations is not None
        return ModuleSpec(fullname, _Alias(real), origin=real.origin, is_package=is_package)


# First in the list, because the folder of this package has none of these modules.
sys.meta_path.insert(0, _RlabFinder())
install()
