"""The site as far as it can be checked without mkdocs: its order, its links, and what is made from the code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

import client
from cli.main import app
from cli.sections import every_command
from model.errors import RlabError
from tests.docs.pages import ROOT, headings, text_of
from tools.release import NotReleasable, checksums, notes_of, version
from tools.site.links import OUTSIDE, home, pages, site_path, with_site_links
from tools.site.made import PYTHON, made_pages

pytestmark = pytest.mark.walk

CONFIG: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
MADE = made_pages()


def ordered(nav: Any = CONFIG["nav"]) -> Iterator[str]:
    """The pages in the order of the site."""
    if isinstance(nav, str):
        yield nav
    else:
        for each in nav.values() if isinstance(nav, dict) else nav:
            yield from ordered(each)


def test_the_order_has_every_page_once_and_no_other() -> None:
    assert sorted(ordered()) == sorted([*map(site_path, pages()), *MADE])


def test_it_has_the_four_kinds_of_pages() -> None:
    titles = [title for part in CONFIG["nav"] for title in part]
    assert titles == ["Home", "Tutorial", "How-to", "Reference", "Explanation", "Project"]


@pytest.mark.parametrize("page", pages())
def test_every_link_of_a_page_leads_to_something_on_the_site(page: str) -> None:
    _, sources = with_site_links(page, text_of(page))
    assert [source for source in sources if not (ROOT / source).is_file()] == [], "link to a file, not to a folder"


def test_links_are_turned_and_those_elsewhere_are_not() -> None:
    text = (
        "[a](../../CONTRIBUTING.md#tests) [b](../pop.md) [c](https://x.org/y.md) [d](#e) [f](../../examples/hello.py)"
    )
    turned, sources = with_site_links("docs/howto/x.md", text)
    assert turned == (
        "[a](../contributing.md#tests) [b](../pop.md) [c](https://x.org/y.md) [d](#e) [f](../source/examples/hello.py)"
    )
    assert sources == {"examples/hello.py"}
    assert with_site_links("README.md", "[a](docs/pop.md)") == ("[a](pop.md)", set())
    assert OUTSIDE["README.md"] == "project.md"


def test_every_command_is_in_the_reference_with_each_of_its_options() -> None:
    page = MADE["reference/commands.md"]
    names = [name for name, _ in every_command(get_command(app))]
    assert {"rlab", "rlab group", "rlab group dlq", "rlab group dlq resend", "rlab lab start"} <= set(names)
    assert [line.lstrip("# ") for line in page.splitlines() if line.startswith("##")] == names
    _, after = page.split(
        "\n### rlab group reset\n" if "\n### rlab group reset\n" in page else "\n## rlab group reset\n"
    )
    section = after.split("\n## ")[0].split("\n### ")[0]
    for shown in ("`--to` earliest", "`--dry-run`", "`--shift` ", "Example: "):
        assert shown in section
    assert "{" not in page
    assert "| `--rocketmq`, `--no-rocketmq` | `--rocketmq` |" in page
    assert "- `rlab group reset`: " in page


def test_every_variable_is_in_the_reference_with_the_option_that_it_sets() -> None:
    page = MADE["reference/variables.md"]
    for row in (
        "| `RLAB_BROKER_LISTEN` | `rlab broker --listen` | ",
        "| `RLAB_NAMESRV` | `--namesrv of all commands` | ",
        "| `RLAB_KEY_FILE` |  | ",
    ):
        assert row in page
    assert "{" not in page


def test_every_name_that_applications_import_is_in_the_reference() -> None:
    page = MADE["reference/python.md"]
    assert [name for name in client.__all__ if f"::: client.{name}\n" not in page] == []
    assert sorted(name for names in PYTHON.values() for name in names) == sorted(client.__all__)


def test_every_error_is_in_the_reference() -> None:
    def leaves(kind: type[RlabError]) -> Iterator[str]:
        yield kind.__name__
        for each in kind.__subclasses__():
            if each.__module__ == "model.errors":
                yield from leaves(each)

    page = MADE["reference/errors.md"]
    assert [name for name in leaves(RlabError) if name != "RlabError" and name not in page] == []
    assert "| `StorageFull` | `STORAGE_FULL` | yes | yes |" in page


def test_the_order_shows_a_title_for_each_page() -> None:
    for page in pages():
        assert headings(page), page


def test_the_notes_of_a_release_are_its_section_of_the_changelog() -> None:
    text = "# Changelog\n\n## 0.2.0 (May)\n\n- new\n\n### Old\n\n## 0.1.0\n\nfirst\n\n## 0.0.9\n"
    assert notes_of(text, "0.2.0") == "# rebalance-lab 0.2.0\n\n- new\n\n### Old\n"
    assert notes_of(text, "0.1.0").endswith("\n\nfirst\n")
    for missing in ("0.0.9", "0.3.0", "0.2"):
        with pytest.raises(NotReleasable, match=missing):
            notes_of(text, missing)


def test_the_version_that_would_be_released_has_notes_and_upgrade_notes() -> None:
    notes = notes_of(text_of("CHANGELOG.md"), version())
    features = re.findall(r"^\*\*(\w.*?)\.\*\* ", notes, re.MULTILINE)
    assert {"Cluster", "Clients", "Rebalance", "Spark"} <= set(features)
    assert len(notes.splitlines()) <= 60, "a screen: what else is worth knowing belongs into the pages"
    assert f"\n| {version()} | " in text_of("docs/releasing.md")


def test_checksums_are_as_sha256sum_writes_them(tmp_path: Path) -> None:
    for name in "ba":
        (tmp_path / name).write_bytes(b"")
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert checksums(tmp_path.iterdir()) == f"{empty}  a\n{empty}  b\n"


def test_the_home_begins_with_the_head_of_the_readme_and_its_picture() -> None:
    made = home(text_of("README.md"), text_of("docs/README.md"))
    assert made.startswith("# rebalance-lab\n\nSee, break and test")
    assert "](terminal.svg)" in made
    assert "## Two commands" not in made
    assert made.count("\n# ") == 0
    assert "\n## Documentation\n" in made
