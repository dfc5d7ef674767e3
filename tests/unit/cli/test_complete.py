from __future__ import annotations

import pytest

from cli import complete
from cli.testbed.labs import complete_lesson


def test_lessons_and_strategies_are_completed_from_their_beginning() -> None:
    assert complete_lesson("05") == ["05-two-owners"]
    assert complete.strategies("AVG") == ["AVG", "AVG_BY_CIRCLE"]
    assert "BROKER" in complete.strategies("")


@pytest.mark.tcp
def test_without_a_cluster_nothing_is_completed_and_nothing_is_printed(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RLAB_NAMESRV", "127.0.0.1:1")
    assert complete.topics("o") == []
    assert complete.groups("") == []
    assert capfd.readouterr() == ("", "")
