// Runs deferred work in slices in the idle time of frames, so that a page keeps scrolling while a large group is
// redrawn.

const SLICE_MS = 2;
const LATEST_MS = 500;
const MOST_LAID_OUT = 40; // a longer table outside of the window is not laid out
const jobs = new Map(); // owner of the work -> a generator
const ask = window.requestIdleCallback ? (run) => requestIdleCallback(run, { timeout: LATEST_MS }) : (run) => setTimeout(run, 30);
let asked = false;

// Run the generator in slices that end at its yields; it replaces earlier work of this owner.
export function later(owner, job) {
  jobs.set(owner, job);
  wake();
}

function wake() {
  if (asked || !jobs.size) return;
  asked = true;
  ask(slice);
}

function slice() {
  asked = false;
  const end = performance.now() + SLICE_MS;
  for (const [owner, job] of jobs) {
    while (performance.now() < end && jobs.get(owner) === job) if (job.next().done) jobs.delete(owner);
  }
  wake();
}

// The children of an element; only changed children are made again.
export class LiveList {
  constructor(element) {
    this.element = element;
    this.shown = new Map(); // name -> { stamp, node }
  }

  // items: [name, stamp, make() -> node]; a node stays as long as its stamp is the same
  show(items) {
    const box = this.element.closest(".wide");
    if (box) box.classList.toggle("many", items.length > MOST_LAID_OUT);
    later(this, this.fill(items));
  }

  *fill(items) {
    const names = new Set(items.map(([name]) => name));
    for (const [name, { node }] of this.shown) {
      if (names.has(name)) continue;
      node.remove();
      this.shown.delete(name);
    }
    let last = null;
    for (const [name, stamp, make] of items) {
      const known = this.shown.get(name);
      let node = known?.node;
      if (!known || known.stamp !== stamp) {
        node = make();
        if (known) replace(known.node, node);
        this.shown.set(name, { stamp, node });
        yield;
      }
      const place = last ? last.nextSibling : this.element.firstChild;
      if (node !== place) this.element.insertBefore(node, place);
      last = node;
    }
  }
}

// Replace a node, and keep the focus.
function replace(old, node) {
  const had = old.contains(document.activeElement);
  old.replaceWith(node);
  const heir = had && (node.matches("button") ? node : node.querySelector("button"));
  if (heir) heir.focus();
}
