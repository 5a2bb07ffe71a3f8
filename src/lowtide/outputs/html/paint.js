// Drawing. The base canvas holds the picture, the one over it what follows the pointer.

const plot = byId("plot");
const canvases = { base: byId("base"), over: byId("over"), mini: byId("mini") };
const pens = Object.fromEntries(Object.entries(canvases).map(([name, canvas]) => [name, canvas.getContext("2d")]));
const face = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";
const fontOf = (size, weight = 400) => `${weight} ${size}px ${face}`;
let ratio = 1;

function resize() {
  plot.style.minHeight = `${leastHeight()}px`;
  ratio = Math.min(3, window.devicePixelRatio || 1);
  for (const canvas of Object.values(canvases)) {
    const { width, height } = canvas.parentElement.getBoundingClientRect();
    canvas.width = Math.max(1, Math.round(width * ratio));
    canvas.height = Math.max(1, Math.round(height * ratio));
  }
}

function begin(pen) {
  pen.setTransform(1, 0, 0, 1, 0, 0);
  pen.clearRect(0, 0, pen.canvas.width, pen.canvas.height);
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
}

function clipped(pen, x, y, width, height, draw) {
  pen.save();
  pen.beginPath();
  pen.rect(x, y, width, height);
  pen.clip();
  draw();
  pen.restore();
}

// The text, or as much of it as fits, or nothing.
function fitted(pen, text, width) {
  if (width < 14) return "";
  if (pen.measureText(text).width <= width) return text;
  let low = 0, high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (pen.measureText(`${text.slice(0, middle)}…`).width <= width) low = middle;
    else high = middle - 1;
  }
  return low < 2 ? "" : `${text.slice(0, low)}…`;
}

const images = new Map();
function blank(pen, columns, rows) {
  const key = `${columns} ${rows}`, known = images.get(key);
  if (known) {
    known.pixels.fill(0);
    return known;
  }
  images.clear();
  const image = pen.createImageData(columns, rows), made = { image, pixels: new Uint32Array(image.data.buffer) };
  images.set(key, made);
  return made;
}

// Rectangles are filled pixel by pixel into an image: 20,000 calls of fillRect take a canvas several times as
// long, most of it after the script is done. Returns what is large enough for a label.
function paintRectangles(pen, pane, lit) {
  const { buffer, start, stop, offset } = arenas[pane.a].rectangles, { size } = buffers;
  const left = Math.round(lay.left * ratio), top = Math.round((pane.y - headroom) * ratio);
  const columns = Math.round(lay.plotWidth * ratio), rows = Math.round((pane.height + headroom) * ratio);
  const { image, pixels } = blank(pen, columns, rows);
  const kx = (lay.plotWidth / (view.t1 - view.t0)) * ratio, x0 = (lay.left * ratio) - view.t0 * kx - left;
  const ky = (pane.height / ((view.b1 - view.b0) * pane.top)) * ratio, y0 = yOf(pane, 0) * ratio - top;
  const labels = [], faint = theme === "dark" ? 0x3d000000 : 0x33000000;
  for (const bright of lit ? [0, 1] : [1]) {
    for (let r = 0; r < buffer.length; r++) {
      const i = buffer[r], bytes = size[i];
      if ((lit && lit[i] !== bright) || !bytes || stop[r] <= view.t0 || start[r] >= view.t1) continue;
      const low = y0 - offset[r] * ky, high = low - bytes * ky;
      if (low < 0 || high > rows) continue;
      const x = Math.round(x0 + start[r] * kx), y = Math.round(high);
      const w = Math.round(x0 + stop[r] * kx) - x, h = Math.round(low) - y;
      // A gap of one pixel to the next, where there is room for it.
      const xa = Math.max(0, x), xb = Math.min(columns, x + (w > 3 ? w - 1 : w || 1));
      const ya = Math.max(0, y), yb = Math.min(rows, y + (h > 3 ? h - 1 : h || 1));
      const colour = bright ? fillPixels[fillIndex(i)] : (fillPixels[fillIndex(i)] & 0xffffff) | faint;
      for (let row = ya * columns; row < yb * columns; row += columns) {
        if (xb - xa > 12) pixels.fill(colour, row + xa, row + xb);
        else for (let at = row + xa; at < row + xb; at++) pixels[at] = colour;
      }
      if (bright && w > 34 * ratio && h > 13 * ratio) labels.push([(x + left) / ratio, (y + top) / ratio, w / ratio, h / ratio, i]);
    }
  }
  pen.putImageData(image, left, top);
  return labels;
}

function paintLabel(pen, x, y, w, h, i) {
  const from = Math.max(x, lay.left), room = Math.min(x + w, lay.right) - from - 8;
  pen.font = fontOf(11);
  const name = fitted(pen, short(nameOf(i)), room);
  if (!name) return;
  pen.fillStyle = labelInks[fillIndex(i)];
  pen.textBaseline = "middle";
  pen.textAlign = "left";
  const tall = h > 36, line = Math.max(y, lay.top) + 12; // high up, since the curve of live bytes may cross the middle
  pen.fillText(name, from + 4, tall ? line : y + h / 2);
  const size = human(buffers.size[i]);
  if (tall && pen.measureText(size).width <= room) {
    pen.globalAlpha = 0.85;
    pen.fillText(size, from + 4, line + 14);
    pen.globalAlpha = 1;
  }
}

// The staircase of live bytes, as thin rectangles: a stroked path of thousands of corners is slow to draw.
function paintCurve(pen, pane) {
  const { tick, bytes } = arenas[pane.a].live, parts = [];
  const first = Math.max(0, lastNotAbove(tick, view.t0)), begun = first < tick.length && tick[first] <= view.t0;
  let x = lay.left, y = yOf(pane, begun ? bytes[first] : arenas[pane.a].reserved), least = y, most = y;
  for (let k = begun ? first + 1 : first; k <= tick.length; k++) {
    const end = k === tick.length || tick[k] >= view.t1, to = end ? lay.right : xOf(tick[k]);
    if (to - x >= 1) { // steps that share a column of pixels show as their extremes
      if (most - least > 0.5) parts.push([x, least, 0, most - least]);
      parts.push([x, y, to - x, 0]);
      [x, least, most] = [to, y, y];
    }
    if (end) break;
    y = yOf(pane, bytes[k]);
    least = Math.min(least, y);
    most = Math.max(most, y);
  }
  if (most - least > 0.5) parts.push([x, least, 0, most - least]);
  for (const [colour, thick] of parts.length < lay.plotWidth / 4 ? [[ink.sheet, 3.2], [ink.ink, 1.6]] : [[ink.ink, 1.2]]) {
    pen.fillStyle = colour;
    for (const [px, py, w, h] of parts) pen.fillRect(px - thick / 2, py - thick / 2, w + thick, h + thick);
  }
}

// Labels of the horizontal lines; what is equal shares one. Returns the left end of the labels at the top.
function paintLines(pen, pane) {
  const arena = arenas[pane.a];
  const lines = [
    { at: arena.bytes, name: arena.label, ink: ink.ink, dash: [] },
    { at: arena.lower_bound, name: "lower bound", ink: ink.good, dash: [6, 4] },
    ...(arena.capacity === null ? [] : [{ at: arena.capacity, name: "capacity", ink: ink.peak, dash: [2, 3] }]),
  ];
  const merged = [];
  for (const line of lines) {
    const same = merged.find((other) => other.at === line.at);
    if (same) { same.name += ` = ${line.name}`; same.also = line; } else merged.push({ ...line });
  }
  merged.sort((a, b) => b.at - a.at);
  let floor = -1e9, leftEnd = lay.right;
  for (const line of merged) {
    const y = yOf(pane, line.at);
    if (y < pane.y - headroom || y > pane.y + pane.height + 1) continue;
    for (const part of line.also ? [line, line.also] : [line]) {
      pen.strokeStyle = part.ink;
      pen.lineWidth = 1.4;
      pen.setLineDash(part.dash);
      pen.beginPath();
      pen.moveTo(lay.left, y);
      pen.lineTo(lay.right, y);
      pen.stroke();
    }
    pen.setLineDash([]);
    pen.font = fontOf(11, 500);
    const text = `${line.name} ${human(line.at)}`, width = pen.measureText(text).width + 10;
    const up = Math.max(y - 18, pane.y - headroom + 1), top = up > floor ? up : Math.max(y + 2, floor);
    pen.fillStyle = ink.sheet;
    pen.globalAlpha = 0.9;
    pen.fillRect(lay.right - width, top, width, 16);
    pen.globalAlpha = 1;
    pen.fillStyle = line.at === arena.capacity && !line.also ? ink.peak : line.ink;
    pen.textAlign = "left";
    pen.textBaseline = "middle";
    pen.fillText(text, lay.right - width + 5, top + 8.5);
    floor = top + 17;
    if (top < pane.y + 20) leftEnd = Math.min(leftEnd, lay.right - width);
  }
  return leftEnd;
}

function paintPeak(pen, pane, limit) {
  const [start, stop, bytes] = arenas[pane.a].peak;
  if (!bytes || stop <= view.t0 || start >= view.t1) return;
  const x = Math.max(lay.left, xOf(start)), width = Math.max(1.5, Math.min(lay.right, xOf(stop)) - x);
  pen.fillStyle = ink.peak;
  pen.globalAlpha = width > lay.plotWidth / 4 ? 0.06 : 0.16;
  pen.fillRect(x, pane.y - headroom, width, pane.height + headroom);
  pen.globalAlpha = 1;
  pen.fillRect(x, pane.y + pane.height - 3, width, 3);
  pen.font = fontOf(11, 600);
  const text = `peak ${human(bytes)}`, room = pen.measureText(text).width + 10;
  const at = Math.max(lay.left, Math.min(x + width / 2 - room / 2, limit - room - 4));
  pen.fillRect(at, pane.y - headroom + 1, room, 16);
  pen.fillStyle = theme === "dark" ? "#10161d" : "#ffffff";
  pen.textAlign = "left";
  pen.textBaseline = "middle";
  pen.fillText(text, at + 5, pane.y - headroom + 9.5);
}

function paintBase() {
  const pen = pens.base, box = plot.getBoundingClientRect(), lit = litBuffers();
  lay = layOut(box.width, box.height);
  begin(pen);
  const labels = lay.panes.map((pane) => paintRectangles(pen, pane, lit));
  pen.globalCompositeOperation = "destination-over"; // what lies behind the rectangles comes after them
  for (const pane of lay.panes) paintByteAxis(pen, pane);
  paintStripes(pen);
  pen.globalCompositeOperation = "source-over";
  clipped(pen, lay.left, 0, lay.plotWidth, lay.bottom + 1, () => paintBands(pen));
  lay.panes.forEach((pane, k) => clipped(pen, lay.left, pane.y - headroom, lay.plotWidth, pane.height + headroom, () => {
    for (const label of labels[k]) paintLabel(pen, ...label);
    paintCurve(pen, pane);
    paintPeak(pen, pane, paintLines(pen, pane));
  }));
  paintTimeAxis(pen);
}

function outline(pen, i, colour, width) {
  const pane = lay.panes.find((candidate) => candidate.a === arenaOf[i]);
  if (!pane) return;
  clipped(pen, lay.left - 2, pane.y - headroom, lay.right - lay.left + 4, pane.height + headroom + 2, () => {
    pen.strokeStyle = colour;
    pen.lineWidth = width;
    const y = yOf(pane, offsetOf[i] + buffers.size[i]), height = yOf(pane, offsetOf[i]) - y;
    for (const [start, stop] of intervals[i]) {
      pen.strokeRect(xOf(start), y, Math.max(1, xOf(stop) - xOf(start) - 1), Math.max(1, height - 1));
    }
  });
}

function paintOver() {
  const pen = pens.over;
  begin(pen);
  const stripe = (i, strong) => {
    if (i < 0 || i >= stepCount) return;
    const x = xOf(stepStart(i)), width = Math.max(1.5, xOf(stepStop(i)) - x);
    clipped(pen, lay.left, 0, lay.right - lay.left, lay.bottom + 4, () => {
      pen.fillStyle = ink.accent;
      pen.globalAlpha = strong ? 0.16 : 0.09;
      pen.fillRect(x, 0, width, lay.bottom);
      pen.globalAlpha = 1;
      if (strong) pen.fillRect(x, lay.bottom, width, 3);
    });
  };
  if (view.hoverTick !== null) stripe(stepAt(view.hoverTick), false);
  stripe(view.step, true);
  if (view.hoverBuffer >= 0) outline(pen, view.hoverBuffer, ink.ink, 1.5);
  if (view.buffer >= 0) {
    outline(pen, view.buffer, ink.sheet, 5);
    outline(pen, view.buffer, ink.accent, 2.5);
  }
  if (view.box) {
    const { x, y, w, h } = view.box;
    pen.fillStyle = ink.accent;
    pen.globalAlpha = 0.15;
    pen.fillRect(x, y, w, h);
    pen.globalAlpha = 1;
    pen.strokeStyle = ink.accent;
    pen.strokeRect(x, y, w, h);
  }
}

// Live bytes over the whole time, and the window that is in sight.
function paintMini() {
  const pen = pens.mini, { width, height } = pen.canvas.parentElement.getBoundingClientRect();
  begin(pen);
  const at = (tick) => lay.left + ((tick - data.start) / span) * lay.plotWidth, base = height - 6, shown = shownArenas();
  const tall = Math.max(1, ...shown.map((a) => arenas[a].top));
  pen.fillStyle = ink.soft;
  pen.globalAlpha = 0.45;
  for (const a of shown) {
    const { tick, bytes } = arenas[a].live;
    let column = -1, most = 0;
    const flush = (to) => { if (column >= 0) pen.fillRect(column, base - most, Math.max(1, to - column), most); };
    for (let k = 0; k < tick.length; k++) {
      const x = Math.floor(at(tick[k])), tallness = (bytes[k] / tall) * (height - 14);
      if (x === column) { most = Math.max(most, tallness); continue; }
      flush(x);
      [column, most] = [x, tallness];
    }
  }
  const x0 = at(view.t0), x1 = Math.max(x0 + 4, at(view.t1));
  pen.globalAlpha = 0.14;
  pen.fillStyle = ink.accent;
  pen.fillRect(x0, 2, x1 - x0, height - 4);
  pen.globalAlpha = 1;
  pen.strokeStyle = ink.accent;
  pen.lineWidth = 1.5;
  pen.strokeRect(x0 + 0.75, 2.75, x1 - x0 - 1.5, height - 5.5);
}

// The buffer at a point, or the nearest within a few pixels; -1 if there is none. Later ones lie on top.
function bufferAt(x, y, near) {
  const pane = paneAt(y);
  if (!pane || x < lay.left || x > lay.right) return -1;
  const tick = tickOf(x), byte = byteOf(pane, y);
  const ticks = (near * (view.t1 - view.t0)) / lay.plotWidth, bytes = (near * (view.b1 - view.b0) * pane.top) / pane.height;
  const { buffer, start, stop, offset } = arenas[pane.a].rectangles;
  let found = -1, nearest = Infinity;
  for (let r = 0; r < buffer.length; r++) {
    const dx = Math.max(start[r] - tick, tick - stop[r], 0), dy = Math.max(offset[r] - byte, byte - offset[r] - buffers.size[buffer[r]], 0);
    if (dx > ticks || dy > bytes || !buffers.size[buffer[r]]) continue;
    const away = dx / ticks + dy / bytes;
    if (away < nearest || away === 0) [found, nearest] = [buffer[r], away];
  }
  return found;
}

function bandAt(x, y) {
  const tick = tickOf(x);
  return bands.find(([, , start, stop, depth]) => lay.depth && start <= tick && tick < stop && y >= lay.bandsTop + depth * lay.row && y < lay.bandsTop + (depth + 1) * lay.row);
}
