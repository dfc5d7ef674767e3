from __future__ import annotations

import json
import subprocess
import sys

import pytest

from model.own_name import IMPORT_FOLDER

pytestmark = pytest.mark.process
SAYS = """
import json, os, signal, sys

import anyio

from process.children import MODULE, Child
from testbed.cluster.control.starter import starter

SAYS = [*MODULE, "fork_that_says"]


async def main(start):
    told = {}
    one = Child("one", await start([*SAYS, "1", "echo"]))
    two = Child("two", await start([*SAYS, "2", "exit"]))
    failing = Child("failing", await start([*SAYS, "3", "raise"]))
    await one.wait_ready(), await two.wait_ready(), await failing.wait_ready()
    told["addresses"] = [one.address, two.address]
    told["own_session"] = os.getsid(one.process.pid) == one.process.pid
    told["answer"] = (await one.ask({"do": "this"}))["do"]
    told["codes"] = [await two.process.wait(), await failing.process.wait(), one.process.returncode]
    one.process.send_signal(signal.SIGKILL)
    told["killed"] = [await one.process.wait(), one.process.returncode]
    with_eof = Child("eof", await start([*SAYS, "4", "echo"]))
    await with_eof.wait_ready()
    told["pid"] = with_eof.process.pid
    await with_eof.process.aclose()
    told["eof"] = with_eof.process.returncode
    await one.stop()
    return told


with starter() as start:
    told = anyio.run(main, start)
print(json.dumps(told))
"""
FORK = """
import sys

from process.output import print_json


def main():
    _, number, do = sys.argv
    print_json({"address": f"host:{number}"})
    if do == "exit":
        sys.exit(7)
    if do == "raise":
        raise ValueError("of the fork")
    for line in sys.stdin:
        print(line, end="", flush=True)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere it is spawn, which has its own tests")
def test_a_fork_speaks_is_signalled_and_ends_as_a_process_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("fork")
    (folder / "fork_that_says.py").write_text(FORK, encoding="utf-8")
    script = f"import sys; sys.path[:0] = [{str(IMPORT_FOLDER)!r}, {str(folder)!r}]\n{SAYS}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    reported = json.loads(done.stdout)
    assert reported.pop("pid") > 0
    assert reported == {
        "addresses": ["host:1", "host:2"],
        "own_session": True,
        "answer": "this",
        "codes": [7, 1, None],
        "killed": [-9, -9],
        "eof": 0,
    }
    assert done.stderr.count("ValueError: of the fork") == 1
