"""A process in which every fsync and fdatasync fails: a commit that needs one is refused, and another one is stored.

    python -m tests.process.without_syncs metadata|topic|replica|elections sync|async DIRECTORY

It prints `refused` or `stored`, or `not filtered` where the system allows no filter. A filter of system calls (seccomp)
lets the syncs fail, so the test sees the calls of SQLite itself, and not only its pragmas. Linux only.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

from broker.durability.changes import PUT, SYNC, RowChange
from broker.durability.metadata import MetadataStore, Table
from broker.durability.metadata_file import MetadataFile
from model.errors import RegisterUnavailable, SystemError_
from model.record import FlushMode
from namesrv.elections import open_elections
from replica.sets import create

NUMBERS = {"x86_64": (74, 75, 317), "aarch64": (82, 83, 277)}
"""By machine: the system calls fsync, fdatasync and seccomp."""
SCHEMA = "create table if not exists offsets (name text primary key, value integer) without rowid;"
_LOAD, _JUMP_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_NO_NEW_PRIVILEGES, _SET_FILTER, _ALL_THREADS = 38, 1, 1


class Instruction(ctypes.Structure):
    _fields_ = (("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint32))


class Filter(ctypes.Structure):
    _fields_ = (("n", ctypes.c_ushort), ("instructions", ctypes.POINTER(Instruction)))


def let_syncs_fail() -> None:
    """From here on each fsync and fdatasync of this process fails with EIO."""
    fsync, fdatasync, seccomp = NUMBERS[platform.machine()]
    code = (Instruction * 5)(
        Instruction(_LOAD, 0, 0, 0),
        Instruction(_JUMP_EQUAL, 2, 0, fsync),
        Instruction(_JUMP_EQUAL, 1, 0, fdatasync),
        Instruction(_RETURN, 0, 0, _ALLOW),
        Instruction(_RETURN, 0, 0, _FAIL | errno.EIO),
    )
    libc = ctypes.CDLL(None, use_errno=True)
    program = Filter(len(code), code)
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.syscall(
        seccomp, _SET_FILTER, _ALL_THREADS, ctypes.byref(program)
    ):
        end("not filtered")


def metadata(directory: Path, flush: FlushMode, *, is_topic: bool = False) -> None:
    with MetadataStore(directory, flush=flush) as store:
        store.add_tables(SCHEMA)
        offsets = Table(store, "offsets", replicated=True)
        offsets.put("first", 1)
        store.commit()
        let_syncs_fail()
        offsets.put("second", 2)
        if is_topic:
            store.sync_next_commit()
        attempt(store.commit)


def replica(directory: Path, flush: FlushMode) -> None:
    """A replica applies the change of a topic of its master."""
    with MetadataFile(directory, flush=flush) as tables:
        tables.add_tables(SCHEMA)
        let_syncs_fail()
        attempt(lambda: tables.apply([RowChange("offsets", PUT, ("first", 1)), RowChange("", SYNC, ())]))


def elections(directory: Path) -> None:
    async def main() -> None:
        with open_elections(directory, Random(1)) as register:
            await register.rows()  # its thread runs
            let_syncs_fail()
            try:
                await register.write(create("broker-a", "h:1", set_id=7), 0)
            except RegisterUnavailable:
                end("refused")
            end("stored")

    asyncio.run(main())


def attempt(commit: Callable[[], None]) -> None:
    try:
        commit()
    except SystemError_:
        end("refused")
    end("stored")


def end(outcome: str) -> None:
    """Print the outcome and end at once: nothing can be closed in order without a sync."""
    sys.stdout.write(outcome)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    what, mode, where = sys.argv[1], FlushMode(sys.argv[2]), Path(sys.argv[3])
    if what == "elections":
        elections(where)
    elif what == "replica":
        replica(where, mode)
    else:
        metadata(where, mode, is_topic=what == "topic")
