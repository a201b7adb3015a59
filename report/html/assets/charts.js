"use strict";
// The charts of runs: one or more panels of lines over the same axes, with limits and a legend.
//
// A chart is {title, panels, value, time, ticks, xValue, xAxis, range, spread, counts, note, limits}. Values of time
// are in ms, and other ticks are [show, unit]. A panel is {name, color, x, limits, lines: [{name, color, dash, y, says,
// step, fill}]}. A limit is {side, at, text, point}. spread and the limits of the y axis decide whether it is
// logarithmic.
const makeCharts = () => {
  const charts = [];
  const dashes = [[], [7, 4], [2, 3]];
  const borders = ["solid", "dashed", "dotted"];
  const far = 50; // an axis is logarithmic if the largest value is this many times the median or a limit

  // yScale returns the scale of the y axis: linear, or logarithmic if the values are far apart. A logarithmic scale
  // adds 1 to counts, because a count may be 0.
  const yScale = (c, values) => {
    const limits = (c.limits || []).filter((l) => l.side === "y").map((l) => l.at);
    const all = [...values, ...limits], hi = all.reduce((a, b) => Math.max(a, b), 0);
    if (!c.spread || c.spread(limits) <= far) {
      return { log: false, to: (v) => v, from: (v) => v, range: (u, lo, most) => [Math.min(0, lo ?? 0), Math.max(most ?? 0, ...limits, 0) * 1.06 || 1] };
    }
    if (c.counts) {
      const to = (v) => Math.log10(1 + v), top = to(hi) * 1.05;
      return { log: true, to: (v) => v === null ? null : to(v), from: (w) => Math.pow(10, w) - 1, range: [0, top], splits: (u, i, lo, most) => [0, ...logSplits(0, most).map((e) => to(Math.pow(10, e)))] };
    }
    const least = all.filter((v) => v > 0).reduce((a, b) => Math.min(a, b));
    const to = (v) => v > 0 ? Math.log10(v) : null, room = (Math.log10(hi) - Math.log10(least)) * 0.05;
    return { log: true, to, from: (w) => Math.pow(10, w), range: [Math.log10(least) - room, Math.log10(hi) + room], splits: (u, i, lo, most) => (c.time ? timeSplits : logSplits)(lo, most) };
  };

  const legend = (c, p) => {
    const keys = p.lines.map((l) => {
      const mark = el("i.mark", { style: `border-top: 3px ${borders[l.dash || 0]} var(${l.color})` });
      return { line: l, text: el("span"), box: el("span.key.small", mark), };
    });
    const at = el("span.key.small");
    keys.forEach((k) => k.box.append(k.text));
    const said = (l, value) => [l.name, value].filter((s) => s).join(": ");
    const set = (u) => {
      const idx = u && u.cursor.idx !== undefined ? u.cursor.idx : null;
      for (const [i, k] of keys.entries()) {
        const v = idx === null ? null : u.data[i + 1][idx];
        k.text.textContent = idx === null ? said(k.line, k.line.says) : said(k.line, v === null || v === undefined ? "–" : c.value(u.scale.from(v)));
      }
      at.textContent = idx === null ? "" : `at ${(c.xValue || seconds)(u.data[0][idx])}`;
    };
    set(null);
    return { box: el("div.keys", ...keys.map((k) => k.box), at), keys, set };
  };

  // yLabels returns the labels of the y axis. Only one label has the unit, except for times on a logarithmic axis.
  const yLabels = (c, scale, at) => {
    const list = at.map((w) => w === null ? null : scale.from(w));
    if (c.time) return scale.log ? list.map((v) => v === null ? "" : ms(v)) : timeLabels(list, 1000);
    const [show, unit] = c.ticks || [c.value, ""];
    return unitLabels(list, show, unit);
  };

  // zoomed is the visible range of x in all panels.
  const zoomed = (c, p, whole) => (u, lo, hi) => c.part?.() && !u.status ? c.part() : lo === p.x[0] && hi === p.x[p.x.length - 1] ? whole : [lo, hi];

  // Dots are values of single requests, behind the lines. A click opens a request.
  const drawDots = (c, one) => (u) => {
    const { ctx, bbox } = u, side = 3 * devicePixelRatio, { x, y } = c.dots;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.fillStyle = color("--soft") + "70";
    for (let i = 0; i < x.length; i++) ctx.fillRect(u.valToPos(x[i], "x", true) - side / 2, u.valToPos(one.scale.to(y[i]), "y", true) - side / 2, side, side);
    ctx.restore();
  };
  const dotPlaces = (c, one) => (u) => c.dots.x.map((x, i) => ({ left: u.valToPos(x, "x"), top: u.valToPos(one.scale.to(c.dots.y[i]), "y"), row: i }));
  // A press that moves fewer pixels is a click on the element under the pointer at its begin, even if the page has
  // moved since. uPlot ignores the click if the press moves at all.
  const steady = 6;
  const clickDots = (c, one) => (u) => {
    u.root.classList.add("clicks");
    u.root.places = () => dotPlaces(c, one)(u).map((p) => ({ ...p, text: c.dots.text(p.row) })); // for tests
    let down = null, near = -1;
    const aim = (e) => {
      let least = 14;
      [down, near] = [e, -1];
      for (const p of dotPlaces(c, one)(u)) { const far = Math.hypot(p.left - e.offsetX, p.top - e.offsetY); if (far < least) [least, near] = [far, p.row]; }
    };
    u.over.addEventListener("mousedown", aim);
    u.over.addEventListener("click", (e) => { if (near >= 0 && Math.hypot(e.clientX - down.clientX, e.clientY - down.clientY) < steady) c.dots.open(near); });
  };

  const moves = (event) => event === "mousemove" || event === "mouseleave"; // events of the pointer that charts share
  const options = (c, p, one, width) => ({
    width, height: c.panels.length > 1 ? 160 : document.documentElement.classList.contains("print") ? 190 : 230,
    cursor: { points: { size: 6 }, drag: { x: true, y: false, dist: steady, click: () => {} }, sync: { key: c.sync || c.title, filters: { pub: moves, sub: moves } } },
    legend: { show: false },
    hooks: {
      // span is for tests
      init: [(u) => { u.scale = one.scale; if (c.timed) u.root.span = () => [u.scales.x.min, u.scales.x.max]; }], ...(c.choosePart ? { setScale: [(u, key) => { if (key === "x" && u.status) c.choosePart(u); }] } : {}),
      ...(c.dots ? { drawAxes: [drawDots(c, one)], ready: [(u) => { hover(dotPlaces(c, one), c.dots.text)(u); clickDots(c, one)(u); }] } : {}), setCursor: [one.legend.set],
      draw: [(u) => {
        drawLimits(u, one.limits.map((l) => ({ ...l, at: l.side === "y" ? one.scale.to(l.at) : l.at })));
        for (const l of one.limits.filter((o) => o.point !== undefined)) {
          u.ctx.strokeStyle = color("--c4");
          drawShape(u.ctx, "ring", u.valToPos(l.point, "x", true), u.valToPos(one.scale.to(l.at), "y", true), 5 * devicePixelRatio);
        }
      }],
    },
    scales: { x: { time: false, range: zoomed(c, p, c.range || one.xs) }, y: { range: one.y } },
    axes: [
      axis({ size: 32, ...c.xAxis }),
      axis({ values: (u, v) => yLabels(c, one.scale, v), ...(one.scale.splits ? { splits: one.scale.splits } : c.time ? { incrs: timeSteps.map((v) => 1000 * v) } : c.whole ? { incrs: wholeSteps } : {}) }),
    ],
    series: [{}, ...p.lines.map((l) => ({
      stroke: color(l.color), width: 1.5, spanGaps: true, points: { show: Boolean(l.points) || p.x.length < 3 },
      fill: l.fill ? color(l.color) + "28" : undefined, dash: dashes[l.dash || 0],
      paths: l.step ? uPlot.paths.stepped({ align: 1 }) : undefined,
    }))],
  });

  // describe returns a text alternative of the chart.
  const describe = (c, p) => [[c.title, p.name].filter((t) => t).join(", "), ...p.lines.map((l) => {
    const all = l.y.filter((v) => v !== null && v !== undefined);
    if (!all.length) return `${l.name}: nothing`;
    const least = all.reduce((a, b) => Math.min(a, b)), most = all.reduce((a, b) => Math.max(a, b));
    return `${l.name ? l.name + ": " : ""}from ${c.value(all[0])} to ${c.value(all[all.length - 1])}, least ${c.value(least)}, most ${c.value(most)}`;
  }), ...(p.limits || c.limits || []).map((l) => l.text)].join("; ");

  const draw = (one) => {
    const { box, c, p } = one;
    if (!p.x.length || !box.clientWidth) return;
    if (one.plot) one.plot.destroy();
    one.width = box.clientWidth;
    sees(box, describe(c, p));
    one.plot = new uPlot(options(c, p, one, box.clientWidth), [p.x, ...p.lines.map((l) => l.y.map((v) => v === null || v === undefined ? null : one.scale.to(v)))], box);
  };

  // addChart adds a card with the chart to parent.
  const addChart = (parent, c) => {
    const full = c.panels.filter((p) => p.x.length);
    const lines = full.flatMap((p) => p.lines);
    const values = lines.flatMap((l) => l.y).concat(c.dots ? c.dots.y : []).filter((v) => v !== null && v !== undefined);
    const scale = yScale(c, values), many = c.panels.length > 1;
    const ends = full.flatMap((p) => [p.x[0], p.x[p.x.length - 1]]).concat((c.limits || []).filter((l) => l.side === "x").map((l) => l.at), c.dots ? [c.dots.x[0], c.dots.x[c.dots.x.length - 1]] : []);
    const xs = [ends.reduce((a, b) => Math.min(a, b), Infinity), ends.reduce((a, b) => Math.max(a, b), -Infinity)];
    if (xs[0] === xs[1]) xs[1] = xs[0] + 1;
    if ((c.limits || []).some((l) => l.side === "x" && l.at === xs[1])) xs[1] += (xs[1] - xs[0]) * 0.04; // a line on the edge is not visible
    const most = values.reduce((a, b) => Math.max(a, b), 0);
    const y = Array.isArray(scale.range) ? scale.range : scale.range(null, 0, most);
    if (scale.log) document.body.dataset.logs = Number(document.body.dataset.logs || 0) + 1;
    const card = parent.appendChild(el(many ? "div.card.full" : "div.card", el("h3", c.title + (scale.log ? ", log scale" : ""))));
    if (c.note) card.append(el("p.keys", ...c.note.map((n) => key(...n))));
    const grid = card.appendChild(el(many ? "div.panels" : "div"));
    for (const p of c.panels) {
      const cell = grid.appendChild(el("div.panel")), box = el("div.chart");
      if (many) cell.append(el("div.key.small", swatch(p.color), p.name));
      cell.append(box);
      const one = { box, c, p, scale, xs, y, limits: p.limits || c.limits || [], legend: legend(c, p) };
      charts.push(one);
      if (!p.x.length) { box.append(el("p", "nothing to show")); continue; }
      cell.append(one.legend.box);
    }
  };
  return { charts, draw, addChart };
};
