// The console's server as views see it: documents, changes, streams of updates, and the line that shows the connection.

import { setText } from "/static/pictures/dom.js";

export const session = { allow_changes: false, token: "", test_cluster: false, name_servers: "" };

export async function getJson(path) {
  const answer = await fetch(path, { headers: { Accept: "application/json" } });
  const document = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(document.error), { status: answer.status });
  return document;
}

// Make a change, and show its outcome in `result`.
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
export function loadedOnce() {
  const element = document.getElementById("connection");
  setText(element, session.allow_changes ? "changes allowed" : "read-only");
  element.className = "soft";
}

const STATES = { live: ["good", "● live"], connecting: ["soft", "○ connecting …"], lost: ["bad", "○ not connected; trying again"] };

export function connection(state, problem = "") {
  const element = document.getElementById("connection");
  const [kind, text] = STATES[state];
  setText(element, `${text}, ${session.allow_changes ? "changes allowed" : "read-only"}${problem ? `. ${problem}` : ""}`);
  element.className = kind;
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
