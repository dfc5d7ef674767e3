// A report in a file: for each group its owners by queue and by member, its members and unowned queues, and its
// rebalances, which expand to their steps. The address has the filters: #group=...&topic=...&member=...&from=...&to=...

import { colours, fitted, prepared } from "./canvas.js";
import { clock, counted, duration, fill, h, number, shortName, table } from "./dom.js";
import { History, NONE } from "./history.js";
import { brush, swatchClass } from "./palette.js";
import { Timeline } from "./timeline.js";

const MOST_LISTED = 200;
const SLICES = 240;

function filters() {
  return new URLSearchParams(location.hash.slice(1));
}

function keep(values) {
  const query = filters();
  for (const [name, value] of Object.entries(values)) {
    if (value === null || value === "") query.delete(name);
    else query.set(name, value);
  }
  history.replaceState(null, "", `#${query}`);
}

class GroupPictures {
  constructor(holder, document) {
    this.name = document.group;
    this.document = document;
    this.history = new History(document);
    this.chosen = null;
    this.topics = [...new Set(this.history.queues.map((queue) => queue.slice(0, queue.lastIndexOf("@"))))].sort();
    this.timeline = new Timeline(this.history, {
      ended: true,
      longest: document.now * 1.1,
      now: () => document.now,
      onMoment: () => this.drawOthers(),
      onRebalance: (cause) => this.choose(cause),
    });
    this.byMember = h("canvas", { class: "drawing", role: "img", "aria-label": "Queues that each member held over time; the table of members below has the same" });
    this.counts = h("canvas", { class: "drawing", role: "img", "aria-label": "Members and unowned queues over time; the table below has the same" });
    this.list = h("div", {});
    this.memberTable = h("div", {});
    this.countTable = h("div", {});
    this.form = this.buildForm();
    fill(
      holder,
      this.form,
      h("h3", {}, "Owners of queues"),
      h("p", { class: "hint" }, "A strip for each queue in the colour of its owner; a thin red line is time without an owner, triangles are causes of rebalances. Drag, or use the buttons or the keyboard."),
      this.timeline.element,
      h("h3", {}, "Queues of each member"),
      h("p", { class: "hint" }, "The darker, the more queues; in the same window."),
      this.byMember,
      h("details", { class: "as-table", ontoggle: () => this.drawMembers() }, h("summary", {}, "Members as a table"), this.memberTable),
      h("h3", {}, "Members, and queues without an owner"),
      this.counts,
      h("details", { class: "as-table", ontoggle: () => this.fillCounts() }, h("summary", {}, "Members and unowned queues as a table"), this.countTable),
      h("h3", {}, "Rebalances"),
      h("p", { class: "hint" }, "Choose one: its band is marked above, and its steps and moves are shown."),
      this.list,
    );
    this.apply();
    const redraw = () => this.drawOthers();
    new ResizeObserver(redraw).observe(holder);
    const draw = this.timeline.draw.bind(this.timeline);
    this.timeline.draw = () => {
      draw();
      redraw();
    };
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.timeline.redraw());
    this.timeline.fit();
    this.applyTimes();
  }

  buildForm() {
    const options = (all, first) => [h("option", { value: "" }, first), all.map((each) => h("option", { value: each }, each))];
    this.topic = h("select", { onchange: () => this.changed() }, options(this.topics, "all"));
    this.member = h("select", { onchange: () => this.changed() }, options([...this.history.clients].sort(), "all"));
    this.from = h("input", { type: "text", inputmode: "decimal", size: "8", onchange: () => this.changed(), placeholder: "0" });
    this.to = h("input", { type: "text", inputmode: "decimal", size: "8", onchange: () => this.changed(), placeholder: (this.document.now / 1000).toFixed(1) });
    const label = (text, control) => h("label", {}, text, control);
    return h("form", { class: "filters", onsubmit: (event) => event.preventDefault() }, label("Topic", this.topic), label("Member", this.member), label("From, in seconds", this.from), label("To", this.to));
  }

  isAddressed() {
    return !filters().has("group") || filters().get("group") === this.name;
  }

  apply() {
    const query = filters();
    if (this.isAddressed()) {
      for (const name of ["topic", "member", "from", "to"]) this[name].value = query.get(name) || "";
      if (this.history.rebalances.has(query.get("rebalance"))) this.chosen = this.timeline.rebalance = query.get("rebalance");
    }
    this.select();
  }

  applyTimes() {
    const from = this.from.value === "" ? null : Number(this.from.value) * 1000;
    const to = this.to.value === "" ? null : Number(this.to.value) * 1000;
    if (from === null && to === null) return;
    const begin = Number.isFinite(from) && from !== null ? from : 0;
    const end = Number.isFinite(to) && to !== null ? to : this.document.now;
    if (end > begin) this.timeline.show(begin, end);
  }

  changed() {
    keep({ group: this.name, topic: this.topic.value, member: this.member.value, from: this.from.value, to: this.to.value });
    this.select();
    this.timeline.fit();
    this.applyTimes();
  }

  // The queues that pass the filters: of the topic; with a member, the queues that it ever owned.
  select() {
    const place = this.history.clients.indexOf(this.member.value);
    const ofTopic = (queue) => !this.topic.value || this.history.queues[queue].startsWith(`${this.topic.value}@`);
    const ofMember = (queue) => place < 0 || this.history.rows[queue].owners.includes(place);
    this.timeline.queues = this.history.order.filter((queue) => ofTopic(queue) && ofMember(queue));
    this.timeline.member = place;
    this.held = null;
    this.drawList();
    this.timeline.redraw();
  }

  // --- members and counts, in the window of the timeline ---

  heldIn(from, to) {
    const key = `${from} ${to} ${this.timeline.queues.length}`;
    if (this.held && this.held.key === key) return this.held;
    const members = new Map();
    const alone = new Float64Array(SLICES);
    const slice = (to - from) / SLICES;
    for (const queue of this.timeline.queues) {
      this.history.stretches(queue, from, Math.min(to, this.document.now), (begin, end, owner) => {
        let row = alone;
        if (owner !== NONE) {
          if (!members.has(owner)) members.set(owner, new Float64Array(SLICES));
          row = members.get(owner);
        }
        const first = Math.max(0, Math.floor((begin - from) / slice));
        const last = Math.min(SLICES - 1, Math.floor((end - from) / slice));
        for (let n = first; n <= last; n += 1) {
          row[n] += (Math.min(end, from + (n + 1) * slice) - Math.max(begin, from + n * slice)) / slice;
        }
      });
    }
    this.held = { key, members: new Map([...members].sort((a, b) => a[0] - b[0])), alone, from, to };
    return this.held;
  }

  drawOthers() {
    const { from, to } = this.timeline;
    const held = this.heldIn(from, to);
    this.drawHeld(held);
    this.drawCounts(held);
  }

  drawHeld(held) {
    const rows = [...held.members];
    const row = Math.max(3, Math.min(18, Math.floor(360 / Math.max(1, rows.length))));
    const width = this.timeline.width;
    const context = prepared(this.byMember, width, Math.max(18, row * rows.length));
    const gutter = this.timeline.gutter();
    const each = (width - gutter) / SLICES;
    let most = 0;
    for (const [, values] of rows) for (const value of values) most = Math.max(most, value);
    const palette = colours();
    rows.forEach(([place, values], n) => {
      values.forEach((value, slice) => {
        if (value <= 0.005) return;
        // Logarithmic, because one member with all queues would make usual loads pale.
        context.globalAlpha = 0.15 + (0.85 * Math.log1p(value)) / Math.log1p(most);
        context.fillStyle = palette.accent;
        const left = Math.round(gutter + slice * each);
        context.fillRect(left, n * row, Math.round(gutter + (slice + 1) * each) - left, row - (row > 5 ? 1 : 0));
      });
      context.globalAlpha = 1;
      if (n % Math.ceil(12 / row)) return;
      context.fillStyle = palette.ink;
      context.font = `${Math.min(12, Math.max(9, row - 2))}px system-ui, sans-serif`;
      const left = row > 8 ? 14 : 0;
      context.fillText(fitted(context, shortName(this.history.clients[place]), gutter - left - 8, true), left, n * row + row / 2 + 4);
      if (row > 8) {
        context.fillStyle = brush(context, place);
        context.fillRect(0, n * row + row / 2 - 4, 9, 9);
      }
    });
  }

  drawCounts(held) {
    const width = this.timeline.width;
    const height = 120;
    const context = prepared(this.counts, width, height);
    const gutter = this.timeline.gutter();
    const palette = colours();
    const x = (n) => gutter + ((n + 0.5) * (width - gutter)) / SLICES;
    const members = this.membersIn(held);
    const most = Math.max(1, ...members, ...held.alone);
    const y = (value) => height - 14 - (value / most) * (height - 30);
    context.fillStyle = palette.bad;
    const edge = (n) => Math.round(gutter + (n * (width - gutter)) / SLICES);
    held.alone.forEach((value, n) => {
      if (members[n]) context.fillRect(edge(n), y(value), edge(n + 1) - edge(n), y(0) - y(value)); // without members no queue needs an owner
    });
    context.strokeStyle = palette.accent;
    context.lineWidth = 2;
    context.beginPath();
    for (const [n, value] of members.entries()) context[n ? "lineTo" : "moveTo"](x(n), y(value));
    context.stroke();
    context.fillStyle = palette.ink;
    context.font = "12px system-ui, sans-serif";
    context.fillText(`0 to ${number(Math.ceil(most))}`, 0, 14);
    context.fillText("line: members", 0, 32);
    context.fillText("red: no owner", 0, 50);
  }

  drawMembers() {
    const held = this.heldIn(this.timeline.from, this.timeline.to);
    const rows = [...held.members].map(([place, values]) => [
      [h("i", { class: swatchClass(place) }), this.history.clients[place]],
      (values.reduce((sum, value) => sum + value, 0) / SLICES).toFixed(1),
      Math.max(...values).toFixed(1),
    ]);
    fill(this.memberTable, table(["member", ">queues, on average", ">at most"], rows, `Members of ${this.name} in this window`));
  }

  // In the middle of each slice.
  membersIn(held) {
    return Array.from({ length: SLICES }, (_, n) => this.history.membersAt(held.from + ((n + 0.5) * (held.to - held.from)) / SLICES));
  }

  // A row for each change of one of the two.
  fillCounts() {
    const held = this.heldIn(this.timeline.from, this.timeline.to);
    const rows = [];
    this.membersIn(held).forEach((members, n) => {
      const alone = (members ? held.alone[n] : 0).toFixed(1);
      const last = rows[rows.length - 1];
      if (last && last[1] === number(members) && last[2] === alone) return;
      rows.push([clock(this.history.base + held.from + (n * (held.to - held.from)) / SLICES, 3), number(members), alone]);
    });
    fill(this.countTable, table(["=from (UTC)", ">members", ">queues without an owner, on average"], rows, `Members and unowned queues of ${this.name} in this window`));
  }

  // --- rebalances ---

  drawList() {
    const place = this.timeline.member;
    const ofMember = (each) => place < 0 || (each.queue_moves || []).some((value, n) => (n % 5 === 1 || n % 5 === 2) && value === place);
    const all = this.history.sorted.filter(ofMember);
    const shown = all.slice(0, MOST_LISTED);
    const rows = shown.map((each) => [
      duration(each.began),
      h("button", { type: "button", class: "plain", "aria-expanded": String(each.cause === this.chosen), onclick: () => this.choose(each.cause === this.chosen ? null : each.cause) }, each.because),
      number(each.moves),
      number(each.needed),
      duration(each.ended - each.began),
      duration(each.pause_ms),
      each.slow || "",
    ]);
    fill(
      this.list,
      all.length > shown.length && h("p", { class: "hint" }, `The first ${shown.length} of ${number(all.length)}.`),
      rows.length ? table(["=at", "because", ">moved", ">needed", ">took", ">paused, summed", "slowest step"], rows, `Rebalances of ${this.name}`) : h("p", {}, "None."),
    );
    const lines = this.list.querySelectorAll("tbody tr");
    shown.forEach((each, n) => {
      if (each.cause === this.chosen) {
        lines[n].classList.add("chosen");
        lines[n].after(h("tr", { role: "row" }, h("td", { role: "cell", colspan: "7", "data-head": "" }, this.steps(each))));
      }
    });
  }

  steps(each) {
    const whole = Math.max(0.001, (each.steps || []).reduce((sum, step) => sum + step[1], 0));
    let after = 0;
    const lines = (each.steps || []).map(([name, took, what]) => {
      const bar = h("i", {});
      bar.style.left = `${(after / whole) * 100}%`;
      bar.style.width = `${(took / whole) * 100}%`;
      after += took;
      const slow = name === each.slow;
      return [h("span", {}, slow ? `${name} (slowest)` : name), h("span", { class: slow ? "track slow" : "track", "aria-hidden": "true" }, bar), h("span", { class: "n" }, duration(took)), h("span", { class: "what" }, what)];
    });
    const names = this.history;
    const moves = [];
    for (let n = 0; n < (each.queue_moves || []).length && moves.length < MOST_LISTED; n += 5) {
      const [queue, from, to, at, gap] = each.queue_moves.slice(n, n + 5);
      moves.push([names.queues[queue], from === NONE ? "none" : names.clients[from], names.clients[to], clock(names.base + at, 3), duration(gap)]);
    }
    return h(
      "div",
      { class: "folded" },
      each.slowest_queue && h("p", {}, `Of its queues, ${each.slowest_queue} took longest.`),
      h("div", { class: "waterfall" }, lines),
      each.advice && h("p", { class: "advice" }, each.advice),
      moves.length > 0 && h("details", {}, h("summary", {}, counted(each.moves, "move")), table(["queue", "from", "to", "=at (UTC)", ">paused"], moves, "Moves")),
    );
  }

  choose(cause) {
    this.chosen = this.timeline.rebalance = cause;
    keep({ group: this.name, rebalance: cause });
    const found = this.history.rebalances.get(cause);
    if (found) {
      const span = Math.max(1500, found.ended - found.began);
      this.timeline.show(found.began - span * 0.3, found.ended + span * 0.3);
    }
    this.drawList();
    this.timeline.redraw();
  }
}

const pictures = JSON.parse(document.getElementById("pictures").textContent);
document.querySelectorAll("[data-picture]").forEach((holder) => {
  const shown = new GroupPictures(holder, pictures[Number(holder.dataset.picture)]);
  const section = holder.closest("section");
  if (section && filters().has("group")) section.hidden = !shown.isAddressed();
});
