// One group: its matrix, its timeline, its rebalances, and the moves of one of them as waterfalls. The address has the
// moment, the window, the rebalance and the member that are shown.

import { clock, counted, duration, fill, h, number, plural, setText, shortName, table, tableRow } from "/static/pictures/dom.js";
import { History, NONE, UNKNOWN, inNameOrder } from "/static/pictures/history.js";
import { swatchClass } from "/static/pictures/palette.js";
import { Timeline } from "/static/pictures/timeline.js";
import { waterfall } from "/static/pictures/waterfall.js";
import { follow, getJson, remember } from "./net.js";
import { LiveList } from "./later.js";
import { Matrix } from "./matrix.js";

const MOST_REBALANCES = 100;
const MOST_MOVES = 50;
const REDRAW_MS = 250;
const REBALANCES = ["=time (UTC)", "because", ">members", ">moved", ">needed", ">took", ">no owner", ">two owners"];
const MEMBERS = ["client id", "address", "mode", "strategy", ">queues", ">in flight", "state"];
const HOLDERS = 6; // in a row; null where a queue has an owner

export function groupView(view, name) {
  fill(
    view,
    h("h1", {}, name),
    h("p", { class: "soft" }, "Consumer group. ", h("a", { href: `/groups/${encodeURIComponent(name)}/dead-letters` }, "Dead letters")),
  );
  const body = h("div", {});
  view.append(body);
  return groupBody(body, name);
}

// The view of a group without its title, for use in other views. Calls onMembers(client ids) with the present members.
export function groupBody(view, name, onMembers = () => {}) {
  return new GroupView(view, name, onMembers).start();
}

class GroupView {
  constructor(view, name, onMembers) {
    this.name = name;
    this.onMembers = onMembers;
    this.query = new URLSearchParams(location.search);
    this.history = null;
    this.rows = new Map();
    this.sorted = []; // their queues
    this.state = null;
    this.trouble = "";
    this.memberList = [];
    this.met = new Map();
    this.moment = null;
    this.chosen = this.query.get("rebalance");
    this.problem = h("p", { class: "problem", hidden: true });
    this.tiles = h("ul", { class: "tiles" });
    this.moved = h("p", { class: "hint", role: "status" });
    this.legend = h("ul", { class: "legend", "aria-label": "Consumers; choose one to highlight it" });
    this.legendList = new LiveList(this.legend);
    this.timelineBox = h("div", {});
    this.rebalances = table(REBALANCES, [], "Rebalances");
    this.rebalanceRows = new LiveList(this.rebalances.querySelector("tbody"));
    this.rebalanceCount = h("p", { class: "hint" });
    this.moves = h("div", { "aria-live": "polite" });
    this.members = table(MEMBERS, [], "Members");
    this.memberRows = new LiveList(this.members.querySelector("tbody"));
    this.matrix = new Matrix((client) => this.placeOf(client));
    this.heading = h("h2", {});
    // A group whose members share messages, and whose queues never had an owner, has no such parts.
    this.ofOwners = [
      h("h2", {}, "Over time"),
      h("p", { class: "hint" }, "A strip for each queue, in the colour of its owner. Triangles and dotted lines are causes of rebalances; a thin red line is a queue without an owner. Click or use the slider to go back to a moment."),
      this.timelineBox,
      h("h2", {}, "Rebalances"),
      this.rebalanceCount,
    ];
    const [overTime, strips, timelineBox, rebalances, rebalanceCount] = this.ofOwners;
    this.known = h(
      "div",
      {},
      this.tiles,
      this.heading,
      this.moved,
      this.matrix.element,
      overTime,
      strips,
      this.legend,
      timelineBox,
      rebalances,
      rebalanceCount,
      this.rebalances,
      this.moves,
      h("h2", {}, "Members"),
      this.members,
    );
    this.unknown = h("p", {}, "This page follows the group from its first member on. ", h("a", { href: "/groups" }, "All groups"));
    fill(view, this.problem, this.unknown, this.known);
  }

  start() {
    const path = `/api/groups/${encodeURIComponent(this.name)}`;
    const stop = follow(path, this.name, (document) => this.load(document), (news) => this.update(news));
    const timer = setInterval(() => {
      if (this.timeline?.live && !document.hidden) this.timeline.redraw();
    }, REDRAW_MS);
    const theme = () => {
      if (this.timeline) this.timeline.redraw();
      this.matrix.redraw();
    };
    addEventListener("themechange", theme);
    return () => {
      stop();
      clearInterval(timer);
      removeEventListener("themechange", theme);
      if (this.timeline) this.timeline.close();
      this.matrix.close();
    };
  }

  now() {
    return Date.now() + this.ahead - this.history.base;
  }

  // Brokers know a new member before the trace has it. Until then it has no colour, because a colour never changes.
  placeOf(client) {
    const found = this.places.get(client);
    if (found !== undefined || this.places.size) return found ?? UNKNOWN;
    // Without a trace of owners: in the order in which this page has met them.
    if (!this.met.has(client)) this.met.set(client, this.met.size);
    return this.met.get(client);
  }

  load(found) {
    this.ahead = found.clock_ms - Date.now();
    this.history = new History(found);
    this.places = new Map(this.history.clients.map((client, place) => [client, place]));
    this.rows.clear();
    this.sorted = [];
    if (this.timeline) {
      this.timeline.history = this.history;
    } else {
      this.timeline = new Timeline(this.history, {
        now: () => this.now(),
        onMoment: (t) => this.atMoment(t),
        onRebalance: (cause) => this.select(cause),
      });
      this.timelineBox.append(this.timeline.element);
      this.timeline.rebalance = this.chosen;
      const at = Number(this.query.get("at"));
      const span = Number(this.query.get("span"));
      if (span > 0) this.timeline.span = Math.min(3600000, Math.max(1000, span));
      // Times of changes have one decimal, so the moment is rounded like them.
      if (this.query.has("at") && Number.isFinite(at)) this.timeline.choose(Math.round((at - this.history.base) * 10) / 10);
    }
    this.update({ ...found, queues: [], clients: [], changes: [], members: [], rebalances: [] });
    this.drawRebalances();
    if (this.chosen) this.loadMoves();
  }

  update(news) {
    if (news.queues || news.changes || news.rebalances || news.clients) {
      for (const client of news.clients || []) this.places.set(client, this.places.size);
      this.history.add(news);
      if (news.rebalances) this.drawRebalances();
      if (news.rebalances?.some((each) => each.cause === this.chosen)) this.loadMoves();
    }
    for (const row of news.rows || []) this.rows.set(row[0], row);
    for (const name of news.gone || []) this.rows.delete(name);
    if (news.problem !== undefined) this.trouble = news.problem;
    if (news.state !== undefined) this.state = news.state;
    this.drawProblem();
    // A group that left only a trace still has a history to look at.
    const isKnown = this.state !== null || this.rows.size > 0 || this.history.queues.length > 0;
    this.known.hidden = !isKnown;
    this.unknown.hidden = isKnown;
    if (news.member_list) {
      this.memberList = news.member_list;
      this.onMembers(this.memberList.map((each) => each.id));
    }
    const isShared = this.isShared();
    for (const each of this.ofOwners) each.hidden = isShared && !this.history.queues.length;
    setText(this.heading, isShared ? "Who has messages of which queue" : "Who owns which queue");
    if (news.clients || news.member_list || (news.rows && isShared)) this.drawMembers();
    if (this.sorted.length !== this.rows.size || (news.gone || []).length) this.sorted = inNameOrder(this.rows.keys());
    if (news.rows || news.gone || news.queues) this.updateTimeline();
    if (this.moment === null || news.queues || news.changes) this.drawMatrix();
    this.drawTiles();
    this.timeline.redraw();
  }

  // Whether the members share messages, so that no queue has an owner.
  isShared() {
    return this.rows.size > 0 && [...this.rows.values()].every((row) => row[HOLDERS]);
  }

  updateTimeline() {
    const seen = new Map();
    this.history.queues.forEach((name, place) => {
      const row = this.rows.get(name);
      if (row) seen.set(place, row[1] === null ? NONE : (this.places.get(row[1]) ?? UNKNOWN));
    });
    this.timeline.seen = seen;
  }

  atMoment(t) {
    this.moment = t;
    remember({ at: t === null ? null : (this.history.base + t).toFixed(1), span: t === null ? null : this.timeline.span.toFixed(0) });
    this.drawMatrix();
  }

  drawMatrix() {
    const members = this.memberList.map((each) => each.id);
    if (this.moment === null) {
      const shared = "Members share single messages, so queues have no owners: a number is the messages that a member has and has not acknowledged.";
      setText(this.moved, this.isShared() ? shared : "Now, as the brokers report twice a second.");
      this.matrix.show(this.sorted.map((name) => this.rows.get(name)), members);
      return;
    }
    setText(this.moved, `As of ${clock(this.history.base + this.moment, 3)} UTC, by the trace: ${counted(this.history.membersAt(this.moment), "member")}. Lag is only known for the present.`);
    const rows = this.history.order.map((queue) => {
      const name = this.history.queues[queue];
      const owner = this.timeline.ownerOf(queue, this.moment);
      const client = owner === NONE ? null : owner === UNKNOWN ? this.rows.get(name)[1] : this.history.clients[owner];
      return [name, client, null, undefined, undefined, "", null];
    });
    const owners = [...new Set(rows.map((row) => row[1]).filter((owner) => owner !== null))].sort();
    this.matrix.show(rows, owners);
  }

  drawTiles() {
    const state = this.state;
    const rows = [...this.rows.values()];
    const lag = rows.reduce((sum, row) => sum + (row[3] || 0), 0);
    const alone = rows.filter((row) => row[1] === null && !row[HOLDERS]).length;
    const flight = rows.reduce((sum, row) => sum + (row[4] || 0), 0);
    const isShared = this.isShared();
    const tile = (value, label, kind) => h("li", { class: "tile" }, h("b", { class: kind }, value), h("span", {}, label));
    const values = state
      ? [
          [number(state.members), plural(state.members, "member")],
          [number(rows.length), plural(rows.length, "queue")],
          !isShared && [state.away.length ? "not all" : state.balanced ? "yes" : "not yet", "every owner is the target", state.balanced && !state.away.length ? "good" : "warn"],
          isShared ? [number(flight), `${plural(flight, "message")} in flight`] : [number(alone), `${plural(alone, "queue")} without an owner`, alone ? "bad" : null],
          [number(lag), `${plural(lag, "message")} of lag`],
        ].filter(Boolean)
      : [["–", "no broker reports the group"]];
    const key = JSON.stringify(values);
    if (key === this.tilesKey) return;
    this.tilesKey = key;
    fill(this.tiles, values.map((each) => tile(...each)));
  }

  // The present problems of the console or the group.
  drawProblem() {
    const { disagreements, unreachable, away, silent } = this.state || { disagreements: [], unreachable: [], away: [], silent: [] };
    const problems = [this.trouble, ...disagreements, ...silent, ...away, ...unreachable.map((name) => `${name} does not answer`)].filter(Boolean).join("; ");
    setText(this.problem, problems);
    this.problem.hidden = !problems;
  }

  drawMembers() {
    const highlighted = this.timeline.member;
    this.legendList.show(
      this.memberList.map(({ id }) => {
        const place = this.placeOf(id);
        const choose = () => {
          this.timeline.member = this.timeline.member === place ? NONE : place;
          this.timeline.redraw();
          this.drawMembers();
        };
        const isChosen = highlighted === place;
        return [id, `${place} ${isChosen}`, () => h("li", {}, h("button", { type: "button", "aria-pressed": String(isChosen), title: id, onclick: choose }, h("i", { class: swatchClass(place) }), shortName(id)))];
      }),
    );
    const held = new Map();
    for (const row of this.rows.values()) {
      for (const [client, count] of row[HOLDERS] || []) held.set(client, (held.get(client) || 0) + count);
    }
    this.memberRows.show(
      this.memberList.map((each) => {
        const state = () => (each.silent || each.suspended ? h("span", { class: "warn" }, each.silent ? "does not answer" : "suspended") : "consumes");
        const flight = each.mode === "pull" ? "–" : number(held.get(each.id) || 0);
        const values = [each.id, each.address || "not connected", each.mode, each.strategy, number(each.queues), flight];
        return [each.id, `${flight} ${JSON.stringify(each)}`, () => tableRow(MEMBERS, [...values, state()])];
      }),
    );
  }

  drawRebalances() {
    const all = this.history.sorted;
    const shown = all.slice(-MOST_REBALANCES).reverse();
    this.rebalances.hidden = !shown.length;
    const more = all.length > shown.length ? `, the latest ${shown.length} of them` : "";
    setText(this.rebalanceCount, shown.length ? `${counted(all.length, "rebalance")}${more}. Choose one to see the stages of each move.` : "No rebalance in the last hour.");
    this.rebalanceRows.show(
      shown.map((each) => {
        const isChosen = each.cause === this.chosen;
        return [each.cause, `${isChosen} ${JSON.stringify(each)}`, () => this.rebalanceRow(each, isChosen)];
      }),
    );
  }

  rebalanceRow(each, isChosen) {
    const row = tableRow(REBALANCES, [
      clock(this.history.base + each.began, 3),
      h("button", { type: "button", class: "plain", "aria-expanded": String(isChosen), onclick: () => this.choose(each.cause) }, each.because),
      each.members < 0 ? "–" : number(each.members),
      number(each.moves),
      number(each.needed),
      duration(each.ended - each.began),
      duration(each.orphan_ms),
      duration(each.double_ms),
    ]);
    row.classList.toggle("chosen", isChosen);
    return row;
  }

  choose(cause) {
    this.select(this.chosen === cause ? null : cause);
  }

  select(cause) {
    this.chosen = cause;
    this.timeline.rebalance = this.chosen;
    remember({ rebalance: this.chosen });
    const found = this.history.rebalances.get(this.chosen);
    if (found) {
      const span = Math.max(1500, found.ended - found.began);
      this.timeline.show(found.began - span * 0.25, found.ended + span * 0.25);
    }
    this.drawRebalances();
    this.loadMoves();
  }

  async loadMoves() {
    const cause = this.chosen;
    const found = cause && this.history.rebalances.get(cause);
    if (!found) {
      fill(this.moves);
      return;
    }
    try {
      const answer = await getJson(`/api/groups/${encodeURIComponent(this.name)}/moves?${new URLSearchParams({ cause })}`);
      if (cause !== this.chosen) return;
      const slowest = [...answer.moves].sort((a, b) => b.gap_ms - a.gap_ms).slice(0, MOST_MOVES);
      fill(
        this.moves,
        h("h3", {}, `${found.because}: ${counted(answer.all, "move")}`),
        answer.all > slowest.length && h("p", { class: "hint" }, `The ${slowest.length} moves with the longest pauses.`),
        !answer.all && h("p", { class: "soft" }, "The stages of its moves are not kept, or it moved no queue."),
        slowest.map((move, n) => waterfall(move, n === 0)),
      );
    } catch (error) {
      fill(this.moves, h("p", { class: "problem" }, error.message));
    }
  }
}
