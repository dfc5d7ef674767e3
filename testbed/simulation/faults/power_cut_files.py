"""Files on a disk that loses unsynced writes when the power goes.

The real files hold everything that was written. This layer records, in memory, what a disk would have of it:

    write, write, sync, write           the disk surely has two writes, and perhaps a part of the third
    create a, sync a                    the disk has a's content, and perhaps not its name
    create a, sync a, sync_directory    the disk has both

A random number generator decides what a power cut loses. Of the names created, renamed and removed since the last
`sync_directory`, the disk keeps those up to some moment. Of the writes to a file since its last `sync`, it keeps those
up to some moment and a part of the next one. Sometimes it also keeps a later write behind a gap of zeros, because
systems write pages in any order.

SQLite writes the broker's database itself. With `FlushMode.SYNC` each commit is on the disk when it returns, and drawn
programmes cut the power of such brokers only, so a cut does not change that file. `tests/process/test_synced_tables.py`
checks the syncs of SQLite, and what a real cut leaves with `FlushMode.ASYNC`.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

from broker.store.disk.directory import METADATA_NAME
from testbed.simulation.cluster.servers import UnsyncedFiles

_GAP_PROBABILITY = 0.25
"""Probability that a cut keeps a write behind a gap, in a file that lost several writes."""


class _DiskFile:
    """Durable content of a file, and the changes since: (position, bytes), or (size, None) for a truncation."""

    __slots__ = ("durable", "pending")

    def __init__(self, durable: bytes = b"") -> None:
        self.durable = bytearray(durable)
        self.pending: list[tuple[int, bytes | None]] = []

    def make_durable(self) -> None:
        for change in self.pending:
            _change(self.durable, *change)
        self.pending.clear()

    def after_cut(self, random: Random) -> bytes:
        """The content that a power cut leaves."""
        content = bytearray(self.durable)
        kept = random.randint(0, len(self.pending))
        for change in self.pending[:kept]:
            _change(content, *change)
        lost_writes = [(position, data) for position, data in self.pending[kept:] if data is not None]
        if lost_writes:
            position, data = lost_writes[0]
            _change(content, position, data[: random.randrange(len(data))])
            if len(lost_writes) > 1 and random.random() < _GAP_PROBABILITY:
                _change(content, *random.choice(lost_writes[1:]))
        return bytes(content)


def _change(content: bytearray, position: int, data: bytes | None) -> None:
    if len(content) < position:
        content.extend(bytes(position - len(content)))
    if data is None:
        del content[position:]
    else:
        content[position : position + len(data)] = data


class _DiskDirectory:
    """The names in a directory: all of them, the durable ones, and the changes since those."""

    __slots__ = ("durable", "names", "pending")

    def __init__(self) -> None:
        self.names: dict[str, _DiskFile] = {}
        self.durable: dict[str, _DiskFile] = {}
        self.pending: list[dict[str, _DiskFile | None]] = []

    def change(self, changes: dict[str, _DiskFile | None]) -> None:
        """Give names to files, or with None remove names, as one change that a power cut does not split."""
        _change_names(self.names, changes)
        self.pending.append(changes)

    def make_durable(self) -> None:
        self.durable = dict(self.names)
        self.pending.clear()


def _change_names(names: dict[str, _DiskFile], changes: dict[str, _DiskFile | None]) -> None:
    for name, file in changes.items():
        if file is None:
            names.pop(name, None)
        else:
            names[name] = file


class PowerCutFiles(UnsyncedFiles):
    """The file layer of brokers whose power a programme cuts.

    A sync does not reach the real disk. A file that existed before its first use here counts as durable.
    """

    def __init__(self) -> None:
        self._directories: dict[Path, _DiskDirectory] = {}
        self._open: dict[int, _DiskFile] = {}

    def cut(self, directory: Path, survivor: Path, random: Random) -> None:
        """Change `survivor`, a copy of `directory`, to the content that the disk has after a power cut."""
        on_disk = self._directories.get(directory, _DiskDirectory())
        names = dict(on_disk.durable)
        for changes in on_disk.pending[: random.randint(0, len(on_disk.pending))]:
            _change_names(names, changes)
        all_names = {*on_disk.names, *on_disk.durable, *(name for changes in on_disk.pending for name in changes)}
        for name in sorted(all_names):
            (survivor / name).unlink(missing_ok=True)
        for name in sorted(names):
            (survivor / name).write_bytes(names[name].after_cut(random))

    def forget(self, directory: Path) -> None:
        """Treat everything in a directory as durable, because the machine starts again."""
        self._directories.pop(directory, None)

    def _directory(self, path: Path) -> _DiskDirectory:
        return self._directories.setdefault(path.parent, _DiskDirectory())

    def _record_of(self, path: Path) -> _DiskFile:
        """The record of an existing file; made durable if there is none."""
        directory = self._directory(path)
        if path.name not in directory.names:
            directory.names[path.name] = directory.durable[path.name] = _DiskFile(path.read_bytes())
        return directory.names[path.name]

    def open(self, path: Path, *, create: bool = False) -> int:
        """See `Files.open`."""
        if path.name.startswith(METADATA_NAME):
            return super().open(path, create=create)
        is_new = not path.exists()
        fd = super().open(path, create=create)
        if is_new:
            self._directory(path).change({path.name: _DiskFile()})
        self._open[fd] = self._record_of(path)
        return fd

    def duplicate(self, fd: int) -> int:
        """See `Files.duplicate`."""
        copy = super().duplicate(fd)
        self._open[copy] = self._open[fd]
        return copy

    def close(self, fd: int) -> None:
        """See `Files.close`."""
        self._open.pop(fd, None)
        super().close(fd)

    def pwrite(self, fd: int, data: bytes | memoryview, position: int) -> int:
        """See `Files.pwrite`."""
        n_written = super().pwrite(fd, data, position)
        self._open[fd].pending.append((position, bytes(data[:n_written])))
        return n_written

    def truncate(self, fd: int, size: int) -> None:
        """See `Files.truncate`."""
        super().truncate(fd, size)
        self._open[fd].pending.append((size, None))

    def sync(self, fd: int) -> None:
        """See `Files.sync`."""
        self._open[fd].make_durable()

    def sync_directory(self, path: Path) -> None:
        """See `Files.sync_directory`."""
        self._directories.setdefault(path, _DiskDirectory()).make_durable()

    def rename(self, source: Path, target: Path) -> None:
        """See `Files.rename`."""
        file = self._record_of(source)
        if target.exists():
            self._record_of(target)
        super().rename(source, target)
        if source.parent == target.parent:
            self._directory(target).change({source.name: None, target.name: file})
        else:
            # A file system journals both directories as one change: never is the old name gone without the new one.
            directory = self._directory(target)
            directory.names[target.name] = directory.durable[target.name] = file
            self._directory(source).change({source.name: None})

    def remove(self, path: Path) -> None:
        """See `Files.remove`."""
        if path.exists():
            self._record_of(path)
            super().remove(path)
            self._directory(path).change({path.name: None})
