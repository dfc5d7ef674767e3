"""`rlab sim`: programmes of faults on a simulated cluster. Reads the options, and sets the exit code."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import Config, Json, Verbose
from model.errors import ConfigError
from model.limits import MAX_SIM_SEEDS
from model.quirks import Quirk
from process.output import print_line
from process.runtime import FAILED, exit_with_error

if TYPE_CHECKING:
    from testbed.simulation.engine.sweep import Case


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("sim")(sim)


_Programme = Annotated[
    Path | None, typer.Argument(metavar="[PROGRAMME]", help="TOML file; without one, programmes are drawn.")
]
_Seed = Annotated[
    int | None,
    typer.Option(min=0, help="Seed of all that is left to chance.", show_default="that of the file, or 0"),
]
_Seeds = Annotated[int, typer.Option(metavar="N", min=1, max=MAX_SIM_SEEDS, help="Number of seeds, from --seed on.")]
_Jobs = Annotated[
    int, typer.Option("--jobs", "-j", metavar="N", min=1, max=64, help="Number of processes for many seeds.")
]
_Master = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Sweep on Spark: local[*], or spark://host:7077.", show_default="without Spark"),
]
_Kind = Annotated[
    str,
    typer.Option(
        metavar="plain|order|pop|power|calm|transactions|replicas|replicas-live|grpc|torture",
        help="Kind of drawn programmes.",
        show_default="the first seven in turns",
    ),
]
_Quirk = Annotated[
    list[Quirk] | None,
    typer.Option(metavar="NAME", help="Defect of RocketMQ to reproduce; see docs/quirks.md."),
]
_Sound = Annotated[bool, typer.Option("--sound", help="Leave out the quirks that the file has.")]
_WrongClocks = Annotated[
    bool,
    typer.Option(
        "--wrong-clocks", help="Give hosts wrong clocks, up to a day off; with --seeds, in half of the seeds."
    ),
]
_Shrink = Annotated[
    bool, typer.Option("--shrink", help="Make the first programme that fails small, and write it to --out.")
]
_Out = Annotated[Path, typer.Option(metavar="DIR", help="Directory of what --shrink writes.")]
_Show = Annotated[bool, typer.Option("--show", help="Print the programme, and do not run it.")]
_Events = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write the events of the run to this file, a JSON object a line; with --seeds, of each run to a file in "
        "this folder.",
    ),
]


def sim(
    programme: _Programme = None,
    seed: _Seed = None,
    seeds: _Seeds = 1,
    jobs: _Jobs = 1,
    master: _Master = None,
    kind: _Kind = "",
    quirk: _Quirk = None,
    sound: _Sound = False,
    wrong_clocks: _WrongClocks = False,
    shrink: _Shrink = False,
    out: _Out = Path(),
    show: _Show = False,
    events: _Events = None,
    json: Json = False,
    verbose: Verbose = False,
    config: Config = None,
) -> None:
    """Run programmes of faults on a simulated cluster, and check its groups and messages against the promises.

    Name server, broker and clients are the real ones; clock, network and disks are simulated. A programme has steps
    such as crash, partition or drop_code at their times. After the last one everything is repaired, and then every
    group must converge, and every acknowledged message must be processed, within the times of the programme. One seed
    decides everything, so a run can be repeated. Exit code 1 means that a promise was broken.

    Example: rlab sim --seeds 100 -j 2, or rlab sim --seed 7 --show > seven.toml and rlab sim seven.toml
    """
    from testbed.runs.runs import run_many, run_one, shrink_case

    quirks = tuple(sorted({str(each) for each in quirk or ()}))
    with exit_with_error():
        cases = _cases(programme, seed, seeds, kind, quirks, sound=sound)
        if wrong_clocks:
            cases = _with_wrong_clocks(cases)
        first = cases[0].programme()  # raises now if the file is wrong, as it would in each case
        if events is not None and master is not None:
            raise ConfigError("--events writes files of this machine: leave --master out, and use --jobs")
        if events is not None and seeds > 1 and events.is_file():
            raise ConfigError(
                f"--events {events} is a file; for several seeds name a folder, which gets a file for each"
            )
        if show:
            from testbed.simulation.engine.text import write_programme

            print_line(write_programme(first).rstrip())
            return
        if not verbose:
            logging.disable(logging.CRITICAL)  # clients and brokers log every fault
        file = None if programme is None else str(programme)
        if seeds == 1 and master is None:
            failed = run_one(cases[0], file, events, as_json=json)
        else:
            failed = run_many(cases, file, jobs, master, events, as_json=json)
        if failed and shrink:
            shrink_case(*failed, out)
    if failed:
        raise typer.Exit(FAILED)


def _with_wrong_clocks(cases: list[Case]) -> list[Case]:
    """Give wrong clocks to the only case, or to half of many.

    Every second block of `len(KINDS)` seeds gets them: every second seed would always have the same kinds.
    """
    from testbed.simulation.engine.draw import KINDS

    return [replace(case, wrong_clocks=len(cases) == 1 or case.seed // len(KINDS) % 2 == 1) for case in cases]


def _cases(
    file: Path | None, seed: int | None, seeds: int, kind: str, quirks: tuple[str, ...], *, sound: bool
) -> list[Case]:
    """The cases that the options select. Raises ConfigError for an unknown kind, and for a bad file."""
    from testbed.simulation.engine.draw import ALL_KINDS
    from testbed.simulation.engine.sweep import Case
    from testbed.simulation.engine.text import parse_programme

    if kind and kind not in ALL_KINDS:
        raise ConfigError(f"no kind {kind!r}; there are {', '.join(ALL_KINDS)}")
    text = ""
    if file is not None:
        if kind:
            raise ConfigError("--kind is for drawn programmes; leave it out, or the file")
        try:
            text = file.read_text(encoding="utf-8")
            read = parse_programme(text)
        except FileNotFoundError:
            raise ConfigError(f"there is no programme {file}") from None
        except UnicodeDecodeError:
            raise ConfigError(f"{file}: not a programme: it is not text") from None
        except ConfigError as error:
            raise ConfigError(f"{file}: {error}") from None
        seed = read.seed if seed is None else seed
    first = seed or 0
    return [Case(seed=each, kind=kind, quirks=quirks, text=text, sound=sound) for each in range(first, first + seeds)]
