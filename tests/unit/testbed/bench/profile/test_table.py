from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.bench.profile import table
from testbed.bench.profile.table import LOOP, ROOT, Profile, Samples, as_row, find_room, markdown

WRITER, PRODUCER = "/src/broker/store/writer.py", "/src/client/produce/producer.py"


def profile(*functions: tuple[str, str, int], user_s: float = 0.8, system_s: float = 0.2) -> Profile:
    samples = Samples(user_s=user_s, system_s=system_s, waits=5_000, functions=functions)
    return Profile(measurement="send-64", process="broker", messages=100_000, samples=samples)


@pytest.mark.parametrize(
    ("file", "room"),
    [
        (WRITER, "broker/store"),
        ("/src/rlab.py", "."),
        ("/src/.venv/lib/python3.11/site-packages/anyio/_core/_tasks.py", "anyio"),
        ("/src/.venv/lib/python3.11/site-packages/six.py", "six"),
        ("/usr/lib/python3.11/asyncio/runners.py", LOOP),
        ("/usr/lib/python3.11/json/decoder.py", "python"),
        ("<string>", "python"),
    ],
)
def test_a_function_belongs_to_the_room_of_its_file(file: str, room: str) -> None:
    assert find_room(file, "/src") == room


def test_the_root_is_the_folder_of_our_packages() -> None:
    assert find_room(table.__file__, ROOT) == "testbed/bench/profile"
    installed = "/env/lib/python3.11/site-packages/rlab"
    assert find_room(f"{installed}/client/instance/passes.py", installed) == "client/instance"


def test_the_time_of_a_message_is_divided_by_the_ticks_of_rooms_and_functions() -> None:
    measured = profile(
        (WRITER, "StoreWriter.append", 50), (PRODUCER, "Producer.send", 30), (WRITER, "StoreWriter.flush", 20)
    )
    assert measured.us == pytest.approx(10)
    assert as_row(measured) == ("send-64", "broker", "10.00", "2.00", "0.050", "100,000")
    assert markdown([measured], "/src").splitlines() == [
        "broker, send-64: 10.00 us of CPU time a message (2.00 in the system), 0.050 waits a message, 100,000 messages",
        "",
        "| room | function | us | share |",
        "|---|---|---|---|",
        "| **broker/store** | | **7.00** | **70%** |",
        "| | `StoreWriter.append` (writer.py) | 5.00 | 50% |",
        "| | `StoreWriter.flush` (writer.py) | 2.00 | 20% |",
        "| **client/produce** | | **3.00** | **30%** |",
        "| | `Producer.send` (producer.py) | 3.00 | 30% |",
    ]


FUNCTIONS = st.lists(
    st.tuples(st.sampled_from([WRITER, PRODUCER, "/x/asyncio/events.py"]), st.text("ab", min_size=1), st.integers(1, 9))
)


@given(FUNCTIONS)
def test_the_rooms_of_a_table_together_have_the_time_of_the_message(functions: list[tuple[str, str, int]]) -> None:
    lines = markdown([profile(*functions)], "/src").splitlines()[4:]
    rooms = [line.split("**")[3] for line in lines if line.startswith("| **")]
    assert sum(map(float, rooms)) == pytest.approx(10 if functions else 0, abs=0.02)


@given(FUNCTIONS)
def test_samples_survive_the_way_between_two_processes(functions: list[tuple[str, str, int]]) -> None:
    samples = profile(*functions).samples
    read = Samples.from_json(json.loads(json.dumps(samples.to_json())))
    assert (list(read.functions), read.user_s, read.waits) == (list(samples.functions), 0.8, 5_000)
