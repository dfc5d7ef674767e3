from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

import pytest

from pictures.assets import bundle_scripts, read_asset, static_folder
from tests.unit.source_tree import texts

SCRIPTS = {path: text for path, text in texts().items() if path.endswith(".js")}
STYLES = {path: text for path, text in texts().items() if path.endswith((".css", ".html"))}
PARSES_MARKUP = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|srcdoc|\beval\("
    r"|new Function"
)
IMPORTED = re.compile(r"""^import [^;]*? from ["']([^"']+)["']""", re.MULTILINE)
FOREIGN = re.compile(r"(?:https?:)?//[\w-]+\.[\w.]+")


@pytest.mark.parametrize("path", SCRIPTS)
def test_no_script_parses_markup_so_that_names_keys_and_bodies_stay_text(path: str) -> None:
    assert PARSES_MARKUP.findall(SCRIPTS[path]) == []


@pytest.mark.parametrize("path", [*SCRIPTS, *STYLES])
def test_no_page_loads_anything_from_elsewhere(path: str) -> None:
    text = {**SCRIPTS, **STYLES}[path]
    assert FOREIGN.findall(text) == []


def test_the_rules_see_what_they_forbid() -> None:
    assert PARSES_MARKUP.search("element.innerHTML = name")
    assert FOREIGN.search('<script src="https://cdn.example.com/x.js">')


def test_a_bundle_has_all_that_its_scripts_have_and_neither_imports_nor_exports() -> None:
    text = bundle_scripts(["dom.js", "canvas.js", "history.js", "palette.js", "timeline.js"])

    assert not re.search(r"^(import|export)\b", text, re.MULTILINE)
    for name in ("function h(", "class History", "const COLOURS", "class Timeline"):
        assert name in text
    declared = re.findall(r"^(?:async )?(?:function|class|const|let) (\w+)", text, re.MULTILINE)
    assert len(declared) == len(set(declared)), "two scripts of one bundle declare one name"


def circle(imports: Mapping[str, Iterable[str]]) -> list[str]:
    """Scripts that import each other in a circle, or nothing."""
    try:
        list(TopologicalSorter(imports).static_order())
    except CycleError as error:
        return [str(name) for name in error.args[1]]
    return []


def test_no_scripts_import_each_other_in_a_circle() -> None:
    imports = {
        path.rpartition("/")[2]: [name.rpartition("/")[2] for name in IMPORTED.findall(text)]
        for path, text in SCRIPTS.items()
    }
    assert "net.js" in imports["app.js"]
    assert circle(imports) == []
    assert circle({**imports, "net.js": ["app.js"]}) != []


def test_the_files_are_beside_the_code() -> None:
    assert (static_folder("console") / "index.html").is_file()
    assert read_asset("pictures.css").startswith(":root")
