// Prepares a canvas for a drawing, and reads the colours of the theme, once for each theme, because a query for a style
// in a frame causes a new layout of the page.

let known = null;
const forget = () => {
  known = null;
};
addEventListener("themechange", forget);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", forget);

export function colours() {
  if (known === null) {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue(`--${name}`).trim();
    known = Object.fromEntries(["ink", "soft", "line", "accent", "bad", "paper"].map((name) => [name, read(name)]));
  }
  return known;
}

export function prepared(canvas, width, height) {
  const scale = window.devicePixelRatio || 1;
  const wide = Math.round(width * scale);
  const high = Math.round(height * scale);
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

const widths = new Map(); // font and text -> its width; measuring each again would cost as much as drawing
const MOST_WIDTHS = 5000;

// The text if it fits, else the part of its beginning, or of its end, that fits.
export function fitted(context, text, room, ofEnd = false) {
  const key = `${context.font} ${text}`;
  let width = widths.get(key);
  if (width === undefined) {
    if (widths.size >= MOST_WIDTHS) widths.clear();
    width = context.measureText(text).width;
    widths.set(key, width);
  }
  if (width <= room) return text;
  const chars = Math.floor((room / width) * text.length - 1.5);
  if (chars < 1) return "";
  return ofEnd ? `…${text.slice(-chars)}` : `${text.slice(0, chars)}…`;
}
