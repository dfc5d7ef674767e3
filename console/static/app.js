// The shell of the page: which view an address has, the connection, the theme. A view is a function that gets an
// element and returns what closes it.

import { fill, h, setText } from "/static/pictures/dom.js";
import { clusterView, groupsView, topicsView } from "./lists.js";
import { groupView } from "./group.js";
import { lettersView } from "./letters.js";
import { topicView } from "./topic.js";
import { testClusterView } from "./testcluster.js";

export const session = { allow_changes: false, token: "", test_cluster: false, name_servers: "" };
const ROUTES = [
  [/^\/$/, clusterView],
  [/^\/topics$/, topicsView],
  [/^\/topics\/([^/]+)$/, topicView],
  [/^\/groups$/, groupsView],
  [/^\/groups\/([^/]+)$/, groupView],
  [/^\/groups\/([^/]+)\/dead-letters$/, lettersView],
  [/^\/test-cluster$/, testClusterView],
];
const THEMES = ["system", "light", "dark"];
let close = () => {};

export async function getJson(path) {
  const answer = await fetch(path, { headers: { Accept: "application/json" } });
  const document = await answer.json();
  if (!answer.ok) throw new Error(document.error);
  return document;
}

// Make a change, and say in `result` how it ended.
export async function change(name, wanted, result) {
  setText(result, "…");
  result.className = "result";
  try {
    const answer = await fetch(`/api/${name}`, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Console-Token": session.token },
      body: JSON.stringify(wanted),
    });
    const document = await answer.json();
    setText(result, answer.ok ? document.done : document.error);
    result.className = answer.ok ? "result good" : "result bad";
    return answer.ok;
  } catch (error) {
    setText(result, `The console does not answer: ${error.message}`);
    result.className = "result bad";
    return false;
  }
}

// Loads a document, calls start(document), and then update(news) for whatever changes; returns what ends it. The
// browser resumes by itself from the last id; when that is too old, all is loaded again.
export function follow(path, group, start, update) {
  let stream = null;
  let ended = false;
  let again = 0;
  async function load() {
    try {
      const document = await getJson(path);
      if (ended) return;
      start(document);
      open(document.id);
    } catch (error) {
      connection("lost", error.message);
      again = setTimeout(load, 1500);
    }
  }
  function open(id) {
    const query = new URLSearchParams({ after: id });
    if (group !== null) query.set("group", group);
    stream = new EventSource(`/api/stream?${query}`);
    stream.onopen = () => connection("live");
    stream.onmessage = (event) => update(JSON.parse(event.data));
    stream.onerror = () => {
      connection("lost");
      if (stream.readyState === EventSource.CLOSED) {
        clearTimeout(again);
        again = setTimeout(load, 1500);
      }
    };
    stream.addEventListener("reset", () => {
      stream.close();
      if (!ended) load();
    });
  }
  connection("connecting");
  load();
  return () => {
    ended = true;
    clearTimeout(again);
    if (stream) stream.close();
  };
}

// A view that does not follow anything has no connection.
function loadedOnce() {
  const element = document.getElementById("connection");
  setText(element, session.allow_changes ? "changes allowed" : "read-only");
  element.className = "soft";
}

const STATES = { live: ["good", "● live"], connecting: ["soft", "○ connecting …"], lost: ["bad", "○ not connected; trying again"] };

function connection(state, problem = "") {
  const element = document.getElementById("connection");
  const [kind, text] = STATES[state];
  setText(element, `${text}, ${session.allow_changes ? "changes allowed" : "read-only"}${problem ? `. ${problem}` : ""}`);
  element.className = kind;
}

function navigation() {
  const path = location.pathname;
  const link = (to, text) =>
    h("a", { href: to, "aria-current": (to === "/" ? path === "/" : path.startsWith(to)) ? "page" : null }, text);
  const theme = localStorage.getItem("theme") || "system";
  fill(
    document.getElementById("nav"),
    h("b", {}, "rlab console"),
    link("/", "Cluster"),
    link("/topics", "Topics"),
    link("/groups", "Groups"),
    session.test_cluster && link("/test-cluster", "Test cluster"),
    h(
      "button",
      {
        type: "button",
        onclick: () => {
          localStorage.setItem("theme", THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]);
          applyTheme();
          navigation();
        },
      },
      `Theme: ${theme}`,
    ),
  );
}

function applyTheme() {
  const theme = localStorage.getItem("theme") || "system";
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  dispatchEvent(new Event("themechange"));
}

export function go(path) {
  history.pushState(null, "", path);
  show();
}

// Change the query of the address without a new entry in the history of the browser.
export function remember(values) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(values)) {
    if (value === null || value === "") query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  history.replaceState(null, "", location.pathname + (text ? `?${text}` : ""));
}

function show() {
  close();
  loadedOnce();
  const view = document.getElementById("view");
  fill(view);
  navigation();
  for (const [pattern, draw] of ROUTES) {
    const found = pattern.exec(location.pathname);
    if (found) {
      const name = found[1] === undefined ? null : decodeURIComponent(found[1]);
      close = draw(view, name) || (() => {});
      const title = view.querySelector("h1");
      document.title = `${title ? title.textContent : ""} · rlab console`;
      return;
    }
  }
  close = () => {};
  fill(view, h("h1", {}, "There is no such view"), h("p", {}, h("a", { href: "/" }, "To the cluster")));
}

document.addEventListener("click", (event) => {
  const link = event.target.closest && event.target.closest("a[href^='/']");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
  event.preventDefault();
  go(link.getAttribute("href"));
  document.getElementById("view").focus();
});
addEventListener("popstate", show);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", applyTheme);
applyTheme();
getJson("/api/session")
  .then((found) => Object.assign(session, found))
  .catch((error) => connection("lost", error.message))
  .finally(show);
