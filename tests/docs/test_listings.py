"""The tutorial, the how-to guides and the README, followed word by word on a cluster of real processes."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.cluster.control.remote import BlockingCluster
from tests.docs.listings import TYPED, Cluster, Reader, blocks_of, missing, running_cluster, steps_of
from tests.docs.pages import ROOT, text_of

OF_A_REGISTRY = "docs/howto/test-a-rocketmq-5-application.md"
"""A page that needs RocketMQ's client for Python. It is typed by `make wheel-test`, which installs that."""
GUIDES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs" / "howto").glob("*.md"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One cluster for all pages, each of which has topics and groups of its own."""
    with running_cluster(tmp_path_factory.mktemp("pages")) as started:
        yield started


@pytest.fixture
def reader(cluster: Cluster, tmp_path: Path) -> Iterator[Reader]:
    made = Reader(cluster, tmp_path)
    yield made
    made.close()


@pytest.mark.process
@pytest.mark.tcp
@pytest.mark.parametrize(
    "page", ["README.md", "docs/tutorial.md", *(each for each in GUIDES if TYPED or each != OF_A_REGISTRY)]
)
def test_anyone_who_follows_a_page_sees_what_it_shows(reader: Reader, page: str) -> None:
    reader.follow(page)


def test_the_calls_of_a_page_that_only_make_wheel_test_types_are_those_of_a_cluster() -> None:
    calls = set()
    for block in blocks_of(OF_A_REGISTRY):
        if block.language == "python":
            for node in ast.walk(ast.parse(block.text, block.title)):
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "cluster":
                    calls.add(node.attr)
    calls |= set(re.findall(r"`cluster\.(\w+)", text_of(OF_A_REGISTRY)))
    assert len(calls) >= 7
    assert {each for each in calls - {"name_server"} if not hasattr(BlockingCluster, each)} == set()


@pytest.mark.parametrize("page", ["docs/tutorial.md", *GUIDES])
def test_a_guide_has_no_command_or_listing_that_nothing_runs(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = blocks_of(page)
    assert blocks
    assert text.count("\n```") == 2 * len(blocks), "only blocks console, python and text are run"
    assert "\n    rlab " not in text
    shown = [each for before, each in itertools.pairwise(blocks) if each.language == "text"
             and before.language != "python"]  # fmt: skip
    assert shown == [], "the output of a command stands in its block"


def test_a_shown_line_may_differ_in_numbers_ids_and_widths_and_in_nothing_else() -> None:
    output = "topic t created\n\n c1   127.0.0.1@93#be4a0ed8e285   5 ms\n lag 12; converged\n"
    processes: dict[str, str] = {}
    assert missing(["topic t created", "...", " c1  127.0.0.1@7#4847f0993ad6   39 ms", "..."], output, processes) == ""
    assert processes == {"7": "93"}
    assert missing(["...", "lag 0; ..."], output) == ""
    assert missing(["...", "lag 0; converging"], output) == "lag 0; converging"
    assert missing(["...", "lag 0; converged", "topic t created"], output) == "topic t created"


def test_a_line_that_is_printed_and_not_shown_is_a_difference() -> None:
    output = "one\n ───\ntwo\nthree\n"
    assert missing(["one", "two", "three"], output) == ""
    assert missing(["one", "three"], output) == "three"
    assert missing(["one", "two"], output) == "nothing more, but it prints three"
    assert missing(["one", "two"], output, goes_on=True) == ""
    assert missing(["one", "..."], output) == ""


def test_a_command_ends_where_its_output_begins() -> None:
    assert list(steps_of("$ rlab topic list   # all\ntopics\n\n$ a \\\n  b\n")) == [
        ("rlab topic list", ["topics"]), ("a   b", []),
    ]  # fmt: skip
