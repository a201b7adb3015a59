"use strict";
// The results of the explorer: verdicts, a table and charts. A run is {name, a, settings, color, dash}, where a is its
// answer. The last run has the current settings, and the other runs are pinned.
const makeScreen = ({ ask, link, zoom }) => {
  const names = { ttft: "TTFT", itl: "ITL", tpot: "TPOT", ttst: "TTST", e2e: "E2E" };
  const drawing = el("div.stack.results");
  const opened = new Set(); // summaries of the open elements, which stay open
  let plots = [], rest = 0, shownRuns = [];

  const table = (label, head, rows) => scrolls(label, el("table", { ariaLabel: label },
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

  // Charts over time have the lines of all runs. With several runs, each quantity has a separate panel.
  const at = (x, own, y) => { // interpolated value of a line at x
    if (x < own[0] || x > own[own.length - 1]) return null;
    let lo = 0, hi = own.length - 1;
    while (hi - lo > 1) { const mid = (lo + hi) >> 1; if (own[mid] <= x) lo = mid; else hi = mid; }
    if (own[hi] === x || hi === lo) return y[hi];
    return y[lo] === null || y[hi] === null ? y[lo] : y[lo] + (y[hi] - y[lo]) * (x - own[lo]) / (own[hi] - own[lo]);
  };
  const lineOf = (name, color, dash, y) => ({ name, color, dash, y, says: "" });
  // All charts share the selected part of the time, also after the next run.
  let part = null, setting = false;
  const choosePart = (u) => {
    if (setting) return;
    const { min, max } = u.scales.x, whole = u.data[0];
    if (min === null || part && part[0] === min && part[1] === max) return;
    part = min <= whole[0] && max >= whole[whole.length - 1] ? null : [min, max];
    setting = true;
    for (const p of plots) if (p.c.timed && p.plot && p.plot !== u) p.plot.setScale("x", part ? { min: part[0], max: part[1] } : { min: p.p.x[0], max: p.p.x[p.p.x.length - 1] });
    setting = false;
  };
  const overTime = (runs, addChart, grid) => (title, value, xs, ys, more) => {
    const has = runs.map((r) => ({ r, x: xs(r.a) })).filter((h) => h.x && h.x.length).map((h) => ({ ...h, ys: ys(h.r.a) }));
    if (!has.length) return;
    const limits = (runs[runs.length - 1].a.run.time?.faults || []).slice(0, 20).map((s, i) => ({ side: "x", at: s, text: `fault ${i + 1}` }));
    const base = { timed: true, part: () => part, choosePart, title, value, xAxis: timeAxis, sync: "time", ...more, limits: [...limits, ...(more?.limits || [])] };
    if (has.length === 1) {
      const [{ r, x, ys }] = has;
      addChart(grid, { ...base, panels: [{ name: r.name, color: r.color, x, lines: ys.map(([n, y], k) => lineOf(n, k ? `--c${k + 1}` : r.color, 0, y.slice(0, x.length))) }] });
      return;
    }
    const x = [...new Set(has.flatMap((h) => h.x))].sort((a, b) => a - b);
    has[0].ys.forEach(([n, , alone], k) => {
      if (alone) return; // only drawn for a single run
      addChart(grid, { ...base, title: has[0].ys.length > 1 ? `${title}: ${n}` : title, panels: [{ name: "", color: "--soft", x, lines: has.map((h) => lineOf(h.r.name, h.r.color, h.r.dash, h.x === x ? h.ys[k][1] : x.map((v) => at(v, h.x, h.ys[k][1])))) }] });
    });
  };
  const curves = (runs, addChart, grid) => {
    const now = runs[runs.length - 1].a, over = overTime(runs, addChart, grid);
    const bins = (a) => a.run.time && a.run.time.in_flight.map((_, i) => (i + 1) * a.run.time.bin_s);
    const wide = (a) => a.run.time && (a.run.time.batch || []).map((_, i) => (i + 1) * a.run.time.worker_bin_s);
    const minus = (a, b) => a.map((v, i) => Math.max(0, v - b[i]));
    const limitsOf = (id) => (now.run.held || []).filter((h) => h.curve === id && h.share >= 0 && !h.class).map((h) => ({ side: "y", at: h.limit, text: `${h.title} ≤ ${ms(h.limit)}` }));
    const spread = (lines) => (limits) => { const all = lines.filter((v) => v > 0).sort((a, b) => a - b); return all.length ? 3.3 * Math.max(all[all.length - 1], ...limits) / all[all.length >> 1] : 1; };
    const dots = now.ttft.dots && now.ttft.dots.id ? now.ttft.dots : null;
    over("TTFT over time", ms, (a) => a.ttft.s, (a) => [["median", a.ttft.median || [], true], ["p99", a.ttft.p99 || []]], {
      time: true, spread: spread(runs.flatMap((r) => [...(r.a.ttft.p99 || []), ...(r.a.ttft.median || [])])), limits: limitsOf("ttft"),
      dots: dots && { x: dots.s, y: dots.ms, text: (i) => `request ${dots.id[i]}: TTFT ${ms(dots.ms[i])}`, open: (i) => zoom({ request: String(dots.id[i]) }) },
    });
    over("Requests", short, bins, (a) => [["in flight", a.run.time.in_flight], ["running", minus(a.run.time.in_flight, a.run.time.queue), true], ["waiting", a.run.time.queue]], { whole: true });
    over("KV blocks in use, mean of workers", percent, wide, (a) => [["in use", a.run.time.batch.map((_, i) => a.run.time.workers.reduce((n, w) => n + (w.kv[i] || 0), 0) / a.run.time.workers.length)]], { ticks: percents });
    over("Output throughput (tokens/s)", short, bins, (a) => [["tokens/s", a.run.time.throughput]]);
    for (const id of ["ttft", "itl", "e2e"]) {
      const has = runs.filter((r) => r.a.run.curves[id] && r.a.run.curves[id].n), limits = limitsOf(id);
      const tails = [0.5, 0.9, 0.99, 0.999], place = (q) => -Math.log10(Math.max(1 - q, 1e-4));
      if (has.length) addChart(grid, { title: `${names[id]} by percentile`, value: ms, time: true, xValue: (v) => percent(1 - Math.pow(10, -v)), range: [0, 4], limits,
        xAxis: { splits: (u, i, lo, hi) => tails.map(place).filter((v) => v >= lo && v <= hi), values: (u, list) => list.map((v) => "p" + number(100 - 100 * Math.pow(10, -v), 2)), space: 0 }, spread: spread(has.flatMap((r) => r.a.run.curves[id].q)),
        panels: [{ name: "", color: "--c0", x: has[0].a.run.curves[id].q.map((_, i) => place(share(i))), lines: has.map((r) => lineOf(r.name, r.color, r.dash, r.a.run.curves[id].q)) }] });
    }
  };
  // share returns the rank of quantile i of a curve, from 0 to 1.
  const share = (i) => i < 180 ? i / 200 : i < 270 ? 0.9 + (i - 180) / 1000 : i < 360 ? 0.99 + (i - 270) / 10000 : [0.999, 0.9995, 0.9999, 1][i - 360];

  // draw draws runs. It draws the charts outside the view later, and then calls done.
  const draw = (runs, done) => {
    clearTimeout(rest);
    plots.forEach((p) => p.plot && p.plot.destroy());
    const { charts, draw, addChart } = makeCharts();
    plots = charts;
    shownRuns = runs;
    const grid = el("div.cards.first");
    drawing.replaceChildren(tiles(runs), grid, cards(runs));
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

  // tiles returns the four main numbers of a cluster, with the objectives and the change against the first pin.
  const tiles = (runs) => {
    const now = runs[runs.length - 1].a, first = runs.length > 1 ? runs[0] : null, held = (now.run.held || []).filter((h) => !h.class);
    const unfinished = number(now.run.report.num_requests - (now.run.report.completed_requests || 0));
    const gap = held.some((h) => h.curve === "tpot") && !held.some((h) => h.curve === "itl") ? "tpot" : "itl";
    const tile = (title, of, show, key, judged, without) => {
      const v = of(now), missed = judged.some((h) => !h.met), was = first && of(first.a);
      const goal = judged.map((h) => el("div", el(h.met ? "b.met" : "b.missed", h.met ? "✓ met" : "✗ missed"), ` ${h.title} ≤ ${ms(h.limit)}${h.value === v ? "" : `: ${h.each ? percent(h.value) : ms(h.value)}`}${!h.met && h.value <= h.limit && !h.each ? `: ${unfinished} requests did not complete` : ""}`));
      return el("div.card.tile" + (judged.length ? missed ? ".bad" : ".good" : ""), el("h3", title), el("strong", v ? show(v) : "–"), ...(goal.length ? goal : [el("div", v ? without : "requires a GPU with a price")]),
        ...(was && v ? [el("div", ...changed(v / was - 1, key), ` against ${first.name}`)] : []));
    };
    const about = (id) => held.filter((h) => h.curve === id);
    return el("div.tiles", tile("Time to first token, p99", (a) => a.run.report.p99_ttft_ms, ms, "p99_ttft_ms", about("ttft"), "no objective"),
      tile(gap === "itl" ? "Inter-token latency, p99" : "Time per output token, p99", (a) => a.run.report[`p99_${gap}_ms`], ms, `p99_${gap}_ms`, about(gap), "no objective"),
      tile("Output throughput", (a) => a.run.report.output_throughput_tok_s, (v) => few(v) + " tokens/s", "output_throughput_tok_s", [], `${few(now.run.report.completed_requests || 0)} requests in ${ms(now.run.report.duration_ms)}`),
      tile("Cost per 1M output tokens", (a) => a.cost_per_million_tokens, money, "cost_per_million_tokens", [], `${now.gpus} GPU${now.gpus === 1 ? "" : "s"}, ${money(now.cost_per_hour || 0)} per hour`));
  };
  // head shows the trace, the hardware and the verdict in the header.
  const verdict = el("p.load", { id: "verdict" });
  const head = (s, a) => {
    const made = document.getElementById("made"), held = a.run.held || [], missed = held.filter((h) => !h.met).length;
    made.textContent = [s.trace.split("/").pop(), s.gpu ? `${a.gpus || ""} ${s.gpu}`.trim() : "built-in pass times", ...(s.gpu && s.model ? [s.model] : [])].join(" · ");
    if (!verdict.isConnected) made.after(verdict);
    verdict.replaceChildren(el("b." + (a.run.load[0] || "plain"), a.run.load[0] || "closed loop"),
      ...(held.length ? [el(missed ? "span.missed" : "span.met", missed ? `✗ ${missed} of ${held.length} objectives missed` : held.length > 1 ? `✓ all ${held.length} objectives met` : "✓ objective met")] : [a.run.load[1]]));
  };

  const rowsOf = ["completed_requests", "lost_requests", "duration_ms", "output_throughput_tok_s", "median_ttft_ms", "p99_ttft_ms", "median_itl_ms", "p99_itl_ms", "median_tpot_ms", "p99_tpot_ms", "median_e2e_latency_ms", "p99_e2e_latency_ms", "prefix_cache_reused_ratio", "goodput_rps"];
  const values = (r) => ({ ...Object.fromEntries(rowsOf.map((k) => [k, r.a.run.report[k]])), gpus: r.a.gpus, cost_per_hour: r.a.cost_per_hour, cost_per_million_tokens: r.a.cost_per_million_tokens });
  const numbers = (runs) => {
    const now = runs[runs.length - 1], pins = runs.slice(0, -1), all = runs.map(values), is = values(now);
    const shown = (k, v) => v === undefined || v === null ? "" : k.endsWith("_ms") ? ms(v) : k.endsWith("ratio") ? percent(v) : /^cost/.test(k) ? money(v) : few(v);
    const labels = { gpus: "GPUs", cost_per_hour: "cost per hour", cost_per_million_tokens: "cost per million output tokens" };
    const rows = Object.keys(is).filter((k) => all.some((v) => v[k])).map((k) => [labels[k] || named(k.replace(/_ms$/, "")), shown(k, is[k]),
      ...pins.flatMap((p, i) => [shown(k, all[i][k]), el("td.delta", ...(all[i][k] && is[k] !== undefined ? changed(is[k] / all[i][k] - 1, k) : [""]))])]);
    const name = (r) => el("th", { scope: "col" }, swatch(r.color), " " + r.name);
    return table("Numbers of the runs", ["value", name(now), ...pins.flatMap((p) => [name(p), `now against ${p.name}`])], rows);
  };
  // exports returns the menu of exports.
  const save = (name, parts, type) => {
    const a = el("a", { href: URL.createObjectURL(new Blob(parts, { type })), download: name });
    a.click();
    setTimeout(() => URL.revokeObjectURL(a.href), 10000);
  };
  const csv = () => {
    const quote = (v) => /[",\n]/.test(v) ? `"${v.replaceAll('"', '""')}"` : v, all = shownRuns.map(values);
    return [["value", ...shownRuns.map((r) => r.name)], ...Object.keys(all[0] || {}).map((k) => [k, ...all.map((v) => v[k] ?? "")]), ["digest", ...shownRuns.map((r) => r.a.digest)]].map((r) => r.map((v) => quote(String(v))).join(",")).join("\n") + "\n";
  };
  const png = () => {
    const all = plots.filter((p) => p.plot).map((p) => ({ title: p.c.title, from: p.plot.ctx.canvas })), px = devicePixelRatio, two = 2, space = 26 * px;
    const width = Math.max(...all.map((p) => p.from.width)), height = Math.max(...all.map((p) => p.from.height)) + space;
    const to = el("canvas", { width: two * width, height: Math.ceil(all.length / two) * height }), ctx = to.getContext("2d");
    ctx.fillStyle = color("--card");
    ctx.fillRect(0, 0, to.width, to.height);
    ctx.fillStyle = color("--ink");
    ctx.font = `600 ${13 * px}px system-ui`;
    all.forEach((p, i) => {
      const left = i % two * width, top = Math.floor(i / two) * height;
      ctx.fillText(p.title + (i ? "" : `: ${shownRuns.map((r) => r.name).join("; ")}`), left + 8 * px, top + 18 * px);
      ctx.drawImage(p.from, left, top + space);
    });
    return new Promise((done) => to.toBlob(done, "image/png"));
  };
  const exports = () => {
    const does = (text, act) => { const b = el("button", { type: "button" }, text); b.addEventListener("click", async () => { try { await act(); said(`${text}: done`); } catch (e) { said(e.error || String(e)); } }); return b; };
    const page = async () => save("replay.html", [(await ask("page", { others: shownRuns.map((r) => r.settings), names: shownRuns.map((r) => r.name) })).text], "text/html");
    return el("details.menu", el("summary", "Export"), el("div", does("PNG of the charts", async () => save("replay.png", [await png()], "image/png")), does("CSV of the numbers", () => save("replay.csv", [csv()], "text/csv")),
      does("One-file page", page), copy(link, "link")));
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
    const now = runs[runs.length - 1], a = now.a;
    const card = el("div.card", el("h3", "Numbers"), ...(a.run.load[1] ? [el("p", a.run.load[1])] : []), numbers(runs));
    const assumes = folded("details", "What this assumes", facts(a.run.assumes || []));
    assumes.open ||= !now.settings.gpu;
    const same = el("div.card", el("h3", "Command, and file for --config"), el("pre.said", ...words(a.command)), el("pre.said.more", a.yaml),
      el("div.row", copy(() => a.command, "command"), copy(() => a.yaml, "file"), copy(link, "link")),
      el("div.small.digest", a.digest), ...(a.warnings || []).map((w) => el("p.warned", w)), assumes);
    const opens = (s) => { const b = el("button", { type: "button" }, s.title); b.addEventListener("click", () => zoom({ request: s.title.split(" ")[0] })); return b; };
    const slow = table("Slowest requests", ["request", "worker", "prompt", "answer", "TTFT", "E2E"], (a.run.slowest || []).map((s) => [opens(s), s.where, number(s.input), number(s.output), ms(s.ttft), ms(s.e2e)]));
    const passes = (w) => { const b = el("button", { type: "button" }, w.name); b.addEventListener("click", () => zoom({ worker: w.name.replace(/^(prefill|decode) /, (m, pool) => pool === "decode" ? "d" : "") })); return b; };
    const workers = table("Workers", ["worker", "requests", "passes", "tokens", "busy", "hit rate"], (a.run.time?.workers || []).map((w) => [passes(w), number(w.requests), number(w.passes), number(w.tokens), percent(w.busy), percent(w.reused)]));
    return el("div.stack", card, ...runs.slice(0, -1).map((p) => movedCard(p, now)), same, ...classed(runs), folded("details.card", "Slowest requests", slow), folded("details.card", "Workers", workers));
  };
  // movedCard requests the paired intervals and the moved requests when it is open and the settings have not just
  // changed.
  const movedCard = (first, now) => {
    const card = folded("details.card", `Request by request against ${first.name}`);
    const fill = async () => {
      if (!card.open || card.children.length > 1 || !card.isConnected) return;
      try {
        const found = await ask("moved", { other: first.settings, settings: now.settings });
        const signed = (v) => (v < 0 ? "−" : "+") + ms(Math.abs(v));
        const verdicts = { win: ["b.better", "✓ better"], lose: ["b.worse", "✗ worse"], tie: ["span", "no clear change"] };
        if (found.paired) card.append(el("p", `Changes of the same requests, with 95 % intervals of a paired bootstrap (${number(found.paired.resamples)} resamples).`), table("Paired changes", ["statistic", "change", "interval", "verdict"],
          found.paired.metrics.map((m) => [`${m.statistic} ${names[m.metric]}`, signed(m.change), m.low === null ? "" : `${signed(m.low)} to ${signed(m.high)}`, el("td", el(...(verdicts[m.verdict] || ["span", m.verdict])))])));
        card.append(el("p", `${number(found.moved)} requests differ; the largest changes:`), table("Requests that moved", ["request", "worker", "TTFT", "E2E"],
          found.most.map((m) => [String(m.id), `${m.worker_a} → ${m.worker_b}`, signed(m.ttft_change), signed(m.e2e_change)])));
      } catch (e) { card.append(el("p.error", e.error || String(e))); }
    };
    card.addEventListener("toggle", () => setTimeout(fill, 300));
    return card;
  };
  return { drawing, draw, said, head, exports };
};
