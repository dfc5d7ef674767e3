// A fixed colour and pattern for each consumer, from its index in the list of names. Seven colours that colour-blind
// people can distinguish (Okabe and Ito), in four patterns; from the 29th on they repeat, and names on the strips, a
// highlight and the tables distinguish them.

export const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442"];
const PATTERNS = 4;
const made = new Map();

export function swatchClass(place) {
  if (place < 0) return "sw";
  return `sw c${place % COLOURS.length} p${Math.floor(place / COLOURS.length) % PATTERNS}`;
}

// Dark or light text, depending on the colour.
export function inkOn(place) {
  return [0, 2, 5].includes(place % COLOURS.length) ? "#ffffff" : "#1a1a1a";
}

export function brush(context, place) {
  if (place < 0) return "#8a939c"; // a member without a colour yet
  const colour = COLOURS[place % COLOURS.length];
  const pattern = Math.floor(place / COLOURS.length) % PATTERNS;
  if (pattern === 0) return colour;
  const key = `${place % COLOURS.length} ${pattern}`;
  if (!made.has(key)) made.set(key, context.createPattern(tile(colour, pattern), "repeat"));
  return made.get(key);
}

function tile(colour, pattern) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 6;
  const context = canvas.getContext("2d");
  context.fillStyle = colour;
  context.fillRect(0, 0, 6, 6);
  context.strokeStyle = context.fillStyle = "rgba(0, 0, 0, 0.5)";
  if (pattern === 3) {
    context.fillRect(1, 1, 2, 2);
    context.fillRect(4, 4, 2, 2);
    return canvas;
  }
  context.beginPath();
  for (const shift of [-6, 0, 6]) {
    context.moveTo(shift, pattern === 1 ? 6 : 0);
    context.lineTo(shift + 6, pattern === 1 ? 0 : 6);
  }
  context.stroke();
  return canvas;
}
