"""Every example of examples/ runs as its docstring says, and ends with the line that it promises."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from client.allocate.registry import BUILT_IN_STRATEGIES
from tests.spark.quick_start import QUICK_START

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "examples"
EXAMPLES = sorted(
    path.relative_to(SHIPPED).as_posix() for folder in (SHIPPED, SHIPPED / "pages") for path in folder.glob("*.py")
)

LAST_LINES = {
    "custom_strategy.py": r"small-1 has 4, small-2 has 4, large\*2 has 8",
    "failover.py": r"sent 200, lost 0, the longest send took \d+\.\d s",
    "hello.py": r"sent 10, received 10",
    "lite_pull.py": r"sent 12, polled 12, read \d+ of one queue",
    "key_order.py": r"by key \d\.\d times as fast as by queue, and 0 overtaken",
    "pages/one_message.py": r"offset 1 is committed",
    "pages/one_rebalance.py": r"6 scenes",
    "pages/one_transaction.py": r"3 scenes",
    "payment.py": r"[1-9]\d* orders, [1-9]\d* payments, \d+\.\d\d in both books",
    "pop.py": r"sent 200; done by a \d\d, b \d\d, c \d\d, slow \d",
    "rebalance_live.py": r"1 member has all queues",
    "simulated_hour.py": r"sent 360, lost 0, .*; the same history twice",
    "spark_to_parquet.py": r"40,000 messages, 40,000 rows: 0 missing, 0 twice",
    "pages/strategies_table.py": f"{len(BUILT_IN_STRATEGIES) + 2} strategies over 4 histories",
}

SHOWN_ON = {"pages/strategies_table.py": "docs/strategies.md"}
"""Pages with the tables that an example prints; those that show another kind of run are tests/docs/test_pages.py's."""


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs_and_ends_as_it_says(name: str, tmp_path: Path) -> None:
    # Its own folder: what a cluster that was killed has left in the common one is told on stderr.
    command, env = [sys.executable, f"examples/{name}"], {**os.environ, **QUICK_START, "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False, env=env)
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    assert re.fullmatch(LAST_LINES[name], last), last
    assert done.stderr == "", "an example shows nothing that looks like a failure"
    if name in SHOWN_ON:
        page = (ROOT / SHOWN_ON[name]).read_text(encoding="utf-8")
        tables = re.findall(r"(?:^\|.*\n)+", done.stdout, re.MULTILINE)
        assert tables
        old = f"{SHOWN_ON[name]} is old: run `python examples/{name} docs`, and read whether its text holds"
        assert all(table in page for table in tables), old


def test_the_core_plays_its_story_and_every_message_arrives() -> None:
    command = [sys.executable, "-m", "examples.core"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    steps = [line[:20].rstrip() for line in done.stdout.splitlines()[:6]]
    assert steps == ["a joins", "b joins", "c joins", "b leaves", "c is killed", "d joins, topic grows"]
    owned = {line[:20].rstrip(): sorted(re.findall(r"broker-[ab]:\d", line)) for line in done.stdout.splitlines()[:6]}
    eight = [f"broker-{name}:{n}" for name in "ab" for n in range(4)]
    assert all(owned[step] == eight for step in steps[:5]), "each queue has one owner after each step"
    assert owned[steps[5]] == sorted([*eight, "broker-a:4", "broker-a:5"])
    found = re.fullmatch(r"sent (\d+), received (\d+), (\d+) of them twice", done.stdout.splitlines()[-1])
    assert found is not None
    assert found[1] == found[2]
    assert int(found[3]) > 0, "a member was killed before it had stored its offsets"


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_says_how_to_run_it(name: str) -> None:
    text = (ROOT / "examples" / name).read_text(encoding="utf-8")
    assert f"    python examples/{name}\n" in text.split('"""')[1]
