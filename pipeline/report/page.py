"""The page of a report: an HTML file that contains its charts and style. Pure.

From the top: a summary in sentences and large figures; the rebalances ranked by cost; the owners of queues over time;
convergence by cause and by trigger; the three hazards of a rebalance with the affected messages; latency and lag; the
evenness of loads; injected faults.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any

from model.counted import plural
from pipeline.report import charts
from pipeline.report.charts import both, milliseconds, seconds
from pipeline.report.compare import compare_runs
from pipeline.report.data import GroupSection, Report, Rows, queue_name
from pipeline.report.html import document, table
from pipeline.report.ownerless import OwnerlessGroup
from pipeline.report.picture import make_picture
from pipeline.report.words import (
    describe_duplicates,
    describe_missed,
    member_name,
    name_change,
    offsets,
    ownerless,
    sentence_of_rebalance,
    summary,
)
from traces.figures.faults import InjectedFault, describe_fault

MOST_GROUPS = 12
"""Maximum number of groups with sections; further groups are only named."""
MOST_FAULTS = 100
"""Maximum number of rows of the list of injected faults."""
MOST_REDELIVERIES = 200
"""Maximum number of rows of the list of redelivered messages of a group that pops."""
_PAUSES_MS = (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000)


def page(report: Report, against: Report | None = None) -> str:
    """Return the whole file; with a report of another run, the figures of both side by side."""
    shown_groups, left = report.groups[:MOST_GROUPS], report.groups[MOST_GROUPS:]
    names = ", ".join(
        [each_group.totals.group for each_group in shown_groups]
        or [each_group.group for each_group in report.ownerless]
    )
    started = datetime.fromtimestamp(report.started_ms / 1_000, UTC)
    missing = f"{plural(report.lost, 'event')} of these nodes are missing, so counts may be too low."
    warnings = f' <span class="warn">{missing}</span>' if report.lost else ""
    if report.missing:
        warnings += f' <span class="warn">This report is incomplete: {escape(report.missing)}.</span>'
    warnings += "".join(f' <span class="warn">{escape(clock)}</span>' for clock in report.clocks)
    parts = [
        f"<h1>What rebalances cost {'group ' if len(shown_groups) == 1 else ''}{escape(names) or 'no group'}</h1>",
        f'<p class="soft">{milliseconds(report.span_ms)} from {started:%Y-%m-%d %H:%M:%S} UTC: '
        f"{plural(report.events, 'event')} of {plural(report.nodes, 'node')}.{warnings}</p>",
        _damage(report),
        compare_runs(report, against) if against is not None else "",
        *(
            _group(each_group, number, report.span_ms, titled=len(shown_groups) > 1)
            for number, each_group in enumerate(shown_groups)
        ),
    ]
    if not shown_groups and not report.ownerless:
        parts.append("<p>No member of any group had a queue in this trace.</p>")
    if left:
        parts.append(f"<p>Not shown: {escape(', '.join(each_group.totals.group for each_group in left))}.</p>")
    parts += [_ownerless(each_group, report.span_ms) for each_group in report.ownerless[:MOST_GROUPS]]
    if rest := report.ownerless[MOST_GROUPS:]:
        parts.append(f"<p>Not shown: {escape(', '.join(each_group.group for each_group in rest))}.</p>")
    parts += [_transactions(report.transactions), _faults(report.faults, report.started_ms), _footer()]
    drawn = [make_picture(each_group, report.started_ms, report.span_ms) for each_group in shown_groups]
    return document(f"Rebalances of {names}", "".join(parts), drawn)


def _damage(report: Report) -> str:
    if not report.damaged:
        return ""
    cells = (
        (
            escape(str(row["detail"])),
            escape(queue_name(row)),
            f"{row['offset']:,} to {row['offset'] + row['n'] - 1:,}",
            f"{row['n']:,}",
        )
        for row in report.damage
    )
    return (
        "<h3>Damage</h3>"
        f'<p class="warn">{plural(report.damaged, "stored message")} can no longer be read: files of brokers are '
        "damaged or missing.</p>" + table(("file", "queue", "offsets", "*messages"), cells)
    )


def _transactions(rows: Rows) -> str:
    if not rows:
        return ""
    names = ("half", "committed", "rolled_back", "checks", "given_up")
    cells = ((escape(str(row["group"])), *(f"{row[name]:,}" for name in names)) for row in rows)
    return (
        "<h3>Transactions</h3>"
        '<p class="hint">Half messages of producer groups, and their outcomes. A check asks a producer of the group '
        "about a transaction that was not ended; a given-up transaction was sent to an operator's topic.</p>"
        + table(("producer group", "*half", "*committed", "*rolled back", "*checks", "*given up"), cells)
    )


def _faults(rows: Sequence[InjectedFault], started_ms: float) -> str:
    if not rows:
        return ""
    lines = "".join(f"<li>{escape(describe_fault(row, started_ms))}</li>" for row in rows[:MOST_FAULTS])
    more = f"<p>And {len(rows) - MOST_FAULTS:,} more.</p>" if len(rows) > MOST_FAULTS else ""
    return f"<h3>Injected faults</h3><ul>{lines}</ul>{more}"


def _group(group: GroupSection, number: int, span_ms: float, *, titled: bool) -> str:
    marks = [(row["began_ms"], f"{seconds(row['began_ms'])}: {sentence_of_rebalance(row)}") for row in group.ranking]
    worst = sentence_of_rebalance(group.ranking[0]) if group.ranking else None
    parts = [
        f"<h2>Group {escape(group.totals.group)}</h2>" if titled else "",
        f'<p class="lead">{escape(f"{summary(group.totals, worst)} {describe_missed(group.missed)}".rstrip())}</p>',
        _tiles(group),
        _ranking(group.ranking, group.totals.rebalances),
        _pictures(group, number),
        _balances(group.balances),
        _hazards(group),
        _delivery(group.delivery, marks, span_ms),
        _fairness(group.fairness, span_ms),
    ]
    return f"<section>{''.join(parts)}</section>"


def _ownerless(group: OwnerlessGroup, span_ms: float) -> str:
    over_time = [(row["t_ms"], float(row["members"])) for row in group.members_over_time]
    cells = (
        (escape(queue_name(row)), escape(member_name(row["client"])), f"{row['redelivered']:,}", f"{row['batches']:,}")
        for row in group.queues[:MOST_REDELIVERIES]
    )
    parts = [f'<h2>Group {escape(group.group)}</h2><p class="lead">{escape(ownerless(group))}</p>']
    if over_time:
        over_time.append((span_ms, over_time[-1][1]))  # the last change holds until the end
        parts.append("<h3>Members</h3>")
        parts.append(both(lambda width: charts.lines([("lag", over_time)], [], span_ms, "members", width, steps=True)))
    if group.queues:
        parts.append("<h3>Redelivered messages</h3>")
        parts.append(table(("queue", "to whom", "*messages", "*batches"), cells))
    return f"<section>{''.join(parts)}</section>"


def _tiles(group: GroupSection) -> str:
    totals = group.totals
    median = "-" if totals.balance_p50_ms is None else milliseconds(totals.balance_p50_ms)
    slow = "-" if totals.balance_p95_ms is None else milliseconds(totals.balance_p95_ms)
    tiles = [
        (f"{totals.rebalances:,}", "rebalances that moved queues", False),
        (f"{totals.moves:,}", f"moves of queues, {totals.needed:,} needed", False),
        (median, f"to balance, median; 95 of 100 in {slow}", False),
        (milliseconds(totals.pause_ms), "pauses of queues between owners, summed", False),
        (f"{totals.duplicates:,}", f"messages came twice{_perhaps(totals.possible_duplicates)}", totals.duplicates > 0),
        (f"{totals.backlog_max:,}", "messages of lag at most for a new owner", False),
        (milliseconds(totals.double_ms), "queues had two owners, summed", totals.double_ms > 0),
    ]
    inside = (
        f'<div class="tile{" bad" if bad else ""}"><b>{value}</b><span>{label}</span></div>'
        for value, label, bad in tiles
    )
    return f'<div class="tiles">{"".join(inside)}</div>'


def _perhaps(possible: int) -> str:
    return f", up to {possible:,} more may have" if possible else ""


def _ranking(rows: Rows, rebalances: int) -> str:
    if not rows:
        return ""
    max_pause_ms = max(row["pause_ms"] for row in rows) or 1.0
    heads = (
        "at",
        "what happened",
        "triggers",
        "*members",
        "*moved",
        "*needed",
        "*balanced in",
        "paused, summed",
        "*came twice",
        "*backlog",
    )
    more = f" The {len(rows)} costliest of {rebalances:,} are listed." if rebalances > len(rows) else ""
    cells = (
        (
            seconds(row["began_ms"]),
            escape(sentence_of_rebalance(row)),
            f"<span>{_chips(str(row['trigger']))}</span>",
            "" if row["members"] < 0 else f"{row['members']:,}",
            f"{row['moves']:,}",
            f"{row['needed']:,}",
            milliseconds(row["balance_ms"]),
            _cost(row["pause_ms"], max_pause_ms),
            describe_duplicates(row["duplicates"], row["possible_duplicates"]),
            f"{row['backlog']:,}" if row["backlog"] else "",
        )
        for row in rows
    )
    return (
        "<h3>What happened, ranked by cost</h3>"
        '<p class="hint">Each row is one change and all its effects, joined by their cause and not by time. '
        f"Queues that moved were paused from their old owner's end to the new one's first pull.{more}</p>"
        + table(heads, cells)
    )


def _chips(trigger: str) -> str:
    return "".join(f'<span class="chip">{escape(each)}</span>' for each in trigger.split("+") if each)


def _cost(value_ms: float, most_ms: float) -> str:
    return f'<span class="cost" style="width:{90 * value_ms / most_ms:.0f}px"></span>{milliseconds(value_ms)}'


def _pictures(group: GroupSection, number: int) -> str:
    """Return the element in which the script draws the pictures, and a note on the queues that they do not show."""
    hint = f"{len(group.queues):,} of {group.queues_in_all:,} queues, those with the longest pauses."
    if len(group.queues) == group.queues_in_all:
        hint = "all queues."
    if group.left_out:
        last = seconds(float(group.intervals[-1]["to_ms"]))
        hint += f" The timeline ends at {last}: {group.left_out:,} later intervals of this queue are not shown."
    return (
        "<h3>Over time</h3>"
        f'<p class="hint">The pictures show {hint} Their filters are in the address, so that it can be sent.</p>'
        f'<div data-picture="{number}"><noscript>The pictures need JavaScript; the tables do not.</noscript></div>'
    )


def _balances(rows: Rows) -> str:
    if not rows:
        return ""

    def strip(names: Iterable[str], label: str) -> str:
        groups: dict[str, list[float]] = {}
        for name, row in zip(names, rows, strict=True):
            groups.setdefault(name, []).append(float(row["balance_ms"]))
        return both(lambda width: charts.strip(sorted(groups.items()), label, width))

    return (
        "<h3>How long it took to balance</h3>"
        '<p class="hint">From the change to the last queue that moved because of it. A dot is a rebalance, a bar the '
        "median; the axis is logarithmic. First by change, then by triggers of the passes that followed: NOTIFY from "
        "a broker, LOCK when a refused queue is released, ROUTE and TIMER when members detect a change themselves.</p>"
        + strip(map(name_change, rows), "times to balance by cause")
        + strip((str(row["trigger"]).replace("+", " + ") or "none" for row in rows), "times to balance by trigger")
    )


def _hazards(group: GroupSection) -> str:
    totals = group.totals
    classes = [0] * (len(_PAUSES_MS) + 1)
    for pause in group.pauses:
        classes[bisect_right(_PAUSES_MS, pause)] += 1
    limits = [milliseconds(limit) for limit in _PAUSES_MS]
    names = [f"< {limits[0]}", *(f"{limit} +" for limit in limits)]
    counts = list(zip(names, classes, strict=True))
    drawn = both(lambda width: charts.bars(counts, "pauses of moves by their length", width))
    chart = drawn if group.pauses else ""
    moves = len(group.pauses)
    paused = (
        "<h4>1. Pause</h4><p class='hint'>Between two owners a queue is not consumed. "
        f"{plural(moves, 'move')} had such a pause, of {milliseconds(totals.pause_max_ms)} at most.</p>"
    ) + _moves(group.longest, "paused", lambda row: milliseconds(row["pause_ms"]))
    twice = (
        "<h4>2. Twice</h4><p class='hint'>Messages that the old owner dispatched and did not commit are redelivered to "
        f"the new one: {plural(totals.redelivered, 'message')}, of which {totals.duplicates:,} came twice"
        f"{_perhaps(totals.possible_duplicates)}.</p>"
    ) + _moves(group.twice, "messages", lambda row: offsets(row, int(row["again"])))
    burst = (
        "<h4>3. Burst</h4><p class='hint'>Messages stored during the pause reach the new owner all at once: "
        f"{plural(totals.backlog_max, 'message')} in one queue at most.</p>"
    ) + _moves(group.bursts, "backlog", lambda row: f"{int(row['backlog']):,} from {row['start_offset']:,}")
    cards = "".join(f"<div>{card}</div>" for card in (paused, twice, burst))
    hint = '<p class="hint">Moves by the length of the pause of their queue.</p>' if chart else ""
    return f'<h3>The three hazards</h3>{hint}{chart}<div class="three">{cards}</div>'


def _moves(rows: Rows, head: str, value: Any) -> str:
    if not rows:
        return "<p>None.</p>"
    cells = (
        (
            seconds(row["from_ms"]),
            escape(queue_name(row)),
            escape(f"{member_name(row['from_client'])} to {member_name(row['owner'])}"),
            escape(value(row)),
        )
        for row in rows
    )
    return table(("at", "queue", "from whom to whom", f"*{head}"), cells)


def _delivery(rows: Rows, marks: Sequence[tuple[float, str]], span_ms: float) -> str:
    if not rows:
        return ""
    lag = [(row["t_ms"], float(row["lag"])) for row in rows]
    mean = [(row["t_ms"], row["latency_ms"]) for row in rows if row["latency_ms"] is not None]
    longest = [(row["t_ms"], row["latency_max_ms"]) for row in rows if row["latency_max_ms"] is not None]
    parts = [
        "<h3>Lag and latency</h3>",
        '<p class="hint">Lag of all queues of the group, as its brokers reported it with each commit.</p>',
        both(lambda width: charts.lines([("lag", lag)], marks, span_ms, "messages", width, steps=True)),
    ]
    if mean:
        parts += [
            '<p class="hint">Time from store to dispatch, reported with each commit of a member: '
            '<span class="key"><span><i class="k-line"></i>mean</span> '
            '<span><i class="k-orphan"></i>longest</span></span></p>',
            both(lambda width: charts.lines([("mean", mean), ("longest", longest)], marks, span_ms, "ms", width)),
        ]
    return "".join(parts)


def _fairness(rows: Rows, span_ms: float) -> str:
    if not rows:
        return ""
    spread = [(row["t_ms"], float(row["spread"])) for row in rows]
    last = rows[-1]
    return (
        "<h3>How even the loads were</h3>"
        '<p class="hint">After each rebalance: largest minus smallest number of queues of a member, 0 or 1 if they are '
        "even. Jain's index, 1 if all have the same, was "
        f"{min(row['jain'] for row in rows):.3f} at its lowest and {last['jain']:.3f} at the end, with "
        f"{plural(int(last['queues']), 'queue')} among {plural(int(last['members']), 'member')}. While rebalances "
        "overlap, queues between two owners do not count.</p>"
        + both(lambda width: charts.lines([("spread", spread)], [], span_ms, "queues", width, steps=True))
    )


def _footer() -> str:
    terms = (
        ("moved", "times that a queue went to another owner than its last one, or to its first."),
        (
            "needed",
            "fewest moves from the loads before to loads as even as after the rebalance; a strategy may have other "
            "reasons to move more.",
        ),
        (
            "balanced in",
            "from the event that is the cause to the last queue that was acquired or dropped because of it.",
        ),
        (
            "paused",
            "from the last owner's end (it dropped the queue, or its lease ended) to the first pull of the new one. A "
            "member that hangs counts as the owner until its lease ends.",
        ),
        (
            "came twice",
            "messages that an earlier owner had reported as dispatched and that the new owner dispatched as well. A "
            "killed member does not report its last messages; messages that its broker had served to it and that the "
            "new owner dispatched may have come twice.",
        ),
        ("two owners", "this and other times between nodes are only as exact as the clocks of the nodes."),
    )
    listed = "".join(f"<dt>{name}</dt><dd>{meaning}</dd>" for name, meaning in terms)
    return f"<footer><dl>{listed}</dl>Queues of retry topics are not counted. The tables are beside this file.</footer>"
