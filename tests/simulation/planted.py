"""A planted bug: how it is described, and how a module is imported with it."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One bug: `old`, which is in the file once, becomes `new`; a finding of one of the kinds `shown` names it."""

    name: str
    file: str
    old: str
    new: str
    shown: tuple[str, ...]
    kind: str = ""  # of the programmes that are searched; without one, of all kinds
    text: str = ""  # of the programme that is searched instead of drawn ones
    wrong_clocks: bool = False  # whether only hosts with wrong clocks show it


class Planter(importlib.abc.Loader, importlib.abc.MetaPathFinder):
    """Imports one module from its changed text."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant
        self._name = mutant.file.removesuffix(".py").replace("/", ".")

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, origin=self._mutant.file)

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(mutated(self._mutant), self._mutant.file, "exec"), module.__dict__)


def mutated(mutant: Mutant) -> str:
    """The text of a mutant's file with its bug."""
    text = (ROOT / mutant.file).read_text(encoding="utf-8")
    assert text.count(mutant.old) == 1, f"{mutant.name}: {mutant.file} has its text {text.count(mutant.old)} times"
    return text.replace(mutant.old, mutant.new)
