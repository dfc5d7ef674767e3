// One topic: its queues, forms to publish a message and to scale, and its messages by offset, time, key and id.

import { clock, counted, dateAndClock, fill, h, number, setText, table, tableRow } from "/static/pictures/dom.js";
import { LiveList } from "./later.js";
import { change, getJson, remember, session } from "./net.js";

const FIELDS = ["by", "queue", "offset", "since", "key", "id"];
const TEXTS = { by: "Find by", queue: "Queue", offset: "From offset", since: "or from time (UTC)", key: "Key", id: "Message id" };
const BY = [["queue", "queue, from an offset or a time"], ["key", "key"], ["id", "message id"]];
const QUEUES = ["queue", ">oldest offset", ">next offset", ">messages", "state"];
const AGAIN_MS = 2000;
const PAGE = 50; // messages, as the console answers

export function topicView(view, name) {
  return new TopicView(view, name).start();
}

class TopicView {
  constructor(view, name) {
    this.name = name;
    this.query = new URLSearchParams(location.search);
    this.queues = [];
    this.summary = h("p", { class: "soft" }, "Topic. Loading …");
    this.problems = h("div", {});
    this.unknown = h("p", { hidden: true }, "Create it: rlab topic create ", name, " --queues 4. ", h("a", { href: "/topics" }, "All topics"));
    this.table = table(QUEUES, [], "Queues");
    this.table.classList.add("tall");
    this.queueRows = new LiveList(this.table.querySelector("tbody"));
    this.status = h("p", { class: "result", role: "status" });
    this.found = h("div", {});
    const input = (field, type, extra) => h("input", { type, name: field, value: this.query.get(field) || "", ...extra });
    this.inputs = {
      by: h("select", { name: "by", onchange: () => this.showFields() }, BY.map(([value, text]) => h("option", { value, selected: this.query.get("by") === value }, text))),
      queue: h("select", { name: "queue" }),
      offset: input("offset", "text", { inputmode: "numeric", size: "10", placeholder: "newest" }),
      since: input("since", "text", { placeholder: "2026-01-31 12:00:00", size: "20" }),
      key: input("key", "text"),
      id: input("id", "text", { size: "28" }),
    };
    this.labels = Object.fromEntries(FIELDS.map((field) => [field, h("label", {}, TEXTS[field], this.inputs[field])]));
    const find = (event) => {
      event.preventDefault();
      this.search();
    };
    this.known = h(
      "div",
      {},
      h("h2", {}, "Queues"),
      this.table,
      session.allow_changes && [h("h2", {}, "Publish"), publishForm(name, () => this.published()), h("h2", {}, "Scale"), scaleForm(name, () => this.load())],
      h("h2", {}, "Messages"),
      h("form", { onsubmit: find }, FIELDS.map((field) => this.labels[field]), h("button", { class: "primary" }, "Find")),
      this.status,
      this.found,
    );
    fill(view, h("h1", {}, name), this.summary, this.problems, this.unknown, this.known);
    this.showFields();
  }

  start() {
    this.begin();
    const timer = setInterval(() => {
      if (!document.hidden) this.load();
    }, AGAIN_MS);
    return () => clearInterval(timer);
  }

  async begin() {
    await this.load();
    if (this.queues.length) this.search();
  }

  // The queues as the brokers have them now. A queue with messages is chosen first.
  async load() {
    try {
      const answer = await getJson(`/api/topics/${encodeURIComponent(this.name)}`);
      const isEmpty = !answer.queues.length;
      this.showProblems(isEmpty ? [...answer.problems, "No other broker has this topic."] : answer.problems);
      this.known.hidden = isEmpty;
      this.unknown.hidden = true;
      this.showQueues(answer.queues);
    } catch (error) {
      this.showProblems([error.message]);
      this.known.hidden = error.status === 404;
      this.unknown.hidden = error.status !== 404;
      if (error.status === 404) setText(this.summary, "Topic");
    }
  }

  showProblems(texts) {
    if (texts.join("\n") === this.shownProblems) return;
    this.shownProblems = texts.join("\n");
    fill(this.problems, texts.map((text) => h("p", { class: "problem" }, text)));
  }

  showQueues(queues) {
    this.queues = queues;
    const all = queues.reduce((sum, each) => sum + each.max - each.min, 0);
    setText(this.summary, `Topic. ${counted(all, "message")} in ${counted(queues.length, "queue")}.`);
    this.queueRows.show(queues.map((each) => [each.queue, JSON.stringify(each), () => queueRow(each)]));
    const names = queues.map((each) => each.queue).join();
    if (names === this.offered || !queues.length) return;
    this.offered = names;
    const full = queues.find((each) => each.max > each.min) || queues[0];
    const first = this.inputs.queue.value || this.query.get("queue") || full.queue;
    fill(this.inputs.queue, queues.map((each) => h("option", { value: each.queue, selected: each.queue === first }, each.queue)));
  }

  // Show the newest messages of the queue that has the published one.
  async published() {
    const before = new Map(this.queues.map((each) => [each.queue, each.max]));
    await this.load();
    const grown = this.queues.find((each) => each.max > (before.get(each.queue) ?? 0));
    if (this.inputs.by.value !== "queue" || !grown) return;
    this.inputs.queue.value = grown.queue;
    this.inputs.offset.value = this.inputs.since.value = "";
    this.search();
  }

  showFields() {
    const by = this.inputs.by.value;
    const shown = by === "queue" ? ["queue", "offset", "since"] : [by];
    for (const field of FIELDS.slice(1)) this.labels[field].hidden = !shown.includes(field);
  }

  asked() {
    const { by, queue, offset, since } = this.inputs;
    const asked = new URLSearchParams({ topic: this.name });
    if (by.value !== "queue") asked.set(by.value, this.inputs[by.value].value);
    else {
      asked.set("queue", queue.value);
      if (offset.value) asked.set("offset", offset.value);
      else if (since.value) asked.set("since_ms", String(Date.parse(`${since.value.replace(" ", "T")}Z`) || since.value));
    }
    return asked;
  }

  async search() {
    setText(this.status, "…");
    this.status.className = "result";
    remember(Object.fromEntries(FIELDS.map((field) => [field, this.labels[field].hidden ? null : this.inputs[field].value])));
    const asked = this.asked();
    try {
      this.showFound(asked, await getJson(`/api/messages?${asked}`));
    } catch (error) {
      setText(this.status, error.message);
      this.status.className = "result bad";
      fill(this.found);
    }
  }

  showFound(asked, answer) {
    const isNewest = asked.has("queue") && !asked.has("offset") && !asked.has("since_ms");
    const order = isNewest ? ", the newest first" : "";
    setText(this.status, answer.messages.length ? `${counted(answer.messages.length, "message")}${order}${answer.complete ? "" : "; there may be more"}` : "No message found.");
    const shown = isNewest ? [...answer.messages].reverse() : answer.messages;
    fill(this.found, shown.map(messageDetails), asked.has("queue") && h("div", { class: "bar" }, this.neighbours(asked.get("queue"), answer)));
  }

  // Buttons to the messages before and after those that are shown.
  neighbours(queue, answer) {
    const known = this.queues.find((each) => each.queue === queue);
    const first = answer.messages[0]?.offset;
    if (!known || first === undefined) return [];
    const button = (offset) => h("button", { type: "button", onclick: () => this.searchFrom(offset) }, `From offset ${number(offset)}`);
    return [first > known.min && button(Math.max(known.min, first - PAGE)), answer.next < known.max && button(answer.next)];
  }

  searchFrom(offset) {
    this.inputs.offset.value = String(offset);
    this.search();
  }
}

function queueRow(each) {
  const state = [!each.read && "not read", !each.write && "not written", each.damaged > 0 && `${number(each.damaged)} damaged`].filter(Boolean);
  return tableRow(QUEUES, [each.queue, number(each.min), number(each.max), number(each.max - each.min), state.join(", ")]);
}

export function messageDetails(message) {
  const place = `${message.stored_in}@${message.queue} ${message.offset < 0 ? "" : `+${number(message.offset)}`}`;
  const facts = [
    ["message id", message.id], ["topic", message.topic], ["stored in", place], ["stored", dateAndClock(message.stored_ms)], ["created", dateAndClock(message.born_ms)],
    ["keys", message.keys.join(", ") || "–"], ["tag", message.tag || "–"], ["delivered", counted(message.times, "time")], ["body", counted(message.bytes, "byte")],
    ...Object.entries(message.properties).map(([name, value]) => [`property ${name}`, value]),
  ];
  return h(
    "details",
    { class: "message" },
    h("summary", {}, h("span", { class: "when" }, clock(message.stored_ms, 3)), `${place}  ${message.keys.join(", ")}  ${message.body.slice(0, 80)}`),
    message.undecodable && h("p", { class: "warn" }, `This record is not a message, only bytes: ${message.undecodable}`),
    message.half && h("p", { class: "warn" }, `half message, ${message.half}`),
    table(["", ""], facts, `Message ${message.id}`),
    h("pre", { tabindex: "0" }, message.body),
  );
}

function publishForm(topic, done) {
  const result = h("p", { class: "result", role: "status" });
  const keys = h("input", { name: "keys" });
  const tag = h("input", { name: "tag" });
  const body = h("textarea", { name: "body" });
  const send = async (event) => {
    event.preventDefault();
    if (await change("publish", { topic, body: body.value, keys: keys.value, tag: tag.value }, result)) done();
  };
  return [h("form", { onsubmit: send }, h("label", { class: "whole" }, "Body", body), h("label", {}, "Keys, separated by spaces", keys), h("label", {}, "Tag", tag), h("button", { class: "primary" }, "Publish")), result];
}

function scaleForm(topic, done) {
  const result = h("p", { class: "result", role: "status" });
  const queues = h("input", { type: "number", min: "1", max: "1024", name: "queues" });
  const scale = async (event) => {
    event.preventDefault();
    if (await change("scale", { topic, queues: Number(queues.value) }, result)) done();
  };
  return [h("form", { onsubmit: scale }, h("label", {}, "Queues on each broker", queues), h("button", {}, "Scale")), result];
}
