from __future__ import annotations

import pytest
from typer.testing import CliRunner

from cli.main import app


@pytest.mark.parametrize(
    ("arguments", "complaint"), [(["delete"], "Missing argument"), (["delete", "g"], "how far g has come"), ([], "")]
)
def test_wrong_usage_is_told_before_anything_is_asked(arguments: list[str], complaint: str) -> None:
    result = CliRunner().invoke(app, ["group", *arguments])
    assert result.exit_code == 2
    assert complaint in " ".join(result.stderr.split())


def test_the_help_says_what_is_lost_and_what_stays() -> None:
    text = " ".join(CliRunner().invoke(app, ["group", "delete", "--help"]).stdout.split())
    assert "Failed messages that wait for their next attempt" in text
    assert "Its dead letters stay" in text
