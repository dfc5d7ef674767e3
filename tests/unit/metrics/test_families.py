"""The list of metrics, its page, and the dashboard and the alerts that ask for them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import Any

import pytest
import yaml

from metrics.families import Kind, families
from metrics.page import tables
from tests.docs.pages import ROOT

pytestmark = pytest.mark.walk

MONITORING = ROOT / "docs" / "monitoring"


def queryable() -> set[str]:
    """The names that a query may have."""
    names = {family.sample_name for family in families()}
    histograms = {family.name for family in families() if family.kind is Kind.HISTOGRAM}
    return names | {f"{name}_{suffix}" for name in histograms for suffix in ("count", "sum")}


def test_every_metric_has_a_name_and_a_sentence_of_its_own() -> None:
    found = list(families())
    assert len({family.name for family in found}) == len(found) > 50
    for family in found:
        assert re.fullmatch(r"rlab_[a-z_]+", family.name)
        assert family.help.endswith(".")
        assert (family.kind is Kind.HISTOGRAM) == bool(family.buckets)


def test_the_page_has_the_tables_that_the_list_makes() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert page.partition("<!-- made by: python -m metrics.page -->\n\n")[2] == tables(), "run python -m metrics.page"
    assert {family.name for family in families()} == {
        name.removesuffix("_total") for name in re.findall(r"^\| `(rlab_\w+)`", page, re.MULTILINE)
    }


def expressions() -> list[str]:
    dashboard: dict[str, Any] = json.loads((MONITORING / "grafana.json").read_text(encoding="utf-8"))
    alerts = yaml.safe_load((MONITORING / "alerts.yml").read_text(encoding="utf-8"))
    return [
        *(target["expr"] for panel in dashboard["panels"] for target in panel["targets"]),
        *(rule["expr"] for group in alerts["groups"] for rule in group["rules"]),
    ]


def test_dashboard_and_alerts_ask_for_metrics_that_there_are() -> None:
    asked = {name for expression in expressions() for name in re.findall(r"\brlab_\w+", expression)}
    assert asked <= queryable()
    assert len(asked) > 20


def test_labels_of_legends_and_sums_are_labels_of_their_metrics() -> None:
    labels = {family.sample_name: {*family.labels, "le", "instance", "job"} for family in families()}
    labels |= {f"{family.name}_count": {*family.labels, "instance"} for family in families()}
    for expression in expressions():
        of_metrics = [labels[name] for name in re.findall(r"\brlab_\w+", expression)]
        for listed in re.findall(r"by \(([^)]*)\)", expression):
            for label in listed.split(","):
                assert all(label.strip() in known for known in of_metrics), expression


def test_prometheus_accepts_the_rules() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed; it comes with Prometheus")
    command = [promtool, "check", "config", str(MONITORING / "prometheus.yml")]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
