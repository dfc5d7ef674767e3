"""A verdict as an HTML page: the rules, and for each anomaly a drawing of its events, with a line per node. Pure."""

from __future__ import annotations

from html import escape

from traces.check.verdict import Anomaly, Answer, Verdict
from traces.check.words import clock_text, event_text, headline, rule_condition, rule_text, summary, witness_lines
from traces.figures.faults import describe_fault

_WIDTH, _LEFT, _ROW, _TOP = 1_000, 190, 34, 30
_COLORS = {Answer.YES: "#2e7d32", Answer.UNKNOWN: "#b26a00", Answer.NO: "#c62828"}
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 68rem; padding: 0 1rem; color: #222 }
table { border-collapse: collapse } td, th { padding: .2rem 1rem .2rem 0; text-align: left; vertical-align: top }
section { border-top: 1px solid #ddd; margin-top: 2rem } pre { overflow-x: auto; font-size: 13px }
svg { width: 100%; height: auto } .yes { color: #2e7d32 } .unknown { color: #b26a00 } .no { color: #c62828 }
"""


def make_page(verdict: Verdict, title: str) -> str:
    """Return the page; it needs no other file."""
    rows = "\n".join(
        f"<tr><td class={each.answer.name.lower()}>{each.answer.value}</td><td>{each.rule.value}</td>"
        f"<td>{escape(rule_condition(each.rule))}</td><td>{escape(rule_text(each))}</td></tr>"
        for each in verdict.rules
    )
    anomalies = "\n".join(_section(number, anomaly) for number, anomaly in enumerate(verdict.anomalies, 1))
    faults = "".join(f"<li>{escape(describe_fault(each, verdict.began_ms))}</li>\n" for each in verdict.faults)
    clocks = "".join(f"<li>{escape(clock_text(each))}</li>\n" for each in verdict.clocks)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>\n'
        f'<h1 class="{verdict.answer.value}">{escape(title)}: {verdict.answer.value}</h1>\n'
        f"<p>{escape(summary(verdict))}</p>\n"
        f"<table><tr><th></th><th>rule</th><th>asks that</th><th></th></tr>\n{rows}\n</table>\n"
        + (f"<h2>Wrong clocks</h2><ul>\n{clocks}</ul>\n" if clocks else "")
        + (f"<h2>Injected faults</h2><ul>\n{faults}</ul>\n" if faults else "")
        + f"{anomalies}\n</html>\n"
    )


def _section(number: int, anomaly: Anomaly) -> str:
    lines = escape("\n".join(witness_lines(anomaly)))
    return (
        f"<section><h2>{number}. {anomaly.rule.value}</h2><p>{escape(headline(anomaly))}</p>\n"
        f"{draw_anomaly(anomaly)}\n<pre>{lines}</pre></section>"
    )


def draw_anomaly(anomaly: Anomaly) -> str:
    """Draw the witness: a line for each node, time to the right, and each event as a numbered dot.

    Events are drawn at equal distances, because only their order matters: most are within a millisecond, one is a
    minute away.
    """
    witness = anomaly.witness
    nodes = list(dict.fromkeys(event.node for event in witness))
    height = _TOP + _ROW * len(nodes) + 20
    step = (_WIDTH - _LEFT - 40) / max(1, len(witness))
    parts = [f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(anomaly.rule.value)}">']
    for row, node in enumerate(nodes):
        y = _TOP + row * _ROW
        parts.append(f'<text x="0" y="{y + 5}" font-size="13">{escape(node[-26:])}</text>')
        parts.append(f'<line x1="{_LEFT}" y1="{y}" x2="{_WIDTH - 20}" y2="{y}" stroke="#ccc"/>')
    began = witness[0].t_ms if witness else 0.0
    for number, event in enumerate(witness):
        x, y = _LEFT + 20 + number * step, _TOP + nodes.index(event.node) * _ROW
        color = _COLORS[Answer.NO] if number == len(witness) - 1 else "#1565c0"
        label = f"{event.t_ms - began:+,.1f} ms {event.kind} {event_text(event)}"
        parts.append(
            f'<g><title>{escape(label)}</title><circle cx="{x:.0f}" cy="{y}" r="9" fill="{color}"/>'
            f'<text x="{x:.0f}" y="{y + 4}" font-size="11" fill="#fff" text-anchor="middle">{number + 1}</text></g>'
        )
    return "".join([*parts, "</svg>"])
