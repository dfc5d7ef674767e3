"""`rlab broker verify`: damaged or missing messages of a data directory, as a table or as JSON."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import Config, Json
from model.counted import plural
from process.output import print_json, print_line, print_note, print_table
from process.runtime import FAILED, exit_with_error

if TYPE_CHECKING:
    from broker.store.upkeep.verify import Verification

NOTE_MESSAGES = 2_000_000
"""Messages between two lines of progress: some seconds."""
MAX_ROWS = 200
"""Rows of the table for people; `--json` has all of them."""


def verify(
    data: Annotated[Path, typer.Argument(show_default=False, help="Data directory of a broker that does not run.")],
    json: Json = False,
    config: Config = None,
) -> None:
    """Read every stored message, and say what is damaged or missing.

    Nothing in the directory is changed. Exit code 1 means that messages are damaged or missing, or that a loss could
    not be ruled out.

    Example: rlab broker verify rlab-data/broker-a
    """
    from broker.store.upkeep.verify import verify_directory

    with exit_with_error():
        verification = verify_directory(data, _progress())
    if json:
        print_json(verification)
    else:
        _print(verification, data)
    if not verification.ok:
        raise typer.Exit(FAILED)


def _progress() -> Callable[[int], None]:
    reported = 0

    def note(messages: int) -> None:
        nonlocal reported
        if messages - reported >= NOTE_MESSAGES:
            reported = messages
            print_note(f"{plural(messages, 'message', 'is', 'are')} whole so far")

    return note


def _print(verification: Verification, data: Path) -> None:
    for flaw in verification.flaws:
        print_line(f"{data}: {flaw}")
    if verification.missing:
        print_table(
            ["file", "topic", ">queue", ">from offset", ">to offset", ">messages"],
            [
                (each.file, each.topic, each.queue_id, each.first_offset, each.last_offset, each.messages)
                for each in verification.missing[:MAX_ROWS]
            ],
        )
    if len(verification.missing) > MAX_ROWS:
        print_line(f"and {plural(len(verification.missing) - MAX_ROWS, 'range')} more: --json lists all")
    damage_text = (
        f"{plural(verification.damaged, 'message', 'is', 'are')} damaged or missing"
        if verification.damaged
        else "none is damaged or missing"
    )
    segments = plural(verification.segments, "segment", "is", "are")
    print_line(f"{plural(verification.messages, 'message')} in {segments} whole; {damage_text}")
    if verification.missing:
        print_line("a file that you have elsewhere may be put back while the broker is stopped")
