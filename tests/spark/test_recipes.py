"""The programs of docs/spark-recipes.md do what the page says: in one process, and then in another one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from client import Message
from pipeline.spark.session import register_source
from tests.docs.pages import text_of
from tests.spark.quick_start import QUICK_START
from tests.spark.spark_cluster import ClusterProcesses
from tests.tcp.rlab_process import environment

pytestmark = [pytest.mark.spark, pytest.mark.process]

TIMEOUT_S = 300.0
IN_A_PROCESS = """
import json
from rlab.pipeline.spark.session import spark_session

with spark_session("recipes", master="local[2]", conf={"spark.sql.shuffle.partitions": "1"}) as spark:
    for program in PROGRAMS:
        exec(program, globals())
    print(json.dumps(found))
"""
FIND = """
letters = spark.read.parquet("dead/letters").selectExpr("consumer_group", "body")
counts = spark.sql("SELECT key, max(messages) FROM sessions GROUP BY key, first")
found = [sorted(map(list, table.collect())) for table in (letters, counts)]
"""


def recipe(heading: str, others: Mapping[str, str]) -> str:
    """The program below a heading, with other addresses, topics and so on in it."""
    code = text_of("docs/spark-recipes.md").split(f"\n## {heading}\n")[1].split("```python\n")[1].split("```")[0]
    for text, other in others.items():
        assert text in code
        code = code.replace(text, other)
    return code


def run(code: str, folder: Path) -> str:
    """Run a program in a process of its own; returns the last line that it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=environment(**QUICK_START),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def test_every_recipe_of_a_session_goes_on_in_the_next_process(
    spark: SparkSession, cluster: ClusterProcesses, make_topic: Callable[[int], str], tmp_path: Path
) -> None:
    topic = make_topic(2)
    here = {"127.0.0.1:9876": cluster.address}
    dead, sessions = ((f'"{name}/', f'"{tmp_path}/{name}/') for name in ("dead", "sessions"))
    programs = [
        recipe("Dead letters into a table", dict([*here.items(), dead])),
        recipe("Sessions with state", dict([*here.items(), sessions, ('"orders"', f'"{topic}"')])),
    ]
    lag, find = recipe("Lag for Prometheus", {"9100": "0"}), FIND.replace(*dead)

    def send(numbers: range) -> None:
        cluster.send_numbers("%DLQ%billing", numbers)
        cluster.send([Message(topic, b"x", [f"k{number % 2}"]) for number in range(6)])

    cluster.create_topic("%DLQ%billing", 1)
    try:
        send(range(3))
        # The first process is that of these tests: starting a JVM takes seconds.
        session = spark.newSession()
        register_source(session)
        names: dict[str, Any] = {"spark": session, "__name__": "recipes"}
        for program in (*programs, find):
            exec(program, names)
        send(range(3, 5))
        next_found = json.loads(run(f"PROGRAMS = {[*programs, lag, find]!r}\n{IN_A_PROCESS}", tmp_path))
    finally:
        cluster.delete_topic("%DLQ%billing")
    assert [names["found"], next_found] == [
        [[["billing", str(number)] for number in range(letters)], [["k0", messages], ["k1", messages]]]
        for letters, messages in ((3, 3), (5, 6))
    ]


def test_a_client_of_connect_reads_a_topic_and_the_next_one_its_new_messages(
    connect_url: str, cluster: ClusterProcesses, make_topic: Callable[[int], str], tmp_path: Path
) -> None:
    topic = make_topic(1)
    others = {"127.0.0.1:9876": cluster.address, "sc://127.0.0.1:15002": connect_url, '"orders"': f'"{topic}"'}
    for count in (10, 20):
        cluster.send_numbers(topic, range(10))
        assert run(recipe("Spark Connect", others), tmp_path) == f"[Row(queue_id=0, count={count})]"
