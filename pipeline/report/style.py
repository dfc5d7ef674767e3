"""The style sheet of a report. It is part of the page, so that the page is one file.

The report shares colours, tables and pictures with the console; this file has the styles that only a report needs.
"""

from __future__ import annotations

from pictures.assets import read_asset

_OWN = """
main { max-width: 1120px; margin: 0 auto; padding: 40px 28px 64px; }
h1 { font-size: 28px; line-height: 1.2; margin: 0 0 4px; letter-spacing: -0.01em; }
h2 { font-size: 21px; margin: 48px 0 4px; padding-top: 20px; border-top: 2px solid var(--ink); }
.lead { font-size: 17px; max-width: 70ch; margin-top: 14px; }
.tile.bad b { color: var(--bad); }
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
svg.for-narrow { display: none; }
.grid { stroke: var(--line); stroke-width: 1; }
.axis { stroke: var(--soft); stroke-width: 1; }
.mark { stroke: var(--ink); stroke-width: 1; stroke-dasharray: 2 3; opacity: 0.4; }
.point { fill: var(--accent); opacity: 0.55; }
.median { stroke: var(--ink); stroke-width: 2.5; }
svg .bar { fill: var(--accent); opacity: 0.8; }
.line { fill: none; stroke-width: 1.8; stroke: var(--accent); stroke-linejoin: round; }
.line.longest { stroke: var(--bad); opacity: 0.6; }
.line.spread, .line.other { stroke: var(--warn); }
.line.bound { stroke-width: 0.8; opacity: 0.6; }
.key { font-size: 13px; color: var(--soft); margin: 2px 0 6px; }
.key span { white-space: nowrap; margin-right: 7px; }
.key i { display: inline-block; width: 11px; height: 11px; border-radius: 2px; margin: 0 5px 0 0; }
.k-orphan { background: var(--bad); } .k-line { background: var(--accent); }
.k-other { background: var(--warn); }
footer { margin-top: 56px; border-top: 1px solid var(--line); padding-top: 14px; font-size: 13.5px;
  color: var(--soft); }
footer dt { font-weight: 600; color: var(--ink); } footer dd { margin: 0 0 8px; max-width: 90ch; }
@media print { main { max-width: none; padding: 0; } h3 { break-after: avoid; } svg, tr { break-inside: avoid; } }
.wide td:first-child:not([colspan]) { white-space: nowrap; }
.filters { display: flex; flex-wrap: wrap; gap: 8px 12px; margin: 8px 0; }
.filters label { display: grid; grid-template-columns: minmax(0, auto); gap: 2px; font-size: 13px; color: var(--soft);
  min-width: 0; max-width: 100%; }
.filters select { max-width: 100%; }
.folded { padding: 4px 0 8px; text-align: left; flex: 1; min-width: 0; }
.advice { border-left: 3px solid var(--warn); padding: 2px 10px; background: var(--tint); }
@media (max-width: 700px) {
  main { padding: 20px 14px 40px; }
  .three { grid-template-columns: 1fr; }
  svg.for-wide { display: none; }
  svg.for-narrow { display: block; }
}
"""

STYLE = read_asset("pictures.css") + _OWN
