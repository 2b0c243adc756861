// The table of trials, and one trial in full.
function stateCell(state) { return h("span", { class: "state", vars: { "--swatch": `var(${STATE_COLOR[state]})` } }, STATE_NAME[state]); }

function trialTable() {
  const columns = [
    { label: "trial", get: (t) => t.index, show: (t) => h("button", { type: "button", "data-t": t.index }, name(t.index)) },
    { label: "state", get: (t) => STATE_NAME[t.state], show: (t) => stateCell(t.state) },
    { label: D.objective.metric, get: (t) => t.value, number: true, first: maximize ? -1 : 1 },
    { label: "at epoch", get: (t) => t.bestStep, number: true },
    { label: "epochs", get: (t) => t.step, number: true },
    ...D.parameters.map((axis, i) => ({ label: axis.name, get: (t) => t.params[i], number: axis.kind !== "choice", show: (t) => shown(axis, t.params[i]) })),
    ...D.metrics.map((metric, i) => ({ label: metric, get: (t) => t.metrics[i], number: true })),
    { label: "time", get: (t) => t.seconds, number: true, show: (t) => (t.seconds ? duration(t.seconds) : "–") },
    ...(D.cost.repeated ? [{ label: "repeated", get: (t) => t.retries, number: true }] : []),
    ...(trials.some((t) => t.error) ? [{ label: "error", get: (t) => t.error || null, show: (t) => cut(t.error || "", 80) }] : []),
  ];
  let by = columns[2], direction = columns[2].first, search = "", limit = 50;
  const body = h("tbody"), more = h("button", { type: "button", class: "quiet", on: { click: () => { limit += 250; fill(); } } }), told = h("p", { class: "hint", "aria-live": "polite" });
  const compare = (a, b) => {
    const [x, y] = [by.get(a), by.get(b)];
    if (x === null || y === null || x === undefined || y === undefined) return ((x ?? null) === null) - ((y ?? null) === null) || a.index - b.index;
    return (x < y ? -1 : x > y ? 1 : 0) * direction || a.index - b.index;
  };
  const text = (t) => [name(t.index), STATE_NAME[t.state], t.error, ...D.parameters.map((axis, i) => `${axis.name}=${shown(axis, t.params[i])}`)].join(" ").toLowerCase();
  function fill() {
    const words = search.toLowerCase().split(/\s+/).filter(Boolean);
    const found = trials.filter((t) => words.length === 0 || words.every((word) => text(t).includes(word))).sort(compare);
    body.replaceChildren(...found.slice(0, limit).map((t) => h("tr", { class: t.index === champion ? "best" : null, "data-row": t.index }, ...columns.map((c) => {
      const value = c.show ? c.show(t) : fmt(c.get(t));
      return h("td", { class: c.number ? "number" : null, title: typeof value === "string" && value.length > 24 ? value : null }, value);
    }))));
    more.hidden = found.length <= limit;
    more.textContent = `Show more (${found.length - limit} left)`;
    const rest = D.sample.known - D.sample.shown;
    told.textContent = `${count(found.length, "trial")}${rest > 0 ? ` of a choice of ${D.sample.shown.toLocaleString("en")} out of ${D.sample.known.toLocaleString("en")}: the best, the failed, the newest and some of the rest. All are in trials.jsonl beside this file.` : ""}`;
  }
  const head = h("tr", {}, ...columns.map((c) => {
    const cell = h("th", { scope: "col", class: c.number ? "number" : null }, h("button", { type: "button", on: { click: () => {
      direction = by === c ? -direction : c.first ?? 1;
      by = c;
      mark();
      fill();
    } } }, cut(c.label, 28)));
    c.cell = cell;
    return cell;
  }));
  function mark() { for (const c of columns) c === by ? c.cell.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending") : c.cell.removeAttribute("aria-sort"); }
  mark();
  fill();
  const input = h("input", { type: "search", placeholder: "Find trials: failed width=32 …", "aria-label": "Find trials", on: { input: (event) => { search = event.target.value; limit = 50; fill(); } } });
  return { controls: input, parts: [told, h("div", { class: "scroll" }, h("table", { id: "trials" }, h("thead", {}, head), body)), more] };
}

function openTrial(t) {
  const dialog = document.getElementById("detail"), pairs = (list) => h("dl", { class: "pairs" }, ...list.flatMap(([key, value]) => [h("dt", {}, key), h("dd", {}, value)]));
  const facts = [["state", stateCell(t.state)], [D.objective.metric, fmt(t.value, 6)], ["epoch", t.bestStep === null ? String(t.step) : `${t.bestStep} (came to ${t.step})`], ["time", duration(t.seconds)], ["started", moment(t.start)]];
  if (t.attempt && D.sweep.attempt > 1) facts.push(["last attempt", String(t.attempt)]);
  if (t.retries) facts.push(["tries repeated", String(t.retries)]);
  dialog.replaceChildren(
    h("header", {}, h("h2", {}, `${name(t.index)}${t.index === champion ? ", the best" : ""}`), h("button", { type: "button", class: "quiet", on: { click: () => dialog.close() } }, "Close")),
    pairs(facts),
    ...(t.error ? [h("p", { class: "label" }, t.state === "Failed" ? "Error" : "Error of a try that was repeated"), h("pre", {}, t.error)] : []),
    h("p", { class: "label" }, "Parameters"), pairs(D.parameters.map((axis, i) => [axis.name, shown(axis, t.params[i])])),
    ...(D.metrics.some((_, i) => t.metrics[i] !== null) ? [h("p", { class: "label" }, "Other metrics at that epoch"), pairs(D.metrics.map((metric, i) => [metric, fmt(t.metrics[i], 6)]))] : []),
  );
  if (!dialog.open) dialog.showModal();
}
document.getElementById("detail").addEventListener("click", (event) => { if (event.target.id === "detail") event.target.close(); });
