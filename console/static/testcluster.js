// A test cluster: its processes with their possible faults, and beside them a group that shows the effect. The address
// has the group.

import { counted, fill, h, setText } from "/static/pictures/dom.js";
import { change, follow, getJson, remember, session } from "./net.js";
import { groupBody } from "./group.js";
import { LiveList } from "./later.js";

const AGAIN_MS = 1000;
// Faults of connections: the name, the fault, and whether it lasts.
const FAULTS = {
  cut: ["cut connections", { do: "cut" }, false],
  drop: ["drop notifications", { do: "drop", code: "NOTIFY_CONSUMER_IDS_CHANGED" }, true],
  delay: ["delay all by 0.5 s", { do: "delay", by_s: 0.5 }, true],
  pause: ["freeze connections", { do: "pause" }, true],
  refuse: ["refuse connections", { do: "refuse" }, true],
  duplicate: ["send all twice", { do: "duplicate" }, true],
};
const LASTING_S = [10, 30, 120];

export function testClusterView(view) {
  return new TestCluster(view).start();
}

class TestCluster {
  constructor(view) {
    const query = new URLSearchParams(location.search);
    this.group = query.get("group") || "";
    this.groups = [];
    this.close = () => {};
    this.parts = h("ul", { class: "parts" });
    this.partList = new LiveList(this.parts);
    this.faults = h("ul", { class: "parts" });
    this.faultList = new LiveList(this.faults);
    this.fault = h("select", { name: "fault", onchange: () => this.offerTimes() }, Object.entries(FAULTS).map(([value, [text]]) => h("option", { value }, text)));
    this.client = h("select", { name: "client" });
    this.time = h("select", { name: "time" }, LASTING_S.map((value) => h("option", { value }, `for ${value} s`)));
    this.timeLabel = h("label", {}, "How long", this.time);
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
        h("section", { "aria-label": "Faults" }, this.result, this.parts, this.missing, this.forms()),
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
    const begin = (event) => {
      event.preventDefault();
      this.begin();
    };
    this.offerTimes();
    this.offerMembers([]);
    return [
      h("h2", {}, "Connections"),
      h("form", { onsubmit: begin }, h("label", {}, "Fault", this.fault), h("label", {}, "Of", this.client), this.timeLabel, h("button", { class: "primary" }, "Begin")),
      this.faults,
      h("h2", {}, "Add a consumer"),
      h("form", { onsubmit: add }, h("label", {}, "Group", this.groupInput), h("label", {}, "Topic", this.topicInput, this.topics), h("button", { class: "primary" }, "Add")),
    ];
  }

  offerTimes() {
    this.timeLabel.hidden = !FAULTS[this.fault.value][2];
  }

  offerMembers(clients) {
    const chosen = this.client.value;
    const names = [...new Set(["", chosen, ...clients])]; // a member that left stays chosen, else the fault would affect all clients
    if (names.join() === this.clients) return;
    this.clients = names.join();
    fill(this.client, names.map((value) => h("option", { value, selected: value === chosen }, value || "all clients")));
  }

  async begin() {
    const [, fault, isLasting] = FAULTS[this.fault.value];
    const wanted = { ...fault };
    if (this.client.value) wanted.client = this.client.value;
    if (isLasting) wanted.for_s = Number(this.time.value);
    await change("begin-fault", { fault: wanted }, this.result);
    this.load();
  }

  async heal(id) {
    await change("heal", { id }, this.result);
    this.load();
  }

  async act(name, action) {
    await change("act", { name, action }, this.result);
    this.load();
  }

  async load() {
    try {
      const found = await getJson("/api/test-cluster");
      setText(this.missing, found.missing);
      this.partList.show(found.parts.map((part) => [part.name, JSON.stringify(part), () => this.part(part)]));
      this.faultList.show(found.faults.map((each) => [String(each.id), JSON.stringify(each), () => this.active(each)]));
    } catch (error) {
      setText(this.missing, error.message);
    }
  }

  // An active fault, with a button that ends it.
  active(each) {
    const { do: verb, ...chosen } = each.fault;
    const known = FAULTS[verb] ? FAULTS[verb][0] : verb;
    const whom = chosen.client || chosen.group || "all clients";
    const left = each.left_s === undefined ? "" : `, ${Math.ceil(each.left_s)} s left`;
    return h(
      "li",
      {},
      h("b", {}, known),
      h("div", {}, whom),
      h("div", { class: "warn" }, `done ${counted(each.done, "time")}${left}`),
      h("div", { class: "bar" }, h("button", { type: "button", "aria-label": `heal ${known} of ${whom}`, onclick: () => this.heal(each.id) }, "heal")),
    );
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
    // As the console lists them: the group with most members first.
    const groups = [...new Set([...found.groups.map((each) => each.group), this.group])].filter(Boolean);
    // Users do not subscribe to the retry and DLQ topics of a group by name.
    const topics = found.topics.filter((each) => !each.kind).map((each) => each.topic);
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
    if (this.shown) remember({ at: null, span: null, rebalance: null }); // these belong to the other group
    this.shown = this.group = group;
    remember({ group });
    this.offerGroups();
    this.choice.value = group;
    this.close = groupBody(this.effect, group, (clients) => this.offerMembers(clients));
  }
}
