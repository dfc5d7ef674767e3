"""FrameBudget: limits the bytes of all incomplete frames on the connections of one server. Pure.

A frame is incomplete from its first byte to its last, and the part that has arrived waits in memory. Each connection
may have one such frame of up to 16 MiB, so half-sent frames on many connections could fill the memory. Here a large
frame has to be admitted, with its announced length; a connection whose frame is not admitted yet is not read. Admitted
frames never wait again, so some frame always completes, and the next ones are admitted first come, first served. Small
frames are not counted (`MAX_UNCOUNTED_FRAME_BYTES`): they pass while large ones wait.

An owner, which is a user or an address, may use a part of the budget, so that no owner takes all of it with frames that
never complete. Frames of other owners pass frames that wait for their own owner's part.

    limit 40 MiB, 16 MiB of one     admit(a, 16 MiB, "u") -> true, admit(b, 16 MiB, "v") -> true
                                    admit(c, 1 MiB, "u") -> false, admit(d, 1 MiB, "w") -> true
    a is complete                   release(a) -> [c]: c is read again
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from model.limits import MAX_FRAMES_UNDER_WAY_BYTES, MAX_FRAMES_UNDER_WAY_BYTES_OF_ONE

K = TypeVar("K", bound=Hashable)


class FrameBudget(Generic[K]):
    """The budget of one server; a key stands for a connection, which has at most one incomplete frame."""

    def __init__(
        self, limit_bytes: int = MAX_FRAMES_UNDER_WAY_BYTES, limit_of_one: int = MAX_FRAMES_UNDER_WAY_BYTES_OF_ONE
    ) -> None:
        self._left = limit_bytes
        self._limit_of_one = limit_of_one
        self._admitted: dict[K, tuple[int, str]] = {}
        self._waiting: dict[K, tuple[int, str]] = {}
        self._of_owner: dict[str, int] = {}  # admitted bytes

    def admit(self, key: K, length: int, owner: str) -> bool:
        """Admit a frame; if it does not fit now, a later `release` returns its key."""
        self._waiting[key] = (length, owner)
        return key in self._admit()

    def release(self, key: K) -> list[K]:
        """Release the bytes of a frame that is complete or dropped; returns the keys that are admitted instead."""
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
            held_bytes = self._of_owner.get(owner, 0)
            if owner in in_their_own_way or (held_bytes and held_bytes + length > self._limit_of_one):
                in_their_own_way.add(owner)
                continue
            if length > self._left:
                break
            self._left -= length
            self._of_owner[owner] = held_bytes + length
            admitted.append(key)
        for key in admitted:
            self._admitted[key] = self._waiting.pop(key)
        return admitted
