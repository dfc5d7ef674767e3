"""`rlab bench rocketmq`: one life of a group on RocketMQ's servers and on ours, with Java's client and with ours.

Its programs (`tests/interop/life.py`, `tests/interop/rates.py`) compile Java and need RocketMQ's jars,
so they are not part of the package: they are started in the checkout of this file.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from model.errors import ConfigError

_CHECKOUT = Path(__file__).parents[2]
_RUNS = _CHECKOUT / "tests" / "interop" / "run.py"
_PARTS = ("life", "rates")


def play(home: Path | None, runs: Path = _RUNS) -> int:
    """Play all lives and measure the rates, with RocketMQ from its home or else from Maven; returns an exit code.

    Raises:
        ConfigError: this is not a checkout, Java or Maven is missing, or there is no RocketMQ in `home`.
    """
    if not runs.exists():
        raise ConfigError(
            "rlab bench rocketmq needs a checkout of rebalance-lab, because its programs in Java are not part of the "
            "package: clone it, run make setup, and then .venv/bin/rlab bench rocketmq there"
        )
    for program in ("java", "javac", *(() if home else ("mvn",))):
        if shutil.which(program) is None:
            raise ConfigError(f"{program} is not on this machine; rlab bench rocketmq needs a JDK, and Maven or --home")
    if home is not None and not any((home / "lib").glob("rocketmq-broker-*.jar")):
        raise ConfigError(f"there is no RocketMQ in {home}: its lib/ has no rocketmq-broker-VERSION.jar")
    environment = {**os.environ, **({"ROCKETMQ_HOME": str(home.absolute())} if home else {})}
    if home is None:
        environment.pop("ROCKETMQ_HOME", None)
    command = [sys.executable, "-m", "tests.interop.run", *_PARTS]
    return subprocess.run(command, cwd=runs.parents[2], env=environment, check=False).returncode
