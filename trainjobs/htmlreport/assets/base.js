// Data, elements, numbers, colours, scales: what every plot uses. Text from the run only ever becomes text nodes.
const D = JSON.parse(document.getElementById("data").textContent);
const COLUMN = { index: 0, state: 1, value: 2, bestStep: 3, step: 4, seconds: 5, start: 6, end: 7, retries: 8, attempt: 9, params: 10, metrics: 11, error: 12 };
const maximize = D.objective.mode === "Maximize";
const trials = D.trials.map((row) => Object.fromEntries(Object.entries(COLUMN).map(([name, place]) => [name, row[place]])));
const byIndex = new Map(trials.map((t) => [t.index, t]));
const champion = D.best ? Number(D.best.trial.replace(/\D/g, "")) : null;
const STATES = [
  ["Succeeded", "succeeded", "--good"], ["EarlyStopped", "stopped early", "--early"], ["Running", D.state.outcome ? "to be resumed" : "running", "--run"],
  ["Failed", "failed", "--fail"], ["Proposed", "waiting", "--wait"],
];
const STATE_NAME = Object.fromEntries(STATES.map(([key, name]) => [key, name]));
const STATE_COLOR = Object.fromEntries(STATES.map(([key, , color]) => [key, color]));
const SVG = "http://www.w3.org/2000/svg";

function h(tag, props = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "on") for (const [event, act] of Object.entries(value)) made.addEventListener(event, act);
    else if (key === "vars") for (const [name, set] of Object.entries(value)) made.style.setProperty(name, set);
    else made.setAttribute(key, value === true ? "" : String(value));
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function s(parent, tag, props = {}, text = null) {
  const made = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(props)) if (value !== null && value !== undefined) made.setAttribute(key, String(value));
  if (text !== null) made.textContent = text;
  parent.append(made);
  return made;
}

// Numbers.
function fmt(value, digits = 4) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return String(value);
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(2).replace(/\.?0+e/, "e").replace("e+", "e");
  return String(Number(value.toPrecision(digits)));
}
function duration(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${fmt(seconds / 60, 2)} min`;
  return seconds < 172800 ? `${fmt(seconds / 3600, 3)} h` : `${fmt(seconds / 86400, 3)} d`;
}
const hours = (seconds) => (seconds < 360 ? `${fmt(seconds, 3)} s` : `${fmt(seconds / 3600, 3)} h`);
const moment = (unix) => (unix ? new Date(unix * 1000).toISOString().slice(0, 16).replace("T", " ") + " UTC" : "–");
const count = (n, one, many = one + "s") => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
const name = (index) => `t${String(index).padStart(4, "0")}`;
const cut = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);

// A parameter's value as text, and its place from 0 to 1 on its axis.
function shown(axis, value) {
  if (value === null) return "–";
  return axis.kind === "choice" ? axis.values[value] ?? "–" : fmt(value);
}
function unit(axis, value) {
  if (value === null) return null;
  if (axis.kind === "choice") return axis.values.length > 1 ? value / (axis.values.length - 1) : 0.5;
  if (axis.log) return value > 0 ? Math.log(value / axis.min) / Math.log(axis.max / axis.min) : null;
  return (value - axis.min) / (axis.max - axis.min);
}
function axisTicks(axis, most = 5) {
  if (axis.kind === "choice") {
    const every = Math.ceil(axis.values.length / most);
    return axis.values.map((text, place) => [unit(axis, place), text, place]).filter((t) => t[2] % every === 0);
  }
  const values = axis.log ? logTicks(axis.min, axis.max, most) : niceTicks(axis.min, axis.max, most);
  return values.map((value) => [unit(axis, value), fmt(value), value]);
}

// Scales.
function niceTicks(low, high, most = 5) {
  if (!(high > low)) return [low];
  const raw = (high - low) / Math.max(1, most - 1), power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((m) => m >= raw * 0.999);
  const out = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9 && out.length < 20; k++) out.push(Number((k * step).toPrecision(12)));
  return out;
}
function logTicks(low, high, most = 5) {
  const first = Math.ceil(Math.log10(low) - 1e-9), last = Math.floor(Math.log10(high) + 1e-9), out = [];
  const every = Math.max(1, Math.ceil((last - first + 1) / most));
  for (let p = first; p <= last; p += every) out.push(10 ** p);
  return out.length > 1 ? out : [low, high];
}
const quantile = (sorted, q) => sorted[Math.min(sorted.length - 1, Math.max(0, Math.round(q * (sorted.length - 1))))];
// The range that is worth looking at: a diverged trial must not press all others into one line.
function robust(values) {
  const sorted = values.filter(Number.isFinite).sort((a, b) => a - b);
  if (!sorted.length) return [0, 1];
  const low = quantile(sorted, 0.25), high = quantile(sorted, 0.75), spread = (high - low || Math.abs(high) || 1) * 3;
  let from = Math.max(sorted[0], low - spread), to = Math.min(sorted[sorted.length - 1], high + spread);
  if (D.best) { from = Math.min(from, D.best.value); to = Math.max(to, D.best.value); }
  if (from === to) { from -= Math.abs(from) * 0.1 || 1; to += Math.abs(to) * 0.1 || 1; }
  const pad = (to - from) * 0.06;
  return [from - pad, to + pad];
}
const linear = (domain, range) => (value) => range[0] + ((Math.min(domain[1], Math.max(domain[0], value)) - domain[0]) / (domain[1] - domain[0])) * (range[1] - range[0]);

// Colours come from the style sheet, so that a theme is one place.
const color = (variable) => getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
function mix(a, b, t) {
  const parse = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  const [x, y] = [parse(a), parse(b)];
  return `rgb(${x.map((v, i) => Math.round(v + (y[i] - v) * t)).join(",")})`;
}
const ranks = new Map(trials.filter((t) => t.value !== null).sort((a, b) => (maximize ? a.value - b.value : b.value - a.value)).map((t, i, all) => [t.index, all.length > 1 ? i / (all.length - 1) : 1]));
let palette = null;
// From poor to good, by rank: outliers do not bleach the rest.
function shade(index) {
  palette ??= [color("--poor"), color("--mid"), color("--good")];
  const t = ranks.get(index) ?? 0;
  return t < 0.5 ? mix(palette[0], palette[1], t * 2) : mix(palette[1], palette[2], t * 2 - 1);
}

// Pointing at a trial in one plot shows it in all.
const tip = document.getElementById("tip");
function lines(t) {
  const out = [h("b", {}, t.value === null ? STATE_NAME[t.state] : `${fmt(t.value)}`), h("span", {}, `${name(t.index)}, ${STATE_NAME[t.state]}, epoch ${t.bestStep ?? t.step}`)];
  D.parameters.slice(0, 10).forEach((axis, i) => out.push(h("span", {}, `${cut(axis.name, 24)} = ${cut(shown(axis, t.params[i]), 24)}`)));
  return out;
}
function showTip(event, nodes) {
  tip.replaceChildren(...nodes);
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const x = event.clientX + 14 + box.width > innerWidth ? event.clientX - box.width - 12 : event.clientX + 14;
  const y = Math.min(innerHeight - box.height - 8, Math.max(8, event.clientY - box.height / 2));
  tip.style.left = `${Math.max(8, x)}px`;
  tip.style.top = `${y}px`;
}
function hideTip() { tip.hidden = true; }
function light(index) {
  for (const node of document.querySelectorAll(".hot")) node.classList.remove("hot");
  if (index === null) return;
  for (const node of document.querySelectorAll(`[data-t="${index}"]`)) node.classList.add("hot");
}
function trialOf(event) {
  const node = event.target.closest?.("[data-t]");
  return node ? byIndex.get(Number(node.dataset.t)) ?? null : null;
}
document.addEventListener("pointermove", (event) => {
  const t = event.target.closest?.("svg") ? trialOf(event) : null;
  if (t) { showTip(event, lines(t)); light(t.index); }
  else if (!tip.hidden && !event.target.closest?.("[data-tip]")) { hideTip(); light(null); }
});
document.addEventListener("click", (event) => {
  const t = trialOf(event);
  if (t) { hideTip(); openTrial(t); }
});
