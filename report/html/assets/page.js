"use strict";
(() => {
  const runs = data.runs;
  const charts = [];

  const section = (title, text) => {
    const s = el("section", el("h2", title));
    if (text) s.append(el("p", text));
    main.append(s);
    return s;
  };
  const cards = (parent) => parent.appendChild(el("div.cards"));

  // chart draws lines: {title, x, lines: [{name, color, y, step, fill}], xValue, xAxis, value}.
  const chart = (parent, c) => {
    const card = parent.appendChild(el("div.card", el("h3", c.title)));
    const box = card.appendChild(el("div.chart"));
    charts.push({ box, c });
    if (!c.x.length) box.append(el("p", "nothing to show"));
  };
  const height = 230;
  const options = (c, width) => ({
    width, height,
    cursor: { points: { size: 6 }, drag: { x: true, y: false } },
    legend: { show: c.lines.length <= 16, live: true },
    scales: { x: { time: false, range: c.range }, y: { range: (u, lo, hi) => [Math.min(0, lo ?? 0), hi > 0 ? hi * 1.06 : 1] } },
    axes: [
      axis({ size: 32, ...c.xAxis }),
      axis({ size: 62, values: (u, v) => v.map((x) => x === null ? "" : c.value(x)) }),
    ],
    series: [
      { label: c.xName || "time", value: (u, v) => v === null ? "" : (c.xValue || seconds)(v) },
      ...c.lines.map((l) => ({
        label: l.name, stroke: color(l.color), width: 1.5, spanGaps: true, points: { show: c.x.length < 3 },
        value: (u, v) => v === null || v === undefined ? "" : c.value(v),
        fill: l.fill ? color(l.color) + "28" : undefined, dash: l.dash,
        paths: l.step ? uPlot.paths.stepped({ align: 1 }) : undefined,
      })),
    ],
  });
  const draw = (one) => {
    const { box, c } = one;
    if (!c.x.length || !box.clientWidth) return;
    if (one.plot) one.plot.destroy();
    one.width = box.clientWidth;
    one.plot = new uPlot(options(c, box.clientWidth), [c.x, ...c.lines.map((l) => l.y)], box);
  };

  // join puts the lines of all runs over one list of x.
  const join = (lists) => {
    const full = lists.filter((l) => l.x.length);
    if (!full.length) return { x: [], lines: [] };
    const joined = uPlot.join(full.map((l) => [l.x, ...l.lines.map((line) => line.y)]));
    let at = 1;
    return { x: joined[0], lines: full.flatMap((l) => l.lines.map((line) => ({ ...line, y: joined[at++] }))) };
  };
  const steps = [60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];
  const incrs = [];
  for (let e = -6; e < 1; e++) for (const m of [1, 2, 5]) incrs.push(m * Math.pow(10, e));
  incrs.push(10, 15, 20, 30, ...steps);
  for (let e = 5; e < 12; e++) for (const m of [1, 2, 5]) if (m * Math.pow(10, e) > 86400) incrs.push(m * Math.pow(10, e));
  const clock = (v) => v === 0 ? "0" : v >= 3600 && v % 3600 === 0 ? number(v / 3600) + " h" : v >= 60 && v % 60 === 0 ? number(v / 60) + " min" : v >= 1 ? number(v) + " s" : ms(v * 1000);
  const timeAxis = { values: (u, list) => list.map(clock), space: 60, incrs };
  const overTime = (parent, title, value, pick) => {
    const lists = runs.map((r, i) => {
      if (!r.time) return { x: [], lines: [] };
      const p = pick(r.time);
      const step = p.worker ? r.time.worker_bin_s : r.time.bin_s;
      const x = p.lines[0].y.map((_, k) => k * step);
      return { x, lines: p.lines.map((l) => ({ ...l, name: runs.length > 1 ? (l.name ? `${r.name}: ${l.name}` : r.name) : l.name || title, color: nth(i) })) };
    });
    chart(parent, { title, ...join(lists), value, xAxis: timeAxis });
  };

  const summary = () => {
    const s = section("Summary");
    const rows = [
      ["requests", "num_requests", number], ["completed", "completed_requests", number], ["duration", "duration_ms", ms],
      ["requests per second", "request_throughput_rps", short], ["output tokens per second", "output_throughput_tok_s", short],
      ["total tokens per second", "total_throughput_tok_s", short], ["prompt tokens reused", "prefix_cache_reused_ratio", percent],
      ["TTFT, median", "median_ttft_ms", ms], ["TTFT, p99", "p99_ttft_ms", ms], ["ITL, median", "median_itl_ms", ms], ["ITL, p99", "p99_itl_ms", ms],
      ["TPOT, median", "median_tpot_ms", ms], ["E2E, median", "median_e2e_latency_ms", ms], ["E2E, p99", "p99_e2e_latency_ms", ms],
    ];
    const known = new Set(rows.map((r) => r[1]));
    const plain = /^(mean|min|max|median|p\d+|std)_|_tok_s$|_per_s$|^(num|completed|total|processed)_|^wall_time_ms$/;
    for (const key of Object.keys(runs[0].report)) {
      const v = runs[0].report[key];
      if (!known.has(key) && !plain.test(key)) rows.push([key.replaceAll("_", " "), key, typeof v !== "number" ? String : key.endsWith("_ratio") ? percent : number]);
    }
    const head = el("tr", el("th", ""));
    runs.forEach((r, i) => {
      head.append(el("th", r.name));
      if (i > 0) head.append(el("th", "change"));
    });
    const body = el("tbody");
    for (const [name, key, show] of rows) {
      const tr = el("tr", el("td", name));
      runs.forEach((r, i) => {
        const v = r.report[key], base = runs[0].report[key];
        tr.append(el("td", v === undefined ? "" : show(v)));
        if (i > 0) tr.append(el("td.delta", typeof v !== "number" || !base ? "" : change(v / base - 1)));
      });
      body.append(tr);
    }
    runs.forEach((r) => {
      if (!r.load || !r.load[0]) return;
      s.append(el("p.load", el(`b.${r.load[0]}`, r.load[0]), runs.length > 1 ? `${r.name}: ${r.load[1]}` : r.load[1]));
    });
    const grid = cards(s);
    grid.append(el("div.card", el("div.scroll", el("table", el("thead", head), body))));
    const made = el("div.card");
    grid.append(made);
    runs.forEach((r) => {
      made.append(el("h3", r.name));
      made.append(facts(r.facts || []));
      if (r.assumes && r.assumes.length) {
        made.append(el("h3.more", runs.length > 1 ? `What ${r.name} assumes` : "What this assumes"), facts(r.assumes));
      }
      made.append(el("br"));
    });
    const kept = runs.filter((r) => r.mean && r.mean.length);
    if (!kept.length) return;
    made.append(el("h3", "Where the time of the average request goes"));
    kept.forEach((r) => {
      if (runs.length > 1) made.append(el("div", r.name));
      made.append(bar(r.mean), el("div", ""));
    });
    made.append(partKeys(kept));
  };

  // bar is a ledger; its parts fill it.
  const bar = (parts, most) => {
    const b = el("div.bar");
    const all = most || parts.reduce((a, v) => a + v, 0) || 1;
    parts.forEach((v, p) => {
      if (!(v > 0)) return;
      const i = swatch(`--p${p}`);
      i.style.width = `${(100 * v) / all}%`;
      i.title = `${data.parts[p]}: ${ms(v)}`;
      b.append(i);
    });
    return b;
  };
  const partKeys = (kept) => {
    const keys = el("div", { style: "display:flex;flex-wrap:wrap;gap:2px 16px;margin-top:8px" });
    data.parts.forEach((name, p) => {
      const text = kept ? `${name} ${kept.map((r) => ms(r.mean[p])).join(" | ")}` : name;
      keys.append(el("span.key", swatch(`--p${p}`), text));
    });
    return keys;
  };

  const latencies = () => {
    const s = section("Latency", "Left to right on a percentile curve: how long the faster requests took, then the tail. ITL pools the times between tokens of all requests.");
    const grid = cards(s);
    const tail = (q) => -Math.log10(1 - q);
    const marks = [0.5, 0.9, 0.99, 0.999, 0.9999];
    for (const [key, name] of [["ttft", "TTFT"], ["itl", "ITL"], ["e2e", "E2E"]]) {
      const lists = runs.map((r, i) => {
        const c = r.curves[key];
        const x = [], y = [];
        data.curve.forEach((q, k) => {
          if (q < 1 && c.n && (q <= 0.9 || (1 - q) * c.n >= 0.999)) { x.push(tail(q)); y.push(c.q[k]); }
        });
        return { x, lines: [{ name: runs.length > 1 ? r.name : name, color: nth(i), y }] };
      });
      chart(grid, { title: `${name} by percentile`, ...join(lists), value: ms, xName: "percentile",
        xValue: (v) => number(100 * (1 - Math.pow(10, -v)), 2),
        xAxis: { splits: () => marks.map(tail), values: () => marks.map((q) => "p" + number(100 * q, 2)), space: 0 },
        range: (u, lo, hi) => [0, Math.max(hi, 1)] });
    }
    for (const [key, name] of [["ttft", "TTFT"], ["itl", "ITL"], ["e2e", "E2E"]]) {
      const lists = runs.map((r, i) => {
        const c = r.curves[key];
        if (!c.n) return { x: [], lines: [] };
        return { x: c.edges.map((v) => Math.log10(v)), lines: [{ name: runs.length > 1 ? r.name : name, color: nth(i), y: [...c.share, 0], step: true, fill: true }] };
      });
      chart(grid, { title: `Distribution of ${name}`, ...join(lists), value: percent, xName: "from",
        xValue: (v) => ms(Math.pow(10, v)),
        xAxis: { space: 55, splits: (u, axis, lo, hi) => logSplits(lo, hi), values: (u, list) => list.map((v) => ms(Math.pow(10, v))) } });
    }
  };
  const time = () => {
    if (!runs.some((r) => r.time)) return;
    const grid = cards(section("Over time"));
    const perSecond = (v) => short(v) + "/s";
    overTime(grid, "Arrivals", perSecond, (t) => ({ lines: [{ y: t.arrived }] }));
    overTime(grid, "Requests in flight", short, (t) => ({ lines: [{ y: t.in_flight }] }));
    overTime(grid, "Requests without a place in an engine", short, (t) => ({ lines: [{ y: t.queue }] }));
    overTime(grid, "Output tokens", perSecond, (t) => ({ lines: [{ y: t.throughput }] }));
    overTime(grid, "Requests finished", perSecond, (t) => ({ lines: [{ y: t.finished }] }));
    overTime(grid, "Requests that decode together, mean over workers", short, (t) => ({ worker: true, lines: [{ y: t.batch }] }));
  };

  // perWorker draws a line per worker, or the range over all when they are many.
  const perWorker = (grid, r, title, key) => {
    const workers = r.time.workers.filter((w) => w[key].length);
    if (!workers.length) return;
    const x = workers[0][key].map((_, k) => k * r.time.worker_bin_s);
    let lines;
    if (workers.length <= 8) {
      lines = workers.map((w, i) => ({ name: "worker " + w.name, color: `--c${i % 8}`, y: w[key] }));
    } else {
      const over = (f) => x.map((_, k) => f(workers.map((w) => w[key][k])));
      lines = [
        { name: "most", color: "--c1", y: over((v) => Math.max(...v)) },
        { name: "mean", color: "--c0", y: over((v) => v.reduce((a, b) => a + b, 0) / v.length) },
        { name: "least", color: "--c2", y: over((v) => Math.min(...v)) },
      ];
    }
    chart(grid, { title: runs.length > 1 ? `${title}: ${r.name}` : title, x, lines, value: percent, xAxis: timeAxis });
  };

  const workers = () => {
    const timed = runs.filter((r) => r.time);
    if (!timed.length) return;
    const s = section("Workers");
    const grid = cards(s);
    timed.forEach((r) => perWorker(grid, r, "KV blocks held by requests, by worker", "kv"));
    timed.forEach((r) => perWorker(grid, r, "Prompt tokens reused so far, by worker", "reuse"));
    const balance = cards(s);
    balance.classList.add("tables");
    balance.style.marginTop = "14px";
    timed.forEach((r) => {
      const most = Math.max(...r.time.workers.map((w) => w.tokens), 1);
      const body = el("tbody");
      for (const w of r.time.workers) {
        const share = el("div.bar");
        const fill = swatch(nth(runs.indexOf(r)));
        fill.style.width = `${(100 * w.tokens) / most}%`;
        share.append(fill);
        body.append(el("tr", el("td", w.name), el("td", number(w.requests)), el("td", number(w.passes)), el("td", number(w.tokens)), el("td.thin", share),
          el("td", percent(w.busy)), el("td", percent(w.prefill)), el("td", percent(w.reused))));
      }
      const head = el("tr");
      for (const h of ["worker", "requests", "passes", "tokens", "", "busy", "prefill", "reused"]) head.append(el("th", h));
      balance.append(el("div.card", el("h3", runs.length > 1 ? `Balance: ${r.name}` : "Balance"), el("div.scroll.tall", el("table", el("thead", head), body))));
    });
  };

  const slowest = () => {
    if (!runs.some((r) => r.slowest && r.slowest.length)) return;
    const s = section("Slowest requests", "Where their time went, and who held them up most; replay explain says more.");
    s.append(partKeys());
    runs.forEach((r) => {
      if (!r.slowest || !r.slowest.length) return;
      const head = el("tr");
      for (const h of ["request", "worker", "prompt", "reused", "answer", "TTFT", "E2E"]) head.append(el("th", h));
      head.append(el("th.left.wide", "ledger"), el("th.left", "held up by"));
      const body = el("tbody");
      const most = Math.max(...r.slowest.map((q) => q.e2e));
      for (const q of r.slowest) {
        const held = (q.holds || []).map((h) => `${h.title}: ${ms(h.ms)}`).join(", ");
        body.append(el("tr", el("td", q.title), el("td", q.where), el("td", number(q.input)), el("td", number(q.reused)), el("td", number(q.output)),
          el("td", ms(q.ttft)), el("td", ms(q.e2e)), el("td.wide", q.parts ? bar(q.parts, most) : "not recorded"), el("td.left.holds", held)));
      }
      const card = el("div.card", el("div.scroll", el("table", el("thead", head), body)));
      if (runs.length > 1) card.prepend(el("h3", r.name));
      card.style.marginTop = "12px";
      s.append(card);
    });
  };

  if (data.made) document.getElementById("made").textContent = data.made;
  if (runs.length > 1) runs.forEach((r, i) => document.getElementById("legend").append(el("span.key", swatch(nth(i)), r.name)));
  summary();
  latencies();
  time();
  workers();
  slowest();
  follow(charts, draw);
  report(charts.filter((one) => one.plot).length, charts.length);
})();
