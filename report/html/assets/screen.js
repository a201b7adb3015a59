"use strict";
// What the explorer draws of runs: verdicts, a table, curves over each other. A run is
// {name, a, settings, color, dash}, a its answer; the last is the one of now, others are pinned.
const makeScreen = ({ ask, link, zoom }) => {
  const names = { ttft: "TTFT", itl: "ITL", tpot: "TPOT", ttst: "TTST", e2e: "E2E" };
  const drawing = el("div.stack");
  const opened = new Set(); // summaries of what is open, which stays so
  let plots = [], rest = 0;

  const table = (label, head, rows) => el("div.scroll", { tabIndex: 0, role: "region", ariaLabel: label }, el("table", { ariaLabel: label },
    el("thead", el("tr", ...head.map((h) => h instanceof Node ? h : el("th", { scope: "col" }, h)))),
    el("tbody", ...rows.map((r) => el("tr", ...r.map((c, i) => i === 0 ? el("th.left", { scope: "row" }, c) : c instanceof Node && c.tagName === "TD" ? c : el("td", c)))))));
  const folded = (kind, summary, ...inside) => {
    const e = el(kind, el("summary", summary), ...inside);
    e.open = opened.has(summary);
    e.addEventListener("toggle", () => { if (e.open) opened.add(summary); else opened.delete(summary); });
    return e;
  };
  const said = (text) => { const b = document.getElementById("announced"); b.textContent = ""; setTimeout(() => { b.textContent = text; }, 50); };
  const copy = (text, what) => {
    const b = el("button", { type: "button" }, `Copy ${what}`);
    b.addEventListener("click", async () => {
      try { await navigator.clipboard.writeText(text()); b.textContent = "Copied"; said(`${what} copied`); } catch { said("this browser does not let the page copy: select the text"); b.textContent = "Not allowed: select the text"; }
      setTimeout(() => { b.textContent = `Copy ${what}`; }, 1500);
    });
    return b;
  };

  // Over time, runs lie over each other: with several, each quantity has a panel of its own.
  const at = (x, own, y) => { // the value of a line at x, between its points
    if (x < own[0] || x > own[own.length - 1]) return null;
    let lo = 0, hi = own.length - 1;
    while (hi - lo > 1) { const mid = (lo + hi) >> 1; if (own[mid] <= x) lo = mid; else hi = mid; }
    if (own[hi] === x || hi === lo) return y[hi];
    return y[lo] === null || y[hi] === null ? y[lo] : y[lo] + (y[hi] - y[lo]) * (x - own[lo]) / (own[hi] - own[lo]);
  };
  const lineOf = (name, color, dash, y) => ({ name, color, dash, y, says: "" });
  const overTime = (runs, addChart, grid) => (title, value, xs, ys, more) => {
    const has = runs.map((r) => ({ r, x: xs(r.a) })).filter((h) => h.x && h.x.length).map((h) => ({ ...h, ys: ys(h.r.a) }));
    if (!has.length) return;
    const limits = (runs[runs.length - 1].a.run.time?.faults || []).slice(0, 20).map((s, i) => ({ side: "x", at: s, text: `fault ${i + 1}` }));
    let panels;
    if (has.length === 1) {
      const [{ r, x, ys }] = has;
      panels = [{ name: r.name, color: r.color, x, lines: ys.map(([n, y], k) => lineOf(n, k ? `--c${k + 1}` : r.color, 0, y.slice(0, x.length))) }];
    } else {
      const x = [...new Set(has.flatMap((h) => h.x))].sort((a, b) => a - b);
      panels = has[0].ys.map(([n], k) => ({ name: n, color: "--soft", x, lines: has.map((h) => lineOf(h.r.name, h.r.color, h.r.dash, h.x === x ? h.ys[k][1] : x.map((v) => at(v, h.x, h.ys[k][1])))) }));
    }
    addChart(grid, { title, value, xAxis: { values: (u, v) => v.map(seconds) }, limits, ...more, panels });
  };
  const curves = (runs, addChart, grid) => {
    const over = overTime(runs, addChart, grid);
    const bins = (a) => a.run.time && a.run.time.in_flight.map((_, i) => (i + 1) * a.run.time.bin_s);
    const wide = (a) => a.run.time && (a.run.time.batch || []).map((_, i) => (i + 1) * a.run.time.worker_bin_s);
    const minus = (a, b) => a.map((v, i) => Math.max(0, v - b[i]));
    over("In flight, running and waiting", short, bins, (a) => [["in flight", a.run.time.in_flight], ["running", minus(a.run.time.in_flight, a.run.time.queue)], ["waiting", a.run.time.queue]]);
    over("TTFT by arrival", ms, (a) => a.ttft.s, (a) => [["median", a.ttft.median || []], ["p99", a.ttft.p99 || []]], { spread: () => 1 });
    over("KV blocks in use, mean of workers", percent, wide, (a) => [["held", a.run.time.batch.map((_, i) => a.run.time.workers.reduce((n, w) => n + (w.kv[i] || 0), 0) / a.run.time.workers.length)]]);
    over("Answer tokens per second", short, bins, (a) => [["tokens/s", a.run.time.throughput]]);
    const now = runs[runs.length - 1].a;
    for (const id of ["ttft", "itl", "e2e"]) {
      const has = runs.filter((r) => r.a.run.curves[id] && r.a.run.curves[id].n);
      const tails = [0, 0.5, 0.9, 0.99, 0.999], place = (q) => -Math.log10(Math.max(1 - q, 1e-4));
      if (has.length) addChart(grid, { title: `${names[id]} by percentile`, value: ms, xValue: (v) => percent(1 - Math.pow(10, -v)), range: [0, 4],
        limits: (now.run.held || []).filter((h) => h.curve === id && h.share >= 0).map((h) => ({ side: "y", at: h.limit, text: h.title })),
        xAxis: { splits: () => tails.map(place), values: () => tails.map(percent), space: 0 }, spread: () => 1,
        panels: [{ name: "", color: "--c0", x: has[0].a.run.curves[id].q.map((_, i) => place(share(i))), lines: has.map((r) => lineOf(r.name, r.color, r.dash, r.a.run.curves[id].q)) }] });
    }
  };
  // share is that of the i-th quantile of curves.
  const share = (i) => i < 180 ? i / 200 : i < 270 ? 0.9 + (i - 180) / 1000 : i < 360 ? 0.99 + (i - 270) / 10000 : [0.999, 0.9995, 0.9999, 1][i - 360];

  // draw draws runs; what is not in view follows when there is time, and done is called.
  const draw = (runs, done) => {
    clearTimeout(rest);
    plots.forEach((p) => p.plot && p.plot.destroy());
    const { charts, draw, addChart } = makeCharts();
    plots = charts;
    const grid = el("div.cards");
    drawing.replaceChildren(cards(runs), grid);
    curves(runs, addChart, grid);
    const inView = (c) => { const r = c.box.getBoundingClientRect(); return r.bottom > -50 && r.top < innerHeight + 50; };
    const later = charts.map((c) => [c, inView(c)]).filter(([c, seen]) => { if (seen) draw(c); return !seen; }).map(([c]) => c);
    const next = () => {
      const c = later.shift();
      if (c) { draw(c); rest = setTimeout(next); return; }
      report(charts.filter((c) => c.plot || !c.p.x.length).length, charts.length);
      done();
    };
    rest = setTimeout(next, 200);
  };

  const rowsOf = ["completed_requests", "lost_requests", "duration_ms", "output_throughput_tok_s", "median_ttft_ms", "p99_ttft_ms", "median_itl_ms", "p99_itl_ms", "median_e2e_latency_ms", "p99_e2e_latency_ms", "prefix_cache_reused_ratio", "goodput_rps"];
  const numbers = (runs) => {
    const now = runs[runs.length - 1], first = runs[0], several = runs.length > 1;
    const shown = (k, v) => v === undefined || v === null ? "" : k.endsWith("_ms") ? ms(v) : k.endsWith("ratio") ? percent(v) : few(v);
    const apart = (was, is, k) => several ? [el("td.delta", ...(was && is !== undefined ? changed(is / was - 1, k) : [""]))] : [];
    const rows = rowsOf.filter((k) => runs.some((r) => r.a.run.report[k] !== undefined)).map((k) =>
      [named(k.replace(/_ms$/, "")), ...runs.map((r) => shown(k, r.a.run.report[k])), ...apart(first.a.run.report[k], now.a.run.report[k], k)]);
    const cost = (k, label, text) => runs.some((r) => r.a[k]) ? [[label, ...runs.map((r) => r.a[k] ? text(r.a) : ""), ...apart(first.a[k], now.a[k], k)]] : [];
    rows.push(...cost("gpus", "GPUs", (a) => String(a.gpus)), ...cost("cost_per_hour", "cost per hour", (a) => "$" + number(a.cost_per_hour, 2)),
      ...cost("cost_per_million_tokens", "cost of a million answer tokens", (a) => "$" + number(a.cost_per_million_tokens, 2)));
    return table("Numbers of the runs", ["value", ...runs.map((r) => el("th", { scope: "col" }, swatch(r.color), " " + r.name)), ...(several ? [`now against ${first.name}`] : [])], rows);
  };
  const classed = (runs) => {
    const all = runs.filter((r) => (r.a.run.classes || []).length);
    if (!all.length) return [];
    const two = (c, id) => [c.curves[id].q[100], c.curves[id].q[270 + 0]].map((v) => c.curves[id].n ? ms(v) : "");
    const rows = all.flatMap((r) => r.a.run.classes.map((c) => [runs.length > 1 ? `${c.name}, ${r.name}` : c.name, c.completed < c.requests ? `${number(c.completed)} of ${number(c.requests)}` : number(c.requests),
      ...two(c, "ttft"), ...two(c, "tpot"), ...two(c, "e2e"), c.met === null || c.met === undefined ? "" : percent(c.met)]));
    return [el("div.card", el("h3", "Classes"), table("Classes of requests", ["class", "requests", "TTFT p50", "p99", "TPOT p50", "p99", "E2E p50", "p99", "met objectives"], rows))];
  };
  const cards = (runs) => {
    const now = runs[runs.length - 1], a = now.a, first = runs[0];
    const held = (a.run.held || []).map((h) => el("div", el(h.met ? "b.met" : "b.missed", h.met ? "✓ met" : "✗ missed"), ` ${h.title} ≤ ${ms(h.limit)}: `, h.each ? `${percent(h.value)} meet it` : ms(h.value)));
    const card = el("div.card", el("p.load", el("b." + (a.run.load[0] || "plain"), a.run.load[0] || "closed loop"), a.run.load[1]), ...held, numbers(runs));
    const same = el("div.card", el("h3", "The same as a command, and as a file for --config"), el("pre.said", a.command), el("pre.said.more", a.yaml),
      el("div.row", copy(() => a.command, "command"), copy(() => a.yaml, "file"), copy(link, "link")),
      el("div.small.digest", a.digest), ...(a.warnings || []).map((w) => el("p.warned", w)), folded("details", "What this assumes", facts(a.run.assumes || [])));
    const opens = (s) => { const b = el("button", { type: "button" }, s.title); b.addEventListener("click", () => zoom({ request: s.title.split(" ")[0] })); return b; };
    const slow = table("The slowest requests", ["request", "worker", "prompt", "answer", "TTFT", "E2E"], (a.run.slowest || []).map((s) => [opens(s), s.where, number(s.input), number(s.output), ms(s.ttft), ms(s.e2e)]));
    return el("div.stack", card, same, ...classed(runs), folded("details.card", "The slowest requests", slow), ...(runs.length > 1 ? [movedCard(first, now)] : []));
  };
  // movedCard asks for the requests that moved once it is open and nothing has been turned for a while.
  const movedCard = (first, now) => {
    const card = folded("details.card", `Requests that moved against ${first.name}`);
    const fill = async () => {
      if (!card.open || card.children.length > 1 || !card.isConnected) return;
      try {
        const found = await ask("moved", { other: first.settings, settings: now.settings });
        const signed = (v) => (v < 0 ? "−" : "+") + ms(Math.abs(v));
        card.append(el("p", `${number(found.moved)} fared differently; most so:`), table("Requests that moved", ["request", "worker", "TTFT", "E2E"],
          found.most.map((m) => [String(m.id), `${m.worker_a} → ${m.worker_b}`, signed(m.ttft_change), signed(m.e2e_change)])));
      } catch (e) { card.append(el("p.error", e.error || String(e))); }
    };
    card.addEventListener("toggle", () => setTimeout(fill, 300));
    return card;
  };
  return { drawing, draw, said };
};
