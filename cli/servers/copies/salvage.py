"""`rlab broker salvage`: list or re-send messages that a replica has cut from its log after an election with a loss."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgpack
import typer

from cli.options import DEFAULT_NAME_SERVER, Config, Json, NameServers, switch
from model.counted import plural
from model.errors import ConfigError, InvalidParameter
from model.message import Message
from model.names import is_group_topic, is_system_topic
from model.topic_route import TopicConfig
from process.output import print_json, print_line, print_note, print_outcome, print_table
from process.runtime import exit_with_error, run

if TYPE_CHECKING:
    from broker.store.follower.salvage import SalvagedRange

MAX_ROWS = 200
"""Rows of the table for people; `--json` has all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SalvagedQueue:
    """The messages of one queue that one cut removed."""

    cut: int  # number of the folder in `salvage`
    topic: str
    queue_id: int
    first_offset: int
    last_offset: int
    messages: int


def salvage(
    data: Annotated[Path, typer.Argument(show_default=False, help="Data directory of a replica.")],
    send: Annotated[
        int | None, typer.Option(metavar="CUT", min=1, help="Send the messages of this cut to their topics again.")
    ] = None,
    delete: Annotated[
        bool, switch("--delete", help_text="With --send: delete the folder of the cut when all are sent.")
    ] = False,
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    json: Json = False,
    config: Config = None,
) -> None:
    """List the messages that a replica had and the new master lacked, when it was elected with --accept-loss.

    The replica may be running. Some of them may have been sent again by their producers already, so a second sending
    can make duplicates. Messages of system topics, such as delayed ones and halves of transactions, are only listed.

    Example: rlab broker salvage rlab-data/broker-a-1 --send 1 --namesrv ns1:9876
    """
    with exit_with_error():
        ranges = find_salvaged(data)
    if send is not None:
        if all(each.cut != send for each in ranges):
            cuts_text = ", ".join(sorted({str(each.cut) for each in ranges})) or "none"
            with exit_with_error():
                raise InvalidParameter(f"{data} has no cut {send}; cuts: {cuts_text}")
        _send(data, send, namesrv, delete=delete, as_json=json)
        return
    if json:
        print_json({"salvaged": ranges})
        return
    print_table(
        [">cut", "topic", ">queue", ">from offset", ">to offset", ">messages"],
        [
            (each.cut, each.topic, each.queue_id, each.first_offset, each.last_offset, each.messages)
            for each in ranges[:MAX_ROWS]
        ],
    )
    if len(ranges) > MAX_ROWS:
        print_line(f"and {plural(len(ranges) - MAX_ROWS, 'queue')} more: --json lists all")
    print_line(f"{plural(sum(each.messages for each in ranges), 'message')} in {data / 'salvage'}")


def find_salvaged(data: Path) -> list[SalvagedQueue]:
    """The messages in the folder `salvage` of a data directory, by cut and queue.

    Raises:
        ConfigError: the directory cannot be read.
    """
    from broker.store.disk.files import Files
    from broker.store.follower.salvage import salvage_numbers, salvaged_ranges

    if not data.is_dir():
        raise ConfigError(f"{data} is not a directory: name the data directory of a replica")
    try:
        return [_readable(each) for number in salvage_numbers(data, Files()) for each in salvaged_ranges(data, number)]
    except OSError as error:
        raise ConfigError(f"cannot read {data}: {error}") from error


def _readable(salvaged: SalvagedRange) -> SalvagedQueue:
    name = f"number {salvaged.topic_id}"
    if salvaged.topic:
        wire: Any = msgpack.unpackb(salvaged.topic)
        name = TopicConfig.from_wire(wire).topic
    return SalvagedQueue(
        cut=salvaged.salvage,
        topic=name,
        queue_id=salvaged.queue_id,
        first_offset=salvaged.first_offset,
        last_offset=salvaged.end_offset - 1,
        messages=salvaged.messages,
    )


def read_messages(data: Path, number: int) -> Iterator[Message | None]:
    """The messages of one cut, as they were sent; None in place of a message of a system topic."""
    from broker.store.follower.salvage import salvaged_records

    for each in salvaged_records(data, number):
        try:
            fields: Any = msgpack.unpackb(each.record.payload, use_list=False)
            topic, body, tags, keys, properties, _, _ = fields
        except (ValueError, TypeError, msgpack.UnpackException):
            yield None
            continue
        if is_system_topic(topic) or is_group_topic(topic):
            yield None
        else:
            yield Message(topic, body, keys, tags, properties)


def _send(data: Path, number: int, namesrv: str, *, delete: bool, as_json: bool) -> None:
    from client.produce.producer import Producer

    async def main() -> tuple[int, int]:
        sent = left = 0
        async with Producer(namesrv, group="salvage") as producer:
            for message in read_messages(data, number):
                if message is None:
                    left += 1
                else:
                    await producer.send(message)
                    sent += 1
        return sent, left

    sent, left = run(main)
    if delete:
        import shutil

        from broker.store.follower.salvage import salvage_folder

        shutil.rmtree(salvage_folder(data, number))
    print_outcome(
        {"cut": number, "sent": sent, "left_out": left},
        f"{plural(sent, 'message', 'was', 'were')} sent again",
        as_json=as_json,
    )
    if left:
        print_note(
            f"note: {plural(left, 'record', 'was', 'were')} left out: messages of users' topics have another form"
        )
