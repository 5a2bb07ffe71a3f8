// What is looked at: which ticks and bytes, which arena, what is selected. Nothing here draws.

const narrow = () => window.innerWidth <= 760;

const view = {
  t0: data.start, t1: data.start + span, // ticks from left to right
  b0: 0, b1: 1, // shares of each arena's height from bottom to top
  arena: -1, // position of the only arena shown, or -1 for all
  colouring: data.colouring,
  step: -1, buffer: -1, group: -1, // selected, or -1
  hits: null, hit: -1, // found by searching
  hoverBuffer: -1, hoverTick: null, box: null,
};

const shownArenas = () => (view.arena < 0 ? arenas.map((_, a) => a) : [view.arena]);
const headroom = 20; // pixels above an arena's highest byte, for labels
const deepest = bands.reduce((most, band) => Math.max(most, band[4] + 1), 0);
const leastHeight = () => Math.max(260, 80 + 140 * shownArenas().length); // more arenas than fit are scrolled to

// Where everything is, in CSS pixels, for a canvas of this size.
function layOut(width, height) {
  const left = narrow() ? 58 : 76, right = 12, axis = 38;
  const depth = bands.length > 1 ? Math.min(20, deepest) : 0; // what is nested deeper is not shown
  const row = depth > 6 ? Math.max(5, Math.floor(110 / depth)) : 18;
  const bandsTop = 6, top = bandsTop + depth * row + (depth ? 4 : 0);
  const shown = shownArenas(), gap = 26;
  const each = Math.max(40, (height - top - axis - gap * (shown.length - 1)) / Math.max(1, shown.length));
  const panes = shown.map((a, k) => {
    const y = top + k * (each + gap);
    return { a, y: y + headroom, height: each - headroom, top: arenas[a].top };
  });
  return { width, height, left, right: width - right, plotWidth: Math.max(1, width - right - left), bandsTop, row, depth, top, panes, bottom: height - axis };
}

let lay = layOut(800, 500);
const xOf = (tick) => lay.left + ((tick - view.t0) / (view.t1 - view.t0)) * lay.plotWidth;
const tickOf = (x) => view.t0 + ((x - lay.left) / lay.plotWidth) * (view.t1 - view.t0);
const yOf = (pane, byte) => pane.y + pane.height * (1 - (byte / pane.top - view.b0) / (view.b1 - view.b0));
const byteOf = (pane, y) => (view.b0 + (1 - (y - pane.y) / pane.height) * (view.b1 - view.b0)) * pane.top;
const paneAt = (y) => lay.panes.find((pane) => y >= pane.y - headroom && y <= pane.y + pane.height);

function setTime(t0, t1) {
  const least = Math.min(span, Math.max(1e-9 * span, 3));
  const width = Math.min(span, Math.max(least, t1 - t0));
  const middle = (t0 + t1) / 2;
  view.t0 = Math.min(data.start + span - width, Math.max(data.start, width === t1 - t0 ? t0 : middle - width / 2));
  view.t1 = view.t0 + width;
}

function setBytes(b0, b1) {
  const width = Math.min(1, Math.max(1e-6, b1 - b0));
  view.b0 = Math.min(1 - width, Math.max(0, b0));
  view.b1 = view.b0 + width;
}

function zoomTime(factor, tick = (view.t0 + view.t1) / 2) {
  const width = Math.min(span, Math.max(Math.min(span, 3), (view.t1 - view.t0) / factor));
  const at = (tick - view.t0) / (view.t1 - view.t0);
  setTime(tick - at * width, tick + (1 - at) * width);
}

function zoomBytes(factor, level) {
  const width = Math.min(1, Math.max(1e-6, (view.b1 - view.b0) / factor));
  const at = (level - view.b0) / (view.b1 - view.b0);
  setBytes(level - at * width, level + (1 - at) * width);
}

function fit() {
  setTime(data.start, data.start + span);
  setBytes(0, 1);
}

function zoomToBuffer(i) {
  const start = intervals[i][0][0], stop = intervals[i].at(-1)[1], top = arenas[arenaOf[i]].top;
  const around = Math.max(4, (stop - start) * 0.8);
  setTime(start - around, stop + around);
  const low = offsetOf[i] / top, high = (offsetOf[i] + buffers.size[i]) / top;
  const margin = Math.max(0.06, (high - low) * 0.8);
  setBytes(low - margin, high + margin);
}

// Move as little as needed to bring some ticks into sight.
function reveal(start, stop) {
  const width = view.t1 - view.t0;
  if (stop - start > width * 0.8) setTime(start - width * 0.1, stop + width * 0.1);
  else if (start < view.t0 + width * 0.05) setTime(start - width * 0.2, start + width * 0.8);
  else if (stop > view.t1 - width * 0.05) setTime(stop - width * 0.8, stop + width * 0.2);
}

// Where all arenas together hold the most, or the shown one does.
function peakTick() {
  const shown = shownArenas();
  if (shown.length === 1) return arenas[shown[0]].peak[0];
  let best = data.start, most = -1;
  for (const a of shown) for (const tick of arenas[a].live.tick) {
    const sum = shown.reduce((total, b) => total + liveAt(arenas[b], tick), 0);
    if (sum > most) [best, most] = [tick, sum];
  }
  return best;
}

// Which buffers are in full colour; null if all are.
function litBuffers() {
  const parts = [];
  if (view.hits) parts.push(new Set(view.hits));
  if (view.step >= 0) parts.push(new Set(aliveAt(stepStart(view.step), shownArenas())));
  const { groups } = data.colourings[view.colouring];
  if (!parts.length && view.group < 0) return null;
  const lit = new Uint8Array(bufferCount);
  for (let i = 0; i < bufferCount; i++) {
    lit[i] = parts.every((part) => part.has(i)) && (view.group < 0 || groups[i] === view.group) ? 1 : 0;
  }
  return lit;
}
