"""`rlab doctor`: inspects a running cluster, and prints each problem with its evidence and its remedy."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.options import DEFAULT_NAME_SERVER, Config, Json, NameServers
from model.counted import plural
from process.output import print_json, print_line, print_note
from process.runtime import FAILED, run


def doctor(
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    interval: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0.5, max=600, help="Time between the two observations of each group."),
    ] = 5.0,
    minutes: Annotated[float, typer.Option(metavar="N", min=0, help="Consider events of the last N minutes.")] = 10.0,
    json: Json = False,
    config: Config = None,
) -> None:
    """Check a running cluster, and list each problem with its evidence and its remedy.

    It asks every name server and broker, looks at every group twice, and reads the events of the last minutes. It
    changes nothing, and joins no group. The exit code is 1 if something is wrong.

    Example: rlab doctor --namesrv ns1:9876,ns2:9876
    """
    from metrics.doctor.observe import observe
    from metrics.doctor.problems import Diagnosis
    from metrics.doctor.rules import diagnose

    async def main() -> tuple[list[Diagnosis], str, str]:
        print_note(f"observing the cluster for {interval:g} s ...")
        snapshot = await observe(namesrv, interval_s=interval, minutes=minutes)
        return (
            diagnose(snapshot),
            (
                f"{plural(len(snapshot.name_servers), 'name server')}, {plural(len(snapshot.brokers), 'broker')}, "
                f"{plural(len(snapshot.groups), 'group')} and {plural(len(snapshot.events), 'event')} of the last "
                f"{'minute' if minutes == 1 else f'{minutes:g} minutes'}"
            ),
            snapshot.missing.limit,
        )

    problems, observed, limit = run(main)
    if json:
        print_json({"healthy": not problems, "observed": observed, "limit": limit, "problems": problems})
    else:
        for each in problems:
            print_line(f"{each.problem}: {each.subject}")
            print_line(f"    evidence  {each.evidence}")
            print_line(f"    remedy    {each.remedy}")
            print_line(f"    page      docs/{each.docs}")
        print_line(f"{plural(len(problems), 'problem') if problems else 'no problems'}; observed {observed}")
        if limit:
            print_note(f"note: {limit}")
    if problems:
        raise typer.Exit(FAILED)
