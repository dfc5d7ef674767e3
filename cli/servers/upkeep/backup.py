"""`rlab broker dump` and `restore`: copy a data directory, also of a running broker, and restore it from the copy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.options import Config, Json
from model.counted import plural
from process.output import print_outcome
from process.runtime import exit_with_error


def dump(
    data: Annotated[Path, typer.Argument(show_default=False, help="Data directory of a broker; it may be running.")],
    to: Annotated[Path, typer.Argument(show_default=False, help="New directory for the copy.")],
    json: Json = False,
    config: Config = None,
) -> None:
    """Copy the data of a broker, also while it runs, so that a broker can be started with the copy.

    The copy has every message that was acknowledged, and every offset that was committed, before the command began.

    Example: rlab broker dump rlab-data/broker-a /backup/broker-a-monday
    """
    from broker.store.upkeep.backup import dump_directory

    with exit_with_error():
        done = dump_directory(data, to)
    print_outcome(done, f"{plural(done.segments, 'segment')}, {done.bytes:,} bytes: {to}", as_json=json)


def restore(
    dump: Annotated[Path, typer.Argument(show_default=False, help="Directory that `rlab broker dump` made.")],
    data: Annotated[Path, typer.Argument(show_default=False, help="New data directory.")],
    json: Json = False,
    config: Config = None,
) -> None:
    """Make the data directory of a broker from a copy of it, after checking every byte of the copy.

    Start one broker with it, under the name that it had; never both the old one and this one.

    Example: rlab broker restore /backup/broker-a-monday rlab-data/broker-a
    """
    from broker.store.upkeep.backup import restore_directory

    with exit_with_error():
        done = restore_directory(dump, data)
    print_outcome(done, f"{plural(done.segments, 'segment')}, {done.bytes:,} bytes are whole: {data}", as_json=json)
