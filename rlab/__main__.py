"""The entry point of commands: the script `rlab`, and `python -m rlab`."""

from __future__ import annotations

from process.start import prepare


def main() -> None:
    """Prepare the process, then import all commands, and run the one of the command line."""
    prepare()
    from cli.main import main as run_command  # noqa: PLC0415 (after the signals: it takes a fifth of a second)

    run_command()


if __name__ == "__main__":
    main()
