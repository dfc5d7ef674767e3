"""The notebooks of examples/notebooks run from their first cell to their last, without Jupyter and a network."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
RUNNER = Path(__file__).with_name("run_notebook.py")
CHANGES = {"strategies_over_seeds": ("SEEDS = 8", "SEEDS = 3")}
"""What makes a notebook short."""
LAST_LINES = {
    "strategies_over_seeds": r"BALANCED_STICKY moved \d+\.\d queues less than AVG, \d+\.\d to \d+\.\d, in 3 seeds"
}


def read(notebook: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(notebook.read_text(encoding="utf-8"))
    return document


@pytest.mark.process
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_ends_with_its_result(notebook: Path, tmp_path: Path) -> None:
    text, (long, short) = notebook.read_text(encoding="utf-8"), CHANGES[notebook.stem]
    assert long in text
    (tmp_path / notebook.name).write_text(text.replace(long, short), encoding="utf-8")
    env = {**os.environ, "MPLBACKEND": "Agg", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error", str(RUNNER), notebook.name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False, env=env)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert re.fullmatch(LAST_LINES[notebook.stem], done.stdout.splitlines()[-1]), done.stdout


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_no_results_and_the_form_that_jupyter_reads(notebook: Path) -> None:
    document = read(notebook)
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    assert {"cells", "metadata", "nbformat", "nbformat_minor"} == document.keys()
    ids = [cell["id"] for cell in document["cells"]]
    assert len(set(ids)) == len(ids)
    for cell in document["cells"]:
        assert cell["metadata"] == {}
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None), "clear its results: Edit, Clear Outputs"
        else:
            assert cell.keys() == {"cell_type", "id", "metadata", "source"}
