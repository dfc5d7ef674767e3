"""`rlab bench`: runs benchmarks by name. Reads the options, and prints the results as a table or as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from process.output import print_json, print_line, print_note, print_table
from process.runtime import run
from testbed.bench.catalog import BENCHMARKS, BY_NAME_ONLY, run_benchmarks

if TYPE_CHECKING:
    from testbed.bench.kit.rounds import Progress, Sizes

Show = Callable[[float | None, bool], None]
"""Prints the results, with the part of the CPU time that the host withheld; as JSON or as a table."""

PEERS = ("redis", "nats", "kafka")
RATES = ("latency-20000", "latency-40000", "latency-60000")
PEER_NAMES = ("send-1", "send-64", "batches-32", "consume", "consume-32", *RATES)
"""The measurements that are compared with peers."""

PROFILED = ("send-1", "send-64", "batches-32", "consume", "consume-32")
"""The measurements that have a profile."""

ROCKETMQ = "rocketmq"
"""Benchmarks besides these: a comparison that runs alone and prints its own tables."""


def _checked(names: list[str] | None, allowed: Sequence[str], default: Sequence[str]) -> list[str]:
    for name in names or ():
        if name not in allowed:
            raise typer.BadParameter(f"no benchmark {name!r}; there are {', '.join(allowed)}")
    return list(dict.fromkeys(names or default))


def _chosen(names: list[str] | None, *, of_peers: bool, draws: bool) -> list[str]:
    if of_peers:
        return _checked(names, PEER_NAMES, PEER_NAMES)
    if draws:
        raise typer.BadParameter("only a comparison has a picture: pass --peers as well")
    return _checked(names, list(BENCHMARKS), [name for name in BENCHMARKS if name not in BY_NAME_ONLY])


def _servers(peers: str | None) -> list[str] | None:
    if peers is None:
        return None
    servers = [server.strip() for server in peers.split(",") if server.strip()]
    for server in servers:
        if server not in PEERS:
            raise typer.BadParameter(f"no peer {server!r}; there are {', '.join(PEERS)}")
    return list(dict.fromkeys(servers))


_Names = Annotated[
    list[str] | None,
    typer.Argument(
        help=f"Benchmarks to run: {', '.join(BENCHMARKS)}; by default all but {', '.join(BY_NAME_ONLY)}. "
        f"With --peers: {', '.join(PEER_NAMES)}; by default all. Alone, {ROCKETMQ}: one life of a group on "
        "RocketMQ's servers and on these, with RocketMQ's client for Java and with ours.",
    ),
]
_Seconds = Annotated[
    float, typer.Option(metavar="SECONDS", min=0.01, help="Length of a round of sends, pulls or echoes.")
]
_Repeat = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=1,
        help="Rounds of each side, in turns; the median is reported. Changes of each kind in failover.",
    ),
]
_Joins = Annotated[int, typer.Option(metavar="N", min=1, help="Number of joins in join-100.")]
_Peers = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES", help=f"Compare with these instead, separated by commas: {', '.join(PEERS)} (make peers)."
    ),
]
_Profile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Instead of rates, measure where the CPU time of a message goes, in the client and in the broker, and "
        f"write it as Markdown into this file: {', '.join(PROFILED)}; by default all.",
    ),
]
_Picture = Annotated[
    Path | None, typer.Option(metavar="FILE", help="With --peers: draw the comparison into this file, as SVG.")
]
_Home = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help=f"With {ROCKETMQ}: a distribution of RocketMQ; by default Maven gets two."),
]


def bench(
    names: _Names = None,
    seconds: _Seconds = 0.5,
    repeat: _Repeat = 15,
    joins: _Joins = 20,
    peers: _Peers = None,
    profile: _Profile = None,
    picture: _Picture = None,
    home: _Home = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Measure rates, latencies and memory on this machine.

    Rates are compared with a bare echo of the same frames in the same run, in turns. From 15 turns on, the ratio has
    the interval of its median, with 90 % confidence, and a goal is met if all of the interval is within it; if the
    interval is wider than 15 %, or 30 % for latencies, the verdict is "cannot say". Beside it is the part of the CPU
    time that the measurement wanted and did not get: the host of a virtual machine withheld it, or other processes
    used it.

    Example: rlab bench send-64 pull-32 --seconds 1
    """
    from rich.console import Console

    from testbed.bench.kit.host_share import cpu_shares, read_cpu_time
    from testbed.bench.kit.rounds import Sizes

    if ROCKETMQ in (names or ()) or home is not None:
        _play_rocketmq(names, home, plain=peers is None and picture is None and not as_json)
        return
    if profile is not None:
        if peers is not None or picture is not None:
            raise typer.BadParameter("--profile is about our own processes: leave out --peers and --picture")
        _profile(_checked(names, PROFILED, PROFILED), Sizes(seconds=seconds, repeat=repeat), profile, as_json)
        return
    servers = _servers(peers)
    chosen = _chosen(names, of_peers=servers is not None, draws=picture is not None)
    cpu_before = read_cpu_time()
    with Console(stderr=True).status("") as status:
        sizes = Sizes(seconds=seconds, repeat=repeat, joins=joins)
        show = (
            _measure(chosen, sizes, status.update)
            if servers is None
            else _compare(servers, chosen, sizes, picture, status.update)
        )
    shares = cpu_shares(cpu_before, read_cpu_time())
    kept = None if shares is None else shares.withheld
    show(kept, as_json)
    if not as_json:
        _print_withheld(kept)


def _profile(names: Sequence[str], sizes: Sizes, file: Path, as_json: bool) -> None:
    """Write where the time of a message goes, and print how much it is in each process."""
    from rich.console import Console

    from testbed.bench.profile.measure import run_profile
    from testbed.bench.profile.table import COLUMNS, as_row, markdown

    with Console(stderr=True).status("") as status:
        profiles = run(lambda: run_profile(names, sizes, status.update))
    file.write_text(markdown(profiles), encoding="utf-8")
    if as_json:
        print_json({"profiles": profiles})
    else:
        print_table(COLUMNS, [as_row(profile) for profile in profiles])


def _print_withheld(kept: float | None) -> None:
    from testbed.bench.kit.host_share import WORTH_A_NOTE

    if kept is not None and kept >= WORTH_A_NOTE:
        print_note(
            f"The host of this virtual machine withheld {kept:.0%} of the CPU time that was wanted: measure again."
        )


def _play_rocketmq(names: list[str] | None, home: Path | None, *, plain: bool) -> None:
    """Compare with RocketMQ; ends the command if it failed."""
    from testbed.bench.rocketmq import play

    if ROCKETMQ not in (names or ()):
        raise typer.BadParameter(f"--home goes with {ROCKETMQ} only")
    if names != [ROCKETMQ] or not plain:
        raise typer.BadParameter(f"{ROCKETMQ} runs alone, and prints tables: leave out other names and options")
    if code := play(home):
        raise typer.Exit(code)


def _measure(names: Sequence[str], sizes: Sizes, progress: Progress) -> Show:
    from testbed.bench.kit.report import COLUMNS, as_rows

    results = run(lambda: run_benchmarks(names, sizes, progress))

    def show(kept: float | None, as_json: bool) -> None:
        if as_json:
            print_json({"results": results, "host_kept": kept})
        else:
            print_table(COLUMNS, as_rows(results))

    return show


def _compare(
    servers: Sequence[str], names: Sequence[str], sizes: Sizes, picture: Path | None, progress: Progress
) -> Show:
    from testbed.bench.peers.compare import run_comparison
    from testbed.bench.peers.picture import draw
    from testbed.bench.peers.systems.registry import choose, settings_of
    from testbed.bench.peers.table import as_row, columns

    systems, left_out = choose(servers)
    for line in left_out:
        print_note(line)
    results = run(lambda: run_comparison(systems, names, sizes, progress))
    settings = settings_of(systems)
    if picture is not None:
        picture.write_text(draw(results))

    def show(kept: float | None, as_json: bool) -> None:
        if as_json:
            print_json({"results": results, "settings": settings, "left_out": left_out, "host_kept": kept})
            return
        measured = list(dict.fromkeys(system for result in results for system in result.medians))
        print_table(columns(measured), [as_row(result, measured) for result in results])
        for line in settings:
            print_line(line)

    return show


def register(app: typer.Typer) -> None:
    """Add the command to `rlab`."""
    app.command("bench")(bench)
