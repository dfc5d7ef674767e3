// The move of one queue from its old owner to the first message of the new one, stage by stage.

import { duration, h } from "./dom.js";

export function waterfall(move, open) {
  const whole = Math.max(move.took_ms, 0.001);
  const slowest = Math.max(...move.stages.map((stage) => stage[1]));
  let after = 0;
  const lines = move.stages.map(([step, took, what]) => {
    const bar = h("i", {});
    bar.style.left = `${(after / whole) * 100}%`;
    bar.style.width = `${(took / whole) * 100}%`;
    after += took;
    const slow = took === slowest && took > 0;
    return [
      h("span", {}, slow ? `${step} (slowest)` : step),
      h("span", { class: slow ? "track slow" : "track", "aria-hidden": "true" }, bar),
      h("span", { class: "n" }, duration(took)),
      h("span", { class: "what" }, what),
    ];
  });
  return h(
    "details",
    { open },
    h("summary", {}, `${move.queue}: ${duration(move.took_ms)} in all, not read for ${duration(move.gap_ms)}`),
    h("p", { class: "hint" }, move.because, move.missing.length ? ` Not in the trace: ${move.missing.join(", ")}.` : ""),
    h("div", { class: "waterfall" }, lines),
  );
}
