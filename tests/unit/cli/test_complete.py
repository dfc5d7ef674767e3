from __future__ import annotations

import pytest
from typer.main import get_command

from cli import complete
from cli.main import app
from cli.sections import every_command
from cli.testbed.labs import complete_lesson

pytestmark = pytest.mark.walk


def test_lessons_and_strategies_are_completed_from_their_beginning() -> None:
    assert complete_lesson("05") == ["05-two-owners"]
    assert complete.strategies("AVG") == ["AVG", "AVG_BY_CIRCLE"]
    assert "BROKER" in complete.strategies("")
    assert "BROKER" not in complete.own_strategies("")
    assert complete.fault_words("") == ["client=", "group="]
    assert complete.fault_words("n") == []


@pytest.mark.tcp
def test_without_a_cluster_nothing_is_completed_and_nothing_is_printed(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RLAB_NAMESRV", "127.0.0.1:1")
    assert complete.topics("o") == []
    assert complete.groups("") == []
    assert complete.members("") == []
    assert capfd.readouterr() == ("", "")


def test_each_argument_for_a_topic_a_group_or_a_strategy_is_completed() -> None:
    new = {"rlab cluster", "rlab swarm"}  # these make a topic or a group
    others = {"rlab produce --group", "rlab producer show"}  # these name producers
    for name, command in every_command(get_command(app)):
        for parameter in command.params:
            named = name if parameter.param_type_name == "argument" else f"{name} {parameter.opts[0]}"
            wanted = parameter.name == "strategy" or (parameter.name in ("topic", "group") and name not in new)
            if wanted and named not in others:
                assert parameter._custom_shell_complete is not None, named
