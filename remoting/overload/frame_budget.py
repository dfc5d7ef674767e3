"""The bytes that frames under way may take together on the connections of one server. Pure.

A frame is under way from its first byte to its last, and what has come of it waits in memory. Each connection may have
one of up to 16 MiB, so half-sent frames on many connections could fill the memory. Here a large frame has to be
admitted, with the length that it announced; a connection whose frame is not admitted yet is not read. Admitted frames
never wait again, so some frame always gets whole, and the next ones are admitted first come, first served. Small
frames are not counted (`MAX_UNCOUNTED_FRAME_BYTES`): they pass while large ones wait.

An owner, who is a user or an address, has a part of that room, so that nobody takes all of it with frames that never
get whole. Frames that wait for others of their owner are passed by those of other owners.

    limit 40 MiB, 16 MiB of one     admit(a, 16 MiB, "u") -> true, admit(b, 16 MiB, "v") -> true
                                    admit(c, 1 MiB, "u") -> false, admit(d, 1 MiB, "w") -> true
    a is whole                      release(a) -> [c]: c is read again
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from model.limits import MAX_FRAMES_UNDER_WAY_BYTES, MAX_FRAMES_UNDER_WAY_BYTES_OF_ONE

K = TypeVar("K", bound=Hashable)


class FrameBudget(Generic[K]):
    """The budget of one server; a key stands for a connection, which has at most one frame under way."""

    def __init__(
        self, limit_bytes: int = MAX_FRAMES_UNDER_WAY_BYTES, limit_of_one: int = MAX_FRAMES_UNDER_WAY_BYTES_OF_ONE
    ) -> None:
        self._left = limit_bytes
        self._limit_of_one = limit_of_one
        self._admitted: dict[K, tuple[int, str]] = {}
        self._waiting: dict[K, tuple[int, str]] = {}
        self._of_owner: dict[str, int] = {}  # bytes that are admitted

    def admit(self, key: K, length: int, owner: str) -> bool:
        """Ask for room for a frame; if there is none, `release` returns the key once there is."""
        self._waiting[key] = (length, owner)
        return key in self._admit()

    def release(self, key: K) -> list[K]:
        """Give back the room of a frame that is whole or given up; returns those that are admitted instead."""
        self._waiting.pop(key, None)
        if key in self._admitted:
            length, owner = self._admitted.pop(key)
            self._left += length
            self._of_owner[owner] -= length
            if not self._of_owner[owner]:
                del self._of_owner[owner]
        return self._admit()

    def _admit(self) -> list[K]:
        admitted: list[K] = []
        in_their_own_way: set[str] = set()
        for key, (length, owner) in self._waiting.items():
            has = self._of_owner.get(owner, 0)
            if owner in in_their_own_way or (has and has + length > self._limit_of_one):
                in_their_own_way.add(owner)
                continue
            if length > self._left:
                break
            self._left -= length
            self._of_owner[owner] = has + length
            admitted.append(key)
        for key in admitted:
            self._admitted[key] = self._waiting.pop(key)
        return admitted
