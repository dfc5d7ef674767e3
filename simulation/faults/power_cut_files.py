"""Files on a disk that loses what was not synced when the power goes.

The real files hold everything that was written; beside them this layer records what would be on the disk itself:

    write, write, sync, write           the disk surely has two writes, and perhaps a part of the third
    create a, sync a                    the disk has a's content, and perhaps not its name
    create a, sync a, sync_directory    the disk has both

A random number generator decides what a power cut loses. Of the names created, renamed and removed since the last
`sync_directory`, the disk keeps those up to some moment. Of the writes to a file since its last `sync`, it keeps those
up to some moment and a part of the next one. Sometimes it also keeps a later write behind a gap of zeros, because
systems write pages in any order.

The database of the broker does not go through this layer and is left as it is.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

from broker.durability.metadata import FILE_NAME
from broker.store.disk.files import Files

_GAP_SHARE = 0.25
"""Share of cuts that keep a write behind a gap."""


class _DiskFile:
    """A file as the disk has it, and the changes since: (position, bytes), or (size, None) for a truncation."""

    __slots__ = ("durable", "pending")

    def __init__(self, durable: bytes = b"") -> None:
        self.durable = bytearray(durable)
        self.pending: list[tuple[int, bytes | None]] = []

    def settle(self) -> None:
        for change in self.pending:
            _change(self.durable, *change)
        self.pending.clear()

    def after_cut(self, random: Random) -> bytes:
        """The content that a power cut leaves."""
        content = bytearray(self.durable)
        kept = random.randint(0, len(self.pending))
        for change in self.pending[:kept]:
            _change(content, *change)
        lost = [(at, data) for at, data in self.pending[kept:] if data is not None]
        if lost:
            at, data = lost[0]
            _change(content, at, data[: random.randrange(len(data))])
            if len(lost) > 1 and random.random() < _GAP_SHARE:
                _change(content, *random.choice(lost[1:]))
        return bytes(content)


def _change(content: bytearray, at: int, data: bytes | None) -> None:
    if len(content) < at:
        content.extend(bytes(at - len(content)))
    if data is None:
        del content[at:]
    else:
        content[at : at + len(data)] = data


class _DiskDirectory:
    """The names in a directory: as the system has them, as the disk has them, and the changes in between."""

    __slots__ = ("durable", "names", "pending")

    def __init__(self) -> None:
        self.names: dict[str, _DiskFile] = {}
        self.durable: dict[str, _DiskFile] = {}
        self.pending: list[dict[str, _DiskFile | None]] = []

    def change(self, changes: dict[str, _DiskFile | None]) -> None:
        """Give names to files, or with None remove them: all at once, as a rename does."""
        _rename(self.names, changes)
        self.pending.append(changes)

    def settle(self) -> None:
        self.durable = dict(self.names)
        self.pending.clear()


def _rename(names: dict[str, _DiskFile], changes: dict[str, _DiskFile | None]) -> None:
    for name, file in changes.items():
        if file is None:
            names.pop(name, None)
        else:
            names[name] = file


class PowerCutFiles(Files):
    """The file layer of brokers whose power `simulation/runs/power_cuts.py` cuts.

    A sync here does not reach the real disk. A file from before is taken to be on the disk.
    """

    def __init__(self) -> None:
        self._directories: dict[Path, _DiskDirectory] = {}
        self._open: dict[int, _DiskFile] = {}

    def cut(self, directory: Path, survivor: Path, random: Random) -> None:
        """Cut the power of the machine that has a directory; `survivor`, a copy of it, becomes what the disk has."""
        known = self._directories.get(directory, _DiskDirectory())
        names = dict(known.durable)
        for changes in known.pending[: random.randint(0, len(known.pending))]:
            _rename(names, changes)
        ever = {*known.names, *known.durable, *(name for changes in known.pending for name in changes)}
        for name in sorted(ever):
            (survivor / name).unlink(missing_ok=True)
        for name in sorted(names):
            (survivor / name).write_bytes(names[name].after_cut(random))

    def forget(self, directory: Path) -> None:
        """Treat everything in a directory as durable, because the machine starts again."""
        self._directories.pop(directory, None)

    def _directory(self, path: Path) -> _DiskDirectory:
        return self._directories.setdefault(path.parent, _DiskDirectory())

    def _known(self, path: Path) -> _DiskFile:
        """The record of an existing file."""
        directory = self._directory(path)
        if path.name not in directory.names:
            directory.names[path.name] = directory.durable[path.name] = _DiskFile(path.read_bytes())
        return directory.names[path.name]

    def open(self, path: Path, *, create: bool = False) -> int:
        """See `Files.open`."""
        if path.name.startswith(FILE_NAME):
            return super().open(path, create=create)
        is_new = not path.exists()
        fd = super().open(path, create=create)
        if is_new:
            self._directory(path).change({path.name: _DiskFile()})
        self._open[fd] = self._known(path)
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
        written = super().pwrite(fd, data, position)
        self._open[fd].pending.append((position, bytes(data[:written])))
        return written

    def truncate(self, fd: int, size: int) -> None:
        """See `Files.truncate`."""
        super().truncate(fd, size)
        self._open[fd].pending.append((size, None))

    def sync(self, fd: int) -> None:
        """See `Files.sync`."""
        self._open[fd].settle()

    def sync_directory(self, path: Path) -> None:
        """See `Files.sync_directory`."""
        self._directories.setdefault(path, _DiskDirectory()).settle()

    def rename(self, source: Path, target: Path) -> None:
        """See `Files.rename`."""
        file = self._known(source)
        if target.exists():
            self._known(target)
        super().rename(source, target)
        self._directory(target).change({source.name: None, target.name: file})

    def remove(self, path: Path) -> None:
        """See `Files.remove`."""
        if path.exists():
            self._known(path)
            super().remove(path)
            self._directory(path).change({path.name: None})
