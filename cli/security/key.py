"""`rlab key`: makes a key for a user."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Annotated

import typer

from cli.options import Config, Json
from model.errors import ConfigError
from process.output import print_note, print_outcome
from process.runtime import exit_with_error

_OWNER_ONLY = 0o600


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="Make keys for users of a cluster with access control.", no_args_is_help=True)
    group.command("new")(new)
    app.add_typer(group, name="key")


def new(
    user: Annotated[str, typer.Argument(help="Name of the user.", show_default=False)],
    file: Annotated[
        Path,
        typer.Option("--file", metavar="FILE", help="Where the secret goes, readable by you only.", show_default=False),
    ],
    json: Json = False,
    config: Config = None,
) -> None:
    """Make a key: the secret goes to a new file, and the line for the access file of the servers is printed.

    Clients get the file by the variable RLAB_KEY_FILE. Servers keep only a hash, with which no client can log in.

    Example: rlab key new orders-service --file orders-service.key
    """
    from remoting.security.key import SECRET_BYTES, Key

    with exit_with_error():
        key = Key(user, secrets.token_bytes(SECRET_BYTES))
        # A file that is there stays: its key may be the only copy.
        try:
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
        except FileExistsError:
            raise ConfigError(f"{file} exists, and no key is overwritten: name another file") from None
        with os.fdopen(descriptor, "w") as out:
            out.write(key.text() + "\n")
    line = f'[users."{user}"]\nkey = "{key.hash()}"'
    print_outcome({"user": user, "key": str(key.hash()), "file": str(file)}, line, as_json=json)
    print_note(
        f"note: the secret is in {file}; the lines above belong into the access file of the servers, with rights"
    )
