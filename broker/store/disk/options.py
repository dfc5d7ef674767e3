"""The sizes and limits of a message store."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """Sizes and limits of one store. Memory in use is about `tail_bytes + index_cache_bytes + segment_records * 20`.

    Attributes:
        segment_bytes: a segment that has grown past this is closed and the next begun; a crash costs the scan of one.
        segment_records: the same by count, which bounds the memory of the index of the segment being written.
        segment_age_ms: the same by age of its first record, so that retention by age works on quiet brokers.
        tail_bytes: budget for the newest records, over all queues, which are served from memory.
        index_cache_bytes: budget for parts of index files that reads of old records have loaded.
        scan_records: most records that one read looks at when a filter skips them; also the most it skips over damage.
        open_files: most segment files that are kept open for reading.
        reserve_bytes: room that is kept for a start, and for commits, on a full disk; 0 for none.
    """

    segment_bytes: int = 64 * MIB
    segment_records: int = 500_000
    segment_age_ms: int = 24 * 3600 * 1000
    tail_bytes: int = 64 * MIB
    index_cache_bytes: int = 16 * MIB
    scan_records: int = 4_096
    open_files: int = 32
    reserve_bytes: int = 16 * MIB

    def __post_init__(self) -> None:
        """Refuse sizes that the formats cannot hold.

        Raises:
            ValueError: naming the option.
        """
        # Positions inside a segment are 32 bits in the index, and a batch may overshoot the limit.
        if not 0 < self.segment_bytes <= MAX_SEGMENT_BYTES:
            raise ValueError(f"segment_bytes={self.segment_bytes}: must be 1 to {MAX_SEGMENT_BYTES}")
        for name in ("segment_records", "segment_age_ms", "scan_records", "open_files"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)}: must be at least 1")
        for name in ("tail_bytes", "index_cache_bytes", "reserve_bytes"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}={getattr(self, name)}: must not be negative")


MAX_SEGMENT_BYTES = 2 * 1024 * MIB
