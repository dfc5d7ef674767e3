"""Options of `rlab broker` about copies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from model.errors import ConfigError
from model.quirks import SET_QUIRKS, Quirk
from model.replica_limits import LEASE_S, MAX_LEASE_S, MAX_REPLICAS, MIN_LEASE_S
from model.replica_set import Acks, Elect

Copies = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        max=MAX_REPLICAS,
        help="Make the broker a set of replicas, of which there should be N, this one counted; or go on with one.",
    ),
]
SetAcks = Annotated[
    Acks | None,
    typer.Option(
        help="With --copies: answer a send once all replicas in sync have it (all, the default), or this one (master)."
    ),
]
MinInSync = Annotated[
    int | None,
    typer.Option(
        metavar="M",
        min=1,
        max=MAX_REPLICAS,
        help="With --copies: refuse sends with fewer replicas in sync; 1 at first.",
    ),
]
ReplicaLease = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        min=MIN_LEASE_S,
        max=MAX_LEASE_S,
        help=f"With --copies: how long the master serves without a confirmation of the others; {LEASE_S:g} at first.",
    ),
]
SetElect = Annotated[
    Elect | None,
    typer.Option(
        help="With copies: when this replica makes itself the master: once the lease of the master is over (auto, the "
        "default), also at once if its process has certainly ended (fast; not behind a proxy), or never (operator).",
    ),
]
ReplicaOf = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Join the set of this broker with an empty folder, or go on as its replica."),
]


@dataclass(frozen=True, slots=True)
class CopiesGiven:
    """The options about copies, as given."""

    copies: int | None
    acks: Acks | None
    min_in_sync: int | None
    replica_lease: float | None
    replica_of: str | None
    register: str | None = None
    elect: Elect | None = None

    @property
    def any(self) -> bool:
        """Whether the broker is to be a replica of a set."""
        return self.copies is not None or self.replica_of is not None

    def check_quirks(self, quirks: frozenset[Quirk]) -> None:
        """Refuse quirks of replicas at a broker without copies, where they would silently do nothing.

        Raises:
            ConfigError: there is one; the text names it.
        """
        for quirk in sorted(quirks & SET_QUIRKS):
            if not self.any:
                raise ConfigError(f"quirk {quirk} belongs to brokers with copies: add --copies N, or --replica-of NAME")

    def check(self) -> None:
        """Check that the options fit together.

        Raises:
            ConfigError: they do not; the text names them.
        """
        of_set = (self.acks, self.min_in_sync, self.replica_lease)
        if self.replica_of is not None and (self.copies, *of_set) != (None, None, None, None):
            raise ConfigError(
                "--replica-of joins a set as it is: leave out --copies, --acks, --min-in-sync and --replica-lease, "
                "which its first broker has"
            )
        if self.register is not None and not self.any:
            raise ConfigError("--register has the master of a set: add --copies N, or --replica-of NAME to join one")
        if self.elect is not None and not self.any:
            raise ConfigError("--elect is about a set: add --copies N, or --replica-of NAME to join one")
        if self.copies is None and of_set != (None, None, None):
            raise ConfigError("--acks, --min-in-sync and --replica-lease are options of a set: add --copies N")
        if self.copies is not None and self.min_in_sync is not None and self.min_in_sync > self.copies:
            raise ConfigError(
                f"--min-in-sync {self.min_in_sync} is more than --copies {self.copies}: no send could succeed"
            )
