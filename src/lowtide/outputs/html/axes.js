// Bands of regions, and the axes of bytes and of time.

function paintBands(pen) {
  if (!lay.depth) return;
  for (const [region, kind, start, stop, depth] of bands) {
    if (depth >= lay.depth || stop <= view.t0 || start >= view.t1) continue;
    const from = Math.max(lay.left, xOf(start)), to = Math.min(lay.right, xOf(stop));
    const y = lay.bandsTop + depth * lay.row, width = Math.max(1, to - from - 1), colour = bandColour(kind);
    pen.globalAlpha = theme === "dark" ? 0.42 : 0.36;
    pen.fillStyle = colour;
    pen.fillRect(from, y, width, lay.row - 2);
    pen.globalAlpha = 1;
    pen.fillRect(from, y, Math.min(3, width), lay.row - 2);
    if (lay.row >= 13) {
      pen.font = fontOf(11);
      pen.fillStyle = ink.ink;
      pen.textAlign = "left";
      pen.textBaseline = "middle";
      const name = short(region), long = name === kind ? name : `${kind} · ${name}`;
      const label = [long, name, kind].find((text) => pen.measureText(text).width <= width - 10) ?? fitted(pen, name, width - 10);
      pen.fillText(label, from + 7, y + lay.row / 2 - 0.5);
    }
  }
}

// When each region runs, down through the picture.
function paintStripes(pen) {
  if (!lay.depth) return;
  pen.globalAlpha = theme === "dark" ? 0.1 : 0.09;
  for (const [, kind, start, stop, depth] of bands) {
    if (!depth || depth >= lay.depth || stop <= view.t0 || start >= view.t1) continue;
    const from = Math.max(lay.left, xOf(start)), to = Math.min(lay.right, xOf(stop)), y = lay.bandsTop + (depth + 1) * lay.row - 2;
    pen.fillStyle = bandColour(kind);
    pen.fillRect(from, y, to - from, lay.bottom - y);
  }
  pen.globalAlpha = 1;
}

function niceStep(least, base) {
  if (base === 2) return 2 ** Math.max(0, Math.ceil(Math.log2(least)));
  const power = 10 ** Math.floor(Math.log10(Math.max(1, least)));
  return [1, 2, 5, 10].map((m) => m * power).find((s) => s >= least);
}

const tickLabel = (size) => human(size).replace(".0 ", " ");

function paintByteAxis(pen, pane) {
  const low = byteOf(pane, pane.y + pane.height), high = byteOf(pane, pane.y);
  const step = niceStep(((high - low) / pane.height) * 46, 2);
  pen.font = fontOf(11);
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  for (let byte = Math.ceil(low / step) * step; byte <= high; byte += step) {
    const y = yOf(pane, byte);
    pen.fillStyle = ink.grid;
    pen.fillRect(lay.left, Math.round(y), lay.right - lay.left, 1);
    pen.fillStyle = ink.soft;
    pen.fillText(tickLabel(byte), lay.left - 8, Math.min(y, pane.y + pane.height - 4));
  }
  pen.fillStyle = ink.line;
  pen.fillRect(lay.left - 1, pane.y - headroom, 1, pane.height + headroom);
  pen.fillRect(lay.left - 1, pane.y + pane.height, lay.right - lay.left + 1, 1);
  if (pane.top && arenas[pane.a].reserved) {
    const y = yOf(pane, arenas[pane.a].reserved);
    pen.globalAlpha = 0.4;
    pen.fillStyle = ink.line;
    pen.fillRect(lay.left, y, lay.right - lay.left, Math.max(0, pane.y + pane.height - y));
    pen.globalAlpha = 1;
  }
}

function paintTimeAxis(pen) {
  const perTick = lay.plotWidth / (view.t1 - view.t0), step = niceStep(64 / perTick, 10);
  const middle = perTick >= 20 ? 0.5 : 0;
  pen.font = fontOf(11);
  pen.textBaseline = "alphabetic";
  pen.fillStyle = ink.soft;
  for (let tick = Math.ceil(view.t0 / step) * step; tick < view.t1; tick += step) {
    const x = xOf(tick + middle), label = exact(tick), half = pen.measureText(label).width / 2;
    if (x - half < lay.left - 12 || x + half > lay.right + 10) continue;
    pen.textAlign = "center";
    pen.fillText(label, x, lay.bottom + 16);
  }
  if (perTick < 40) {
    pen.textAlign = "center";
    pen.fillText("step", (lay.left + lay.right) / 2, lay.bottom + 31);
    return;
  }
  for (let i = stepAt(view.t0); i < stepCount && stepStart(i) < view.t1; i++) {
    const from = Math.max(lay.left, xOf(stepStart(i))), to = Math.min(lay.right, xOf(stepStop(i)));
    pen.textAlign = "center";
    pen.fillText(fitted(pen, short(stepName(i)), to - from - 8), (from + to) / 2, lay.bottom + 31);
  }
}
