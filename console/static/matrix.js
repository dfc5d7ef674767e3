// The rows of a group, of which only those that can be seen are in the page: a thousand queues scroll like ten. Beside
// them a grid with a column for each consumer: a filled cell owns, an outlined one is the target.

import { h, number, setText, shortName } from "/static/pictures/dom.js";
import { brush, swatchClass } from "/static/pictures/palette.js";
import { colours, prepared } from "/static/pictures/timeline.js";

const HEADS = ["queue", "owner", "target", "lag", "in flight", "why"];
const narrow = matchMedia("(max-width: 700px)");

export class Matrix {
  // placeOf(client) -> its place among the names, which has its colour
  constructor(placeOf) {
    this.placeOf = placeOf;
    this.rows = []; // [queue, owner, targets, lag, in flight, why]
    this.members = [];
    this.first = 0;
    this.pool = [];
    this.frame = 0;
    this.box = h("div", { class: "rows-box", tabindex: "0", role: "rowgroup", "aria-label": "Queues; arrow keys scroll", onscroll: () => this.redraw() });
    this.spacer = h("div", { role: "presentation" });
    this.box.append(this.spacer);
    this.grid = h("canvas", { "aria-hidden": "true" });
    this.gridBox = h("div", { class: "grid-box" }, this.grid);
    this.gridHead = h("div", { class: "matrix-head" }, "a column for each consumer");
    this.tableElement = h(
      "div",
      { class: "rows-side", role: "table", "aria-label": "Queues with owner, target and lag" },
      h("div", { role: "rowgroup" }, h("div", { class: "matrix-head", role: "row" }, HEADS.map((head, n) => h("span", { role: "columnheader", class: n === 3 || n === 4 ? "n" : null }, head)))),
      this.box,
    );
    this.element = h("div", { class: "matrix" }, this.tableElement, h("div", { class: "grid-side" }, this.gridHead, this.gridBox));
    this.resized = new ResizeObserver(() => this.redraw());
    this.resized.observe(this.box);
  }

  close() {
    this.resized.disconnect();
    cancelAnimationFrame(this.frame);
    this.frame = -1;
  }

  show(rows, members) {
    this.rows = rows;
    this.members = members;
    this.redraw();
  }

  rowHeight() {
    return narrow.matches ? 64 : 26;
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
    const height = this.rowHeight();
    const total = this.rows.length * height;
    const shownHeight = `${Math.max(height, Math.min(420, total))}px`;
    if (this.box.style.height !== shownHeight) this.box.style.height = shownHeight;
    const spaced = `${total}px`;
    if (this.spacer.style.height !== spaced) this.spacer.style.height = spaced;
    this.tableElement.setAttribute("aria-rowcount", String(this.rows.length + 1));
    const top = this.box.scrollTop;
    const visible = Math.ceil(this.box.clientHeight / height) + 2;
    this.first = Math.max(0, Math.min(Math.floor(top / height), this.rows.length - visible + 1));
    while (this.pool.length < visible) this.pool.push(this.newRow());
    this.pool.forEach((row, n) => this.fillRow(row, this.first + n, height));
    if (!narrow.matches) this.drawGrid(top, height);
  }

  newRow() {
    const cell = (name) => h("span", { role: "cell", class: name });
    const row = { element: h("div", { class: "matrix-row", role: "row" }), top: -1 };
    row.queue = cell("queue");
    row.swatch = h("i", { class: "sw" });
    row.ownerName = h("span", {});
    row.owner = h("span", { role: "cell", class: "owner" }, row.swatch, row.ownerName);
    row.target = cell("target");
    row.lag = cell("n lag");
    row.flight = cell("n flight");
    row.why = cell("why");
    row.element.append(row.queue, row.owner, row.target, row.lag, row.flight, row.why);
    this.box.append(row.element);
    return row;
  }

  fillRow(row, place, height) {
    const data = this.rows[place];
    row.element.hidden = data === undefined;
    if (data === undefined) return;
    const [queue, owner, targets, lag, flight, why] = data;
    const top = place * height;
    if (row.top !== top) {
      row.element.style.transform = `translateY(${top}px)`;
      row.element.style.top = "0";
      row.top = top;
    }
    row.element.setAttribute("aria-rowindex", String(place + 2));
    row.element.dataset.queue = queue;
    row.element.dataset.owner = owner === null ? "" : owner;
    const settled = targets === null || (targets.length === 1 && targets[0] === owner) || (targets.length === 0 && owner === null);
    row.element.classList.toggle("off", !settled);
    setText(row.queue, queue);
    row.queue.title = queue;
    row.swatch.className = owner === null ? "" : swatchClass(this.placeOf(owner));
    setText(row.ownerName, owner === null ? "nobody" : shortName(owner));
    row.ownerName.className = owner === null ? "bad" : "";
    row.owner.title = owner === null ? "" : owner;
    setText(row.target, targets === null ? "" : settled ? "✓" : targets.map(shortName).join(", ") || "nobody");
    row.target.title = targets === null ? "" : targets.join(", ");
    setText(row.lag, lag === undefined ? "" : number(lag));
    setText(row.flight, flight === undefined ? "" : number(flight));
    setText(row.why, narrow.matches && lag !== undefined ? `lag ${number(lag)}, in flight ${number(flight)}${why ? `. ${why}` : ""}` : why);
    row.why.title = why;
  }

  drawGrid(top, height) {
    const columns = this.members.length;
    const boxHeight = this.box.clientHeight;
    this.gridBox.style.height = `${boxHeight}px`;
    if (!columns) {
      prepared(this.grid, 10, Math.max(1, boxHeight));
      return;
    }
    const wide = Math.max(1, Math.min(16, Math.floor(300 / columns)));
    const width = wide * columns + 2;
    const context = prepared(this.grid, Math.max(180, width), boxHeight);
    const placeIn = new Map(this.members.map((member, n) => [member, n]));
    const palette = colours();
    const last = Math.min(this.rows.length, Math.ceil((top + boxHeight) / height));
    for (let place = Math.floor(top / height); place < last; place += 1) {
      const y = place * height - top;
      const [, owner, targets] = this.rows[place];
      context.fillStyle = palette.line;
      context.fillRect(0, y + height - 1, width, 1);
      if (owner !== null && placeIn.has(owner)) {
        context.fillStyle = brush(context, this.placeOf(owner));
        context.fillRect(placeIn.get(owner) * wide, y + 2, Math.max(2, wide - 1), height - 5);
      }
      for (const target of targets || []) {
        if (target === owner || !placeIn.has(target)) continue;
        context.strokeStyle = palette.bad;
        context.lineWidth = 2;
        context.strokeRect(placeIn.get(target) * wide + 1, y + 3, Math.max(1, wide - 3), height - 7);
      }
    }
  }
}
