"use strict";
// The answer of a plan: the verdict, the assumptions, and a chart of the simulated clusters for each objective, with
// its limit as a line. answerParts returns the elements of the top of a page, of the details, of the charts of clusters
// and of the facts at the end. It adds the charts to the list of drawn charts.
const answerParts = (answer, charts) => {
  const list = (all) => all || [];
  const signed = (tag, text) => el(text.startsWith("✓") ? tag + ".met" : text.startsWith("✗") ? tag + ".missed" : tag, text.replace(/(\d) (ms|s|min|h|%)(?= |$)/g, "$1\u00a0$2"));
  const unit = (v, of) => of === "share" ? percent(v) : ms(v);
  const ticks = (list, of, log) => of === "share" ? unitLabels(list, ...percents) : log ? list.map((v) => ms(v)) : timeLabels(list, 1000);

  const clusters = [...list(answer.clusters)].sort((a, b) => a.across - b.across);
  const groups = [...new Set(list(answer.clusters).map((c) => c.group))];
  const tint = (c) => groups.length > 1 ? nth(groups.indexOf(c.group)) : c.missed ? "--c4" : "--c2";

  const radius = 5;

  // paint draws the limit, the ranges and the clusters over the grid.
  const paint = (limit, k, points, x, y) => (u) => {
    const { ctx, bbox } = u, px = devicePixelRatio;
    ctx.save();
    const taken = drawLimits(u, [{ side: "y", at: y.to(limit.limit), text: `limit ${unit(limit.limit, limit.unit)}` }]);
    const places = points.map((c) => [c, u.valToPos(x.to(c.across), "x", true), u.valToPos(y.to(c.values[k]), "y", true)]);
    for (const [c, left, top] of places) {
      const size = (c.chosen ? 11 : 7) * px, range = list(c.low).length > k && [c.high[k], c.low[k]].map((v) => u.valToPos(y.to(v), "y", true));
      taken.push([left - size, top - size, left + size, top + size], ...(range ? [[left - px, range[0], left + px, range[1]]] : []));
      ctx.strokeStyle = ctx.fillStyle = color(tint(c));
      ctx.lineWidth = 2 * px;
      if (range) {
        ctx.globalAlpha = 0.45;
        ctx.beginPath();
        ctx.moveTo(left, range[1]);
        ctx.lineTo(left, range[0]);
        ctx.stroke();
        ctx.globalAlpha = 1;
      }
      drawShape(ctx, c.missed ? "cross" : "disc", left, top, radius * px);
    }
    for (const [c, left, top] of places.filter(([c]) => c.chosen).sort(([a], [b]) => (b.chosen === "answer") - (a.chosen === "answer"))) {
      ctx.strokeStyle = ctx.fillStyle = color(c.chosen === "answer" ? "--ink" : "--soft");
      ctx.lineWidth = 1.5 * px;
      ctx.beginPath();
      ctx.arc(left, top, 9 * px, 0, 2 * Math.PI);
      ctx.stroke();
      drawLabel(u, `${c.chosen}: ${c.gpus} GPU${c.gpus === 1 ? "" : "s"}`, left, top, taken);
    }
    ctx.restore();
  };

  const about = (limit, k) => (c) => [
    c.group ? `${c.name}, ${c.group}` : c.name, `${c.gpus} GPU${c.gpus === 1 ? "" : "s"}` + (c.per_hour ? `, ${money(c.per_hour)} an hour` : ""),
    `${limit.name} ${unit(c.values[k], limit.unit)}` + (list(c.low).length > k ? `, resampled ${unit(c.low[k], limit.unit)} to ${unit(c.high[k], limit.unit)}` : ""),
    c.missed ? "misses: " + prose(c.missed) : "meets all objectives", ...(c.chosen ? [c.chosen === "answer" ? "the answer" : c.chosen] : []),
  ].join("\n");

  const draw = (one) => {
    const { box, limit, k } = one;
    if (one.plot) one.plot.destroy();
    box.replaceChildren();
    one.width = box.clientWidth;
    const points = clusters.filter((c) => c.values.length > k);
    const values = points.flatMap((c) => [c.values[k], ...(list(c.low).length > k ? [c.low[k], c.high[k]] : [])]);
    const x = scaleOf(points.map((c) => c.across)), y = scaleOf([...values, limit.limit], limit.unit !== "share");
    const places = (u) => points.map((c) => ({ left: u.valToPos(x.to(c.across), "x"), top: u.valToPos(y.to(c.values[k]), "y"), row: c }));
    sees(box, `${limit.name} by ${answer.across}`, ...points.map((c) => about(limit, k)(c).replaceAll("\n", ", ")), `limit ${unit(limit.limit, limit.unit)}`);
    one.plot = new uPlot({
      width: box.clientWidth, height: 300, legend: { show: false },
      cursor: { points: { show: false }, drag: { x: false, y: false }, y: false, x: false },
      hooks: { ready: [hover(places, about(limit, k))], draw: [paint(limit, k, points, x, y)] },
      scales: { x: { time: false, range: x.range }, y: { range: y.range } },
      axes: [
        axis({ label: answer.across + (x.log ? " (log)" : ""), labelFont: "11px system-ui", labelSize: 18, size: 32, space: 45, splits: x.splits, values: (u, v) => v.map((w) => short(x.from(w))) }),
        axis({ ...(y.splits ? { splits: y.splits } : limit.unit === "share" ? {} : { incrs: timeSteps.map((v) => 1000 * v) }), values: (u, v) => ticks(v.map(y.from), limit.unit, y.log) }),
      ],
      series: [{}, { paths: () => null, points: { show: false } }],
    }, [points.map((c) => x.to(c.across)), points.map((c) => y.to(c.values[k]))], box);
  };

  const legend = () => {
    const keys = el("p.keys");
    const several = groups.length > 1;
    if (several) groups.forEach((g, i) => keys.append(el("span.key", swatch(nth(i)), g)));
    keys.append(key("disc", several ? "--soft" : "--c2", "meets all objectives"), key("cross", several ? "--soft" : "--c4", "misses at least one"), key("limit", "--c4", "limit"));
    if (clusters.some((c) => list(c.low).length)) keys.append(key("range", "--soft", "middle 90 % of the resamples"));
    if (clusters.some((c) => c.chosen)) keys.append(key("chosen", "--ink", "the answer"));
    return keys;
  };

  const large = (g) => g.head.length > 5 || g.rows.some((r) => r.some((c) => c.length > 40));
  const grid = (g) => {
    const head = el("tr", ...g.head.map((h) => el(h ? "th" : "td", h)));
    const body = el("tbody", ...g.rows.map((r) => el("tr", ...r.map((c) => signed("td", c)))));
    return el(large(g) || list(answer.grids).filter((o) => !large(o)).length < 2 ? "div.card.full" : "div.card", el("h3", g.title), scrolls(g.title, el("table.still", el("thead", head), body)));
  };
  const card = (f) => el("div.card", el("h3", f.title), facts(f.rows));

  // chance draws the share of resamples in which each cluster meets the objectives, over its cost.
  const chance = (one) => {
    const { box } = one, points = answer.chances, px = () => devicePixelRatio;
    if (one.plot) one.plot.destroy();
    box.replaceChildren();
    one.width = box.clientWidth;
    const x = scaleOf(points.map((c) => c.across)), sizes = points.filter((c) => c.group === points[0].group);
    const places = (u) => points.map((c) => ({ left: u.valToPos(x.to(c.across), "x"), top: u.valToPos(100 * c.share, "y"), row: c }));
    const paintChances = (u) => {
      const { ctx, bbox } = u, at = (c) => [u.valToPos(x.to(c.across), "x", true), u.valToPos(100 * c.share, "y", true)];
      ctx.save();
      ctx.strokeStyle = color("--soft");
      ctx.lineWidth = 1.5 * px();
      ctx.beginPath();
      sizes.forEach((c, i) => { const [l, t] = at(c); if (i) ctx.lineTo(l, t); else ctx.moveTo(l, t); });
      ctx.stroke();
      const taken = drawLimits(u, [{ side: "y", at: 100 * answer.target, text: `target ${percent(answer.target)}`, below: true }]), r = 7 * px();
      points.map(at).forEach(([l, t]) => taken.push([l - r, t - r, l + r, t + r]));
      sizes.map(at).forEach(([l, t], i, all) => { for (let s = 0; i && s < 40; s++) { const x = all[i - 1][0] + (l - all[i - 1][0]) * s / 40, y = all[i - 1][1] + (t - all[i - 1][1]) * s / 40; taken.push([x - 2, y - 2, x + 2, y + 2]); } });
      for (const c of points) {
        const [left, top] = at(c);
        ctx.strokeStyle = ctx.fillStyle = color(c.share >= answer.target - 1e-9 ? "--c2" : "--c4");
        drawShape(ctx, c.group === points[0].group ? "disc" : "ring", left, top, radius * px());
        if (!c.chosen) continue;
        ctx.strokeStyle = ctx.fillStyle = color("--ink");
        ctx.lineWidth = 1.5 * px();
        ctx.beginPath();
        ctx.arc(left, top, 9 * px(), 0, 2 * Math.PI);
        ctx.stroke();
        drawLabel(u, `recommended: ${c.gpus} GPU${c.gpus === 1 ? "" : "s"}`, left, top, taken);
      }
      ctx.restore();
    };
    const about = (c) => [c.group ? `${c.name}, ${c.group}` : c.name, `${c.gpus} GPU${c.gpus === 1 ? "" : "s"}`, `meets all objectives in ${percent(c.share)} of the resamples`].join("\n");
    sees(box, `Resamples in which all objectives are met, by ${answer.across}`, ...points.map((c) => about(c).replaceAll("\n", ", ")), `target ${percent(answer.target)}`);
    one.plot = new uPlot({
      width: box.clientWidth, height: 260, legend: { show: false },
      cursor: { points: { show: false }, drag: { x: false, y: false }, y: false, x: false },
      hooks: { ready: [hover(places, about)], draw: [paintChances] },
      scales: { x: { time: false, range: x.range }, y: { range: [0, 108] } },
      axes: [
        axis({ label: answer.across + (x.log ? " (log)" : ""), labelFont: "11px system-ui", labelSize: 18, size: 32, space: 45, splits: x.splits, values: (u, v) => v.map((w) => short(x.from(w))) }),
        axis({ splits: () => [0, 25, 50, 75, 100], values: (u, v) => unitLabels(v, String, " %") }),
      ],
      series: [{}, { paths: () => null, points: { show: false } }],
    }, [points.map((c) => x.to(c.across)), points.map((c) => 100 * c.share)], box);
  };

  const told = el("div.told", el("h2.unseen", "Answer"), ...(answer.number ? [el("p.number", answer.number), el("p.under", answer.under)] : []), el("p.verdict" + (answer.good === null ? ".plain" : answer.good ? "" : ".bad"), prose(answer.verdict)));
  const top = el("div.top", told);
  if (list(answer.chances).length > 1) {
    const box = el("div.chart"), keys = el("p.keys", key("disc", "--c2", "meets the target"), key("disc", "--c4", "misses it"));
    if (answer.chances.some((c) => c.group !== answer.chances[0].group)) keys.append(key("ring", "--soft", "other settings"));
    top.append(el("div.card", el("h3", `Simulated resamples in which all objectives are met, by ${answer.across}`), keys, box));
    charts.push({ box, draw: chance });
  }
  const said = el("div.cards.below", ...list(answer.lists).map((l) => el(l.lines.length > 8 ? "div.card.full" : "div.card", el("h3", l.title), el("div.lines", ...l.lines.map((t) => el("p", prose(t)))))));
  const more = list(answer.grids).length || said.hasChildNodes() ? [el("h2", clusters.length ? "Alternatives, limits, sensitivity" : "Details"), el("div.cards", ...list(answer.grids).map(grid)), said] : [];
  const measured = [];
  if (clusters.length) {
    const cards = el("div.cards");
    measured.push(el("h2", "Simulated clusters at the workload's load"), legend(), cards);
    answer.limits.forEach((limit, k) => {
      const box = el("div.chart");
      cards.append(el("div.card", el("h3", `${limit.name} by ${answer.across}`), box));
      charts.push({ box, limit, k, draw });
    });
  }
  return { top: list(answer.chances).length > 1 ? top : told, more, measured, facts: list(answer.facts).map(card) };
};
