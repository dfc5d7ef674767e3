"""The plugin `pytest_rlab` in a project of a user, outside of this tree: its recipes, and the report of a failure."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.cluster.control.remote import RemoteCluster
from testbed.cluster.control.verbs import BegunFault
from tests.docs.pages import ROOT, text_of
from tests.process.project_runs import PAGE, project_in

pytestmark = pytest.mark.process
SHORT = "take_over_from_a_consumer or share or scaling or killed or cut or slow or duplicate or twice or notification"
"""Recipes that take little time; `RLAB_RECIPES=all` runs each of them."""
FAILS = """
import pytest


def test_nobody_comes(rlab_cluster, rlab_topic, rlab_group, rlab_verdict):
    rlab_verdict.acknowledge(rlab_verdict.sending(b"x"))
    rlab_cluster.blocking.delay(0.01, group=rlab_group)
    rlab_cluster.blocking.balanced(rlab_group, timeout_s=0.1)


def test_nobody_minds_größe_in_a_name(rlab_topic, rlab_group):
    from rlab.client import PushConsumer

    PushConsumer("127.0.0.1:1", group=rlab_group)


def test_the_next_one_finds_the_cluster_whole(rlab_cluster):
    assert rlab_cluster.blocking.faults() == []


def test_nobody_waits_for_a_fault_that_hits_nothing(rlab_cluster, rlab_topic, rlab_group):
    cluster = rlab_cluster.blocking
    cluster.create_group(rlab_group, rlab_topic, retry_delays_s=[1], max_attempts=3)
    assert {each["committed"] for each in cluster.group(rlab_group)["queues"]} == {0}
    with pytest.raises(Exception, match="a group has no setting 'pause'; there are retry_delays_s"):
        cluster.create_group(rlab_group, rlab_topic, pause=1)
    with cluster.drop("HEART_BEAT", group=rlab_group) as fault:
        with pytest.raises(AssertionError, match="has hit 0 times instead of 1 within 0.1 s"):
            fault.hit(timeout_s=0.1)
        process = cluster.add_consumer(rlab_group, rlab_topic)
        fault.hit()
        cluster.kill(process)


@pytest.mark.anyio
async def test_nobody_forgets_an_await(rlab_cluster):
    with pytest.raises(TypeError, match="use `async with` for the fault drop"):
        with rlab_cluster.drop("HEART_BEAT"):
            pass
    with pytest.warns(RuntimeWarning, match="did not begin: await it"):
        rlab_cluster.cut(group="g")
    assert await rlab_cluster.faults() == []
"""


def test_the_recipes_of_the_page_pass_in_a_project_of_a_user(tmp_path: Path) -> None:
    assert project_in(tmp_path) == ["test_recipes.py", "test_virtual.py"]
    (tmp_path / "test_fails.py").write_text(FAILS, encoding="utf-8")
    chosen = [] if os.environ.get("RLAB_RECIPES") == "all" else ["-k", f"{SHORT} or nobody or next or member_fail"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "pytest_rlab", "-p", "no:cacheprovider", *chosen]
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    summary = done.stdout.splitlines()[-1]
    assert re.match(r"1 failed, \d+ passed", summary), done.stdout + done.stderr
    assert "stable of test_nobody_comes-" in done.stdout
    assert "was not reached within 0.1 s" in done.stdout
    once = done.stdout.count("verdict: 1 sent, 1 acknowledged, 0 received, 1 lost, 0 twice")
    assert once == 1, "the plugin is registered once"
    assert re.search(r'active faults: \{"do": "delay", "group": "test_nobody_comes-', done.stdout)


def test_the_page_has_thirteen_recipes_and_none_sleeps() -> None:
    recipes = text_of(PAGE).partition("### Thirteen recipes")[2].partition("\n## ")[0]
    assert len(re.findall(r"^async def test_", recipes, re.MULTILINE)) == 13
    assert "sleep" not in recipes.replace("None of them sleeps", "")


def test_the_page_has_every_public_name_of_a_cluster() -> None:
    table = text_of(PAGE).partition("### What a cluster can do")[2].partition("\n### ")[0]
    first_columns = " ".join(line.split("|")[1] for line in table.splitlines() if line.startswith("|"))
    names = set(re.findall(r"(?<![\w=])[a-z_]+(?=[(`])", first_columns)) - {"rlab_cluster"}
    attributes = {"name_server", "control", "token", "blocking"}
    calls = {name for name in dir(RemoteCluster) if not name.startswith("_")}
    of_faults = {name for name in dir(BegunFault) if not name.startswith("_")}
    assert names == calls | attributes, names ^ (calls | attributes)
    assert of_faults <= set(re.findall(r"[a-z_]+", table))
