"""`rlab topic`: create, list, show, scale, set and delete topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.ask import ask_cluster
from cli.options import (
    DEFAULT_DIALECT,
    DEFAULT_NAME_SERVER,
    SEE_DAMAGE,
    Config,
    Dialect,
    Json,
    NameServers,
    TopicName,
    Yes,
    confirm,
    switch,
)
from model.counted import plural
from model.errors import TopicNotExist
from model.limits import DEFAULT_TOPIC_QUEUES, MAX_QUEUES_PER_TOPIC
from model.message_queue import MessageQueue
from model.names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic
from model.topic_route import MessageType, Perm, TopicConfig, TopicRoute
from process.output import print_json, print_line, print_note, print_outcome, print_table

if TYPE_CHECKING:
    from client.admin.admin import Admin
    from client.admin.records import BrokerInfo
    from model.absent_broker import AbsentBroker

app = typer.Typer(help="Create, list, show, scale, set and delete topics.", no_args_is_help=True)


def _count(help_text: str) -> Any:
    """An optional number of queues."""
    return typer.Option(metavar="N", min=0, max=MAX_QUEUES_PER_TOPIC, show_default=False, help=help_text)


def _message_type(text: str) -> MessageType:
    message_type = MessageType.__members__.get(text.upper())
    if message_type is None:
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(MessageType.__members__)}")
    return message_type


def _of_type(help_text: str) -> Any:
    """An optional type of messages."""
    return typer.Option("--message-type", metavar="TYPE", parser=_message_type, show_default=False, help=help_text)


def register(parent: typer.Typer) -> None:
    """Add the commands."""
    parent.add_typer(app, name="topic")


@app.command()
def create(
    topic: TopicName,
    queues: Annotated[
        int, typer.Option(metavar="N", min=1, max=MAX_QUEUES_PER_TOPIC, help="Queues on each broker.")
    ] = DEFAULT_TOPIC_QUEUES,
    read: Annotated[int | None, _count("Queues on each broker that can be read; by default --queues.")] = None,
    write: Annotated[int | None, _count("Queues on each broker that can be written; by default --queues.")] = None,
    broker: Annotated[list[str] | None, typer.Option(help="Create it only on this broker; may be repeated.")] = None,
    message_type: Annotated[
        MessageType | None,
        _of_type("The only messages that it takes: NORMAL, FIFO, DELAY or TRANSACTION; by default MIXED, all of them."),
    ] = None,
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    dialect: Dialect = DEFAULT_DIALECT,
    json: Json = False,
    config: Config = None,
) -> None:
    """Create a topic on every broker.

    Returns when every reachable name server lists the topic. One that exists with these queues is left as it is.

    Example: rlab topic create orders --queues 8
    """

    async def created(admin: Admin) -> tuple[TopicRoute, bool]:
        try:
            old_queues = (await admin.route(topic)).queues
        except TopicNotExist:
            old_queues = ()
        route = await admin.create_topic(
            topic, queues, read=read, write=write, brokers=broker, message_type=message_type
        )
        return route, route.queues != old_queues

    route, is_new = ask_cluster(namesrv, created, dialect)
    print_route(route, as_json=json, done="created" if is_new else "exists already")


@app.command("list")
def list_topics(
    everything: Annotated[bool, switch("--all", help_text="Include system, retry and dead-letter topics.")] = False,
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    json: Json = False,
    config: Config = None,
) -> None:
    """List topics with their queues.

    Example: rlab topic list --all
    """

    async def all_routes(admin: Admin) -> list[TopicRoute]:
        return await admin.routes([name for name in await admin.topics() if everything or not _is_internal(name)])

    routes = ask_cluster(namesrv, all_routes)
    if json:
        print_json({"topics": [route_document(route) for route in routes]})
        return
    print_table(
        ["topic", "brokers", ">read queues", ">write queues"],
        [
            (r.topic, ", ".join(q.broker_name for q in r.queues), len(r.subscribe_queues()), len(r.publish_queues()))
            for r in routes
        ],
        empty="no topics; create one with rlab topic create NAME",
    )


@app.command()
def show(
    topic: TopicName, namesrv: NameServers = DEFAULT_NAME_SERVER, json: Json = False, config: Config = None
) -> None:
    """Show the queues of a topic and their offsets.

    Example: rlab topic show orders
    """

    async def stored(admin: Admin) -> tuple[TopicRoute, list[BrokerInfo], list[AbsentBroker]]:
        route = await admin.route(topic)
        infos = [await admin.broker_info(data.broker_name) for data in route.queues]
        return route, infos, [each for each in (await admin.absent_brokers()).brokers if each.queues_of(topic)]

    route, infos, away = ask_cluster(namesrv, stored)
    rows = []
    for info in infos:
        topic_info = info.topic(topic)
        if topic_info is None:
            continue
        for queue_id, held in enumerate(topic_info.ranges):
            rows.append(
                (
                    info.name,
                    queue_id,
                    permission_text(topic_info.config, queue_id),
                    held.min_offset,
                    held.max_offset,
                    held.max_offset - held.min_offset,
                    held.damaged,
                )
            )
    if json:
        names = ("use", "min_offset", "max_offset", "messages", "damaged")
        queues = [
            {"queue": MessageQueue(route.topic, broker, queue_id), **dict(zip(names, figures, strict=True))}
            for broker, queue_id, *figures in rows
        ]
        print_json({**route_document(route), "queues": queues, "away": [str(each) for each in away]})
        return
    heads = ["broker", ">queue", "use", ">min offset", ">max offset", ">messages", ">damaged"]
    print_table(heads, rows, title=f"topic {topic}{_types_text(route)}")
    n_lost = sum(row[6] for row in rows)
    more = f"; {n_lost} of them are damaged or missing: {SEE_DAMAGE}" if n_lost else ""
    print_line(f"{plural(sum(row[5] for row in rows), 'message')} in {plural(len(rows), 'queue')}{more}")
    for each in away:
        print_line(f"{plural(len(each.queues_of(topic)), 'queue', 'is', 'are')} away: {each}")


@app.command()
def scale(
    topic: TopicName,
    queues: Annotated[int | None, _count("Queues on each broker.")] = None,
    read: Annotated[int | None, _count("Queues on each broker that can be read.")] = None,
    write: Annotated[int | None, _count("Queues on each broker that can be written.")] = None,
    force: Annotated[bool, switch("--force", help_text="Shrink even if some messages have not been consumed.")] = False,
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    json: Json = False,
    config: Config = None,
) -> None:
    """Change how many queues a topic has.

    To shrink it without losing sight of messages: lower --write, wait until the groups have consumed the rest (rlab
    group show), then lower --read.

    Example: rlab topic scale orders --queues 16
    """
    if queues is None and read is None and write is None:
        raise typer.BadParameter("use --queues N, --read N or --write N")

    read = queues if read is None else read
    write = queues if write is None else write
    route = ask_cluster(namesrv, lambda admin: admin.scale_topic(topic, read=read, write=write, force=force))
    print_route(route, as_json=json, done="scaled")


@app.command("set")
def set_topic(
    topic: TopicName,
    message_type: Annotated[
        MessageType | None, _of_type("The only messages that it takes: NORMAL, FIFO, DELAY or TRANSACTION; MIXED: all.")
    ] = None,
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    json: Json = False,
    config: Config = None,
) -> None:
    """Change which type of messages a topic takes, on every broker.

    A send of another type is refused from then on. Messages that are stored stay as they are.

    Example: rlab topic set orders --message-type FIFO
    """
    if message_type is None:
        raise typer.BadParameter("use --message-type TYPE")
    wanted_type = message_type
    route = ask_cluster(namesrv, lambda admin: admin.set_topic(topic, message_type=wanted_type))
    print_route(route, as_json=json, done="set")


@app.command()
def delete(
    topic: TopicName,
    yes: Yes = False,
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    json: Json = False,
    config: Config = None,
) -> None:
    """Delete a topic and its messages.

    Example: rlab topic delete orders --yes
    """
    confirm(f"Delete topic {topic} and all its messages?", f"this deletes every message of {topic}", yes=yes)
    ask_cluster(namesrv, lambda admin: admin.delete_topic(topic))
    print_outcome({"topic": topic, "deleted": True}, f"topic {topic} deleted", as_json=json)


def _is_internal(topic: str) -> bool:
    return is_system_topic(topic) or topic.startswith((RETRY_PREFIX, DLQ_PREFIX))


def permission_text(config: TopicConfig, queue_id: int) -> str:
    """Permissions of a queue of a topic: `rw`, `r-`, `-w` or `--`."""
    return ("r" if queue_id < config.read_queue_nums else "-") + ("w" if queue_id < config.write_queue_nums else "-")


def print_route(route: TopicRoute, *, as_json: bool, done: str) -> None:
    """Print the route of a topic; `done` is the outcome: created, scaled, set, or that it exists already."""
    if as_json:
        print_json({**route_document(route), "done": done})
    else:
        counts = ", ".join(
            f"{q.broker_name} {q.read_queue_nums}"
            if q.read_queue_nums == q.write_queue_nums
            else f"{q.broker_name} {q.read_queue_nums} read {q.write_queue_nums} write"
            for q in route.queues
        )
        print_line(f"topic {route.topic} {done}: queues on {counts}{_types_text(route)}")
    for data in route.queues:
        if data.write_queue_nums > data.read_queue_nums:
            print_note(
                f"note: queues {data.read_queue_nums} to {data.write_queue_nums - 1} of {data.broker_name} cannot be "
                "read, but messages are sent to them"
            )


def _types_text(route: TopicRoute) -> str:
    """The type of messages that a topic takes, with brokers where they differ; empty if it takes all."""
    types = {data.broker_name: data.message_type for data in route.queues}
    if not any(types.values()):
        return ""
    if len(set(types.values())) == 1:
        return f", {route.queues[0].message_type.name} messages only"
    return ", messages: " + ", ".join(f"{name} {each.name}" for name, each in types.items())


def route_document(route: TopicRoute) -> dict[str, object]:
    """The JSON document of a topic."""
    return {
        "topic": route.topic,
        "read_queues": len(route.subscribe_queues()),
        "write_queues": len(route.publish_queues()),
        "brokers": [
            {
                "broker": data.broker_name,
                "read_queue_nums": data.read_queue_nums,
                "write_queue_nums": data.write_queue_nums,
                "perm": ("r" if data.perm & Perm.READ else "-") + ("w" if data.perm & Perm.WRITE else "-"),
                "message_type": data.message_type.name,
            }
            for data in route.queues
        ],
    }
