"""The runs of `rlab sim`: one case, many cases, and the search for a small programme; each prints its result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from hashlib import sha256
from pathlib import Path

from model.counted import plural
from model.event_log import encode_events
from model.events import Event
from process.output import print_json, print_line, print_note
from testbed.runs.report import counts, failed_line, outcome_lines, repeat_command
from testbed.simulation.engine.programme import Programme
from testbed.simulation.engine.run import Outcome, run_programme
from testbed.simulation.engine.shrink import shrink
from testbed.simulation.engine.sweep import Case, sweep
from testbed.simulation.engine.text import write_programme, write_test

FailedRuns = tuple[Case, Outcome]
REPORT_EVERY = 50
"""Seeds of a sweep between two lines of progress."""


def run_traced(case: Case, events: Path) -> Outcome:
    """Run a case, and write its events to a file; to `seed-7.jsonl` in it, for the seed 7, if it is a folder."""
    file = events / f"seed-{case.seed}.jsonl" if events.is_dir() else events
    with file.open("wb") as target:

        def write(event: Event) -> None:
            target.write(encode_events([event]))

        return run_programme(case.programme(), watch=write)


def run_one(case: Case, file: str | None, events: Path | None, *, as_json: bool) -> FailedRuns | None:
    """Run a case, write its events to the file `events` if given, and print its outcome; returns both if it failed."""
    programme, repeat = case.programme(), repeat_command(case, file)
    outcome = run_programme(programme) if events is None else run_traced(case, events)
    if as_json:
        print_json({"programme": programme.name, "ok": outcome.ok, "again": repeat, "outcome": outcome})
    else:
        for line in outcome_lines(outcome, programme, repeat):
            print_line(line)
    return None if outcome.ok else (case, outcome)


def run_many(
    cases: list[Case], file: str | None, jobs: int, master: str | None, events: Path | None = None, *, as_json: bool
) -> FailedRuns | None:
    """Run cases in processes, or on Spark if `master` is given, and print a summary; returns the first that failed.

    In processes, the events of each case are written to a file in the folder `events`, which is made if it is missing.
    """
    if events is not None:
        events.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        # A generator: nothing runs yet.
        outcomes = sweep(cases, jobs) if events is None else sweep(cases, jobs, partial(run_traced, events=events))
        if master is not None:
            from pipeline.spark.session import spark_session
            from testbed.runs.on_spark import sweep_on_spark

            outcomes = sweep_on_spark(stack.enter_context(spark_session("rlab sim", master=master)), cases)
        return _report_many(cases, outcomes, file, as_json=as_json)


def _report_many(
    cases: list[Case], outcomes: Iterator[Outcome], file: str | None, *, as_json: bool
) -> FailedRuns | None:
    kind_counts: Counter[str] = Counter()
    acts: Counter[str] = Counter()
    digest, messages = sha256(), 0
    failed: list[FailedRuns] = []
    for done, (case, outcome) in enumerate(zip(cases, outcomes, strict=True), 1):
        digest.update(outcome.digest.encode())
        acts.update(outcome.acts)
        messages += outcome.sent
        if not outcome.ok:
            failed.append((case, outcome))
            kind_counts.update(outcome.kinds)
            print_note(failed_line(outcome, repeat_command(case, file)))
        if done % REPORT_EVERY == 0 and done < len(cases):
            print_note(f"{done} of {plural(len(cases), 'seed')}, {len(failed)} failed")
    seeds, kinds, steps = (
        [case.seed for case, _ in failed],
        dict(sorted(kind_counts.items())),
        dict(sorted(acts.items())),
    )
    if as_json:
        figures = {"seeds": len(cases), "failed": seeds, "found": kinds, "messages": messages}
        print_json({"ok": not failed, **figures, "steps": steps, "digest": digest.hexdigest()})
    else:
        print_line(f"{'FAILED' if failed else 'PASSED'}  {plural(len(cases), 'seed')}, {len(failed)} failed")
        if failed:
            print_line(f"  found      {counts(kinds)} (runs)")
        print_line(f"  messages   {messages:,} sent")
        print_line(f"  steps      {counts(steps)}")
        print_line(f"  events     SHA-256 of all digests {digest.hexdigest()}")
    return failed[0] if failed else None


def shrink_case(case: Case, outcome: Outcome, directory: Path) -> None:
    """Search for a small programme with the same kind of finding, and write it as a programme and as a test.

    Raises:
        OSError: the directory cannot be written.
    """
    kind, runs = outcome.findings[0].kind, 0

    def fails(programme: Programme) -> bool:
        nonlocal runs
        runs += 1
        return kind in run_programme(programme).kinds

    programme = case.programme()
    print_note(f"looking for a smaller programme that shows {kind} ...")
    smallest = shrink(programme, fails)
    name = f"{(smallest.name or 'programme').replace('-', '_')}_{kind.replace('-', '_')}"
    directory.mkdir(parents=True, exist_ok=True)
    toml, test = directory / f"{name}.toml", directory / f"test_{name}.py"
    toml.write_text(write_programme(smallest), encoding="utf-8")
    test.write_text(write_test(smallest, kind), encoding="utf-8")
    print_note(f"{len(programme.step)} steps became {len(smallest.step)} in {runs} runs: {toml} and {test}")
