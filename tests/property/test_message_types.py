"""The check of message types against a twin that lists what each type takes."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from broker.topics.types import check_type
from model.errors import MessageIllegal
from model.message import MESSAGE_GROUP, Message, encode_payload
from model.topic_route import MessageType

# Of each type: (half message, delayed, with a message group) of the messages that it takes; a half message is never
# delayed.
TAKEN = {
    "NORMAL": [(False, False, False)],
    "FIFO": [(False, False, True)],
    "DELAY": [(False, True, False), (False, True, True)],
    "TRANSACTION": [(True, False, False), (True, False, True)],
}
TAKEN["MIXED"] = [each for taken in TAKEN.values() for each in taken]


@given(
    st.sampled_from(MessageType),
    st.sampled_from(TAKEN["MIXED"]),
    st.dictionaries(st.sampled_from(["a", "b", MESSAGE_GROUP.lower()]), st.text(max_size=3)),
    st.text(min_size=1, max_size=5).filter(str.isprintable),
    st.binary(min_size=1, max_size=20),
)
def test_a_topic_takes_what_its_type_lists(
    taken: MessageType, way: tuple[bool, bool, bool], others: dict[str, str], group: str, body: bytes
) -> None:
    is_half, is_delayed, has_group = way
    properties = {**others, MESSAGE_GROUP: group} if has_group else others
    payload = encode_payload(Message("t", body, properties=properties), 0, "id")
    accepted = False
    with suppress(MessageIllegal):
        check_type("t", taken, payload, is_delayed=is_delayed, is_half=is_half)
        accepted = True
    assert accepted == (way in TAKEN[taken.name])
