"""ActiveFaults: the faults that are active at a server, and the choice of one for each frame. Pure.

    faults.begin(fault, cause, now)       -> an ActiveFault with a number
    faults.choose(traffic)                -> the ActiveFault that affects this frame, or None
    faults.expire(now)                    -> the faults that have expired

If several faults affect a frame, the one that began first is chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from model.errors import InvalidParameter
from model.limits import MAX_FAULTS
from remoting.faults.fault import ConnectionFault, Traffic

if TYPE_CHECKING:
    from random import Random


@dataclass(slots=True, eq=False)
class ActiveFault:
    """An active fault: its number, its cause in the trace, the frames that it matched (`hit`) and affected (`done`)."""

    number: int
    fault: ConnectionFault
    cause: str
    ends_at: float | None
    hit: int = 0
    done: int = 0

    @property
    def is_used_up(self) -> bool:
        """Whether it was carried out `n` times."""
        return bool(self.fault.n) and self.done >= self.fault.n

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to do or to undo; connections that it holds are released only when it is healed."""
        return self.is_used_up and (self.fault.on_frames or self.fault.do == "refuse")

    def document(self, now: float) -> dict[str, Any]:
        """The entry of this fault in a list of active faults."""
        left = {} if self.ends_at is None else {"left_s": round(max(0.0, self.ends_at - now), 3)}
        return {"id": self.number, "fault": self.fault.given(), "cause": self.cause, "done": self.done, **left}


class ActiveFaults:
    """The active faults of one server."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._active: dict[int, ActiveFault] = {}
        self._number = 0

    def __len__(self) -> int:
        return len(self._active)

    def all(self) -> list[ActiveFault]:
        """All active faults, oldest first."""
        return list(self._active.values())

    def begin(self, fault: ConnectionFault, cause: str, now: float) -> ActiveFault:
        """Begin a fault.

        Raises:
            InvalidParameter: too many faults are active.
        """
        if len(self._active) >= MAX_FAULTS:
            raise InvalidParameter(f"{MAX_FAULTS} faults are active: heal some of them first")
        self._number += 1
        active = ActiveFault(self._number, fault, cause, now + fault.for_s if fault.for_s else None)
        self._active[active.number] = active
        return active

    def heal(self, number: int | None = None) -> list[ActiveFault]:
        """End one fault, or all; returns the ended ones."""
        if number is None:
            healed = list(self._active.values())
            self._active.clear()
            return healed
        active = self._active.pop(number, None)
        return [] if active is None else [active]

    def expire(self, now: float) -> list[ActiveFault]:
        """End the faults that have expired, or that were carried out as often as their `n` allows; returns them."""
        over = [
            active
            for active in self._active.values()
            if active.is_over or (active.ends_at is not None and active.ends_at <= now)
        ]
        for active in over:
            del self._active[active.number]
        return over

    def next_deadline(self) -> float | None:
        """When to call `expire` next."""
        return min((active.ends_at for active in self._active.values() if active.ends_at is not None), default=None)

    def choose(self, traffic: Traffic) -> ActiveFault | None:
        """Choose and count the fault that affects a frame; None if the frame passes."""
        for active in self._active.values():
            fault = active.fault
            if not fault.on_frames or active.is_used_up or not fault.hits(traffic):
                continue
            active.hit += 1
            if active.hit % fault.one_in == 0 and (fault.share == 1 or self._rng.random() < fault.share):
                active.done += 1
                return active
        return None

    def late_by_s(self, fault: ConnectionFault) -> float:
        """How long a fault delays the next frame."""
        return fault.by_s + (self._rng.uniform(0, fault.jitter_s) if fault.jitter_s else 0.0)

    def of_connection(self, client: str, groups: tuple[str, ...], peer: str) -> list[ActiveFault]:
        """The faults that affect a connection as a whole while they are active."""
        return [
            active
            for active in self._active.values()
            if active.fault.is_lasting and active.fault.chooses(client, groups, peer)
        ]
