"""The style sheet of a report, which is part of the page, so that the page is one file."""

from __future__ import annotations

STYLE = """
:root {
  --paper: #ffffff; --ink: #1d2733; --soft: #66727f; --line: #e3e7ec; --tint: #f5f7f9; --accent: #2563a8;
  --bad: #c8372d; --warn: #b7791f;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14181d; --ink: #e4e9ee; --soft: #98a4b1; --line: #2a323b; --tint: #1b2027; --accent: #6ea8e6;
    --bad: #f0776d; --warn: #dfae5b;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}
main { max-width: 1120px; margin: 0 auto; padding: 40px 28px 64px; }
h1 { font-size: 28px; line-height: 1.2; margin: 0 0 4px; letter-spacing: -0.01em; }
h2 { font-size: 21px; margin: 48px 0 4px; padding-top: 20px; border-top: 2px solid var(--ink); }
h3 { font-size: 16px; margin: 34px 0 2px; }
p { max-width: 78ch; margin: 4px 0 12px; }
.lead { font-size: 17px; max-width: 70ch; margin-top: 14px; }
.soft, .hint { color: var(--soft); }
.hint { font-size: 13.5px; margin-bottom: 8px; }
.warn { color: var(--warn); }
.tiles { display: flex; flex-wrap: wrap; gap: 10px; margin: 18px 0 6px; }
.tile { flex: 1 1 128px; background: var(--tint); border-radius: 8px; padding: 12px 14px; }
.tile b { display: block; font-size: 22px; font-variant-numeric: tabular-nums; line-height: 1.25; }
.tile span { color: var(--soft); font-size: 13px; }
.tile.bad b { color: var(--bad); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: 14px; }
th { text-align: left; font-weight: 600; color: var(--soft); font-size: 12.5px; }
th, td { padding: 6px 14px 6px 0; border-bottom: 1px solid var(--line); vertical-align: top; white-space: nowrap; }
td:nth-child(2), td:nth-child(3) { white-space: normal; }
td.n, th.n { text-align: right; }
.wide { overflow-x: auto; }
.cost { display: inline-block; height: 9px; background: var(--bad); border-radius: 2px; vertical-align: baseline;
  margin-right: 7px; min-width: 1px; opacity: 0.75; }
.chip { display: inline-block; background: var(--tint); border: 1px solid var(--line); border-radius: 4px;
  padding: 0 5px; margin: 0 3px 2px 0; font-size: 11.5px; color: var(--soft); }
.three { display: grid; grid-template-columns: repeat(auto-fit, minmax(310px, 1fr)); gap: 26px; }
.three h4 { margin: 14px 0 2px; font-size: 15px; }
.three table { font-size: 13px; }
svg { width: 100%; height: auto; display: block; margin: 6px 0 4px; overflow: visible; }
svg text { font: 12px system-ui, sans-serif; fill: var(--soft); }
svg text.small { font-size: 10.5px; }
.grid { stroke: var(--line); stroke-width: 1; }
.axis { stroke: var(--soft); stroke-width: 1; }
.mark { stroke: var(--ink); stroke-width: 1; stroke-dasharray: 2 3; opacity: 0.4; }
.owned { opacity: 0.88; }
.orphan { fill: var(--bad); }
.double { fill: none; stroke: var(--bad); stroke-width: 2; }
.point { fill: var(--accent); opacity: 0.55; }
.median { stroke: var(--ink); stroke-width: 2.5; }
.bar { fill: var(--accent); opacity: 0.8; }
.line { fill: none; stroke-width: 1.8; stroke: var(--accent); stroke-linejoin: round; }
.line.longest { stroke: var(--bad); opacity: 0.6; }
.line.spread { stroke: var(--warn); }
.key { font-size: 13px; color: var(--soft); margin: 2px 0 6px; }
.key span { white-space: nowrap; margin-right: 7px; }
.key i { display: inline-block; width: 11px; height: 11px; border-radius: 2px; margin: 0 5px 0 0; }
.o0 { fill: #4e79a7; background: #4e79a7; } .o1 { fill: #f28e2b; background: #f28e2b; }
.o2 { fill: #59a14f; background: #59a14f; } .o3 { fill: #b07aa1; background: #b07aa1; }
.o4 { fill: #edc948; background: #edc948; } .o5 { fill: #76b7b2; background: #76b7b2; }
.o6 { fill: #9c755f; background: #9c755f; } .o7 { fill: #ff9da7; background: #ff9da7; }
.o8 { fill: #8cd17d; background: #8cd17d; } .o9 { fill: #bab0ac; background: #bab0ac; }
.k-orphan { background: var(--bad); } .k-line { background: var(--accent); } .k-warn { background: var(--warn); }
footer { margin-top: 56px; border-top: 1px solid var(--line); padding-top: 14px; font-size: 13.5px;
  color: var(--soft); }
footer dt { font-weight: 600; color: var(--ink); } footer dd { margin: 0 0 8px; max-width: 90ch; }
@media print { main { max-width: none; padding: 0; } h3 { break-after: avoid; } svg, tr { break-inside: avoid; } }
"""
