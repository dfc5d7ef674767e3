"""The comparison with RocketMQ is started only where it can run; what it does is for `make interop`."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from cli.testbed.bench import register
from model.errors import ConfigError
from testbed.bench.rocketmq import play

app = typer.Typer()
register(app)

RUNS = """import os, pathlib, sys
pathlib.Path("said").write_text(" ".join([*sys.argv[1:], os.environ.get("ROCKETMQ_HOME", "no home")]))
sys.exit(3)
"""


def checkout(folder: Path) -> Path:
    """A checkout whose programs only say how they were started."""
    runs = folder / "tests" / "interop" / "run.py"
    runs.parent.mkdir(parents=True)
    runs.write_text(RUNS)
    return runs


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that alone is searched for programs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def install(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).touch(mode=0o755)


def test_an_installed_package_says_that_it_needs_a_checkout(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs a checkout"):
        play(None, tmp_path / "tests" / "interop" / "run.py")


@pytest.mark.parametrize(("there", "missing"), [((), "java"), (("java",), "javac"), (("java", "javac"), "mvn")])
def test_a_missing_tool_is_named(tmp_path: Path, tools: Path, there: tuple[str, ...], missing: str) -> None:
    install(tools, *there)
    with pytest.raises(ConfigError, match=f"^{missing} is not on this machine"):
        play(None, checkout(tmp_path))


def test_a_home_needs_no_maven_and_is_handed_on_with_the_parts(tmp_path: Path, tools: Path) -> None:
    install(tools, "java", "javac")
    home = tmp_path / "home"
    with pytest.raises(ConfigError, match="there is no RocketMQ in"):
        play(home, checkout(tmp_path))
    (home / "lib").mkdir(parents=True)
    (home / "lib" / "rocketmq-broker-5.3.3.jar").touch()
    assert play(home, tmp_path / "tests" / "interop" / "run.py") == 3
    assert (tmp_path / "said").read_text() == f"life rates {home}"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rocketmq", "send-1"], "runs alone"),
        (["rocketmq", "--json"], "runs alone"),
        (["send-1", "--home", "/opt/rocketmq"], "--home goes with rocketmq only"),
    ],
)
def test_it_runs_alone_and_its_option_goes_with_it_only(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(app, arguments, env={"TERMINAL_WIDTH": "200"})
    assert result.exit_code == 2
    assert said in result.output
