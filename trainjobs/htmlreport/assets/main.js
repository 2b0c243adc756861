// The page from top to bottom.
function card(size, title, hint, controls, ...body) {
  return h("section", { class: `card ${size}` }, h("header", {}, h("div", {}, h("h2", {}, title), hint ? h("p", { class: "hint" }, hint) : null), controls ?? null), ...body);
}
function verdict() {
  const { outcome, phase, proof, require } = D.state;
  if (!outcome && phase !== "Ended") return [phase ? phase.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase() : "in progress", "now"];
  if (proof === "Persisted") return [`${outcome || "ended"}: checkpoints proven`, outcome === "Failed" ? "bad" : "ok"];
  if (require === "None") return [outcome || "ended", outcome === "Failed" ? "bad" : "ok"];
  return [`${outcome || "ended"}: checkpoints not proven here`, outcome === "Failed" || proof === "Missing" ? "bad" : ""];
}
function copyButton(text) {
  const button = h("button", { type: "button", class: "quiet", on: { click: async () => { try { await navigator.clipboard.writeText(text); button.textContent = "Copied"; } catch { getSelection().selectAllChildren(button.previousElementSibling); button.textContent = "Press Ctrl-C"; } setTimeout(() => { button.textContent = "Copy"; }, 1600); } } }, "Copy");
  return button;
}
function heroCard() {
  const { best } = D, metric = D.objective.metric;
  if (!best) return h("section", { class: "card hero two-thirds" }, h("p", { class: "label" }, `Best ${metric}`), h("p", { class: "value" }, "–"), h("p", { class: "under" }, "No trial has reported yet."));
  const next = trials.filter((t) => ranks.has(t.index) && t.index !== champion).sort((a, b) => ranks.get(b.index) - ranks.get(a.index)).slice(0, 4);
  const path = best.checkpoint ? `${D.sweep.uri}/${best.checkpoint}` : "";
  return h("section", { class: "card hero two-thirds" },
    h("p", { class: "label" }, `Best ${metric}, ${maximize ? "more" : "less"} is better`),
    h("p", { class: "value" }, fmt(best.value, 5)),
    h("p", { class: "under" }, h("b", {}, best.trial), ` at epoch ${best.step}, ${D.sweep.algorithm} search${D.objective.goal === null ? "" : `, goal ${fmt(D.objective.goal)}`}`),
    h("ul", { class: "chips" }, ...Object.entries(best.parameters ?? {}).map(([key, value]) => h("li", {}, h("span", {}, `${key} `), typeof value === "number" ? fmt(value) : cut(String(value), 60)))),
    next.length ? h("div", { class: "next" }, h("p", { class: "label" }, "Next best"), h("div", { class: "links" }, ...next.map((t) => h("button", { type: "button", "data-t": t.index }, `${name(t.index)}: ${fmt(t.value)}`)))) : null,
    path ? h("div", { class: "path" }, h("code", { title: path }, h("bdi", {}, path)), copyButton(path)) : null);
}
function stateCard() {
  const c = D.counts, states = [["Succeeded", c.succeeded], ["EarlyStopped", c.earlyStopped], ["Running", c.running], ["Failed", c.failed], ["Proposed", c.pending]].filter(([, n]) => n > 0);
  const done = c.succeeded + c.earlyStopped + c.failed, cost = D.cost, fact = (key, value, more) => h("div", {}, h("dt", {}, key), h("dd", {}, value, more ? h("small", {}, ` ${more}`) : null));
  return h("section", { class: "card third" },
    h("p", { class: "label" }, "Trials"),
    h("dl", { class: "facts" }, fact("ended", `${done.toLocaleString("en")}`, `of ${c.expected.toLocaleString("en")}`), D.state.eta ? fact("about to go", duration(D.state.eta)) : fact("from first to last", duration(cost.wallSeconds))),
    h("div", { class: "stack", role: "img", "aria-label": states.map(([key, n]) => `${n} ${STATE_NAME[key]}`).join(", ") }, ...states.map(([key, n]) => h("i", { vars: { "flex-grow": String(n), background: `var(${STATE_COLOR[key]})` } }))),
    h("ul", { class: "legend" }, ...states.map(([key, n]) => h("li", { vars: { "--swatch": `var(${STATE_COLOR[key]})` } }, h("b", {}, n.toLocaleString("en")), ` ${STATE_NAME[key]}`))),
    h("p", { class: "label apart" }, "Cost"),
    h("dl", { class: "facts" },
      fact("CPU time held", hours(cost.cpuSeconds)),
      D.sweep.gpus ? fact("GPU time held", hours(cost.gpuSeconds)) : fact("trial time", hours(cost.trialSeconds)),
      cost.byState.Failed ? fact("of it in failed trials", `${Math.round((100 * cost.byState.Failed) / Math.max(1, cost.trialSeconds))} %`) : null,
      cost.savedSeconds ? fact("saved by early stopping", `${Math.round((100 * cost.savedSeconds) / (cost.trialSeconds + cost.savedSeconds))} %`, "estimated") : null));
}
function failureCard() {
  return card("", "Failures", "Trials by their last error; numbers in it aside.", null, h("ul", { class: "failures" }, ...D.failures.map((f) => h("li", {},
    h("strong", {}, f.failed || f.repeated, h("small", {}, f.failed ? (f.failed === 1 ? "trial failed" : "trials failed") : "repeated, then went on")),
    h("div", {}, h("pre", {}, f.error), h("div", { class: "links" }, ...f.trials.map((index) => (byIndex.has(index) ? h("button", { type: "button", "data-t": index }, name(index)) : h("span", {}, name(index))))))))));
}
function redraw(force) {
  palette = null;
  for (const entry of charts) entry.draw(force);
}
function build() {
  const main = document.getElementById("main"), { state, sweep } = D, enough = trials.filter((t) => t.value !== null).length;
  document.getElementById("eyebrow").textContent = `TrainSweep report, ${sweep.namespace}, run ${sweep.run}${sweep.attempt > 1 ? `, attempt ${sweep.attempt}` : ""}`;
  const [words, mood] = verdict(), pill = document.getElementById("verdict");
  pill.textContent = words;
  if (mood) pill.classList.add(mood);
  const grid = h("div", { class: "grid" });
  main.replaceChildren();
  if (state.message && (state.outcome || state.phase === "Ended")) main.append(h("p", { class: `note ${state.outcome === "Failed" ? "bad" : ""}` }, state.reason && !state.message.includes(state.reason) ? `${state.reason}: ${state.message}` : state.message));
  main.append(grid);
  grid.append(heroCard(), stateCard());
  const scale = h("span", { class: "scale" }, "poor", h("i"), "good");
  if (enough) grid.append(card("", "Progress of the search", "Each point is a trial, the line is the best so far. Crosses failed.", scale, historyPlot()));
  else grid.append(card("", "Progress of the search", null, null, h("p", { class: "empty" }, "Plots appear once a trial has reported.")));
  if (D.curves.length) grid.append(card("", "Learning curves", D.curves.length < enough ? `${D.curves.length} of ${enough} trials: the best, the running and some others.` : "Ends in the colour of early stopping were stopped there.", null, curvesPlot()));
  const half = D.reached.length > 1 ? "half" : "";
  if (D.importances.length) grid.append(card(half, "What matters", "Share of each parameter in being among the best trials (PED-ANOVA).", null, importancePlot()));
  else if (enough) grid.append(card(half, "What matters", null, null, h("p", { class: "empty" }, "Importances need at least eight trials with different values.")));
  if (D.reached.length > 1) grid.append(card("half", "How far trials came", D.counts.earlyStopped ? "Trials that reached an epoch; in the other colour those that were stopped before the next mark." : "Trials that reached an epoch.", null, reachedPlot()));
  if (enough > 1) {
    const note = h("p", { class: "hint", "aria-live": "polite" });
    grid.append(card("", "Parallel coordinates", null, note, parallelPlot(note)));
    grid.append(card("", "One parameter at a time", "The most important first.", null, slicePlots()));
    if (D.parameters.length > 1) {
      const contour = contourPlot();
      grid.append(card("", "Two parameters at a time", "The ground is smoothed from the points by rank: where there are none, nothing is claimed.", contour.controls, contour.box));
    }
  }
  if (D.failures.length) grid.append(failureCard());
  const table = trialTable();
  grid.append(card("", "All trials", null, table.controls, ...table.parts));
  const receipt = state.receipt ? `, receipt sha256 ${state.receipt.slice(0, 16)}…${state.owed === null ? "" : ` over ${count(state.owed, "checkpoint")}`}` : "";
  document.getElementById("footer").append(`Written ${moment(state.writtenAt)} from ${sweep.uri}${receipt}. This file needs no network.`);
  redraw(true);
}
const root = document.documentElement, wantsDark = matchMedia("(prefers-color-scheme: dark)");
let picked = null;
try { picked = localStorage.getItem("trainsweep-theme"); } catch { /* a sandboxed page has no storage */ }
function applyTheme() { root.dataset.theme = picked ?? (wantsDark.matches ? "dark" : "light"); redraw(true); }
wantsDark.addEventListener("change", applyTheme);
document.getElementById("theme").addEventListener("click", () => {
  picked = root.dataset.theme === "dark" ? "light" : "dark";
  try { localStorage.setItem("trainsweep-theme", picked); } catch { /* then it holds for this view */ }
  applyTheme();
});
applyTheme();
build();
addEventListener("resize", () => redraw(false));
