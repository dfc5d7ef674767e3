// A test cluster: its processes with the faults that they take, and beside them the group on which the effect is seen. The
// address has the group.

import { fill, h } from "/static/pictures/dom.js";
import { change, getJson, remember, session } from "./app.js";
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
    this.loadNames();
    const timers = [setInterval(() => this.load(), AGAIN_MS), setInterval(() => this.loadNames(), 3 * AGAIN_MS)];
    return () => {
      timers.forEach(clearInterval);
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
  async loadNames() {
    try {
      const found = await getJson("/api/cluster");
      const groups = [...new Set([...found.groups.map((each) => each.group), this.group])].filter(Boolean).sort();
      const topics = found.topics.filter((each) => !each.system).map((each) => each.topic);
      const names = JSON.stringify([groups, topics]);
      if (names === this.names) return;
      this.names = names;
      fill(this.topics, topics.map((name) => h("option", { value: name })));
      if (!this.topicInput.value && topics.length) this.topicInput.value = topics[0];
      fill(this.choice, groups.map((name) => h("option", { value: name, selected: name === this.group }, name)));
      if (!this.group && groups.length) this.show(groups[0]);
      else if (!this.shown) this.show(this.group);
    } catch {
      // The cluster may be what is broken; the next time tells.
    }
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
    this.choice.value = group;
    this.names = ""; // it may be a new one
    this.close = groupBody(this.effect, group);
  }
}
