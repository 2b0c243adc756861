// Plots over the search space: parallel coordinates, one parameter at a time, two at a time.
function parallelPlot(note) {
  const axes = D.parameters, chosen = new Map();
  const values = trials.filter((t) => t.value !== null), domain = robust(values.map((t) => t.value));
  const drawn = lastBest(values).slice(-500);
  const box = chart("Parameters and value of each trial as a line over parallel axes", 360, (svg, width, height) => {
    const top = 34, bottom = height - 24, left = 34, right = width - 46, n = axes.length;
    const at = (i) => left + ((right - left) * i) / n, sy = linear([0, 1], [bottom, top]), sv = linear(domain, [bottom, top]);
    const paths = [];
    for (const t of drawn) {
      const points = axes.map((axis, i) => { const u = unit(axis, t.params[i]); return u === null ? null : [at(i), sy(u)]; });
      points.push([at(n), sv(t.value)]);
      let d = "", open = false;
      for (const point of points) { if (!point) { open = false; continue; } d += `${open ? "L" : "M"}${point[0].toFixed(1)},${point[1].toFixed(1)}`; open = true; }
      const best = t.index === champion;
      paths.push([t, s(svg, "path", { class: best ? "line champion" : "line", d, "data-t": t.index, stroke: best ? null : shade(t.index) })]);
    }
    const apply = () => {
      let left = 0;
      for (const [t, path] of paths) {
        const inside = [...chosen].every(([i, [low, high]]) => { const y = i === n ? sv(t.value) : unit(axes[i], t.params[i]) === null ? null : sy(unit(axes[i], t.params[i])); return y !== null && y >= low - 1 && y <= high + 1; });
        path.classList.toggle("off", !inside);
        left += inside ? 1 : 0;
      }
      note.textContent = chosen.size ? `${left} of ${drawn.length} trials pass; click an axis to let go` : "Drag along an axis to pick trials. Lines are coloured by rank, the best one stands out.";
    };
    for (let i = 0; i <= n; i++) {
      const label = i === n ? D.objective.metric : axes[i].name, x = at(i), room = (right - left) / n;
      s(svg, "line", { class: "axis", x1: x, x2: x, y1: top, y2: bottom });
      s(svg, "text", { class: "strong", x: i === n ? x + 44 : Math.max(x, 4), y: i % 2 && room < 90 ? 28 : 13, "text-anchor": i === n ? "end" : i ? "middle" : "start" }, cut(label, Math.max(6, Math.floor((room - 8) / (room < 90 ? 4 : 7)))));
      const ticks = i === n ? niceTicks(domain[0], domain[1], 5).map((v) => [sv(v), fmt(v)]) : axisTicks(axes[i], 6).map((t) => [sy(t[0]), t[1]]);
      for (const [y, text] of ticks) s(svg, "text", { class: "halo", x: x + 6, y: y + 4 }, cut(text, i === n ? 9 : Math.max(3, Math.floor(room / 9))));
      const brush = s(svg, "rect", { class: "brush", x: x - 8, width: 16, y: 0, height: 0 });
      const grab = s(svg, "rect", { class: "grab", x: x - 12, width: 24, y: top - 6, height: bottom - top + 12 });
      let from = null;
      const yOf = (event) => Math.min(bottom, Math.max(top, event.clientY - svg.getBoundingClientRect().top));
      const paint = () => { const range = chosen.get(i); brush.setAttribute("y", range ? range[0] : 0); brush.setAttribute("height", range ? range[1] - range[0] : 0); };
      grab.addEventListener("pointerdown", (event) => { grab.setPointerCapture(event.pointerId); from = yOf(event); chosen.delete(i); paint(); apply(); });
      grab.addEventListener("pointermove", (event) => { if (from === null) return; const to = yOf(event); if (Math.abs(to - from) > 3) chosen.set(i, [Math.min(from, to), Math.max(from, to)]); paint(); apply(); });
      grab.addEventListener("pointerup", () => { from = null; });
    }
    chosen.clear();
    apply();
  });
  box.style.minWidth = `${Math.min(2400, (axes.length + 1) * 84)}px`;
  return h("div", { class: "scroll" }, box);
}

function slicePlots() {
  const valued = lastBest(trials.filter((t) => t.value !== null)), domain = robust(valued.map((t) => t.value));
  const order = new Map(D.importances.map((item, i) => [item.name, i]));
  const axes = D.parameters.map((axis, i) => [axis, i]).sort((a, b) => (order.get(a[0].name) ?? 99) - (order.get(b[0].name) ?? 99)).slice(0, 16);
  const some = valued.length > 600 ? valued.filter((_, i) => i % Math.ceil(valued.length / 600) === 0 || i > valued.length - 40) : valued;
  return h("div", { class: "small" }, ...axes.map(([axis, place]) => chart(`Value against ${axis.name}`, 210, (svg, width, height) => {
    const { sx, sy } = frame(svg, width, height, { x: [-0.04, 1.04], y: domain, yTicks: niceTicks(domain[0], domain[1], 6), xTicks: axisTicks(axis, 4).map((t) => [t[0], cut(t[1], 10)]), top: 24, left: 46 });
    s(svg, "text", { class: "strong", x: 0, y: 11 }, cut(axis.name, Math.floor(width / 7)));
    for (const t of some) {
      const u = unit(axis, t.params[place]);
      if (u === null) continue;
      // Choices lie in one column: a fixed shift by index keeps them apart.
      const shift = axis.kind === "choice" ? (((t.index * 7) % 11) - 5) / (60 * Math.max(1, axis.values.length - 1)) : 0;
      dot(svg, t, sx(u + shift), sy(t.value), 3.6);
    }
  })));
}

function contourPlot() {
  const wanted = [...D.importances.map((item) => item.name), ...D.parameters.map((axis) => axis.name)];
  const first = [...new Set(wanted)].slice(0, 2).map((label) => D.parameters.findIndex((axis) => axis.name === label));
  const pick = { x: first[0], y: first[1] };
  const valued = lastBest(trials.filter((t) => t.value !== null)).slice(-800);
  const box = chart("Value over two parameters, smoothed", (w) => Math.min(460, Math.max(280, w * 0.62)), (svg, width, height) => {
    const [ax, ay] = [D.parameters[pick.x], D.parameters[pick.y]];
    const area = { left: 66, right: width - 12, top: 8, bottom: height - 40 };
    const sx = linear([-0.05, 1.05], [area.left, area.right]), sy = linear([-0.05, 1.05], [area.bottom, area.top]);
    const points = valued.map((t) => [unit(ax, t.params[pick.x]), unit(ay, t.params[pick.y]), ranks.get(t.index) ?? 0, t]).filter((p) => p[0] !== null && p[1] !== null);
    const cells = 26, wide = (area.right - area.left) / cells, tall = (area.bottom - area.top) / cells;
    const near = Math.max(0.07, 0.34 / Math.sqrt(Math.max(1, points.length / 6))), colors = [color("--poor"), color("--mid"), color("--good")];
    const ground = s(svg, "g", { filter: "url(#soft)", "clip-path": "url(#ground)" });
    const defs = s(svg, "defs"), soft = s(defs, "filter", { id: "soft", x: 0, y: 0, width: 1, height: 1 });
    s(soft, "feGaussianBlur", { stdDeviation: `${(wide * 0.6).toFixed(1)} ${(tall * 0.6).toFixed(1)}` });
    s(s(defs, "clipPath", { id: "ground" }), "rect", { x: area.left, y: area.top, width: area.right - area.left, height: area.bottom - area.top, rx: 10 });
    for (let i = 0; i < cells; i++) for (let j = 0; j < cells; j++) {
      const u = -0.05 + (1.1 * (i + 0.5)) / cells, v = -0.05 + (1.1 * (cells - j - 0.5)) / cells;
      let weight = 0, sum = 0;
      for (const [x, y, rank] of points) { const w = Math.exp(-((x - u) ** 2 + (y - v) ** 2) / (2 * near * near)); weight += w; sum += w * rank; }
      const t = weight > 1e-6 ? sum / weight : 0;
      s(ground, "rect", { x: area.left + i * wide, y: area.top + j * tall, width: wide + 0.6, height: tall + 0.6, fill: t < 0.5 ? mix(colors[0], colors[1], t * 2) : mix(colors[1], colors[2], t * 2 - 1), opacity: Math.min(0.85, weight * 0.9).toFixed(2) });
    }
    for (const [u, text] of axisTicks(ax, 5)) s(svg, "text", { x: sx(u), y: area.bottom + 17, "text-anchor": "middle" }, cut(text, 10));
    for (const [u, text] of axisTicks(ay, 5)) s(svg, "text", { x: area.left - 8, y: sy(u) + 4, "text-anchor": "end" }, cut(text, 8));
    for (const [x, y, , t] of points) dot(svg, t, sx(x), sy(y), 4);
  });
  const choose = (key, label) => h("label", { class: "row" }, h("span", { class: "hint" }, label + " "), h("select", { "aria-label": `${label} axis`, on: { change: (event) => { pick[key] = Number(event.target.value); redraw(true); } } }, ...D.parameters.map((axis, i) => h("option", { value: i, selected: pick[key] === i }, cut(axis.name, 30)))));
  return { box, controls: h("div", { class: "row" }, choose("x", "across"), choose("y", "up")) };
}
