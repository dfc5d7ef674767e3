"""The bytes that frames under way may take together on the connections of one server. Pure.

A frame is under way from its first byte to its last, and what has come of it waits in memory. Each connection may have
one of up to 16 MiB, so half-sent frames on many connections could fill the memory. Here a large frame has to be
admitted, with the length that it announced; a connection whose frame is not admitted yet is not read. Admitted frames
never wait again, so some frame always gets whole, and the next ones are admitted first come, first served. Small
frames are not counted (`MAX_UNCOUNTED_FRAME_BYTES`): they pass while large ones wait.

    limit 40 MiB       admit(a, 16 MiB) -> true, admit(b, 16 MiB) -> true
                       admit(c, 16 MiB) -> false: c waits
    b is whole         release(b) -> [c]: c is read again
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from model.limits import MAX_FRAMES_UNDER_WAY_BYTES

K = TypeVar("K", bound=Hashable)


class FrameBudget(Generic[K]):
    """The budget of one server; a key stands for a connection, which has at most one frame under way."""

    def __init__(self, limit_bytes: int = MAX_FRAMES_UNDER_WAY_BYTES) -> None:
        self._left = limit_bytes
        self._admitted: dict[K, int] = {}
        self._waiting: dict[K, int] = {}

    def admit(self, key: K, length: int) -> bool:
        """Ask for room for a frame; if there is none, `release` returns the key once there is."""
        if self._waiting or length > self._left:
            self._waiting[key] = length
            return False
        self._left -= length
        self._admitted[key] = length
        return True

    def release(self, key: K) -> list[K]:
        """Give back the room of a frame that is whole or given up; returns those that are admitted instead."""
        self._waiting.pop(key, None)
        self._left += self._admitted.pop(key, 0)
        admitted: list[K] = []
        for waiting, length in self._waiting.items():
            if length > self._left:
                break
            self._left -= length
            self._admitted[waiting] = length
            admitted.append(waiting)
        for waiting in admitted:
            del self._waiting[waiting]
        return admitted
