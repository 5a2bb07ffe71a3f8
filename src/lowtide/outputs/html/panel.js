// What stands beside the picture in words: facts, legend, details, and the tip at the pointer.

function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (key.startsWith("aria-") || key.startsWith("data-")) made.setAttribute(key, value);
    else if (key === "style") made.style.cssText = value;
    else made[key] = value;
  }
  made.append(...children);
  return made;
}

function definitions(pairs) {
  const list = element("dl");
  for (const [term, value] of pairs) if (value !== "") list.append(element("dt", {}, term), element("dd", {}, value));
  return list;
}

function paintFacts() {
  const sum = (key) => arenas.reduce((total, arena) => total + arena[key], 0);
  const total = sum("bytes"), bound = sum("lower_bound");
  const over = arenas.some((arena) => arena.capacity !== null && arena.bytes > arena.capacity);
  const verdict = total === bound ? ["optimal", "no plan is smaller", "good"]
    : [`${(100 * (total / (bound || 1) - 1)).toFixed(1)}% above`, "the lower bound", over ? "short" : ""];
  const fact = (term, value, small, mark = "") => element("div", {}, element("dt", {}, term), element("dd", { className: mark }, value, element("small", {}, small)));
  const inBytes = (n) => [human(n), n < 1024 ? "" : `${exact(n)} B`];
  byId("facts").replaceChildren(
    fact(arenas.length > 1 ? `${arenas.length} arenas` : "Arena", ...inBytes(total)),
    fact("Live peak", ...inBytes(sum("live_peak"))),
    fact("Lower bound", ...inBytes(bound)),
    fact("Verdict", ...verdict),
  );
  byId("title").textContent = data.title;
  byId("subtitle").textContent = `${plural(bufferCount, "buffer")} · ${plural(stepCount, "step")} · packed by ${data.packer}, ${data.hierarchy}`;
}

function paintLegend(onChoose) {
  const { labels } = data.colourings[view.colouring];
  byId("legend").replaceChildren(...labels.map((label, group) => element("li", {},
    element("button", { "aria-pressed": String(view.group === group), title: label, onclick: () => onChoose(group) },
      element("i", { style: `background:${groupColour(group)}` }), element("span", {}, label)))));
}

const factsOf = (i) => [
  ["size", both(buffers.size[i])],
  ["type", [textOf("dtype", i), textOf("shape", i)].filter(Boolean).join(" ")],
  ["kind", textOf("kind", i)],
  ["alive", `${lifetimeOf(i)}`],
  ["place", `${exact(offsetOf[i])} to ${exact(offsetOf[i] + buffers.size[i])}${arenas.length > 1 ? ` in arena ${arenas[arenaOf[i]].id}` : ""}`],
  ["operator", textOf("operator", i)],
  ["source", textOf("source", i)],
  ["region", bands.length > 1 ? textOf("region", i) : ""],
];

function bufferRows(list, whole, limit, onChoose) {
  const rows = element("ol");
  for (const i of list.slice(0, limit)) {
    const part = whole ? Math.min(100, (100 * buffers.size[i]) / whole) : 0;
    rows.append(element("li", {}, element("button",
      { className: "row", title: nameOf(i), "aria-current": String(i === view.buffer), "data-buffer": i, onclick: () => onChoose(i) },
      element("i", { className: "chip", style: `background:${groupColour(data.colourings[view.colouring].groups[i])}` }),
      element("b", {}, short(nameOf(i))), element("span", {}, human(buffers.size[i])), element("u", { style: `--share:${part}%` }))));
  }
  return rows;
}

let listLimit = 60;

function listed(list, whole, actions) {
  const parts = [bufferRows(list, whole, listLimit, actions.chooseBuffer)];
  if (list.length > listLimit) {
    parts.push(element("button", { className: "more", onclick: () => { listLimit *= 8; actions.refresh(); } }, `Show more of ${exact(list.length)}`));
  }
  return parts;
}

function bufferSection(i) {
  const name = nameOf(i);
  return element("section", { id: "buffer" },
    element("h2", {}, short(name)),
    short(name) === name ? "" : element("p", { className: "note" }, name),
    definitions([...factsOf(i), ["aligned to", exact(buffers.alignment[i])]]));
}

function stepSection(i, actions) {
  const tick = stepStart(i), shown = shownArenas(), alive = aliveAt(tick, shown);
  const live = shown.reduce((total, a) => total + liveAt(arenas[a], tick), 0);
  const most = shown.reduce((total, a) => total + arenas[a].peak[2], 0);
  const ticks = stepStop(i) - tick > 1 ? `Steps ${exact(tick)} to ${exact(stepStop(i) - 1)}` : `Step ${exact(tick)}`;
  return element("section", { id: "step", "data-live": live, "data-alive": alive.length },
    element("h2", {}, ticks),
    element("p", { className: "note" }, stepName(i)),
    definitions([["live", both(live)], [shown.length > 1 ? "of the peaks" : "of the peak", share(live, most)], ["buffers", exact(alive.length)]]),
    ...listed(alive, live, actions));
}

function paintPanel(actions) {
  const parts = [];
  if (view.buffer >= 0) parts.push(bufferSection(view.buffer));
  if (view.hits) {
    const total = view.hits.reduce((sum, i) => sum + buffers.size[i], 0);
    parts.push(element("section", { id: "hits" },
      element("h2", {}, `${plural(view.hits.length, "buffer")} found`),
      element("p", { className: "note" }, view.hits.length ? `${both(total)} in all` : "Search looks at names, kinds, regions, types, shapes, operators and source lines."),
      ...listed(view.hits, view.hits.length ? buffers.size[view.hits[0]] : 0, actions)));
  }
  if (view.step >= 0) parts.push(stepSection(view.step, actions));
  if (!parts.length) {
    const all = buffers.size.map((_, i) => i).filter((i) => view.arena < 0 || arenaOf[i] === view.arena);
    all.sort((x, y) => buffers.size[y] - buffers.size[x] || x - y);
    parts.push(element("section", { id: "largest" },
      element("h2", {}, "Largest buffers"),
      element("p", { className: "note" }, "Click the picture to list what is alive at a step."),
      bufferRows(all, buffers.size[all[0]] ?? 0, 25, actions.chooseBuffer)));
  }
  byId("panel").replaceChildren(...parts);
}

const tip = byId("tip");

function showTip(x, y, title, pairs) {
  tip.replaceChildren(element("strong", {}, title), definitions(pairs));
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const left = x + 16 + width > window.innerWidth ? x - 16 - width : x + 16;
  const top = y + 16 + height > window.innerHeight ? y - 16 - height : y + 16;
  tip.style.left = `${Math.max(8, Math.min(left, window.innerWidth - width - 8))}px`;
  tip.style.top = `${Math.max(8, top)}px`;
}

function hideTip() { tip.hidden = true; }
