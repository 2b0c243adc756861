// Plots over the trials and over epochs. Each draws itself into a given width and is drawn anew when that changes.
const charts = [];
function chart(label, height, draw) {
  const box = h("div", { class: "chart" });
  const entry = {
    box, width: 0,
    draw(force) {
      const width = Math.floor(box.clientWidth);
      if (!width || (!force && width === entry.width)) return;
      entry.width = width;
      const tall = typeof height === "function" ? height(width) : height;
      const svg = document.createElementNS(SVG, "svg");
      svg.setAttribute("viewBox", `0 0 ${width} ${tall}`);
      svg.setAttribute("height", tall);
      svg.setAttribute("role", "img");
      svg.setAttribute("aria-label", label);
      draw(svg, width, tall);
      box.replaceChildren(svg);
      box.dataset.drawn = String(svg.querySelectorAll("circle,path,rect").length);
    },
  };
  charts.push(entry);
  return box;
}

function frame(svg, width, height, { x, y, xTicks, yTicks, xLabel, left = 54, right = 12, top = 8, bottom = 34 }) {
  const area = { left, top, right: width - right, bottom: height - bottom };
  const sx = linear(x, [area.left, area.right]), sy = linear(y, [area.bottom, area.top]);
  for (const value of yTicks ?? niceTicks(y[0], y[1], 6)) {
    if (value < y[0] || value > y[1]) continue;
    s(svg, "line", { class: "axis", x1: area.left, x2: area.right, y1: sy(value), y2: sy(value) });
    s(svg, "text", { x: area.left - 8, y: sy(value) + 4, "text-anchor": "end" }, fmt(value));
  }
  for (const [value, text] of xTicks) s(svg, "text", { x: sx(value), y: area.bottom + 17, "text-anchor": "middle" }, text);
  if (xLabel) s(svg, "text", { x: area.right, y: height - 2, "text-anchor": "end" }, xLabel);
  return { sx, sy, area };
}

function dot(svg, t, x, y, radius = 4.2) {
  const best = t.index === champion;
  const kind = best ? "dot champion" : t.value === null ? "dot failed" : "dot";
  return s(svg, "circle", { class: kind, cx: x.toFixed(1), cy: y.toFixed(1), r: best ? radius + 2.5 : radius, "data-t": t.index, fill: best || t.value === null ? null : shade(t.index) });
}
const lastBest = (list) => [...list].sort((a, b) => (a.index === champion) - (b.index === champion) || (ranks.get(a.index) ?? 0) - (ranks.get(b.index) ?? 0));

function historyPlot() {
  const valued = trials.filter((t) => t.value !== null), last = Math.max(1, ...trials.map((t) => t.index));
  return chart("Value of each trial in the order of proposal, and the best so far", (w) => (w < 500 ? 260 : 320), (svg, width, height) => {
    const domain = robust([...valued.map((t) => t.value), ...(D.objective.goal === null ? [] : [D.objective.goal])]);
    const x = [-0.5, last + 0.5];
    const { sx, sy, area } = frame(svg, width, height, { x, y: domain, xTicks: niceTicks(0, last, width < 500 ? 4 : 8).filter(Number.isInteger).map((v) => [v, String(v)]), xLabel: "trial" });
    if (D.objective.goal !== null) {
      s(svg, "line", { class: "goal", x1: area.left, x2: area.right, y1: sy(D.objective.goal), y2: sy(D.objective.goal) });
      s(svg, "text", { x: area.right, y: sy(D.objective.goal) - 5, "text-anchor": "end" }, `goal ${fmt(D.objective.goal)}`);
    }
    if (D.improvements.length) {
      let path = "";
      D.improvements.forEach(([index, value], i) => { path += i ? `H${sx(index).toFixed(1)}V${sy(value).toFixed(1)}` : `M${sx(index).toFixed(1)},${sy(value).toFixed(1)}`; });
      path += `H${area.right}`;
      s(svg, "path", { class: "area", d: `${path}V${maximize ? area.bottom : area.top}H${sx(D.improvements[0][0]).toFixed(1)}Z` });
      s(svg, "path", { class: "so-far", d: path });
    }
    for (const t of trials.filter((t) => t.state === "Failed" && t.value === null)) {
      const at = sx(t.index), y = area.bottom - 7;
      s(svg, "path", { class: "dot failed", d: `M${at - 4},${y - 4}l8,8m0,-8l-8,8`, "data-t": t.index });
    }
    for (const t of lastBest(valued)) dot(svg, t, sx(t.index), sy(t.value), valued.length > 400 ? 3 : 4.6);
  });
}

function curvesPlot() {
  const last = Math.max(2, ...D.curves.map((c) => c.points[c.points.length - 1][0]));
  return chart("Objective over epochs of each trial", (w) => (w < 500 ? 270 : 340), (svg, width, height) => {
    const values = D.curves.flatMap((c) => c.points.map((p) => p[1]));
    const { sx, sy } = frame(svg, width, height, { x: [Math.min(1, last), last], y: robust(values), xTicks: niceTicks(1, last, width < 500 ? 4 : 8).filter(Number.isInteger).map((v) => [v, String(v)]), xLabel: "epoch", right: 16 });
    for (const curve of lastBest(D.curves)) {
      const best = curve.index === champion;
      const d = curve.points.map(([x, y], i) => `${i ? "L" : "M"}${sx(x).toFixed(1)},${sy(y).toFixed(1)}`).join("");
      s(svg, "path", { class: best ? "line champion" : "line", d, "data-t": curve.index, stroke: best ? null : shade(curve.index), "stroke-dasharray": curve.state === "Running" ? "4 3" : null });
      const [x, y] = curve.points[curve.points.length - 1], t = byIndex.get(curve.index);
      if (t) s(svg, "circle", { class: best ? "dot champion" : "dot", cx: sx(x), cy: sy(y), r: best ? 5 : 3, "data-t": t.index, fill: best ? null : curve.state === "EarlyStopped" ? color("--early") : shade(t.index) });
    }
  });
}

function importancePlot() {
  const list = D.importances, row = 34;
  return chart("Share of each parameter in what makes a trial good", list.length * row + 4, (svg, width) => {
    const label = Math.min(170, width * 0.36), right = 118, scale = Math.max(20, width - label - right) / Math.max(...list.map((i) => i.share), 0.01);
    list.forEach((item, i) => {
      const y = i * row + 8;
      s(svg, "text", { class: "name", x: 0, y: y + 13 }, cut(item.name, Math.floor(label / 7)));
      s(svg, "rect", { class: "bar", x: label, y, width: Math.max(2, item.share * scale), height: 18, rx: 4 });
      const better = item.trend === null || Math.abs(item.trend) < 0.25 ? "" : item.trend > 0 === maximize ? ", more is better" : ", less is better";
      s(svg, "text", { x: label + Math.max(2, item.share * scale) + 8, y: y + 13 }, `${Math.round(item.share * 100)} %${better}`);
    });
  });
}

function reachedPlot() {
  const all = D.reached, row = Math.max(20, Math.min(34, 300 / all.length));
  return chart("How many trials reached each epoch", all.length * row + 4, (svg, width) => {
    const most = Math.max(...all.map((r) => r[1]), 1), left = 84, right = 120, scale = Math.max(20, width - left - right) / most;
    all.forEach(([epoch, reached, stopped], i) => {
      const y = i * row + 3, tall = Math.min(20, row - 6);
      s(svg, "text", { class: "name", x: 0, y: y + tall - 5 }, `epoch ${epoch}`);
      s(svg, "rect", { class: "bar back", x: left, y, width: most * scale, height: tall, rx: 4 });
      s(svg, "rect", { class: "bar", x: left, y, width: reached ? Math.max(2, reached * scale) : 0, height: tall, rx: 4 });
      if (stopped) s(svg, "rect", { class: "bar stop", x: left + (reached - stopped) * scale, y, width: Math.max(2, stopped * scale), height: tall, rx: 4 });
      s(svg, "text", { x: left + most * scale + 8, y: y + tall - 5 }, stopped ? `${reached}, ${stopped} stopped` : String(reached));
    });
  });
}
