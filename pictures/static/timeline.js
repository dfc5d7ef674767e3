// The owners of queues over time: a strip for each queue; only the visible part is drawn, on a canvas. The user can
// zoom from a second to an hour, pan, and go back to a moment, with a pointer or by keyboard alone.

import { colours, fitted, prepared } from "./canvas.js";
import { clock, duration, h, setText, shortName, table } from "./dom.js";
import { NONE, UNKNOWN } from "./history.js";
import { brush, inkOn } from "./palette.js";

const SHORTEST = 1000;
const LONGEST = 3600000;
const AXIS = 40;
const MOST_ROWS = 300; // of the table
const MOST_LINES = 60; // of rebalances, which would hide the strips
const TICKS = [50, 100, 250, 500, 1000, 2000, 5000, 10000, 20000, 30000, 60000, 120000, 300000, 600000, 1800000];

export class Timeline {
  // options: onMoment(t or null), onRebalance(cause), now() -> time, longest: ms of the widest window
  constructor(history, options) {
    this.history = history;
    this.options = options;
    this.longest = Math.max(LONGEST, options.longest || 0);
    this.span = Math.min(60000, this.longest);
    this.to = options.now();
    this.live = true;
    this.moment = null;
    this.member = NONE; // the highlighted member
    this.rebalance = null;
    this.queues = null; // places of the queues that are shown; null: all
    this.seen = new Map(); // queue -> the owner that brokers report, newer than the trace
    this.frame = 0;
    this.width = this.top = 0; // of the scroller, from its events: a query in a frame would cause a new layout of the page
    this.build();
    this.resized = new ResizeObserver(() => {
      this.width = this.scroller.clientWidth;
      this.redraw();
    });
    this.resized.observe(this.scroller);
  }

  close() {
    this.resized.disconnect();
    cancelAnimationFrame(this.frame);
    this.frame = -1;
  }

  build() {
    const button = (text, label, action) => h("button", { type: "button", "aria-label": /\w/.test(text) ? null : label, title: label, onclick: action }, text);
    this.axis = h("canvas", { class: "axis-canvas", "aria-hidden": "true" });
    this.canvas = h("canvas", { class: "strips", "aria-hidden": "true" });
    this.spacer = h("div", { class: "spacer" });
    this.tip = h("div", { class: "tip", hidden: true });
    this.scroller = h(
      "div",
      {
        class: "strips-box",
        tabindex: "0",
        role: "group",
        "aria-label":
          "Owners of queues over time. Left and right choose a moment, plus and minus zoom, shift with left and right pans, brackets go from rebalance to rebalance, End follows the present. The table below has the same.",
        onscroll: () => {
          this.top = this.scroller.scrollTop;
          this.redraw();
        },
        onkeydown: (event) => this.key(event),
      },
      this.canvas,
      this.spacer,
    );
    this.slider = h("input", {
      type: "range", min: "0", max: "1000", value: "1000", class: "moment", "aria-label": "Moment that is shown",
      oninput: () => this.choose(this.from + (this.slider.value / 1000) * this.span),
    });
    this.liveButton = button(this.options.ended ? "End" : "Live", this.options.ended ? "Show the end" : "Follow the present", () => this.goLive());
    this.label = h("output", { class: "moment-label", "aria-live": "polite" });
    const more = h("details", { class: "as-table", ontoggle: () => more.open && this.fillTable(body) }, h("summary", {}, "Owners as a table"));
    const body = h("div", {});
    more.append(body);
    this.element = h(
      "div",
      { class: "timeline" },
      h(
        "div",
        { class: "bar" },
        button("−", "Show a longer time", () => this.zoom(2)),
        button("+", "Show a shorter time", () => this.zoom(0.5)),
        button("◀", "Earlier", () => this.pan(-0.5)),
        button("▶", "Later", () => this.pan(0.5)),
        button("All", "Show all that is known", () => this.fit()),
        this.liveButton,
        this.label,
      ),
      h("div", { class: "picture" }, this.axis, this.scroller, this.tip),
      this.slider,
      more,
    );
    this.pointer();
  }

  get from() {
    return this.to - this.span;
  }

  get shown() {
    return this.queues || this.history.order;
  }

  // --- the window ---

  goLive() {
    this.live = true;
    this.choose(null);
  }

  choose(t) {
    this.moment = t;
    if (t !== null) {
      this.live = false;
      if (t < this.from || t > this.to) this.to = t + this.span / 2;
    }
    this.options.onMoment(t);
    this.redraw();
  }

  zoom(factor, around) {
    const span = Math.min(this.longest, Math.max(SHORTEST, this.span * factor));
    const at = around ?? this.moment ?? this.to;
    this.to = at + ((this.to - at) * span) / this.span;
    this.span = span;
    this.redraw();
  }

  pan(share) {
    this.live = false;
    this.to += share * this.span;
    this.redraw();
  }

  show(from, to) {
    const span = Math.min(this.longest, Math.max(SHORTEST, to - from));
    this.live = false;
    this.to = (from + to) / 2 + span / 2;
    this.span = span;
    this.redraw();
  }

  fit() {
    const end = this.options.now();
    const begin = Math.min(this.history.first, end - SHORTEST);
    this.show(begin - (end - begin) * 0.02, end);
  }

  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step && event.shiftKey) this.pan(step * 0.2);
    else if (step) this.choose((this.moment ?? Math.min(this.to, this.options.now())) + step * this.span * 0.01);
    else if (event.key === "+" || event.key === "=") this.zoom(0.5);
    else if (event.key === "-") this.zoom(2);
    else if (event.key === "Home") this.fit();
    else if (event.key === "End" || event.key === "Escape") this.goLive();
    else if (event.key === "[" || event.key === "]") this.nextRebalance(event.key === "]" ? 1 : -1);
    else return;
    event.preventDefault();
  }

  nextRebalance(step) {
    const all = this.history.sorted;
    const at = this.moment ?? this.to;
    const later = all.filter((each) => (step > 0 ? each.began > at + 1 : each.began < at - 1));
    const found = step > 0 ? later[0] : later[later.length - 1];
    if (!found) return;
    this.choose(found.began);
    this.options.onRebalance(found.cause);
  }

  pointer() {
    let drag = null;
    const t = (event) => this.timeAt(event.clientX - this.scroller.getBoundingClientRect().left);
    this.scroller.addEventListener("pointerdown", (event) => {
      if (event.button === 0) drag = { x: event.clientX, to: this.to, moved: false };
    });
    this.scroller.addEventListener("pointermove", (event) => {
      if (drag && Math.abs(event.clientX - drag.x) > 4) drag.moved = true;
      if (drag?.moved) {
        this.live = false;
        this.to = drag.to - ((event.clientX - drag.x) * this.span) / this.plotWidth();
        this.redraw();
      } else if (!drag) this.hover(event);
    });
    const drop = (event) => {
      if (drag && !drag.moved && event.type === "pointerup" && event.clientX - this.scroller.getBoundingClientRect().left > this.gutter()) this.choose(t(event));
      drag = null;
    };
    this.scroller.addEventListener("pointerup", drop);
    this.scroller.addEventListener("pointercancel", drop);
    this.scroller.addEventListener("pointerleave", (event) => {
      drop(event);
      this.tip.hidden = true;
    });
    this.scroller.addEventListener(
      "wheel",
      (event) => {
        if (event.ctrlKey || event.metaKey || event.altKey) this.zoom(event.deltaY > 0 ? 1.25 : 0.8, t(event));
        else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.pan(event.deltaX / this.plotWidth());
        else return;
        event.preventDefault();
      },
      { passive: false },
    );
    this.axis.addEventListener("click", (event) => {
      const x = event.clientX - this.axis.getBoundingClientRect().left;
      const near = this.history.sorted.filter((each) => Math.abs(this.x(each.began) - x) < 8);
      if (near.length) this.options.onRebalance(near[near.length - 1].cause);
      else if (x > this.gutter()) this.choose(this.timeAt(x));
    });
  }

  hover(event) {
    const box = this.scroller.getBoundingClientRect();
    const place = Math.floor((event.clientY - box.top + this.scroller.scrollTop) / this.rowHeight());
    const queue = this.shown[place];
    const t = this.timeAt(event.clientX - box.left);
    if (queue === undefined || event.clientX - box.left < this.gutter()) {
      this.tip.hidden = true;
      return;
    }
    const owner = this.ownerOf(queue, t);
    const name = owner === NONE ? "no owner" : owner === UNKNOWN ? "a new member" : this.history.clients[owner];
    setText(this.tip, `${this.history.queues[queue]}  ${name}  ${clock(this.history.base + t, 3)}`);
    this.tip.hidden = false;
    const left = Math.min(event.clientX - box.left + 12, box.width - this.tip.offsetWidth - 4);
    this.tip.style.left = `${Math.max(0, left)}px`;
    this.tip.style.top = `${event.clientY - box.top + AXIS + 14}px`;
  }

  // The owner at a time: from the trace, and after its end from the brokers.
  ownerOf(queue, t) {
    if (t > this.history.settled && this.seen.has(queue)) return this.seen.get(queue);
    return this.history.ownerAt(queue, t);
  }

  // --- drawing ---

  gutter() {
    return this.width < 600 ? 74 : 170;
  }

  plotWidth() {
    return Math.max(50, this.width - this.gutter());
  }

  x(t) {
    return this.gutter() + ((t - this.from) / this.span) * this.plotWidth();
  }

  timeAt(x) {
    return this.from + ((x - this.gutter()) / this.plotWidth()) * this.span;
  }

  rowHeight() {
    const rows = Math.max(1, this.shown.length);
    return Math.max(7, Math.min(22, Math.floor(420 / rows)));
  }

  redraw() {
    if (this.frame === 0) {
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        this.draw();
      });
    }
  }

  draw() {
    if (this.live) this.to = this.options.now() + this.span * 0.03;
    const total = this.shown.length * this.rowHeight();
    const height = Math.max(44, Math.min(420, total));
    const sizes = `${height} ${total}`;
    if (this.sizes !== sizes) {
      this.sizes = sizes;
      this.scroller.style.height = `${height}px`;
      this.spacer.style.height = `${Math.max(0, total - height)}px`;
    }
    this.colours = colours();
    this.drawAxis();
    this.drawStrips(height);
    const at = this.moment ?? (this.options.ended ? this.to : null);
    this.slider.value = String(at === null ? 1000 : Math.max(0, Math.min(1000, ((at - this.from) / this.span) * 1000)));
    const text = this.momentText();
    this.slider.setAttribute("aria-valuetext", text);
    setText(this.label, `${text}, window of ${duration(this.span)}`);
    this.liveButton.setAttribute("aria-pressed", String(this.live));
  }

  // Describes the shown moment, or else the whole window.
  momentText() {
    if (this.moment !== null) return clock(this.history.base + this.moment, 3);
    const last = this.options.now();
    if (this.to < last) return `from ${clock(this.history.base + this.from, 3)}`;
    return this.options.ended ? "the end" : "now";
  }

  drawAxis() {
    const context = prepared(this.axis, this.width, AXIS);
    const step = TICKS.find((each) => (each / this.span) * this.plotWidth() > 90) || 3600000;
    context.font = "12px system-ui, sans-serif";
    context.textAlign = "center";
    context.fillStyle = this.colours.soft;
    const base = this.history.base;
    for (let t = Math.ceil((this.from + base) / step) * step - base; t < this.to; t += step) {
      if (this.x(t) < this.gutter() + 30 || this.x(t) > this.width - 30) continue;
      context.fillText(clock(base + t, step < 1000 ? 3 : 0), this.x(t), 14);
      context.fillRect(Math.round(this.x(t)), 18, 1, 5);
    }
    for (const each of this.history.sorted) {
      if (each.began < this.from || each.began > this.to) continue;
      const x = this.x(each.began);
      context.fillStyle = each.cause === this.rebalance ? this.colours.accent : this.colours.ink;
      context.beginPath();
      context.moveTo(x - 5, 28);
      context.lineTo(x + 5, 28);
      context.lineTo(x, 38);
      context.fill();
    }
    context.clearRect(0, 24, this.gutter(), 16);
  }

  drawStrips(height) {
    const context = prepared(this.canvas, this.width, height);
    const row = this.rowHeight();
    const top = this.top;
    const first = Math.floor(top / row);
    const last = Math.min(this.shown.length, Math.ceil((top + height) / row));
    context.save();
    context.beginPath();
    context.rect(this.gutter(), 0, this.plotWidth(), height);
    context.clip();
    this.drawBands(context, height);
    for (let place = first; place < last; place += 1) this.drawStrip(context, this.shown[place], place * row - top, row);
    this.drawLines(context, height);
    context.restore();
    this.drawNames(context, first, last, row, top);
  }

  drawBands(context, height) {
    for (const each of this.history.rebalances.values()) {
      if (each.ended < this.from || each.began > this.to) continue;
      context.globalAlpha = each.cause === this.rebalance ? 0.35 : 0.12;
      context.fillStyle = this.colours.accent;
      context.fillRect(this.x(each.began), 0, Math.max(1, this.x(each.ended) - this.x(each.began)), height);
    }
    context.globalAlpha = 1;
  }

  drawStrip(context, queue, y, row) {
    const inset = row > 10 ? 1.5 : 0.5;
    const end = Math.min(this.to, this.options.now());
    const known = Math.min(end, this.options.ended ? end : Math.max(this.history.settled, this.history.last));
    let last = null; // not drawn yet, because the next period may extend it
    const draw = () => last && this.drawOwner(context, last.left, last.right, y + inset, row - 2 * inset, last.owner, last.owners);
    const add = (from, to, owner, owners) => {
      const left = last ? Math.max(this.x(from), last.right) : this.x(from);
      const right = this.x(to);
      if (last && right - last.right < 0.5) return; // it is in a pixel that is already drawn
      if (last && last.owner === owner && last.owners === owners && left - last.right < 1) {
        last.right = right;
        return;
      }
      draw();
      last = { left, right, owner, owners };
    };
    this.history.stretches(queue, this.from, known, add);
    if (end > known) add(known, end, this.seen.has(queue) ? this.seen.get(queue) : this.history.ownerAt(queue, known), 1);
    draw();
  }

  drawOwner(context, left, right, y, height, owner, owners) {
    const width = Math.max(0.6, right - left);
    if (owner === UNKNOWN) return; // it has no colour yet
    if (owner === NONE) {
      if (this.history.membersAt(this.timeAt(right)) === 0) return; // without members no queue needs an owner
      context.fillStyle = this.colours.bad;
      context.fillRect(left, y + height / 2 - 1, width, 2);
      return;
    }
    context.globalAlpha = this.member === NONE || this.member === owner ? 1 : 0.18;
    context.fillStyle = brush(context, owner);
    context.fillRect(left, y, width, height);
    if (owners > 1) {
      context.strokeStyle = this.colours.bad;
      context.lineWidth = 2;
      context.strokeRect(left + 1, y + 1, Math.max(0.5, width - 2), Math.max(0.5, height - 2));
    }
    if (height >= 12 && width > 46) {
      context.fillStyle = inkOn(owner);
      context.font = "11px system-ui, sans-serif";
      context.textAlign = "left";
      context.fillText(fitted(context, shortName(this.history.clients[owner]), width - 8, true), left + 4, y + height / 2 + 4);
    }
    context.globalAlpha = 1;
  }

  drawLines(context, height) {
    const line = (t, colour, dash) => {
      context.strokeStyle = colour;
      context.setLineDash(dash);
      context.lineWidth = dash.length ? 1 : 2;
      context.beginPath();
      context.moveTo(this.x(t), 0);
      context.lineTo(this.x(t), height);
      context.stroke();
      context.setLineDash([]);
    };
    const inside = [...this.history.rebalances.values()].filter((each) => each.began >= this.from && each.began <= this.to);
    for (const each of inside.length <= MOST_LINES ? inside : []) line(each.began, this.colours.ink, [2, 3]);
    if (this.moment !== null) line(this.moment, this.colours.accent, []);
    else if (!this.options.ended) line(this.options.now(), this.colours.soft, [4, 3]);
  }

  drawNames(context, first, last, row, top) {
    context.clearRect(0, 0, this.gutter(), this.canvas.height);
    context.fillStyle = this.colours.ink;
    context.textAlign = "left";
    const size = Math.max(9, Math.min(12, row - 1));
    context.font = `${size}px system-ui, sans-serif`;
    const each = Math.max(1, Math.ceil(11 / row));
    for (let place = first; place < last; place += 1) {
      if (place % each) continue;
      const name = this.history.queues[this.shown[place]];
      context.fillText(fitted(context, name, this.gutter() - 8, true), 0, place * row - top + row / 2 + size / 3);
    }
  }

  fillTable(body) {
    const rows = [];
    for (const queue of this.shown) {
      this.history.stretches(queue, this.from, Math.min(this.to, this.options.now()), (from, to, owner) => {
        if (rows.length < MOST_ROWS) {
          rows.push([
            this.history.queues[queue],
            owner === NONE ? "none" : this.history.clients[owner],
            clock(this.history.base + from, 3),
            clock(this.history.base + to, 3),
            duration(to - from),
          ]);
        }
      });
    }
    const more = rows.length === MOST_ROWS ? `The first ${MOST_ROWS} periods of this window; zoom in for the others.` : "";
    body.replaceChildren(h("p", { class: "hint" }, `The window above, at the time when this table was opened. ${more}`), table(["queue", "owner", "=from", "=to", ">for"], rows, "Owners of queues in this window"));
  }
}
