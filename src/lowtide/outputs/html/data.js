// What the page knows: the plan's numbers, and how to look things up in them.

const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);
const { texts, buffers, steps, arenas, bands } = data;
const bufferCount = buffers.size.length;
const span = Math.max(1, data.stop - data.start);

const nameOf = (i) => texts[buffers.name[i]];
const textOf = (column, i) => texts[buffers[column][i]];
const short = (name) => name.slice(name.lastIndexOf("/") + 1) || name;

// Rectangles of each buffer, and the arena that it is in.
const intervals = Array.from({ length: bufferCount }, () => []);
const arenaOf = new Int32Array(bufferCount);
const offsetOf = new Float64Array(bufferCount);
arenas.forEach((arena, a) => {
  const { buffer, start, stop, offset } = arena.rectangles;
  for (let r = 0; r < buffer.length; r++) {
    intervals[buffer[r]].push([start[r], stop[r]]);
    arenaOf[buffer[r]] = a;
    offsetOf[buffer[r]] = offset[r];
  }
});

// The last position in a sorted list whose value is not above this one; -1 if all are.
function lastNotAbove(sorted, value) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

const stepCount = steps.start.length;
const stepAt = (tick) => Math.max(0, lastNotAbove(steps.start, tick));
const stepStart = (i) => steps.start[i];
const stepStop = (i) => (i + 1 < stepCount ? steps.start[i + 1] : data.stop);
const stepName = (i) => texts[steps.name[i]];

function liveAt(arena, tick) {
  const i = lastNotAbove(arena.live.tick, tick);
  return i < 0 ? arena.reserved : arena.live.bytes[i];
}

// Buffers alive at a tick in some arenas, largest first.
function aliveAt(tick, wanted) {
  const found = new Set();
  for (const a of wanted) {
    const { buffer, start, stop } = arenas[a].rectangles;
    for (let r = 0; r < buffer.length; r++) if (start[r] <= tick && tick < stop[r]) found.add(buffer[r]);
  }
  return [...found].sort((x, y) => buffers.size[y] - buffers.size[x] || x - y);
}

// Every word must occur somewhere in what is known of the buffer.
const columns = ["name", "kind", "region", "dtype", "shape", "operator", "source"];
let haystack = null;
function search(query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return null;
  haystack ??= buffers.size.map((_, i) => columns.map((c) => textOf(c, i)).join("\n").toLowerCase());
  const hits = [];
  for (let i = 0; i < bufferCount; i++) if (words.every((word) => haystack[i].includes(word))) hits.push(i);
  return hits.sort((x, y) => buffers.size[y] - buffers.size[x] || x - y);
}

const units = ["KiB", "MiB", "GiB", "TiB", "PiB"];
const exact = (n) => n.toLocaleString("en-US");
// To one decimal in 1024s, rounded half up.
function human(size) {
  if (size < 1024) return `${size} B`;
  for (let i = 1; ; i++) {
    const tenths = Math.floor((Math.floor((size / 1024 ** i) * 20) + 1) / 2);
    if (tenths < 10240 || i === units.length) return `${Math.floor(tenths / 10)}.${tenths % 10} ${units[i - 1]}`;
  }
}
const both = (size) => (size < 1024 ? `${exact(size)} B` : `${exact(size)} B (${human(size)})`);
const share = (part, whole) => (whole ? `${((100 * part) / whole).toFixed(1)}%` : "0%");
const plural = (n, what) => `${exact(n)} ${what}${n === 1 ? "" : "s"}`;
const lifetimeOf = (i) => intervals[i].map(([start, stop]) => `[${exact(start)}, ${exact(stop)})`).join(" ");
