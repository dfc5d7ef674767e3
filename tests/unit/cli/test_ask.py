from __future__ import annotations

import pytest
import typer

from cli.ask import ask_cluster


def test_a_question_to_a_name_server_that_cannot_be_is_one_line_and_the_exit_code_of_a_wrong_option(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(typer.Exit) as exit_info:
        ask_cluster("nowhere", lambda admin: admin.groups())
    assert exit_info.value.exit_code == 2
    assert capsys.readouterr().err.startswith("error: ")
