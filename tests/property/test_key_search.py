"""Searching by term against the obvious: a list of everything that is stored."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from broker.store.disk.options import StoreOptions
from broker.store.keys import search as key_search
from broker.store.keys.search import KeySearcher, segment_views
from broker.store.message_store import MessageStore
from tests.unit.broker.store.disk.faulty_files import FaultyFiles

TERMS = [b"a", b"b", b"plumless", b"buckeroo"]  # the hashes of the last two are the same
NO_LIMIT = 2**60
MAX_RECORDS = 60
"""Records up to which a search in parts goes on writing; each record may have a segment of its own."""


def words(topic_id: int, queue_id: int, payload: bytes) -> set[bytes]:
    return set(payload.split())


class SearchAgainstList(RuleBasedStateMachine):
    """Any interleaving of writing, removing, restarting, damaging tables and searching, whole or in parts."""

    @initialize(segment_records=st.sampled_from([1, 3, 10]), step=st.sampled_from([1, 2, 512]))
    def begin(self, segment_records: int, step: int) -> None:
        self.options = StoreOptions(segment_records=segment_records)
        self.directory = Path(tempfile.mkdtemp())
        self.step_before, key_search._STEP_RECORDS = key_search._STEP_RECORDS, step
        self.now_ms = 1_000
        self.records: list[tuple[int, int, bytes]] = []  # (log position, stored time, payload)
        self.open()

    def open(self) -> None:
        files = FaultyFiles()
        self.store = MessageStore.open(self.directory / "store", self.options, lambda: self.now_ms, files)
        self.searcher = KeySearcher(files)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            key_search._STEP_RECORDS = self.step_before
            self.store.close()
            shutil.rmtree(self.directory)

    @rule(batch=st.lists(st.frozensets(st.sampled_from(TERMS)), min_size=1, max_size=4), later_ms=st.integers(0, 20))
    def write(self, batch: list[frozenset[bytes]], later_ms: int) -> None:
        self.now_ms += later_ms
        position = self.store.written_position
        for terms in batch:
            payload = b" ".join(sorted(terms))
            self.store.append(1, 0, payload, 0)
            self.records.append((position, self.now_ms, payload))
            position += 40 + len(payload)
        self.store.flush()

    @rule()
    def sync(self) -> None:
        self.store.sync()

    @rule(fraction=st.floats(0, 1))
    def trim(self, fraction: float) -> None:
        first = self.store.log.min_position
        self.store.trim(first + int((self.store.written_position - first) * fraction))
        self.records = [record for record in self.records if record[0] >= self.store.log.min_position]

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.open()

    @rule(which=st.integers(0, 20), how=st.sampled_from(["remove", "cut", "flip"]), at=st.integers(0, 9_000))
    def damage_a_table(self, which: int, how: str, at: int) -> None:
        paths = sorted((self.directory / "store").glob("*.keys"))
        if not paths:
            return
        path = paths[which % len(paths)]
        data = bytearray(path.read_bytes())
        if how == "remove":
            path.unlink()
            return
        if not data:  # an earlier cut left nothing of it
            return
        at %= len(data)
        data[at] ^= 0x41
        path.write_bytes(data[:at] if how == "cut" else data)

    @rule(
        term=st.sampled_from([*TERMS, b"c"]),
        begin_ms=st.integers(900, 1_300),
        span_ms=st.sampled_from([0, 50, NO_LIMIT]),
    )
    def search(self, term: bytes, begin_ms: int, span_ms: int) -> None:
        end_ms = begin_ms + span_ms
        views = segment_views(self.store.log, begin_ms=begin_ms, end_ms=end_ms, end_position=NO_LIMIT)
        steps = list(self.searcher.search(views, term, words, NO_LIMIT))
        found = [(step.found.position, step.found.stored_ms) for step in steps if step.found is not None]
        # Whole segments are looked at: what of them is outside of the time, the caller leaves out.
        inside = [each for each in found if begin_ms <= each[1] <= end_ms]
        assert inside == self.expected(term, begin_ms, end_ms)
        assert set(found) <= set(self.expected(term, 0, NO_LIMIT))

    @rule(
        term=st.sampled_from(TERMS), step_limit=st.integers(1, 3), between=st.sampled_from(["nothing", "write", "trim"])
    )
    def search_in_parts(self, term: bytes, step_limit: int, between: str) -> None:
        """As a broker does that answers after a while: begin again before the position that was reached."""
        expected = self.expected(term, 0, NO_LIMIT)
        found: list[tuple[int, int]] = []
        before = self.store.written_position
        while before > self.store.log.min_position:
            views = segment_views(self.store.log, begin_ms=0, end_ms=NO_LIMIT, end_position=before)
            steps = self.searcher.search(views, term, words, before)
            reached = before
            for taken, step in enumerate(steps, 1):
                assert step.position <= reached
                reached = step.position
                if step.found is not None:
                    found.append((step.found.position, step.found.stored_ms))
                if taken >= step_limit and reached < before:
                    break
            assert reached < before
            before = reached
            steps.close()
            if between == "write" and len(self.records) < MAX_RECORDS:
                self.write([frozenset([term])], 0)
            elif between == "trim":
                self.trim(0.3)
        kept_from = self.store.log.min_position
        assert [each for each in found if each[0] >= kept_from] == [each for each in expected if each[0] >= kept_from]
        assert set(found) <= set(expected)

    def expected(self, term: bytes, begin_ms: int, end_ms: int) -> list[tuple[int, int]]:
        return [
            (position, stored_ms)
            for position, stored_ms, payload in reversed(self.records)
            if term in payload.split() and begin_ms <= stored_ms <= end_ms
        ]


TestSearchAgainstList = SearchAgainstList.TestCase
TestSearchAgainstList.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
