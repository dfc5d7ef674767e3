// The processes of a test cluster, and the faults that they take.

import { fill, h } from "/static/pictures/dom.js";
import { change, getJson, session } from "./app.js";

const AGAIN_MS = 1000;

export function testClusterView(view) {
  const parts = h("div", {});
  const missing = h("p", { class: "hint" });
  const result = h("p", { class: "result", role: "status" });
  const group = h("input", { name: "group", value: "test" });
  const topic = h("input", { name: "topic", value: new URLSearchParams(location.search).get("topic") || "" });
  const add = (event) => {
    event.preventDefault();
    change("add-consumer", { group: group.value, topic: topic.value }, result).then(load);
  };
  let known = "";
  const act = (name, action) => change("act", { name, action }, result).then(load);
  const load = async () => {
    try {
      const found = await getJson("/api/test-cluster");
      const text = JSON.stringify(found);
      if (text === known) return;
      known = text;
      fill(missing, found.missing);
      fill(
        parts,
        h("ul", { class: "parts" }, found.parts.map((part) =>
          h("li", {}, h("b", {}, part.name), h("div", { class: part.state === "running" ? "good" : "warn" }, `${part.kind}, ${part.state}`),
            session.allow_changes && h("div", { class: "bar" }, part.actions.map((action) => h("button", { type: "button", "aria-label": `${action} ${part.name}`, onclick: () => act(part.name, action) }, action)))))),
      );
    } catch (error) {
      fill(missing, error.message);
    }
  };
  fill(
    view,
    h("h1", {}, "Test cluster"),
    h("p", { class: "soft" }, "Faults for the processes that this command has started; the page of a group shows the effect."),
    missing,
    result,
    parts,
    session.allow_changes
      ? [h("h2", {}, "Add a consumer"), h("form", { onsubmit: add }, h("label", {}, "Group", group), h("label", {}, "Topic", topic), h("button", { class: "primary" }, "Add"))]
      : h("p", { class: "hint" }, "Read-only: start with --allow-changes to use them."),
  );
  load();
  const timer = setInterval(load, AGAIN_MS);
  return () => clearInterval(timer);
}
