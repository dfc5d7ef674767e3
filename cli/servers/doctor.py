"""`rlab doctor`: inspects a running cluster, and prints each problem with its reason and its remedy."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.options import DEFAULT_NAME_SERVER, Config, Json, NameServers
from model.counted import counted
from process.output import print_json, print_line, print_note
from process.runtime import FAILED, run


def doctor(
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    between: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0.5, max=600, help="Time between the two observations of each group."),
    ] = 5.0,
    minutes: Annotated[float, typer.Option(metavar="N", min=0, help="Consider events of the last N minutes.")] = 10.0,
    json: Json = False,
    config: Config = None,
) -> None:
    """Check a running cluster, and list each problem with its reason and its remedy.

    It asks every name server and broker, looks at every group twice, and reads the events of the last minutes. It
    changes nothing, and joins no group. The exit code is 1 if something is wrong.

    Example: rlab doctor --namesrv ns1:9876,ns2:9876
    """
    from metrics.doctor.look import look
    from metrics.doctor.rules import diagnose
    from metrics.doctor.troubles import Diagnosis

    async def main() -> tuple[list[Diagnosis], str, str]:
        print_note(f"observing the cluster for {between:g} s ...")
        seen = await look(namesrv, between_s=between, minutes=minutes)
        return (
            diagnose(seen),
            (
                f"{counted(len(seen.name_servers), 'name server')}, {counted(len(seen.brokers), 'broker')}, "
                f"{counted(len(seen.groups), 'group')} and {counted(len(seen.events), 'event')} of the last "
                f"{'minute' if minutes == 1 else f'{minutes:g} minutes'}"
            ),
            seen.missing.limit,
        )

    findings, looked_at, limit = run(main)
    if json:
        print_json({"healthy": not findings, "looked_at": looked_at, "limit": limit, "findings": findings})
    else:
        for each in findings:
            print_line(f"{each.trouble}: {each.subject}")
            print_line(f"    seen   {each.evidence}")
            print_line(f"    do     {each.advice}")
            print_line(f"    read   docs/{each.docs}")
        print_line(f"{counted(len(findings), 'finding') if findings else 'no findings'}; looked at {looked_at}")
        if limit:
            print_note(f"note: {limit}")
    if findings:
        raise typer.Exit(FAILED)
