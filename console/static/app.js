// The shell of the page: the view of an address, and the theme. A view is a function that receives an element and returns
// the function that closes it.

import { fill, h } from "/static/pictures/dom.js";
import { clusterView, groupsView, topicsView } from "./lists.js";
import { groupView } from "./group.js";
import { lettersView } from "./letters.js";
import { topicView } from "./topic.js";
import { testClusterView } from "./testcluster.js";
import { connection, getJson, loadedOnce, session } from "./net.js";

const ROUTES = [
  [/^\/$/, clusterView],
  [/^\/topics\/?$/, topicsView],
  [/^\/topics\/([^/]+)\/?$/, topicView],
  [/^\/groups\/?$/, groupsView],
  [/^\/groups\/([^/]+)\/?$/, groupView],
  [/^\/groups\/([^/]+)\/dead-letters\/?$/, lettersView],
  [/^\/test-cluster\/?$/, testClusterView],
];
const THEMES = ["system", "light", "dark"];
let close = () => {};

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

function go(path) {
  history.pushState(null, "", path);
  show();
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
  const link = event.target.closest?.("a[href^='/']");
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
