// Elements and texts. Data from a cluster become text nodes or attribute values, never markup: no script here parses
// HTML.

export function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false || child === "") continue; // what is empty stays :empty
    if (Array.isArray(child)) append(element, child);
    else element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// A head that begins with ">" marks a column of numbers, one with "=" a column of times, which stay on one line.
export function table(heads, rows, caption) {
  return h(
    "div",
    { class: "wide", tabindex: "0", role: "region", "aria-label": caption },
    h(
      "table",
      { role: "table" }, // on a narrow page rows are blocks, which would lose their meaning
      h("caption", { class: "unseen" }, caption),
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, heads.map((head) => h("th", { scope: "col", role: "columnheader", class: columnClass(head) }, headText(head))))),
      h("tbody", { role: "rowgroup" }, rows.map((cells) => tableRow(heads, cells))),
    ),
  );
}

export function tableRow(heads, cells) {
  return h("tr", { role: "row" }, cells.map((cell, n) => h("td", { role: "cell", class: columnClass(heads[n]), "data-head": headText(heads[n]) }, cell)));
}

const columnClass = (head) => ({ ">": "n", "=": "time" })[head[0]] ?? null;
const headText = (head) => head.replace(/^[>=]/, "");
const NUMBERS = new Intl.NumberFormat("en"); // once, because toLocaleString creates one each time

export function number(value) {
  return value === null || value === undefined ? "–" : NUMBERS.format(value);
}

// "1 queue", "1,000 queues".
export function counted(value, noun) {
  return `${number(value)} ${plural(value, noun)}`;
}

export function plural(value, noun) {
  return value === 1 ? noun : `${noun}s`;
}

export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 59500) return `${(ms / 1000).toFixed(ms < 10000 ? 1 : 0)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${(ms / 3600000).toFixed(1)} h`;
}

const pad = (n, digits = 2) => String(n).padStart(digits, "0");

// The time of day, UTC as everywhere in this project, with `digits` decimals of a second.
export function clock(ms, digits = 0) {
  const at = new Date(ms);
  const text = `${pad(at.getUTCHours())}:${pad(at.getUTCMinutes())}:${pad(at.getUTCSeconds())}`;
  return digits ? `${text}.${pad(at.getUTCMilliseconds(), 3).slice(0, digits)}` : text;
}

export function dateAndClock(ms) {
  const at = new Date(ms);
  if (Number.isNaN(at.getTime())) return `${ms} ms`;
  return `${at.getUTCFullYear()}-${pad(at.getUTCMonth() + 1)}-${pad(at.getUTCDate())} ${clock(ms, 3)}`;
}

// The instance name in a client id, which people choose. Clients that speak gRPC choose theirs themselves: it is host,
// process, number and time, of which process and number are kept.
export function shortName(client) {
  if (client === null || client === undefined) return "none";
  const parts = client.split("@");
  if (parts.length === 4) return `${parts[1]}@${parts[2]}`;
  return client.slice(client.indexOf("@") + 1) || client;
}
