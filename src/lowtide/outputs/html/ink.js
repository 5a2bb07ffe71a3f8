// Colours: those of the theme, and those of the buffers.

const root = document.documentElement;
const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
const remembered = (() => { try { return localStorage.getItem("lowtide-theme"); } catch { return null; } })();
let chosen = remembered !== null;
let theme = remembered ?? (prefersDark.matches ? "dark" : "light");
let ink = {};

function setTheme(name, remember = false) {
  theme = name;
  root.dataset.theme = name;
  chosen ||= remember;
  if (remember) try { localStorage.setItem("lowtide-theme", name); } catch { /* a page from a file may have no storage */ }
  const style = getComputedStyle(root);
  const read = (key) => style.getPropertyValue(`--${key}`).trim();
  ink = { sheet: read("sheet"), ink: read("ink"), soft: read("soft"), line: read("line"), grid: read("grid"), accent: read("accent"), peak: read("peak"), good: read("good"), shade: read("shade") };
  mixInks();
}

const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
function mix(hex, other, amount) {
  const a = channels(hex), b = channels(other);
  return `#${a.map((v, k) => Math.round(v + (b[k] - v) * amount).toString(16).padStart(2, "0")).join("")}`;
}
function luminance(hex) {
  const [r, g, b] = channels(hex).map((v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

// Neighbours of one group take three shades of its colour in turn, so that each can be told apart.
const shades = 3;
let fillPixels = new Uint32Array(), labelInks = [];
const groupColour = (group) => data.colourings[view.colouring][theme][group];
const fillIndex = (i) => data.colourings[view.colouring].groups[i] * shades + (i % shades);

function mixInks() {
  const fills = data.colourings[view.colouring][theme].flatMap((colour) => [colour, mix(colour, "#ffffff", 0.13), mix(colour, "#000000", 0.08)]);
  labelInks = fills.map((fill) => (luminance(fill) > 0.2 ? "#10161d" : "#ffffff"));
  fillPixels = Uint32Array.from(fills.map(channels), ([r, g, b]) => (0xff000000 | (b << 16) | (g << 8) | r) >>> 0); // little-endian RGBA
}

const bandInks = { branch: 2, condition: 6, body: 3, delegate: 5 };
const bandColour = (kind) => (kind === "root" ? ink.soft : data.palette[theme][bandInks[kind] ?? 4]);
