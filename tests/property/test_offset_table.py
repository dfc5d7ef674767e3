"""The offset table against a naive twin: the list of every commit that was taken."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.leases.offsets import OffsetTable
from model.errors import OffsetRegression
from model.quirks import Quirk

groups, topics, queue_ids = st.sampled_from("gh"), st.sampled_from("tu"), st.integers(0, 1)
programs = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), groups, topics, queue_ids, st.integers(0, 6), st.booleans()),
        st.tuples(st.just("commit"), groups, topics, queue_ids, st.integers(0, 6), st.just(False)),
        st.tuples(st.just("delete"), topics),
    ),
    max_size=40,
)


@settings(max_examples=300)
@given(st.booleans(), programs)
def test_the_offset_table_equals_its_naive_twin(may_go_back: bool, program: list[tuple[object, ...]]) -> None:
    table = OffsetTable(quirks=frozenset({Quirk.OFFSETS_GO_BACK}) if may_go_back else frozenset())
    taken: list[tuple[str, str, int, int]] = []

    def newest(*queue: object) -> int | None:
        return next((offset for *key, offset in reversed(taken) if tuple(key) == queue), None)

    for step in program:
        match step:
            case "commit", str(group), str(topic), int(queue_id), int(offset), bool(reset):
                before = newest(group, topic, queue_id)
                goes_back = before is not None and offset < before
                try:
                    is_new = table.commit(group, topic, queue_id, offset, reset=reset)
                except OffsetRegression:
                    assert goes_back
                    assert not reset
                    assert not may_go_back
                    continue
                assert reset or may_go_back or not goes_back, "an offset went back"
                assert is_new == (offset != before)
                taken.append((group, topic, queue_id, offset))
            case "delete", str(topic):
                table.delete_topic(topic)
                taken = [row for row in taken if row[1] != topic]
        for group in "gh":
            rows = sorted({row[1:3] for row in taken if row[0] == group})
            assert table.of_group(group) == [(*row, newest(group, *row)) for row in rows]
            for topic in "tu":
                assert [table.read(group, topic, n) for n in (0, 1)] == [newest(group, topic, n) for n in (0, 1)]
        assert table.groups() == sorted({row[0] for row in taken})
