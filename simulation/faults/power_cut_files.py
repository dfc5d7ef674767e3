"""A disk that forgets what was not synced when the power goes.

It keeps its own account of what is on the disk itself, beside the real files, which show what the system knows:

    write, write, sync, write           the disk has two writes for sure, and perhaps a part of the third
    create a, sync a                    the disk has a's content, and perhaps not its name
    create a, sync a, sync_directory    the disk has both

What a power cut does is drawn from a random number generator. Of the names that were made, renamed and removed since
the last `sync_directory` the disk has those up to some moment. Of the writes to a file since its last `sync` it has
those up to some moment, and a part of the next one. Sometimes it has one behind a gap as well, with zeros in the gap:
systems write pages in any order.

The database of the broker does not go through this layer and is left as it is.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

from broker.durability.metadata import FILE_NAME
from broker.store.disk.files import Files

_GAP_SHARE = 0.25
"""How many cuts leave a write behind a gap."""


class _File:
    """A file as the disk has it, and what was written since: (position, bytes), or (size, None) for a truncation."""

    __slots__ = ("durable", "pending")

    def __init__(self, durable: bytes = b"") -> None:
        self.durable = bytearray(durable)
        self.pending: list[tuple[int, bytes | None]] = []

    def settle(self) -> None:
        for change in self.pending:
            _change(self.durable, *change)
        self.pending.clear()

    def after_cut(self, random: Random) -> bytes:
        """What a power cut leaves."""
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


class _Directory:
    """The names in a directory: as the system has them, as the disk has them, and (name, file) changed in between."""

    __slots__ = ("durable", "names", "pending")

    def __init__(self) -> None:
        self.names: dict[str, _File] = {}
        self.durable: dict[str, _File] = {}
        self.pending: list[dict[str, _File | None]] = []

    def change(self, changes: dict[str, _File | None]) -> None:
        """Give names to files, or with None take them away: all at once, as a rename does."""
        _rename(self.names, changes)
        self.pending.append(changes)

    def settle(self) -> None:
        self.durable = dict(self.names)
        self.pending.clear()


def _rename(names: dict[str, _File], changes: dict[str, _File | None]) -> None:
    for name, file in changes.items():
        if file is None:
            names.pop(name, None)
        else:
            names[name] = file


class PowerCutFiles(Files):
    """The file layer of brokers whose power may be cut; `simulation/runs/power_cuts.py` does it.

    Syncs cost nothing here: the real disk is not asked for any. A file that was there before is on the disk.
    """

    def __init__(self) -> None:
        self._directories: dict[Path, _Directory] = {}
        self._open: dict[int, _File] = {}

    def cut(self, directory: Path, survivor: Path, random: Random) -> None:
        """Cut the power of the machine that has a directory, now.

        Args:
            directory: the directory.
            survivor: a copy of it as the system has it now, which becomes what the disk has.
            random: draws what is lost.
        """
        known = self._directories.get(directory, _Directory())
        names = dict(known.durable)
        for changes in known.pending[: random.randint(0, len(known.pending))]:
            _rename(names, changes)
        ever = {*known.names, *known.durable, *(name for changes in known.pending for name in changes)}
        for name in sorted(ever):
            (survivor / name).unlink(missing_ok=True)
        for name in sorted(names):
            (survivor / name).write_bytes(names[name].after_cut(random))

    def forget(self, directory: Path) -> None:
        """Take what is in a directory for durable: the machine starts again."""
        self._directories.pop(directory, None)

    def _directory(self, path: Path) -> _Directory:
        return self._directories.setdefault(path.parent, _Directory())

    def _known(self, path: Path) -> _File:
        """The account of a file that is there."""
        directory = self._directory(path)
        if path.name not in directory.names:
            directory.names[path.name] = directory.durable[path.name] = _File(path.read_bytes())
        return directory.names[path.name]

    def open(self, path: Path, *, create: bool = False) -> int:
        """See `Files.open`."""
        if path.name.startswith(FILE_NAME):
            return super().open(path, create=create)
        is_new = not path.exists()
        fd = super().open(path, create=create)
        if is_new:
            self._directory(path).change({path.name: _File()})
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
        self._directories.setdefault(path, _Directory()).settle()

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
