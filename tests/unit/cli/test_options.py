from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner, Result

from cli.main import main
from cli.options import (
    DEFAULT_NAME_SERVER,
    Config,
    Json,
    NameServers,
    Verbose,
    age_ms,
    new_directory,
)


def made_app() -> typer.Typer:
    """An app with a command and a nested one, that print what they were given."""
    app, nested = typer.Typer(context_settings={"auto_envvar_prefix": "RLAB"}, rich_markup_mode=None), typer.Typer()

    @app.command()
    def serve(
        listen_on: Annotated[str, typer.Option("--listen-on")] = "default",
        tag: Annotated[list[str] | None, typer.Option()] = None,
        fast: bool = True,
        namesrv: NameServers = DEFAULT_NAME_SERVER,
        json: Json = False,
        verbose: Verbose = False,
        config: Config = None,
    ) -> None:
        typer.echo(f"{listen_on} {tag} {fast} {namesrv} {json}")

    @nested.command()
    def create(queues: int = 4, namesrv: NameServers = DEFAULT_NAME_SERVER, config: Config = None) -> None:
        typer.echo(f"{queues} {namesrv}")

    app.add_typer(nested, name="topic")
    return app


def invoke(*arguments: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(
        made_app(), list(arguments), env={"RLAB_NAMESRV": None, "RLAB_CONFIG": None, **(env or {})}
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rlab.toml"
    path.write_text(
        """
        namesrv = "from-file:1"
        [serve]
        listen-on = "file"
        tag = ["a", "b"]
        fast = false
        json = true
        [topic]
        namesrv = "of-topics:1"
        [topic.create]
        queues = 16
        """
    )
    return path


def test_flag_beats_environment_beats_file_beats_default(file: Path) -> None:
    env = {"RLAB_SERVE_LISTEN_ON": "environment"}
    with_file = ["serve", "--config", str(file)]
    assert invoke("serve").stdout.split()[0] == "default"
    assert invoke(*with_file).stdout.split()[0] == "file"
    assert invoke(*with_file, env=env).stdout.split()[0] == "environment"
    assert invoke(*with_file, "--listen-on", "flag", env=env).stdout.split()[0] == "flag"
    assert invoke("--listen-on", "flag", *with_file).exit_code == 2  # an option belongs behind its command


def test_the_file_knows_lists_switches_and_what_is_for_every_command(file: Path) -> None:
    assert invoke("serve", "--config", str(file)).stdout == "file ['a', 'b'] False from-file:1 True\n"


def test_a_command_of_a_group_reads_its_own_table_the_groups_and_the_top(file: Path) -> None:
    assert invoke("topic", "create", "--config", str(file)).stdout == "16 of-topics:1\n"


def test_name_servers_and_the_file_are_named_in_the_environment_for_all_commands(file: Path) -> None:
    assert invoke("topic", "create", env={"RLAB_CONFIG": str(file)}).stdout == "16 of-topics:1\n"
    both = {"RLAB_CONFIG": str(file), "RLAB_NAMESRV": "env:1"}
    assert invoke("topic", "create", env=both).stdout == "16 env:1\n"
    assert invoke("serve", env={"RLAB_NAMESRV": "env:1"}).stdout.split()[3] == "env:1"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[serve]\nlissten = 1", "has no option 'lissten'"),
        ("serve = 1", "[serve] must be a table"),
        ("x = = 1", "is not valid TOML"),
        ("[serve]\nfast = 'perhaps'", "fast"),
    ],
)
def test_a_wrong_file_is_a_usage_error_that_names_the_mistake(text: str, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "rlab.toml"
    path.write_text(text)
    result = invoke("serve", "--config", str(path))
    assert result.exit_code == 2
    assert complaint in result.stderr


def test_a_file_that_is_not_there_or_not_text_is_a_usage_error(tmp_path: Path) -> None:
    assert "No such file" in invoke("serve", "--config", str(tmp_path / "nope")).stderr
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\xff")
    assert invoke("serve", "--config", str(binary)).exit_code == 2


def test_the_help_of_an_option_reports_its_variable_but_not_for_mere_switches() -> None:
    text = invoke("serve", "--help").stdout
    assert "RLAB_SERVE_LISTEN_ON" in text
    assert "RLAB_NAMESRV" in text
    assert "RLAB_SERVE_JSON" not in text


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("90s", 90_000),
        ("10m", 600_000),
        ("1h", 3_600_000),
        ("2d", 172_800_000),
        ("1.5h", 5_400_000),
        ("10", None),
        ("-1h", None),
    ],
)
def test_an_age_is_a_number_with_a_unit(text: str, ms: int | None) -> None:
    assert age_ms(text) == ms


def test_a_new_directory_must_not_exist(tmp_path: Path) -> None:
    made = new_directory("--data", tmp_path / "a" / "b")
    assert made.is_dir()
    assert made.is_absolute()
    with pytest.raises(typer.BadParameter, match=r"--data needs a new directory; .*b: File exists"):
        new_directory("--data", made)


# --- environment variables -------------------------------------------------------------------------------------------


def test_a_command_says_it_before_it_does_its_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RLAB_TOPIC_CREATE_QUEUS", "8")
    monkeypatch.setattr("sys.argv", ["rlab", "--version"])
    with pytest.raises(SystemExit) as ended:
        main()
    reported = capsys.readouterr()
    assert (ended.value.code, reported.out.startswith("rlab ")) == (0, True)
    assert reported.err == (
        "note: RLAB_TOPIC_CREATE_QUEUS is not a variable of rlab: is RLAB_TOPIC_CREATE_QUEUES meant?\n"
    )


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
