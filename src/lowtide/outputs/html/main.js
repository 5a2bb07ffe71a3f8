// Pointer, keys and controls: what each changes in the view, and drawing it at the next frame.

const pending = { base: false, over: false, panel: false };
let asked = false;

function refresh(...what) {
  for (const part of what.length ? what : ["base", "over", "panel"]) pending[part] = true;
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    if (pending.base) { paintBase(); paintMini(); }
    if (pending.base || pending.over) paintOver();
    if (pending.panel) {
      paintPanel(actions);
      paintLegend(chooseGroup);
      byId("peak").setAttribute("aria-pressed", String(atPeak()));
      byId("found").textContent = view.hits ? (view.hit < 0 ? exact(view.hits.length) : `${exact(view.hit + 1)} / ${exact(view.hits.length)}`) : "";
    }
    Object.keys(pending).forEach((part) => { pending[part] = false; });
  });
}

const actions = { refresh: () => refresh("panel"), chooseBuffer };
const say = (text) => { byId("spoken").textContent = text; };
const atPeak = () => view.step >= 0 && view.step === stepAt(peakTick());

function chooseBuffer(i) {
  view.buffer = i;
  reveal(intervals[i][0][0], intervals[i].at(-1)[1]);
  say(`${nameOf(i)}, ${both(buffers.size[i])}, alive ${lifetimeOf(i)}`);
  refresh();
}

function chooseStep(i, move = true) {
  if (!stepCount) return;
  view.step = Math.min(stepCount - 1, Math.max(0, i));
  listLimit = 60;
  const tick = stepStart(view.step), alive = aliveAt(tick, shownArenas());
  if (view.buffer >= 0 && !alive.includes(view.buffer)) view.buffer = -1;
  if (move) reveal(tick, stepStop(view.step));
  const live = shownArenas().reduce((total, a) => total + liveAt(arenas[a], tick), 0);
  say(`Step ${tick}, ${stepName(view.step)}: ${both(live)} in ${plural(alive.length, "buffer")}`);
  refresh();
}

function chooseGroup(group) {
  view.group = view.group === group ? -1 : group;
  refresh();
}

function chooseColouring(k) {
  view.colouring = k;
  view.group = -1;
  byId("colour").value = String(k);
  mixInks();
  refresh();
}

function togglePeak() {
  if (atPeak()) view.step = -1;
  else { view.buffer = -1; chooseStep(stepAt(peakTick())); }
  refresh();
}

function find(query) {
  view.hits = search(query);
  view.hit = -1;
  listLimit = 60;
  if (view.hits) say(`${plural(view.hits.length, "buffer")} found`);
  refresh();
}

function nextHit(direction) {
  if (!view.hits?.length) return;
  view.hit = (view.hit + direction + view.hits.length) % view.hits.length;
  view.step = -1;
  const i = view.hits[view.hit];
  if (view.arena >= 0 && arenaOf[i] !== view.arena) chooseArena(-1);
  chooseBuffer(i);
}

function chooseArena(a) {
  view.arena = a;
  byId("arena").value = String(a);
  resize();
  refresh();
}

function clearAll() {
  Object.assign(view, { step: -1, buffer: -1, group: -1, hits: null, hit: -1 });
  byId("search").value = "";
  refresh();
}

// The buffer above or below the selected one, among those alive at the selected step.
function neighbour(direction) {
  if (view.step < 0) return chooseStep(stepAt(peakTick()));
  const alive = aliveAt(stepStart(view.step), shownArenas()).sort((x, y) => arenaOf[y] - arenaOf[x] || offsetOf[x] - offsetOf[y] || x - y);
  if (!alive.length) return undefined;
  const at = alive.indexOf(view.buffer);
  return chooseBuffer(alive[at < 0 ? (direction > 0 ? 0 : alive.length - 1) : Math.min(alive.length - 1, Math.max(0, at + direction))]);
}

// Pointers: one drags, two pinch, and one that has not moved clicks.
const fingers = new Map();
let drag = null;

function place(event) {
  const box = plot.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

plot.addEventListener("pointerdown", (event) => {
  if (event.button) return;
  const [x, y] = place(event);
  fingers.set(event.pointerId, [x, y]);
  plot.setPointerCapture(event.pointerId);
  hideTip();
  drag = { x, y, t0: view.t0, t1: view.t1, b0: view.b0, b1: view.b1, moved: false, box: event.shiftKey, pinch: pinch() };
});

function pinch() {
  if (fingers.size !== 2) return null;
  const [[xa], [xb]] = fingers.values();
  return { apart: Math.max(12, Math.abs(xa - xb)), tick: tickOf((xa + xb) / 2) };
}

plot.addEventListener("pointermove", (event) => {
  const [x, y] = place(event);
  if (!fingers.has(event.pointerId)) return hover(x, y, event);
  fingers.set(event.pointerId, [x, y]);
  if (fingers.size === 2 && drag.pinch) {
    const now = pinch();
    const width = (drag.t1 - drag.t0) * (drag.pinch.apart / now.apart);
    const [[xa], [xb]] = fingers.values(), at = ((xa + xb) / 2 - lay.left) / lay.plotWidth;
    setTime(drag.pinch.tick - at * width, drag.pinch.tick + (1 - at) * width);
    drag.moved = true;
    return refresh("base", "over");
  }
  if (!drag.moved && Math.hypot(x - drag.x, y - drag.y) < 4) return undefined;
  drag.moved = true;
  if (drag.box) {
    view.box = { x: Math.min(x, drag.x), y: Math.min(y, drag.y), w: Math.abs(x - drag.x), h: Math.abs(y - drag.y) };
    return refresh("over");
  }
  plot.classList.add("dragging");
  const shift = ((x - drag.x) / lay.plotWidth) * (drag.t1 - drag.t0);
  setTime(drag.t0 - shift, drag.t1 - shift);
  const pane = paneAt(drag.y);
  if (pane && event.pointerType === "mouse") {
    const rise = ((y - drag.y) / pane.height) * (drag.b1 - drag.b0);
    setBytes(drag.b0 + rise, drag.b1 + rise);
  }
  return refresh("base", "over");
});

function release(event) {
  const known = fingers.delete(event.pointerId);
  if (!known || fingers.size) return;
  plot.classList.remove("dragging");
  const { box } = view, was = drag;
  view.box = null;
  drag = null;
  if (box) {
    const pane = paneAt(box.y + box.h / 2);
    const [t0, t1] = [tickOf(box.x), tickOf(box.x + box.w)];
    if (pane) setBytes(byteOf(pane, box.y + box.h) / pane.top, byteOf(pane, box.y) / pane.top);
    setTime(t0, t1);
    refresh("base", "over");
  } else if (!was.moved && event.type === "pointerup") click(...place(event), event);
}
plot.addEventListener("pointerup", release);
plot.addEventListener("pointercancel", release);

function click(x, y, event) {
  const band = bandAt(x, y);
  if (band) {
    setTime(band[2] - (band[3] - band[2]) * 0.03, band[3] + (band[3] - band[2]) * 0.03);
    return refresh();
  }
  if (x < lay.left || x > lay.right || !stepCount) return undefined;
  view.buffer = bufferAt(x, y, event.pointerType === "mouse" ? 2 : 8);
  return chooseStep(stepAt(tickOf(x)), false); // it is in sight, and a second click must find it where it was
}

plot.addEventListener("dblclick", (event) => {
  const i = bufferAt(...place(event), 2);
  if (i >= 0) zoomToBuffer(i);
  else fit();
  refresh();
});

function hover(x, y, event) {
  if (event.pointerType !== "mouse") return;
  const inside = x >= lay.left && x <= lay.right;
  const band = inside ? bandAt(x, y) : undefined, i = inside && !band ? bufferAt(x, y, 2) : -1;
  const tick = inside ? tickOf(x) : null;
  if (i !== view.hoverBuffer || tick === null || view.hoverTick === null || stepAt(tick) !== stepAt(view.hoverTick)) refresh("over");
  Object.assign(view, { hoverBuffer: i, hoverTick: tick });
  plot.style.cursor = band ? "zoom-in" : "";
  if (i >= 0) return showTip(event.clientX, event.clientY, nameOf(i), factsOf(i));
  if (band) return showTip(event.clientX, event.clientY, band[0], [["region", band[1]], ["runs", `[${exact(band[2])}, ${exact(band[3])})`]]);
  if (tick !== null && stepCount && paneAt(y)) {
    const at = stepAt(tick), pane = paneAt(y);
    return showTip(event.clientX, event.clientY, stepName(at) || `step ${exact(stepStart(at))}`,
      [["step", exact(stepStart(at))], ["live", both(liveAt(arenas[pane.a], stepStart(at)))], ["free here", "no buffer"]]);
  }
  return hideTip();
}

plot.addEventListener("pointerleave", () => {
  Object.assign(view, { hoverBuffer: -1, hoverTick: null });
  hideTip();
  refresh("over");
});

plot.addEventListener("wheel", (event) => {
  event.preventDefault();
  const [x, y] = place(event), pane = paneAt(y), lines = event.deltaMode === 1 ? 30 : 1;
  const factor = Math.exp(-event.deltaY * lines * (event.ctrlKey ? 0.01 : 0.0016));
  if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
    const by = (((event.deltaX || event.deltaY) * lines) / lay.plotWidth) * (view.t1 - view.t0);
    setTime(view.t0 + by, view.t1 + by);
  } else if (pane && (event.altKey || x < lay.left)) zoomBytes(factor, byteOf(pane, y) / pane.top);
  else zoomTime(factor, tickOf(Math.max(lay.left, x)));
  hideTip();
  refresh("base", "over");
}, { passive: false });

// The strip below: press to go there, drag to move on.
const strip = byId("map");
function stripTo(event) {
  const box = strip.getBoundingClientRect(), width = view.t1 - view.t0;
  const tick = data.start + ((event.clientX - box.left - lay.left) / lay.plotWidth) * span;
  setTime(tick - width / 2, tick + width / 2);
  refresh("base", "over");
}
strip.addEventListener("pointerdown", (event) => { strip.setPointerCapture(event.pointerId); stripTo(event); });
strip.addEventListener("pointermove", (event) => { if (strip.hasPointerCapture(event.pointerId)) stripTo(event); });

const pan = (across, up) => {
  const time = (view.t1 - view.t0) * across, bytes = (view.b1 - view.b0) * up;
  setTime(view.t0 + time, view.t1 + time);
  setBytes(view.b0 + bytes, view.b1 + bytes);
};

const keys = {
  "+": () => zoomTime(1.5, aim()), "=": () => zoomTime(1.5, aim()), "-": () => zoomTime(1 / 1.5, aim()), "0": fit,
  z: () => { if (view.buffer >= 0) zoomToBuffer(view.buffer); },
  p: togglePeak, t: switchTheme, c: () => chooseColouring((view.colouring + 1) % data.colourings.length),
  "/": () => byId("search").focus(), "?": () => byId("help").showModal(), Escape: clearAll,
};
const arrows = {
  ArrowLeft: () => chooseStep(view.step < 0 ? stepAt(view.t1) : view.step - 1),
  ArrowRight: () => chooseStep(view.step < 0 ? stepAt(view.t0) : view.step + 1),
  ArrowUp: () => neighbour(1), ArrowDown: () => neighbour(-1),
};
const pans = { ArrowLeft: [-0.15, 0], ArrowRight: [0.15, 0], ArrowUp: [0, 0.15], ArrowDown: [0, -0.15] };
// Keys zoom about the selected step while it is in sight.
function aim() {
  if (view.step < 0) return undefined;
  const tick = (stepStart(view.step) + stepStop(view.step)) / 2;
  return tick >= view.t0 && tick <= view.t1 ? tick : undefined;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
  const typing = event.target.matches("input, select");
  if (typing && event.key !== "Escape") return;
  const onPlot = event.target === plot || event.target === document.body;
  if (arrows[event.key]) {
    if (!onPlot) return;
    if (event.shiftKey) pan(...pans[event.key]);
    else arrows[event.key]();
  } else if (keys[event.key]) {
    if (typing) plot.focus();
    keys[event.key]();
  } else return;
  event.preventDefault();
  refresh();
});

function switchTheme() {
  setTheme(theme === "dark" ? "light" : "dark", true);
  refresh();
}

byId("search").addEventListener("input", (event) => find(event.target.value));
byId("search").addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  event.preventDefault();
  nextHit(event.shiftKey ? -1 : 1);
});
byId("peak").addEventListener("click", togglePeak);
byId("in").addEventListener("click", () => { zoomTime(1.6, aim()); refresh(); });
byId("out").addEventListener("click", () => { zoomTime(1 / 1.6, aim()); refresh(); });
byId("fit").addEventListener("click", () => { fit(); refresh(); });
byId("theme").addEventListener("click", switchTheme);
byId("keys").addEventListener("click", () => byId("help").showModal());
byId("colour").append(...data.colourings.map(({ by }, k) => element("option", { value: String(k) }, by)));
byId("colour").addEventListener("change", (event) => chooseColouring(Number(event.target.value)));
byId("arena-field").hidden = arenas.length < 2;
byId("arena").append(element("option", { value: "-1" }, "all"), ...arenas.map(({ name }, a) => element("option", { value: String(a) }, name)));
byId("arena").addEventListener("change", (event) => chooseArena(Number(event.target.value)));
prefersDark.addEventListener("change", (event) => {
  if (chosen) return;
  setTheme(event.matches ? "dark" : "light");
  refresh();
});
new ResizeObserver(() => { resize(); refresh("base", "over"); }).observe(plot);

// For scripts and tests: where a buffer's first rectangle, or a step, is on the screen; and what is in sight.
window.lowtide = {
  data, view, human,
  locate(name) {
    const i = buffers.name.findIndex((at) => texts[at] === name), pane = lay.panes.find(({ a }) => a === arenaOf[i]);
    const box = plot.getBoundingClientRect(), [start, stop] = intervals[i][0];
    return { x: box.left + xOf((start + stop) / 2), y: box.top + yOf(pane, offsetOf[i] + buffers.size[i] / 2) };
  },
  locateStep: (tick) => ({ x: plot.getBoundingClientRect().left + xOf(tick + 0.5), y: plot.getBoundingClientRect().top + lay.bottom - 4 }),
  paint() { const began = performance.now(); paintBase(); paintOver(); paintMini(); return performance.now() - began; },
};

byId("colour").value = String(view.colouring);
setTheme(theme);
paintFacts();
resize();
refresh();
requestAnimationFrame(() => requestAnimationFrame(() => { window.lowtide.painted = performance.now(); }));
