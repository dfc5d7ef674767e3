// One topic: its queues, its messages by offset, time, key and id, and a form to publish one.

import { dateAndClock, fill, h, number, setText, table } from "/static/pictures/dom.js";
import { change, getJson, remember, session } from "./net.js";

const FIELDS = ["by", "queue", "offset", "since", "key", "id"];

export function topicView(view, name) {
  const queues = h("div", {}, h("p", { class: "soft" }, "Loading …"));
  const found = h("div", {});
  const status = h("p", { class: "result", role: "status" });
  const query = new URLSearchParams(location.search);
  const input = (field, type, extra) => h("input", { type, name: field, value: query.get(field) || "", ...extra });
  const inputs = {
    by: h("select", { name: "by" }, [["queue", "queue, from an offset or a time"], ["key", "key"], ["id", "message id"]].map(([value, text]) => h("option", { value, selected: query.get("by") === value }, text))),
    queue: h("select", { name: "queue" }),
    offset: input("offset", "text", { inputmode: "numeric", size: "10", placeholder: "newest" }),
    since: input("since", "text", { placeholder: "2026-01-31 12:00:00", size: "20" }),
    key: input("key", "text"),
    id: input("id", "text", { size: "28" }),
  };
  const labels = Object.fromEntries(
    FIELDS.map((field) => [field, h("label", {}, { by: "Find by", queue: "Queue", offset: "From offset", since: "or from time (UTC)", key: "Key", id: "Message id" }[field], inputs[field])]),
  );
  const showFields = () => {
    for (const field of FIELDS.slice(1)) labels[field].hidden = inputs.by.value === "queue" ? !["queue", "offset", "since"].includes(field) : inputs.by.value !== field;
  };
  const search = async (event) => {
    if (event) event.preventDefault();
    setText(status, "…");
    status.className = "result";
    remember(Object.fromEntries(FIELDS.map((field) => [field, labels[field].hidden ? null : inputs[field].value])));
    const asked = new URLSearchParams({ topic: name });
    if (inputs.by.value !== "queue") asked.set(inputs.by.value, inputs[inputs.by.value].value);
    else {
      asked.set("queue", inputs.queue.value);
      if (inputs.offset.value) asked.set("offset", inputs.offset.value);
      else if (inputs.since.value) asked.set("since_ms", String(Date.parse(`${inputs.since.value.replace(" ", "T")}Z`) || inputs.since.value));
    }
    try {
      const answer = await getJson(`/api/messages?${asked}`);
      setText(status, answer.messages.length ? `${answer.messages.length} messages${answer.complete ? "" : "; there may be more"}` : "No message found.");
      fill(found, answer.messages.map(messageDetails), answer.next !== undefined && answer.messages.length ? h("button", { type: "button", onclick: () => { inputs.offset.value = String(answer.next); search(); } }, `From offset ${answer.next}`) : null);
    } catch (error) {
      setText(status, error.message);
      status.className = "result bad";
      fill(found);
    }
  };
  inputs.by.addEventListener("change", showFields);
  fill(
    view,
    h("h1", {}, name),
    h("p", { class: "soft" }, "Topic"),
    h("h2", {}, "Messages"),
    h("form", { onsubmit: search }, FIELDS.map((field) => labels[field]), h("button", { class: "primary" }, "Find")),
    status,
    found,
    session.allow_changes && [h("h2", {}, "Publish"), publishForm(name), h("h2", {}, "Scale"), scaleForm(name)],
    h("h2", {}, "Queues"),
    queues,
  );
  showFields();
  getJson(`/api/topics/${encodeURIComponent(name)}`)
    .then((found) => {
      const problems = found.problems.map((problem) => h("p", { class: "problem" }, problem));
      if (!found.queues.length) {
        fill(queues, problems, h("p", { class: "problem" }, "No other broker has this topic."));
        return;
      }
      const full = found.queues.find((each) => each.max > each.min) || found.queues[0];
      const first = query.get("queue") || full.queue; // a queue with messages
      fill(inputs.queue, found.queues.map((each) => h("option", { value: each.queue, selected: each.queue === first }, each.queue)));
      fill(
        queues,
        problems,
        table(
          ["queue", ">oldest offset", ">next offset", ">messages", "state"],
          found.queues.map((each) => [each.queue, number(each.min), number(each.max), number(each.max - each.min), [each.read ? "" : "not read. ", each.write ? "" : "not written. ", each.damaged ? `${number(each.damaged)} damaged` : ""].join("")]),
          "Queues",
        ),
      );
      search();
    })
    .catch((error) => fill(queues, h("p", { class: "problem" }, error.message)));
}

export function messageDetails(message) {
  const place = `${message.stored_in}@${message.queue} ${message.offset < 0 ? "" : `+${number(message.offset)}`}`;
  const facts = [
    ["message id", message.id], ["topic", message.topic], ["stored in", place], ["stored", dateAndClock(message.stored_ms)], ["created", dateAndClock(message.born_ms)],
    ["keys", message.keys.join(", ") || "–"], ["tag", message.tag || "–"], ["delivered", `${number(message.times)} times`], ["body", `${number(message.bytes)} bytes`],
    ...Object.entries(message.properties).map(([name, value]) => [`property ${name}`, value]),
  ];
  return h(
    "details",
    { class: "message" },
    h("summary", {}, `${place}  ${message.keys.join(", ")}  ${message.body.slice(0, 80)}`),
    message.undecodable && h("p", { class: "warn" }, `This record is not a message, only bytes: ${message.undecodable}`),
    message.half && h("p", { class: "warn" }, `half message, ${message.half}`),
    table(["", ""], facts, `Message ${message.id}`),
    h("pre", { tabindex: "0" }, message.body),
  );
}

function publishForm(topic) {
  const result = h("p", { class: "result", role: "status" });
  const keys = h("input", { name: "keys" });
  const tag = h("input", { name: "tag" });
  const body = h("textarea", { name: "body" });
  const send = (event) => {
    event.preventDefault();
    change("publish", { topic, body: body.value, keys: keys.value, tag: tag.value }, result);
  };
  return [h("form", { onsubmit: send }, h("label", { class: "whole" }, "Body", body), h("label", {}, "Keys, separated by spaces", keys), h("label", {}, "Tag", tag), h("button", { class: "primary" }, "Publish")), result];
}

function scaleForm(topic) {
  const result = h("p", { class: "result", role: "status" });
  const queues = h("input", { type: "number", min: "1", max: "1024", name: "queues" });
  const scale = (event) => {
    event.preventDefault();
    change("scale", { topic, queues: Number(queues.value) }, result);
  };
  return [h("form", { onsubmit: scale }, h("label", {}, "Queues on each broker", queues), h("button", {}, "Scale")), result];
}
