// A test cluster: its processes with the faults that they take, and beside them the group on which the effect is seen. The
// address has the group.

import { fill, h } from "/static/pictures/dom.js";
import { change, follow, getJson, remember, session } from "./app.js";
import { groupBody } from "./group.js";

const AGAIN_MS = 1000;

export function testClusterView(view) {
  return new TestCluster(view).start();
}

class TestCluster {
  constructor(view) {
    const query = new URLSearchParams(location.search);
    this.group = query.get("group") || "";
    this.known = "";
    this.groups = [];
    this.close = () => {};
    this.parts = h("div", {});
    this.missing = h("p", { class: "hint" });
    this.result = h("p", { class: "result", role: "status" });
    this.effect = h("div", {});
    this.groupInput = h("input", { name: "group", value: this.group || "test" });
    this.topicInput = h("input", { name: "topic", value: query.get("topic") || "", list: "topics" });
    this.topics = h("datalist", { id: "topics" });
    this.choice = h("select", { name: "shown", onchange: () => this.show(this.choice.value) });
    fill(
      view,
      h("h1", {}, "Test cluster"),
      h("p", { class: "soft" }, "Faults for the processes that this command has started, and the effect on a group beside them."),
      h(
        "div",
        { class: "beside" },
        h("section", { "aria-label": "Faults" }, this.result, this.parts, this.forms(), this.missing),
        h("section", { "aria-label": "Effect" }, h("label", { class: "choice" }, "Effect on the group ", this.choice), this.effect),
      ),
    );
  }

  start() {
    this.load();
    const timer = setInterval(() => this.load(), AGAIN_MS);
    const names = (found) => this.offerNames(found);
    const stop = follow("/api/cluster", null, names, names);
    return () => {
      stop();
      clearInterval(timer);
      this.close();
    };
  }

  forms() {
    if (!session.allow_changes) return h("p", { class: "hint" }, "Read-only: start with --allow-changes to use them.");
    const add = async (event) => {
      event.preventDefault();
      const group = this.groupInput.value;
      if (await change("add-consumer", { group, topic: this.topicInput.value }, this.result)) this.show(group);
      this.load();
    };
    return [h("h2", {}, "Add a consumer"), h("form", { onsubmit: add }, h("label", {}, "Group", this.groupInput), h("label", {}, "Topic", this.topicInput, this.topics), h("button", { class: "primary" }, "Add"))];
  }

  async act(name, action) {
    await change("act", { name, action }, this.result);
    this.load();
  }

  async load() {
    try {
      const found = await getJson("/api/test-cluster");
      const text = JSON.stringify(found);
      if (text === this.known) return;
      this.known = text;
      fill(this.missing, found.missing);
      fill(this.parts, h("ul", { class: "parts" }, found.parts.map((part) => this.part(part))));
    } catch (error) {
      fill(this.missing, error.message);
    }
  }

  part(part) {
    const button = (action) => h("button", { type: "button", "aria-label": `${action} ${part.name}`, onclick: () => this.act(part.name, action) }, action);
    return h(
      "li",
      {},
      h("b", {}, part.name),
      h("div", { class: part.state === "running" ? "good" : "warn" }, `${part.kind}, ${part.state}`),
      session.allow_changes && h("div", { class: "bar" }, part.actions.map(button)),
    );
  }

  // Names of groups and topics to choose from.
  offerNames(found) {
    const groups = [...new Set([...found.groups.map((each) => each.group), this.group])].filter(Boolean).sort();
    const topics = found.topics.filter((each) => !each.system).map((each) => each.topic);
    fill(this.topics, topics.map((name) => h("option", { value: name })));
    if (!this.topicInput.value && topics.length) this.topicInput.value = topics[0];
    this.groups = groups;
    this.offerGroups();
    if (!this.shown) this.show(this.group || groups[0]);
  }

  offerGroups() {
    const names = [...new Set([...this.groups, this.shown])].filter(Boolean);
    if (names.join() === this.offered) return;
    this.offered = names.join();
    fill(this.choice, names.map((name) => h("option", { value: name, selected: name === this.shown }, name)));
  }

  show(group) {
    if (!group) {
      fill(this.effect, h("p", { class: "soft" }, "No group yet: add a consumer."));
      return;
    }
    if (this.shown === group) return;
    this.close();
    if (this.shown) remember({ at: null, span: null, rebalance: null }); // these are of the other group
    this.shown = this.group = group;
    remember({ group });
    this.offerGroups();
    this.choice.value = group;
    this.close = groupBody(this.effect, group);
  }
}
