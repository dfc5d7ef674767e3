"""A sweep on Spark has the outcomes, and the events, of a sweep in this process."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from testbed.runs.on_spark import sweep_on_spark
from testbed.simulation.engine.sweep import Case, sweep

pytestmark = pytest.mark.spark


def test_a_sweep_on_spark_has_the_same_verdicts_and_events(spark: SparkSession) -> None:
    text = "lasts_s = 5.0\n[[step]]\nat_s = 1.0\ndo = 'crash'\nwho = 'billing-1'"
    cases = [Case(seed=seed, text=text) for seed in range(3)]
    cases.append(Case(seed=3, text=text, quirks=("OVERLAPPING_HANDOVER",)))
    outcomes = list(sweep_on_spark(spark, cases))
    assert outcomes == list(sweep(cases))
    assert [outcome.ok for outcome in outcomes] == [True, True, True, False]
