"""`rlab sim`: options, output and exit code."""

from __future__ import annotations

import logging
from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import Config, Json, Verbose
from cli.output import print_json, print_line, print_note
from cli.runtime import FAILED, exit_with_error
from model.errors import ConfigError
from model.limits import MAX_SIM_SEEDS
from model.quirks import Quirk

if TYPE_CHECKING:
    from model.events import Event
    from simulation.engine.sweep import Case

_TOLD_EVERY = 50
"""Seeds of a sweep between two lines of progress."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("sim")(sim)


def sim(
    programme: Annotated[
        Path | None, typer.Argument(metavar="[PROGRAMME]", help="TOML file; without one, programmes are drawn.")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Seed of all that is left to chance.", show_default="that of the file, or 0"),
    ] = None,
    seeds: Annotated[
        int, typer.Option(metavar="N", min=1, max=MAX_SIM_SEEDS, help="Number of seeds, from --seed on.")
    ] = 1,
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", metavar="N", min=1, max=64, help="Number of processes for many seeds.")
    ] = 1,
    kind: Annotated[
        str,
        typer.Option(
            metavar="plain|order|pop|power", help="Kind of drawn programmes.", show_default="all kinds in turns"
        ),
    ] = "",
    quirk: Annotated[
        list[Quirk] | None,
        typer.Option(metavar="NAME", help="Defect of RocketMQ to reproduce; see docs/quirks.md."),
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Print the programme, and do not run it.")] = False,
    events: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the events of the run to this file, a JSON object a line."),
    ] = None,
    json: Json = False,
    verbose: Verbose = False,
    config: Config = None,
) -> None:
    """Run programmes of faults on a simulated cluster, and judge what becomes of its groups and messages.

    Name server, broker and clients are the shipped ones; clock, network and disks are simulated. A programme has steps
    such as crash, partition or drop_code at their times. After the last one everything is repaired, and then every
    group must converge, and every acknowledged message must be processed, within the times of the programme. One seed
    decides everything, so a run can be repeated. Exit code 1 means that a promise was broken.

    Example: rlab sim --seeds 100 -j 2, or rlab sim --seed 7 --show > seven.toml and rlab sim seven.toml
    """
    with exit_with_error():
        cases = _cases(programme, seed, seeds, kind, tuple(sorted({str(each) for each in quirk or ()})))
        first = cases[0].programme()  # refuses what is wrong with all of them
        if events is not None and seeds > 1:
            raise ConfigError("--events is for one seed: name it with --seed, and leave --seeds out")
        if show:
            from simulation.engine.text import text_of

            print_line(text_of(first).rstrip())
            return
        if not verbose:
            logging.disable(logging.CRITICAL)  # clients and brokers complain about the faults all the time
        file = None if programme is None else str(programme)
        one = seeds == 1
        ok = _run_one(cases[0], file, events, as_json=json) if one else _run_many(cases, file, jobs, as_json=json)
    if not ok:
        raise typer.Exit(FAILED)


def _cases(file: Path | None, seed: int | None, seeds: int, kind: str, quirks: tuple[str, ...]) -> list[Case]:
    """The cases that the options mean. Raises ConfigError for a kind that does not exist, and for a bad file."""
    from simulation.engine.draw import KINDS
    from simulation.engine.sweep import Case
    from simulation.engine.text import programme_of

    if kind and kind not in KINDS:
        raise ConfigError(f"no kind {kind!r}; there are {', '.join(KINDS)}")
    text = ""
    if file is not None:
        if kind:
            raise ConfigError("--kind is for drawn programmes; leave it out, or the file")
        try:
            text = file.read_text(encoding="utf-8")
            read = programme_of(text)
        except UnicodeDecodeError:
            raise ConfigError(f"{file}: not a programme: it is no text") from None
        except ConfigError as error:
            raise ConfigError(f"{file}: {error}") from None
        seed = read.seed if seed is None else seed
    first = seed or 0
    return [Case(seed=each, kind=kind, quirks=quirks, text=text) for each in range(first, first + seeds)]


def _run_one(case: Case, file: str | None, events: Path | None, *, as_json: bool) -> bool:
    from cli.sim.report import outcome_lines, repeat_command
    from model.event_log import encode_events
    from simulation.engine.run import run_programme

    made, again = case.programme(), repeat_command(case, file)
    if events is None:
        outcome = run_programme(made)
    else:
        with events.open("wb") as target:

            def write(event: Event) -> None:
                target.write(encode_events([event]))

            outcome = run_programme(made, watch=write)
    if as_json:
        print_json({"programme": made.name, "ok": outcome.ok, "again": again, "outcome": outcome})
    else:
        for line in outcome_lines(outcome, made, again):
            print_line(line)
    return outcome.ok


def _run_many(cases: list[Case], file: str | None, jobs: int, *, as_json: bool) -> bool:
    from cli.sim.report import counts, failed_line, repeat_command
    from simulation.engine.sweep import sweep

    found: Counter[str] = Counter()
    acts: Counter[str] = Counter()
    digest, failed, messages = sha256(), [], 0
    for done, (case, outcome) in enumerate(zip(cases, sweep(cases, jobs), strict=True), 1):
        digest.update(outcome.digest.encode())
        acts.update(outcome.acts)
        messages += outcome.sent
        if not outcome.ok:
            failed.append(case.seed)
            found.update(outcome.kinds)
            print_note(failed_line(outcome, repeat_command(case, file)))
        if done % _TOLD_EVERY == 0 and done < len(cases):
            print_note(f"{done} of {len(cases)} seeds, {len(failed)} failed")
    figures = {"seeds": len(cases), "failed": failed, "found": dict(sorted(found.items())), "messages": messages}
    if as_json:
        print_json({"ok": not failed, **figures, "steps": dict(sorted(acts.items())), "digest": digest.hexdigest()})
    else:
        print_line(f"{'FAILED' if failed else 'PASSED'}  {len(cases)} seeds, {len(failed)} failed")
        if failed:
            print_line(f"  found      {counts(dict(sorted(found.items())))} (runs)")
        print_line(f"  messages   {messages:,} sent")
        print_line(f"  steps      {counts(dict(sorted(acts.items())))}")
        print_line(f"  events     SHA-256 of all digests {digest.hexdigest()}")
    return not failed
