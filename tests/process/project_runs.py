"""Runs the recipes of docs/testing.md again and again, in a project of their own under pytest-xdist.

    python -m tests.process.project_runs --times 50

A line for each run: whether it was green, and after how many seconds the first test of each worker began. Exit code 1
if one was red; what that one printed stays in the folder that is named.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from model.own_name import IMPORT_FOLDER
from tests.docs.pages import text_of

PAGE = "docs/testing.md"
CHOSEN = "scaling or lost_notification or killed or restarted or hangs or slow or cut"
"""By default: kill, pause, a dropped notification, a slow consumer, the restart of a broker, more members."""
_CLOCK = """
import os
import time

import pytest

_began = []


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item):
    if not _began:
        _began.append(time.time())
        with open("began.txt", "a") as file:
            file.write(f"{time.time() - float(os.environ['STARTED']):.1f} ")
"""


def project_in(folder: Path) -> list[str]:
    """Write the files of the page into a folder; returns their names."""
    blocks = re.findall(r'```python title="([^"]+)"\n(.*?)```', text_of(PAGE), re.DOTALL)
    for name, text in blocks:
        (folder / name).write_text(text, encoding="utf-8")
    return [name for name, _ in blocks]


def run_once(folder: Path, workers: int, chosen: str) -> subprocess.CompletedProcess[str]:
    """Run the project once."""
    began = folder / "began.txt"
    began.write_text("", encoding="utf-8")
    under = ["-n", str(workers)] if workers else []
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "pytest_rlab",
        "-p",
        "no:cacheprovider",
        "-k",
        chosen,
        *under,
    ]
    paths = {"PYTHONPATH": str(IMPORT_FOLDER), "STARTED": str(time.time())}
    return subprocess.run(command, cwd=folder, env=os.environ | paths, capture_output=True, text=True, check=False)


def main() -> int:
    """Run it as often as asked; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--workers", type=int, default=4, help="0: no pytest-xdist")
    parser.add_argument("-k", dest="chosen", default=CHOSEN)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="rlab-project-"))
    project_in(folder)
    with (folder / "conftest.py").open("a", encoding="utf-8") as file:
        file.write(_CLOCK)
    red = 0
    for number in range(1, given.times + 1):
        done = run_once(folder, given.workers, given.chosen)
        said = (done.stdout.strip() or done.stderr.strip() or "nothing was said").splitlines()[-1]
        began = (folder / "began.txt").read_text(encoding="utf-8").strip()
        sys.stdout.write(f"{number}: {said}; first tests after {began} s\n")
        sys.stdout.flush()
        if done.returncode:
            red += 1
            (folder / f"red-{number}.txt").write_text(done.stdout + done.stderr, encoding="utf-8")
    sys.stdout.write(f"{given.times - red} of {given.times} were green, in {folder}\n")
    return 1 if red else 0


if __name__ == "__main__":
    sys.exit(main())
