// The cluster with its brokers, the list of topics, the list of groups.

import { duration, fill, h, number, plural, table } from "/static/pictures/dom.js";
import { follow, session } from "./net.js";

function listView(view, title, draw) {
  const body = h("div", {}, h("p", { class: "soft" }, "Loading …"));
  fill(view, h("h1", {}, title), body);
  const show = (document) => fill(body, (document.problems || []).map((text) => h("p", { class: "problem" }, text)), draw(document));
  return follow("/api/cluster", null, show, show);
}

export function clusterView(view) {
  return listView(view, "Cluster", (found) => [
    h("p", { class: "soft" }, `Name servers ${session.name_servers}`),
    h(
      "ul",
      { class: "tiles" },
      tile(found.brokers.filter((each) => !each.away).length, "broker"),
      found.brokers.some((each) => each.away) && tile(found.brokers.filter((each) => each.away).length, "broker", " away"),
      tile(found.topics.filter((each) => !each.kind).length, "topic"),
      tile(found.groups.length, "group"),
      tile(found.groups.reduce((sum, each) => sum + each.members, 0), "member"),
    ),
    h("h2", {}, "Brokers"),
    table(
      ["broker", "address", "state", "replicas", ">up", ">topics", ">groups", ">parked pulls", ">disk free"],
      found.brokers.map((each) => [
        each.name,
        each.address,
        each.error ? h("span", { class: "bad" }, each.error) : each.disk_full ? h("span", { class: "bad" }, "disk full: refuses sends") : h("span", { class: "good" }, "answers"),
        replicas(each.copies),
        each.error ? "–" : each.up_minutes ? duration(each.up_minutes * 60000).replace(/ 0 s$/, "") : "< 1 min",
        number(each.topics),
        number(each.groups),
        number(each.held_pulls),
        each.error || each.disk_total_gb <= 0 ? "–" : `${each.disk_free_gb} of ${each.disk_total_gb} GB`,
      ]),
      "Brokers",
    ),
    found.brokers.some((each) => each.quirks?.length) &&
      h("p", { class: "warn" }, `Enabled quirks: ${found.brokers.map((each) => `${each.name}: ${(each.quirks || []).join(", ") || "none"}`).join("; ")}`),
    found.brokers.filter((each) => each.log_held_by).map((each) => h("p", { class: "warn" }, `Broker ${each.name}: ${each.log_held_by}`)),
    h("h2", {}, "Groups"),
    groups(found.groups),
  ]);
}

// The replicas of a broker with copies: their roles, and in which epoch; each that is not in sync stands out.
function replicas(copies) {
  if (!copies) return "–";
  const inSync = copies.replicas.filter((each) => each.in_sync).length;
  return h(
    "ul",
    { class: "plain" },
    h("li", { class: inSync < copies.wanted ? "bad" : "" }, `epoch ${copies.epoch}, ${inSync} of ${copies.wanted} in sync`),
    copies.replicas.map((each) => h("li", { class: each.in_sync ? "" : "bad", title: each.address }, `${each.id} ${each.role}${each.in_sync ? "" : ", not in sync"}`)),
  );
}

function tile(value, noun, more = "") {
  return h("li", { class: "tile" }, h("b", {}, number(value)), h("span", {}, plural(value, noun) + more));
}

function groups(list) {
  if (!list.length) return h("p", { class: "soft" }, "No group yet: rlab consume TOPIC --group NAME creates one.");
  return table(
    ["group", ">members", "brokers that know it", ""],
    list.map((each) => [
      h("a", { href: `/groups/${encodeURIComponent(each.group)}` }, each.group),
      number(each.members),
      each.brokers.join(", "),
      h("a", { href: `/groups/${encodeURIComponent(each.group)}/dead-letters`, "aria-label": `dead letters of ${each.group}` }, "dead letters"),
    ]),
    "Groups",
  );
}

export function groupsView(view) {
  return listView(view, "Groups", (found) => groups(found.groups));
}

export function topicsView(view) {
  return listView(view, "Topics", (found) =>
    table(
      ["topic", ">brokers", ">queues", ">messages", "kind"],
      found.topics.map((each) => [
        h("a", { href: `/topics/${encodeURIComponent(each.topic)}` }, each.topic),
        number(each.brokers),
        number(each.queues),
        number(each.messages),
        each.kind,
      ]),
      "Topics",
    ),
  );
}
