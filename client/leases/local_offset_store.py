"""The offsets of a broadcasting consumer, stored in a file on its machine.

RocketMQ: LocalFileOffsetStore, with its file and a `.bak` beside it. `<offsets_dir>/<client id>/<group>/offsets.json`
is replaced as a whole: written beside it, synced, and renamed, after the file so far was renamed to `offsets.json.bak`.
So after a crash at any moment at least one of the two files is complete. Messages whose offsets were only in the other
one are consumed again.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import Collection
from pathlib import Path
from urllib.parse import quote

import anyio

from client.leases.local_offsets import LocalOffsets
from model.errors import ConfigError, RlabError, SystemError_
from model.limits import MAX_LOCAL_OFFSETS_BYTES
from model.message_queue import MessageQueue

logger = logging.getLogger(__name__)

FILE_NAME = "offsets.json"


def offsets_path(offsets_dir: str | os.PathLike[str], client_id: str, group: str) -> Path:
    """The path of the offsets of a client in a group; `~` is the home folder.

    A client id may have characters that a file name may not, `/` for one; they are written as in a URL.

    Raises:
        ConfigError: the user that runs this process has no home folder, or there is no such user.
    """
    try:
        folder = Path(offsets_dir).expanduser()
    except RuntimeError as error:
        raise ConfigError(
            f"offsets_dir {os.fspath(offsets_dir)!r} is below a home folder that this process cannot find ({error}): "
            "name another folder as offsets_dir, or set HOME"
        ) from error
    return folder / quote(client_id, safe="@#:") / group / FILE_NAME


class LocalOffsetStore(LocalOffsets):
    """Offsets in a file: an `OffsetStore`.

    Protocol of use: `load`, then anything else; one process at a time, which brokers ensure: they refuse a second
    live connection with the same client id.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._stored_version = 0
        self._persisting = anyio.Lock()

    async def load(self) -> None:
        """Read the file, and make its folder.

        Raises:
            ConfigError: file and `.bak` are damaged or cannot be read, or the folder cannot be made or written; the
                text says what to do. Without a folder each start would consume everything again.
        """
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, _make_folder, self._path.parent)
        stored = await loop.run_in_executor(None, _read, self._path)
        self._topics = stored._topics

    async def read(self, queues: Collection[MessageQueue]) -> dict[MessageQueue, int | None]:
        """See `OffsetStore`."""
        return {queue: self.offset_of(queue) for queue in queues}

    def forget(self, queue: MessageQueue) -> None:
        """See `OffsetStore`. Nothing: a queue that no route names may come back."""

    async def persist(self) -> dict[MessageQueue, RlabError]:
        """See `OffsetStore`; SystemError_: the file cannot be written and is as before; the next call tries again."""
        async with self._persisting:
            version = self.version
            if version == self._stored_version:
                return {}
            data = self.encode()
            try:
                # A cancelled caller does not stop the thread, and the next one must not write at the same time.
                with anyio.CancelScope(shield=True):
                    await asyncio.get_running_loop().run_in_executor(None, _write, self._path, data)
            except OSError as error:
                raise SystemError_(f"the offsets file {self._path} cannot be written: {error}") from error
            self._stored_version = version
        return {}


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
    except OSError as error:
        raise ConfigError(
            f"the offsets of this client cannot be stored in {folder} ({error.strerror}: {error.filename}): name "
            "another folder as offsets_dir, which this user may write"
        ) from error


def _backup(path: Path) -> Path:
    return path.with_name(path.name + ".bak")


def _read(path: Path) -> LocalOffsets:
    stored = _read_one(path)
    if isinstance(stored, LocalOffsets):
        return stored
    older = _read_one(_backup(path))
    if isinstance(older, LocalOffsets):
        logger.warning("%s: %s; going on from %s", path, stored or "there is no such file", _backup(path).name)
        return older
    if stored is None and older is None:
        logger.info("%s does not exist: this client is new to the group", path)
        return LocalOffsets()
    raise ConfigError(
        f"the offsets of this client cannot be read: {path}: {stored or 'there is no such file'}; "
        f"{_backup(path).name}: {older or 'there is no such file'}. Repair one of them, or delete both to begin where "
        "consume_from says"
    )


def _read_one(path: Path) -> LocalOffsets | str | None:
    """The offsets of a file; None if there is no file, or the flaw of a damaged one."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_LOCAL_OFFSETS_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        return str(error)
    if len(data) > MAX_LOCAL_OFFSETS_BYTES:
        return f"it has more than {MAX_LOCAL_OFFSETS_BYTES} bytes"
    try:
        return LocalOffsets.decode(data)
    except (ValueError, RecursionError) as error:
        return f"it is damaged: {error}"


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    with new.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    # A damaged file must not take the place of the whole backup that this client went on from.
    if isinstance(_read_one(path), LocalOffsets):
        path.replace(_backup(path))
    new.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
