"""CPU time of a message by process, room and function, as Markdown. Pure.

    broker, send-64: 5.20 us of CPU time a message (1.30 in the system), 0.021 waits a message, 410,000 messages

| room | function | us | share |
|---|---|---|---|
| **broker/store** | | **1.1** | **21 %** |
| | `StoreWriter.append` | 0.8 | 15 % |

The time of a process is what the system has counted; the samples divide it among the functions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

ROOT = __file__.removesuffix("/testbed/bench/profile/table.py")
LOOP = "event loop"
"""The room of time that belongs to no function: the loop, its reads and timers, the steps of tasks."""
_LOOP_FILES = ("asyncio/runners.py", "asyncio/base_events.py", "asyncio/events.py", "<frozen runpy>")
_SHOWN = 0.01
"""Smallest share of a function that is shown by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """The counts of a sampler in one process.

    Attributes:
        user_s, system_s: CPU seconds of the process, in its own code and in the system's.
        waits: how often it waited for something.
        functions: file and name of each function, and how many ticks it ran.
    """

    user_s: float
    system_s: float
    waits: int
    functions: Sequence[tuple[str, str, int]]

    def to_json(self) -> dict[str, Any]:
        """A document that `from_json` reads."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        """Samples of another process."""
        functions = [(file, name, count) for file, name, count in document.pop("functions")]
        return cls(functions=functions, **document)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The time of a measurement's messages in one process."""

    measurement: str
    process: str
    messages: int
    samples: Samples

    @property
    def us(self) -> float:
        """Microseconds of CPU time of a message."""
        return (self.samples.user_s + self.samples.system_s) / self.messages * 1e6


def find_room(file: str, root: str) -> str:
    """The room of a file: its folder below the folder of the project, or else the package that it belongs to.

    /src/broker/store/writer.py with root /src -> broker/store; as well with a root in site-packages, of an installation
    .../site-packages/anyio/_core/_tasks.py -> anyio
    .../lib/python3.11/asyncio/runners.py -> event loop
    """
    if file.endswith(_LOOP_FILES):
        return LOOP
    below_root = file.removeprefix(f"{root}/")
    if below_root != file and "/site-packages/" not in below_root:
        return below_root.rpartition("/")[0] or "."
    if "/site-packages/" in file:
        return file.rpartition("/site-packages/")[2].split("/")[0].removesuffix(".py")
    return "python"


COLUMNS = ("measurement", "process", ">us a message", ">in the system", ">waits a message", ">messages")


def as_row(profile: Profile) -> tuple[str, ...]:
    """A row under these headings."""
    samples, messages = profile.samples, profile.messages
    return (
        profile.measurement,
        profile.process,
        f"{profile.us:.2f}",
        f"{samples.system_s / messages * 1e6:.2f}",
        f"{samples.waits / messages:.3f}",
        f"{messages:,}",
    )


def markdown(profiles: Sequence[Profile], root: str = ROOT) -> str:
    """A table for each measurement and process; `root` is the folder with our packages."""
    return "\n\n".join("\n".join(_lines(profile, root)) for profile in profiles) + "\n"


def _lines(profile: Profile, root: str) -> Iterator[str]:
    samples, (_, _, us, system_us, waits, messages) = profile.samples, as_row(profile)
    yield (
        f"{profile.process}, {profile.measurement}: {us} us of CPU time a message ({system_us} in the system), "
        f"{waits} waits a message, {messages} messages"
    )
    yield ""
    yield "| room | function | us | share |"
    yield "|---|---|---|---|"
    ticks = sum(count for _, _, count in samples.functions)
    rooms: defaultdict[str, list[tuple[int, str, str]]] = defaultdict(list)
    for file, name, count in samples.functions:
        rooms[find_room(file, root)].append((count, name, file.rpartition("/")[2]))
    for room in sorted(rooms, key=lambda room: (-sum(count for count, _, _ in rooms[room]), room)):
        share = sum(count for count, _, _ in rooms[room]) / ticks
        if share < _SHOWN:
            continue
        yield f"| **{room}** | | **{share * profile.us:.2f}** | **{share:.0%}** |"
        for count, name, file in sorted(rooms[room], key=lambda row: (-row[0], row[1:])):
            if count >= _SHOWN * ticks:
                yield f"| | `{name}` ({file}) | {count / ticks * profile.us:.2f} | {count / ticks:.0%} |"
