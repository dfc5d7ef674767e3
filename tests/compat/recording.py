"""What an earlier commit said over the wire, read from a file of this folder, and when something else fits it.

Something fits what was recorded if whoever reads the one can read the other: every field that was there is there with
its type, new ones may have come, and a list whose places have meanings has as many places.

    recorded                          fits                                    does not
    {"version": 7}                    {"version": 8, "difference": True}      {"difference": True}
    ["orders", 0, 17]                 ["orders", 3, 20]                       ["orders", 0, 17, "more"]
    [["orders", 0], ["orders", 1]]    [["orders", 0]]                         []
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any, NamedTuple

import msgpack

from model.record import iter_records
from remoting.codec import decode_frame
from remoting.command import Command
from remoting.request_code import RequestCode

FILE = Path(__file__).parent / "7f40804.msgpack.gz"
COMMIT = FILE.name.partition(".")[0]
BROKER_HOST = "broker-a"
RAW = (RequestCode.SEND_MESSAGE, RequestCode.SEND_BATCH_MESSAGE)
"""Their requests have payloads of producers in their bodies."""


class Frame(NamedTuple):
    """One recorded frame."""

    at_s: float
    connection: int
    client: str
    server: str
    from_server: bool
    command: Command


class Recording(NamedTuple):
    """See `taps.py`; a field of the schema is [name, type, whether it is required, minimum, maximum]."""

    seen: dict[str, Any]
    schema: dict[int, list[tuple[str, str, bool, int | None, int | None]]]
    frames: list[Frame]


def load() -> Recording:
    """Read the file."""
    read: Any = msgpack.unpackb(gzip.decompress(FILE.read_bytes()), strict_map_key=False)
    frames = [Frame._make([*place, decode_frame(frame)]) for *place, frame in read["frames"]]
    return Recording(read["seen"], read["schema"], frames)


def content(code: int, body: bytes | None) -> Any:
    """The body of a frame as far as it has a form: unpacked, or the places of its records, or nothing."""
    if body is None or code in RAW:
        return None
    if code == RequestCode.PULL_MESSAGE:
        return [[record.queue_offset, record.payload] for record in iter_records(body)]
    return msgpack.unpackb(body, strict_map_key=False)


def differences(old: Any, new: Any, place: str = "") -> list[str]:
    """In which places `new` does not fit `old`; see the module header."""
    if old is None:
        return []
    if isinstance(old, dict) and isinstance(new, dict):
        gone = [f"{place}: no {key!r}" for key in old if key not in new and old[key] is not None]
        return gone + [each for key in old if key in new for each in differences(old[key], new[key], f"{place}.{key}")]
    if isinstance(old, list) and isinstance(new, list):
        return _list_differences(old, new, place)
    number = (int, float)
    if type(old) is type(new) or (type(old) in number and type(new) in number):
        return []
    return [f"{place}: {old!r} was of another type than {new!r}"]


def _list_differences(old: list[Any], new: list[Any], place: str) -> list[str]:
    if len(old) == len(new):
        pairs = zip(old, new, strict=True)
        return [each for n, (a, b) in enumerate(pairs) for each in differences(a, b, f"{place}[{n}]")]
    if not old:
        return []
    # Rows and names may be more or fewer; other places have meanings.
    if new and (all(isinstance(each, list) for each in old) or all(isinstance(each, str) for each in [*old, *new])):
        return [each for row in new for each in differences(old[0], row, f"{place}[...]")]
    return [f"{place}: {len(old)} places, and now {len(new)}"]


def refusals(schema: list[tuple[str, str, bool, int | None, int | None]], header: dict[str, Any]) -> list[str]:
    """Why a server of that commit refuses a header; it ignores fields that it does not know."""
    refused = []
    for name, kind, required, minimum, maximum in schema:
        value = header.get(name)
        if value is None:
            if required:
                refused.append(f"no {name!r}")
        elif type(value).__name__ != kind:
            refused.append(f"{name!r} is {value!r}, not of type {kind}")
        elif kind == "int" and not (minimum or -(2**63)) <= value <= (2**64 if maximum is None else maximum):
            refused.append(f"{name!r} is {value}, out of range")
    return refused
