"""A variable that no command has is named, with the one that was probably meant."""

from __future__ import annotations

import pytest
from typer.main import get_command

from cli.main import app, main
from cli.variables import unknown_variables, variables_of

COMMAND = get_command(app)


def test_the_variables_are_those_that_the_commands_read() -> None:
    known = set(variables_of(COMMAND))
    assert {"RLAB_NAMESRV", "RLAB_CONFIG", "RLAB_BROKER_LISTEN", "RLAB_TOPIC_CREATE_QUEUES"} <= known
    assert "RLAB_BROKER_NAMESRV" not in known, "it has a name of its own"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("RLAB_BROKR_LISTEN", ["RLAB_BROKR_LISTEN is no variable of rlab: is RLAB_BROKER_LISTEN meant?"]),
        ("RLAB_NAMESERVER", ["RLAB_NAMESERVER is no variable of rlab: is RLAB_NAMESRV meant?"]),
        ("RLAB_XYZ", ["RLAB_XYZ is no variable of rlab"]),
        ("RLAB_NAMESRV", []),
        ("RLAB_BROKER_LISTEN", []),
        ("RLAB_DEBUG", []),
        ("RLAB_SERVICE_HOST", []),
        ("RLAB_PORT_9876_TCP", []),
        ("MY_RLAB_BROKR_LISTEN", []),
        ("PATH", []),
    ],
)
def test_a_misspelt_variable_is_named_and_no_other(name: str, said: list[str]) -> None:
    assert unknown_variables([name], COMMAND) == said


def test_a_command_says_it_before_it_does_its_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RLAB_TOPIC_CREATE_QUEUS", "8")
    monkeypatch.setattr("sys.argv", ["rlab", "--version"])
    with pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr()
    assert (ended.value.code, told.out.startswith("rlab ")) == (0, True)
    assert told.err == ("note: RLAB_TOPIC_CREATE_QUEUS is no variable of rlab: is RLAB_TOPIC_CREATE_QUEUES meant?\n")


def test_the_shell_completes_commands_and_options(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_RLAB_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "rlab topic cr")
    monkeypatch.setenv("COMP_CWORD", "2")
    monkeypatch.setattr("sys.argv", ["rlab"])
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().out.split() == ["create"]
