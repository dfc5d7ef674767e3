"""Makes a consistent copy of a data directory, also while its broker runs, and restores a directory from a copy.

A broker writes its log first, then its metadata, then `ENDS`. A copy is consistent if a loss of power could have left
the same files: a log that is newer than the other two. So the log is copied up to its length after the others were
read:

    ENDS -> metadata.sqlite -> length of the log -> segments up to there -> was a topic made, a segment deleted? again

A topic is in the metadata before its first message is in the log, so whether the log has messages of a topic that the
copied metadata does not know is seen by looking for new topics afterwards. Each file is listed with its SHA-256 in
`DUMP`, which is written last: a copy without it is not a dump.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from broker.store.disk.directory import MARKER_NAME, METADATA_NAME
from broker.store.ends import FILE_NAME as ENDS_NAME
from broker.store.follower.cut import CUT_NAME
from model.errors import ConfigError, SystemError_

MANIFEST_NAME = "DUMP"
_ATTEMPTS = 20
"""Topics are made and segments deleted now and then; a copy that meets one is begun again."""
_CHUNK_BYTES = 1024 * 1024
_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpReport:
    """A copy: the document of `--json`."""

    directory: str
    segments: int
    bytes: int


class _Changed(Exception):
    """The broker has made a topic, or deleted a segment, since the copy was begun."""


def dump_directory(data: Path, to: Path) -> DumpReport:
    """Copy a data directory.

    Raises:
        ConfigError: it is not a data directory, a cut of its log is not finished, or the target exists already.
        SystemError_: a file cannot be read or written, or changes faster than it can be copied.
    """
    if not (data / MARKER_NAME).is_file() or not (data / METADATA_NAME).is_file():
        raise ConfigError(
            f"{data} is not the data directory of a broker: it has no {MARKER_NAME} or no {METADATA_NAME}"
        )
    if (data / CUT_NAME).exists():
        raise ConfigError(f"the log of {data} is being cut: start the replica, which finishes that, and dump it then")
    part = _new_directory(to)
    try:
        for _ in range(_ATTEMPTS):
            for old_file in part.iterdir():
                old_file.unlink()
            try:
                files = _copy(data, part)
            except (_Changed, FileNotFoundError):
                continue
            _seal(part, files)
            part.rename(to)
            return _done(to, files)
        raise SystemError_(f"{data} changed {_ATTEMPTS} times while it was copied: try again")
    except (OSError, sqlite3.Error) as error:
        raise SystemError_(f"cannot copy {data} to {to}: {error}") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def restore_directory(dump: Path, data: Path) -> DumpReport:
    """Restore a data directory from a copy.

    Raises:
        ConfigError: it is not whole, or the target is there already.
        SystemError_: a file cannot be read or written.
    """
    files = _manifest_of(dump)
    part = _new_directory(data)
    try:
        for name, (size, digest) in files.items():
            if _copy_file(dump / name, part / name, size) != (size, digest):
                raise ConfigError(f"{dump / name} is not as it was when it was dumped: use another copy")
        _sync_directory(part)
        part.rename(data)
        _sync_directory(data.absolute().parent)
    except OSError as error:
        raise SystemError_(f"cannot copy {dump} to {data}: {error}") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return _done(data, files)


Files = dict[str, tuple[int, str]]
"""Name -> bytes, SHA-256."""


def _new_directory(path: Path) -> Path:
    """Make a directory beside the target; the caller renames it at the end, so the target is complete or missing."""
    if path.exists():
        raise ConfigError(f"{path} is there already: name a directory that is not")
    part = path.with_name(path.name + ".part")
    try:
        part.mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise ConfigError(f"cannot make {part}: {error.strerror or error}") from error
    return part


def _copy(data: Path, to: Path) -> Files:
    first = _segments(data)[:1]
    files: Files = {}
    for name in (MARKER_NAME, ENDS_NAME):
        if (data / name).is_file():
            files[name] = _copy_file(data / name, to / name, None)
    topics = _copy_database(data / METADATA_NAME, to / METADATA_NAME)
    files[METADATA_NAME] = _read_digest(to / METADATA_NAME)
    logs = _segments(data)
    sizes = {name: (data / name).stat().st_size for name in logs}
    if logs[:1] != first or topics != _topics(data / METADATA_NAME):
        raise _Changed
    for name, size in sizes.items():
        files[name] = _copy_file(data / name, to / name, size)
        index = name.removesuffix(".log") + ".index"
        # The last segment may have got its index since, for more records than were copied.
        if name != logs[-1] and (data / index).is_file():
            files[index] = _copy_file(data / index, to / index, None)
    return files


def _segments(data: Path) -> list[str]:
    return sorted(name for name in os.listdir(data) if name.endswith(".log"))


def _connected(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{path.absolute()}?mode=ro", uri=True)


def _topics(path: Path) -> list[Any]:
    with closing(_connected(path)) as db:
        return db.execute("select topic_id from topics order by topic_id").fetchall()


def _copy_database(path: Path, to: Path) -> list[Any]:
    """Copy the metadata as of one commit; returns the topics in it."""
    with closing(_connected(path)) as db, closing(sqlite3.connect(to)) as copy:
        db.backup(copy)
        copy.execute("pragma journal_mode = delete")
    return _topics(to)


def _chunks(path: Path, size: int | None) -> Iterator[bytes]:
    bytes_left = size
    with path.open("rb") as file:
        while (
            data := file.read(_CHUNK_BYTES if bytes_left is None else min(_CHUNK_BYTES, bytes_left))
        ) and bytes_left != 0:
            if bytes_left is not None:
                bytes_left -= len(data)
            yield data


def _copy_file(path: Path, to: Path, size: int | None) -> tuple[int, str]:
    """Copy a file, or its beginning, and have it on the disk; returns its bytes and their SHA-256."""
    digest, n_bytes = hashlib.sha256(), 0
    with open(to, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        for data in _chunks(path, size):
            digest.update(data)
            n_bytes += len(data)
            file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return n_bytes, digest.hexdigest()


def _read_digest(path: Path) -> tuple[int, str]:
    digest, n_bytes = hashlib.sha256(), 0
    for data in _chunks(path, None):
        digest.update(data)
        n_bytes += len(data)
    return n_bytes, digest.hexdigest()


def _seal(part: Path, files: Files) -> None:
    (part / MANIFEST_NAME).write_text(json.dumps({"format": _FORMAT, "files": files}, indent=1), encoding="utf-8")
    _sync_directory(part)


def _manifest_of(dump: Path) -> Files:
    try:
        manifest: Any = json.loads((dump / MANIFEST_NAME).read_text(encoding="utf-8"))
        if manifest["format"] != _FORMAT:
            raise ConfigError(f"{dump} has format {manifest['format']}: restore it with the version that dumped it")
        files = {str(name): (int(size), str(digest)) for name, (size, digest) in manifest["files"].items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ConfigError(f"{dump} is not a directory that `rlab broker dump` has finished: {error}") from error
    if any(Path(name).name != name for name in files):
        raise ConfigError(f"{dump / MANIFEST_NAME} names a file elsewhere: it is not the file that was dumped")
    return files


def _sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _done(directory: Path, files: Files) -> DumpReport:
    segments = sum(name.endswith(".log") for name in files)
    return DumpReport(directory=str(directory), segments=segments, bytes=sum(size for size, _ in files.values()))
