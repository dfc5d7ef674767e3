"""The file REPLICA of a data directory: which replica of which set it holds; a directory that does not fit is refused.

    {"format": 1, "name": "broker-a", "set_id": 7138, "register_id": 991, "replica_id": 2, "incarnation": 5}

The identity of a replica is its directory, and never its address: a machine may get another address, and another
machine may get the old one. `incarnation` counts the starts. A start writes the next number here, and then into the
register, so a directory is never behind the register, unless it is an older copy of itself: that one has lost messages
which it has acknowledged, and must not be elected.

    directory   register
        5           5       a usual start: both become 6
        6           5       the process ended between the two writes
        4           5       an old copy: refused

`boot_id` identifies the run of the operating system in which the replica was started, and `clean` is true if the
replica has ended with everything on the disk. If neither explains the directory, there was a power cut: with
flush=async, messages that this replica has acknowledged may be missing.

`register_id` is 0 until the register has accepted the set, which the creator of a set proposes: if it ends in between,
its next start proposes the same set again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from broker.store.disk.directory import REPLICA_NAME, mark_replica, to_store_error
from broker.store.disk.errors import StoreInUse
from broker.store.disk.files import Files
from model.counted import plural
from model.errors import ConfigError
from model.replica_set import ReplicaSet

LOCK_NAME = "REPLICA.LOCK"
_FORMAT = 1
_MAX_BYTES = 4096


class NotOfThisSet(ConfigError):
    """The directory is a replica of another set than the one that the register has under this name."""


class NotOfThisRegister(ConfigError):
    """The set was made with another register: this one does not know who may be elected."""


class NotAReplica(ConfigError):
    """The directory does not belong to a replica of the set, or that replica was removed from it."""


class OldReplica(ConfigError):
    """The directory is older than what the register knows of this replica: a copy of it was put back."""


class OldRegister(ConfigError):
    """The register is older than what this replica knows of it: a copy of it was put back."""


class ReplicaFileDamaged(ConfigError):
    """The file REPLICA cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaIdentity:
    """The content of the file REPLICA; see the module header."""

    name: str
    set_id: int
    register_id: int
    replica_id: int
    incarnation: int
    boot_id: str = ""
    clean: bool = True

    def is_clean(self, files: Files) -> bool:
        """Whether there was no power cut since the last start, according to the operating system."""
        return self.clean or self.boot_id == files.boot_id()


def read_identity(directory: Path, files: Files) -> ReplicaIdentity | None:
    """Read the file; None without one.

    Raises:
        ReplicaFileDamaged: it is not what `write_identity` writes; the text says what to do.
        StoreUnusable: it cannot be read.
    """
    path = directory / REPLICA_NAME
    try:
        if REPLICA_NAME not in files.list_names(directory):
            return None
        fd = files.open(path)
        try:
            data = files.pread(fd, _MAX_BYTES, 0)
        finally:
            files.close(fd)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise to_store_error(directory, error) from error
    try:
        fields = json.loads(data)
        form = fields.pop("format")
        identity = ReplicaIdentity(**fields)
        numbers = (identity.set_id, identity.register_id, identity.replica_id, identity.incarnation)
        texts = (identity.name, identity.boot_id)
        if (
            any(type(text) is not str for text in texts)
            or type(identity.clean) is not bool
            or any(type(number) is not int for number in numbers)
        ):
            raise TypeError(f"a value has another type: {fields}")
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise ReplicaFileDamaged(
            f"{path} is damaged ({error}): without it the set cannot know what this directory has; empty the directory "
            "and join the set again with --replica-of"
        ) from error
    if form != _FORMAT:
        raise ReplicaFileDamaged(
            f"{path} is in format {form!r}, this version knows format {_FORMAT}: start the version that wrote it"
        )
    return identity


def write_identity(directory: Path, identity: ReplicaIdentity, files: Files) -> None:
    """Write the file as a whole; it is durable when this returns. The directory is a store.

    Raises:
        StoreUnusable: it cannot be written; the old file is still there.
    """
    try:
        mark_replica(directory, files)
        files.replace(
            directory / REPLICA_NAME, json.dumps({"format": _FORMAT, **asdict(identity)}).encode() + b"\n", durable=True
        )
        files.sync_directory(directory)
    except OSError as error:
        raise to_store_error(directory, error) from error


def check_identity(identity: ReplicaIdentity, row: ReplicaSet | None, *, name: str, directory: Path) -> ReplicaSet:
    """Check that a directory is a current replica of the set that the register has; returns the row of the set. Pure.

    Raises:
        NotOfThisSet, NotOfThisRegister, NotAReplica, OldReplica: it is not, see each of them.
    """
    number = identity.replica_id
    if identity.name != name:
        raise NotOfThisSet(f"{directory} is replica {number} of the set {identity.name}, and not of {name}")
    if row is None or row.register_id != identity.register_id:
        raise NotOfThisRegister(
            f"{directory} is replica {number} of the set {name}, which this register "
            f"{'does not have' if row is None else 'has not made'}: check --namesrv and --register, or put the "
            "register's directory back (rlab namesrv --elections)"
        )
    if row.set_id != identity.set_id:
        raise NotOfThisSet(
            f"{directory} is a replica of another set of the name {name}: rename one of them, or empty the directory "
            "and join this one"
        )
    member = row.member(number)
    if member is None:
        raise NotAReplica(
            f"replica {number} was removed from the set {name}: to join it again, empty {directory} and start with "
            "--replica-of"
        )
    if identity.incarnation < member.incarnation:
        raise OldReplica(
            f"replica {number} of {name} was started {plural(member.incarnation, 'time')}, and {directory} counts "
            f"{identity.incarnation}: it is an old copy, or another process runs as the same replica. Stop that "
            "process, or empty the directory and join again with --replica-of"
        )
    return row


@contextmanager
def locked(directory: Path, files: Files) -> Iterator[None]:
    """Keep other processes out of a replica's directory while the block runs, also while it changes its role.

    The locks of the log are released and acquired again at each change of the role, and the incarnation is written
    before either. The directory has to exist.

    Raises:
        StoreInUse: another process has it.
    """
    path = directory / LOCK_NAME
    try:
        fd = files.open(path, create=True)
    except OSError as error:
        raise to_store_error(directory, error) from error
    try:
        if not files.try_lock(fd):
            raise StoreInUse(f"{directory} is in use by another replica process: each replica needs its own directory")
        yield
    finally:
        files.close(fd)
