// The rows of a group. Only visible rows are in the page, so a thousand queues scroll like ten. Beside them is a grid
// with a column for each consumer: a filled cell is the owner, an outlined cell the target. A queue whose messages are
// shared has no owner; there every consumer that has messages of it has a filled cell.

import { colours, prepared } from "/static/pictures/canvas.js";
import { h, number, setText, shortName } from "/static/pictures/dom.js";
import { brush, swatchClass } from "/static/pictures/palette.js";

const HEADS = ["queue", "owner", "target", "lag", "in flight", "why"];
const IN_ORDER_MS = 300;
const MIN_GRID = 90; // for the head above it
const narrow = matchMedia("(max-width: 700px)");

function inFlight(holders, nameOf) {
  return holders.map(([client, count]) => `${nameOf(client)}: ${number(count)}`).join(", ");
}

export class Matrix {
  // placeOf(client) -> its index among the names, which determines its colour
  constructor(placeOf) {
    this.placeOf = placeOf;
    this.rows = []; // [queue, owner, targets, lag, in flight, why, holders]
    this.members = [];
    this.pool = []; // row n of the pool shows the places with place % pool.length == n
    this.frame = 0;
    this.top = this.boxHeight = 0; // of the box, from its events: a query in a frame would cause a new layout of the page
    this.total = this.height = this.first = -1;
    this.sorting = 0;
    const scrolled = () => {
      this.top = this.box.scrollTop;
      this.redraw();
    };
    this.box = h("div", { class: "rows-box", tabindex: "0", role: "rowgroup", "aria-label": "Queues; arrow keys scroll", onscroll: scrolled });
    this.spacer = h("div", { role: "presentation" });
    this.box.append(this.spacer);
    this.grid = h("canvas", { "aria-hidden": "true" });
    this.gridBox = h("div", { class: "grid-box" }, this.grid);
    this.gridHead = h("div", { class: "matrix-head" }, "consumers");
    this.head = h("div", { class: "matrix-head", role: "row" }, HEADS.map((head, n) => h("span", { role: "columnheader", class: n === 3 || n === 4 ? "n" : null }, head)));
    this.tableElement = h(
      "div",
      { class: "rows-side", role: "table", "aria-label": "Queues with owner, target and lag" },
      h("div", { role: "rowgroup" }, this.head),
      this.box,
    );
    this.element = h("div", { class: "matrix" }, this.tableElement, h("div", { class: "grid-side" }, this.gridHead, this.gridBox));
    this.resized = new ResizeObserver(() => {
      this.boxHeight = this.box.clientHeight;
      this.head.style.paddingRight = `${this.box.offsetWidth - this.box.clientWidth}px`; // a scroll bar narrows the rows alone
      this.redraw();
    });
    this.resized.observe(this.box);
  }

  close() {
    this.resized.disconnect();
    clearTimeout(this.sorting);
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
    if (total !== this.total || height !== this.height) {
      this.total = total;
      this.height = height;
      this.box.style.height = `${Math.max(height, Math.min(420, total))}px`;
      this.spacer.style.height = `${total}px`;
      this.tableElement.setAttribute("aria-rowcount", String(this.rows.length + 1));
    }
    const visible = Math.ceil(this.boxHeight / height) + 2;
    while (this.pool.length < visible) this.pool.push(this.newRow());
    const first = Math.max(0, Math.min(Math.floor(this.top / height), this.rows.length - visible + 1));
    for (let place = first; place < first + this.pool.length; place += 1) {
      this.fillRow(this.pool[place % this.pool.length], place, height);
    }
    if (first !== this.first) {
      this.first = first;
      clearTimeout(this.sorting);
      this.sorting = setTimeout(() => this.inOrder(), IN_ORDER_MS);
    }
    if (!narrow.matches) this.drawGrid(this.top, height);
  }

  // A screen reader reads the rows in the order of the document, which becomes the visible order when scrolling stops.
  inOrder() {
    const size = this.pool.length;
    for (let n = 0; n < size; n += 1) this.box.append(this.pool[(this.first + n) % size].element);
  }

  newRow() {
    const cell = (name) => h("span", { role: "cell", class: name });
    const row = { element: h("div", { class: "matrix-row", role: "row", hidden: true }), key: "" };
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
    const swatch = data === undefined || data[1] === null ? "" : swatchClass(this.placeOf(data[1]));
    const key = data === undefined ? "" : `${place} ${height} ${swatch} ${data.join("\n")}`;
    if (row.key === key) return;
    row.key = key;
    row.element.hidden = data === undefined;
    if (data === undefined) return;
    const [queue, owner, targets, lag, flight, why, holders] = data;
    row.element.style.transform = `translateY(${place * height}px)`;
    row.element.setAttribute("aria-rowindex", String(place + 2));
    row.element.dataset.queue = queue;
    row.element.dataset.owner = owner === null ? "" : owner;
    const settled = targets === null || (targets.length === 1 && targets[0] === owner) || (targets.length === 0 && owner === null);
    row.element.classList.toggle("off", !settled);
    row.element.classList.toggle("shared", Boolean(holders));
    setText(row.queue, queue);
    row.queue.title = queue;
    row.swatch.className = swatch;
    setText(row.ownerName, owner !== null ? shortName(owner) : holders ? inFlight(holders, shortName) || "shared" : "none");
    row.ownerName.className = owner !== null ? "" : holders ? "soft" : "bad";
    row.owner.title = owner !== null ? owner : inFlight(holders || [], String);
    setText(row.target, targets === null || holders ? "" : settled ? "✓" : targets.map(shortName).join(", ") || "none");
    row.target.title = targets === null ? "" : targets.join(", ");
    setText(row.lag, lag === undefined ? "" : number(lag));
    setText(row.flight, flight === undefined ? "" : number(flight));
    row.why.classList.toggle("warn", Boolean(why));
    setText(row.why, narrow.matches && lag !== undefined ? `lag ${number(lag)}, in flight ${number(flight)}${why ? `. ${why}` : ""}` : why);
    row.why.title = why;
  }

  drawGrid(top, height) {
    const columns = this.members.length;
    const boxHeight = Math.max(1, this.boxHeight);
    if (!columns) {
      prepared(this.grid, 10, boxHeight);
      return;
    }
    const wide = Math.max(1, Math.min(16, Math.floor(300 / columns)));
    const width = wide * columns + 2;
    const context = prepared(this.grid, Math.max(MIN_GRID, width), boxHeight);
    const placeIn = new Map(this.members.map((member, n) => [member, n]));
    const palette = colours();
    const last = Math.min(this.rows.length, Math.ceil((top + boxHeight) / height));
    for (let place = Math.floor(top / height); place < last; place += 1) {
      const y = place * height - top;
      const [, owner, targets, , , , holders] = this.rows[place];
      context.fillStyle = palette.line;
      context.fillRect(0, y + height - 1, width, 1);
      for (const client of holders ? holders.map(([holder]) => holder) : [owner]) {
        if (client === null || !placeIn.has(client)) continue;
        context.fillStyle = brush(context, this.placeOf(client));
        context.fillRect(placeIn.get(client) * wide, y + 2, Math.max(2, wide - 1), height - 5);
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
