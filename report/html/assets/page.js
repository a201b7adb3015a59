"use strict";
(() => {
  const runs = data.runs;
  const { charts, draw, addChart } = makeCharts();
  const several = runs.length > 1;
  const names = { ttft: "TTFT", itl: "ITL", e2e: "E2E", tpot: "TPOT", ttst: "TTST" };

  const section = (title, text) => {
    const s = el("section", el("h2", title));
    if (text) s.append(el("p", text));
    main.append(s);
    return s;
  };
  const cards = (parent, three) => parent.appendChild(el(three ? "div.cards.three" : "div.cards"));

  const mean = (list) => list.reduce((a, b) => a + b, 0) / (list.length || 1);
  const most = (list) => list.reduce((a, b) => Math.max(a, b), 0);

  // faults returns lines at the times of the faults of a run.
  const faults = (r) => (r.time && r.time.faults || []).slice(0, 20).map((s, i) => ({ side: "x", at: s, text: `fault ${i + 1}` }));

  // overlay draws panels with one line each in one panel, if there are few enough to tell the lines apart.
  const overlay = (panels) => {
    const drawn = panels.filter((p) => p.x.length);
    if (!several || runs.length > 4 || drawn.length < 2) return panels;
    const joined = uPlot.join(drawn.map((p) => [p.x, p.lines[0].y]));
    const limits = drawn.flatMap((p) => (p.limits || []).map((l) => ({ ...l, text: `${p.name}: ${l.text}` })));
    return [{ name: "", color: "--c0", x: joined[0], ...(limits.length ? { limits } : {}), lines: drawn.map((p, i) => ({ ...p.lines[0], name: p.name, dash: i % 3, fill: false, y: joined[i + 1] })) }];
  };

  // overTime draws the values that pick returns for each run over time, in one panel or in one panel per run. whole is
  // the mean in the report.
  const overTime = (parent, title, value, pick, worker, unit, whole) => {
    const panels = runs.map((r, i) => {
      const y = r.time ? pick(r.time) : [];
      const step = r.time ? (worker ? r.time.worker_bin_s : r.time.bin_s) : 0;
      return { name: r.name, color: nth(i), limits: faults(r), x: y.map((_, k) => k * step), lines: [{ color: nth(i), y, says: `mean ${whole ? short(whole(r.report)) + "/s" : value(mean(y))}, most ${value(most(y))}` }] };
    });
    const peaks = panels.map((p) => most(p.lines[0].y)).filter((v) => v > 0);
    addChart(parent, { title, panels: overlay(panels), value, ticks: unit, xAxis: timeAxis, counts: true, spread: () => peaks.length < 2 ? 1 : most(peaks) / Math.min(...peaks) });
  };

  // objectives returns a table of the objectives of the runs.
  const objectives = () => {
    const titles = [...new Set(runs.flatMap((r) => (r.held || []).map((o) => `${o.title}|${o.limit}`)))];
    if (!titles.length) return null;
    const body = el("tbody", ...titles.map((title) => {
      const found = runs.map((r) => (r.held || []).find((o) => `${o.title}|${o.limit}` === title)), one = found.find((o) => o);
      const cells = found.map((o) => !o ? el("td", "") : el(o.met ? "td.met" : "td.missed", `${o.met ? "✓" : "✗"} ${o.each ? percent(o.value) + " meet it" : ms(o.value)}`));
      const wanted = one.each ? `, target ${percent(one.want)}` : "";
      return el("tr", el("td", one.title + (one.limit ? " ≤ " + ms(one.limit) : "") + wanted), ...cells);
    }));
    const head = el("tr", el("th", "objective"), ...runs.map((r) => el("th", several ? r.name : "came to")));
    return el("div.card.full", el("h3", "Objectives"), scrolls("Objectives", el("table", el("thead", head), body)));
  };

  const values = () => {
    const rows = [
      ["requests", "num_requests", number], ["completed", "completed_requests", number], ["duration", "duration_ms", ms],
      ["requests per second", "request_throughput_rps", short], ["output tokens per second", "output_throughput_tok_s", short],
      ["total tokens per second", "total_throughput_tok_s", short], ["prefix-cache hit rate", "prefix_cache_reused_ratio", percent],
      ["TTFT, median", "median_ttft_ms", ms], ["TTFT, p99", "p99_ttft_ms", ms], ["ITL, median", "median_itl_ms", ms], ["ITL, p99", "p99_itl_ms", ms],
      ["TPOT, median", "median_tpot_ms", ms], ["E2E, median", "median_e2e_latency_ms", ms], ["E2E, p99", "p99_e2e_latency_ms", ms],
    ];
    const known = new Set(rows.map((r) => r[1]));
    const plain = /^(mean|min|max|median|p\d+|std)_|_tok_s$|_per_s$|^(num|completed|total|processed)_|^wall_time_ms$/;
    for (const key of new Set(runs.flatMap((r) => Object.keys(r.report)))) {
      const v = runs.map((r) => r.report[key]).find((v) => v !== undefined);
      if (!known.has(key) && !plain.test(key)) rows.push([named(key), key, typeof v !== "number" ? String : key.endsWith("_ratio") ? percent : number]);
    }
    const head = el("tr", el("th", "value"));
    runs.forEach((r, i) => head.append(el("th", r.name), ...(i > 0 ? [el("th", `against ${runs[0].name}`)] : [])));
    const body = el("tbody");
    for (const [name, key, show] of rows) {
      const tr = el("tr", el("td", name));
      runs.forEach((r, i) => {
        const v = r.report[key], base = runs[0].report[key];
        tr.append(el("td", v === undefined ? "" : show(v)));
        if (i > 0) tr.append(el("td.delta", ...(typeof v !== "number" || !base ? [""] : changed(v / base - 1, key))));
      });
      body.append(tr);
    }
    return el(several ? "div.card.full" : "div.card", scrolls("Values", el("table", el("thead", head), body)));
  };

  // paired returns a table of the mean differences of paired requests between the first run and each other run.
  const paired = () => {
    const later = runs.slice(1).filter((r) => r.paired && r.paired.metrics && r.paired.metrics.length);
    if (!later.length) return [];
    const signed = (v) => (v < 0 ? "−" : "+") + ms(Math.abs(v));
    const show = (m) => {
      if (!m) return el("td", "");
      const verdict = { win: ["b.better", "✓ better"], lose: ["b.worse", "✗ worse"], tie: ["span", "no clear change"], "too few": ["span", "too few requests"], "one seed": ["span", "one seed"] }[m.verdict];
      return el("td", signed(m.change) + " ", el(...verdict), m.low === null ? "" : el("div.small", `${signed(m.low)} to ${signed(m.high)}`));
    };
    const name = (m) => `${m.statistic} ${names[m.metric]}`;
    const rows = [...new Set(later.flatMap((r) => r.paired.metrics.map(name)))];
    const head = el("tr", el("th", "statistic"), ...later.map((r) => el("th", r.name)));
    const body = el("tbody", ...rows.map((row) => el("tr", el("td", row), ...later.map((r) => show(r.paired.metrics.find((m) => name(m) === row))))));
    return [el("div.card.full", el("h3", `Changes from ${runs[0].name}, request by request`),
      el("p", `The same requests in both, with 95 % intervals of a paired bootstrap (${number(later[0].paired.resamples)} resamples): better or worse is what chance does not explain.`),
      scrolls("Paired changes", el("table", el("thead", head), body)))];
  };

  // madeOf returns the inputs and the assumptions of the runs. Equal ones are shown once.
  const madeOf = () => {
    const same = (list) => list.filter((row) => several && runs.every((r) => (r[list.of] || []).some((o) => o[0] === row[0] && o[1] === row[1])));
    const rowsOf = (r, of) => Object.assign([...(r[of] || [])], { of });
    const shared = ["facts", "assumes"].map((of) => same(rowsOf(runs[0], of)));
    const own = (r, k, of) => rowsOf(r, of).filter((row) => !shared[k].some((s) => s[0] === row[0]));
    const card = (name, made, assumed, title) => el("div.card", el("h3", name), facts(made), ...(assumed.length ? [el("h3.more", title), facts(assumed)] : []));
    const all = runs.filter((r) => own(r, 0, "facts").length + own(r, 1, "assumes").length).map((r) => card(r.name, own(r, 0, "facts"), own(r, 1, "assumes"), several ? `What ${r.name} assumes` : "What this assumes"));
    return shared.some((s) => s.length) ? [card("All runs", ...shared, "What all assume"), ...all] : all;
  };

  const ledger = () => {
    const kept = runs.filter((r) => r.mean && r.mean.length);
    if (!kept.length) return [];
    const card = el(several ? "div.card.full" : "div.card", el("h3", "Where the time of the average request goes"));
    const longest = Math.max(...kept.map((r) => r.mean.reduce((a, v) => a + v, 0)));
    kept.forEach((r) => card.append(...(several ? [el("div.small", r.name)] : []), bar(r.mean, longest)));
    const head = el("tr", el("th", "part"), ...kept.map((r) => el("th", several ? r.name : "mean")));
    const body = el("tbody", ...data.parts.map((name, p) => el("tr", el("td", el("span.key", swatch(`--p${p}`), name)), ...kept.map((r) => el("td", ms(r.mean[p] || 0))))));
    card.append(scrolls("Parts of the time", el("table", el("thead", head), body), ".more"));
    return [card];
  };

  // tiles returns the main numbers of a run, with its objectives.
  const tiles = (r) => el("div.tiles", ...[["Time to first token, p99", "p99_ttft_ms", ms, "ttft"], ["Inter-token latency, p99", "p99_itl_ms", ms, "itl"],
    ["Time per output token, p99", "p99_tpot_ms", ms, "tpot"], ["Output throughput", "output_throughput_tok_s", (v) => few(v) + " tokens/s"]].map(([title, of, show, id]) => {
    const held = (r.held || []).filter((o) => o.curve === id && !o.class), missed = held.some((o) => !o.met), v = r.report[of];
    return el("div.card.tile" + (held.length ? missed ? ".bad" : ".good" : ""), el("h3", title), el("strong", v ? show(v) : "–"),
      ...held.map((o) => el("div", el(o.met ? "b.met" : "b.missed", o.met ? "✓ met" : "✗ missed"), ` ${o.title} ≤ ${ms(o.limit)}${o.met || o.value > o.limit ? "" : `: ${number(r.report.num_requests - (r.report.completed_requests || 0))} requests did not complete`}`)));
  }));

  const summary = () => {
    const s = section("Summary");
    runs.forEach((r) => {
      if (r.load && r.load[0]) s.append(el("p.load", el(`b.${r.load[0]}`, r.load[0]), several ? `${r.name}: ${r.load[1]}` : r.load[1]));
    });
    if (!several) s.append(tiles(runs[0]));
    const grid = cards(s), held = objectives();
    const onTiles = (o) => !o.class && !o.each && ["ttft", "itl", "tpot"].includes(o.curve);
    grid.append(...(held && (several || !runs[0].held.every(onTiles)) ? [held] : []), ...paired());
  };
  // rest adds the numbers, the request ledgers, the inputs and the assumptions.
  const rest = () => {
    const grid = cards(section("Numbers, assumptions, command"));
    if (several) grid.append(values(), ...ledger(), ...madeOf());
    else grid.append(values(), el("div.stack", ...ledger(), ...madeOf()));
  };

  // bar draws a request ledger as a bar of its parts.
  const bar = (parts, longest) => {
    const b = el("div.bar");
    const all = longest || parts.reduce((a, v) => a + v, 0) || 1;
    parts.forEach((v, p) => {
      if (!(v > 0)) return;
      const i = swatch(`--p${p}`);
      i.style.width = `${(100 * v) / all}%`;
      i.title = `${data.parts[p]}: ${ms(v)}`;
      b.append(i);
    });
    return b;
  };
  const partKeys = () => el("div.keys", ...data.parts.map((name, p) => el("span.key", swatch(`--p${p}`), name)));

  const shareText = (q) => "p" + number(100 * q, 2);
  const held = (curve, ofClass) => {
    const all = new Map();
    runs.forEach((r) => (r.held || []).filter((o) => o.curve === curve && Boolean(o.class) === Boolean(ofClass)).forEach((o) => all.set(`${o.title}|${o.limit}`, o)));
    return [...all.values()];
  };
  const limitText = (o) => `${o.class ? o.title.replace(/ [A-Z0-9]+$/, "") : o.each ? "each" : o.title.split(" ")[0]} ≤ ${ms(o.limit)}`;
  const quantile = (c, q) => c.q[data.curve.indexOf(q)];
  // percentiles draws curves in one or more panels {name, color, lines: [{name, curve}]}.
  const percentiles = (grid, title, panels, limits) => {
    const tail = (q) => -Math.log10(1 - q);
    const marks = [0.5, 0.9, 0.99, 0.999, 0.9999];
    const curves = panels.flatMap((p) => p.lines.map((l) => l.curve)).filter((c) => c.n);
    const drawn = panels.map((p) => {
      const lists = p.lines.map((l, i) => {
        const c = l.curve, x = [], y = [];
        data.curve.forEach((q, k) => {
          if (q < 1 && c.n && (q <= 0.9 || (1 - q) * c.n >= 0.999)) { x.push(tail(q)); y.push(c.q[k]); }
        });
        return { x, line: { name: l.name, color: nth(i), dash: i % 3, says: c.n ? `median ${ms(quantile(c, 0.5))}, p99 ${ms(quantile(c, 0.99))}` : "no value", y } };
      }).filter((l) => l.x.length);
      const joined = lists.length ? uPlot.join(lists.map((l) => [l.x, l.line.y])) : [[]];
      return { name: p.name, color: p.color, x: joined[0], lines: lists.map((l, k) => ({ ...l.line, y: joined[k + 1] })) };
    });
    const medians = curves.map((c) => quantile(c, 0.5)).filter((v) => v > 0);
    const values = drawn.flatMap((p) => p.lines.flatMap((l) => l.y)).filter((v) => v !== null && v !== undefined);
    addChart(grid, { title: `${title} by percentile`, value: ms, time: true, xAxis: { splits: (u, i, lo, hi) => marks.map(tail).filter((v) => v >= lo && v <= hi), values: (u, list) => list.map((v) => shareText(1 - Math.pow(10, -v))), space: 0 },
      xValue: (v) => shareText(1 - Math.pow(10, -v)), range: [0, drawn.flatMap((p) => p.x).reduce((a, b) => Math.max(a, b), 1)], panels: drawn,
      spread: (over) => medians.length ? most([...values, ...over]) / Math.min(...medians, ...over) : 1,
      note: limits.length ? [["limit", "--c4", limits.some((o) => o.share >= 0) ? "limit: the curve has to pass below it up to the ring" : "limit"]] : undefined,
      limits: limits.map((o) => ({ side: "y", at: o.limit, text: limitText(o), ...(o.share > 0 && o.share < 1 ? { point: tail(o.share) } : {}) })) });
  };

  const latencies = () => {
    const s = section("Latency", "Left to right on a percentile curve: how long the faster requests took, then the tail. ITL pools the times between tokens of all requests.");
    const grid = cards(s, true);
    for (const id of data.drawn) {
      percentiles(grid, names[id], [{ name: names[id], color: nth(0), lines: runs.map((r) => ({ name: several ? r.name : names[id], curve: r.curves[id] })) }], held(id));
    }
    for (const id of data.drawn) {
      const panels = runs.map((r, i) => {
        const c = r.curves[id];
        return { name: r.name, color: nth(i), x: c.n ? c.edges.map((v) => Math.log10(v)) : [],
          lines: [{ color: nth(i), y: c.n ? [...c.share, 0] : [], step: true, fill: true, says: c.n ? `${number(c.n)} values, half of them up to ${ms(quantile(c, 0.5))}` : "" }] };
      });
      addChart(grid, { title: `Distribution of ${names[id]}`, panels: overlay(panels), value: percent, xValue: (v) => "from " + ms(Math.pow(10, v)),
        ticks: percents, xAxis: { space: 55, splits: timeTicks, values: (u, list) => list.map((v) => ms(Math.pow(10, v))) },
        limits: held(id).map((o) => ({ side: "x", at: Math.log10(o.limit), text: limitText(o) })) });
    }
  };
  // byClass adds a table of the results of each class of requests.
  const byClass = () => {
    const classed = runs.filter((r) => (r.classes || []).length);
    if (!classed.length) return;
    const grid = cards(section("Classes", "Requests of each class, and percentiles of their times. Speed is answer tokens per second of the time that its requests were in the cluster."), true);
    const all = [...new Set(classed.flatMap((r) => r.classes.map((c) => c.name)))], judged = classed.some((r) => r.classes.some((c) => c.met !== null));
    const two = (c, id) => [0.5, 0.99].map((q) => el("td", c.curves[id].n ? ms(quantile(c.curves[id], q)) : ""));
    const rows = all.flatMap((name) => classed.map((r) => [r, r.classes.find((c) => c.name === name)]).filter(([, c]) => c).map(([r, c]) =>
      el("tr", el("td", several ? `${name}, ${r.name}` : name), el("td", c.completed < c.requests ? `${number(c.completed)} of ${number(c.requests)}` : number(c.requests)),
        ...two(c, "ttft"), ...two(c, "tpot"), ...two(c, "e2e"), el("td", short(c.speed) + "/s"), ...(judged ? [el("td", percent(c.met))] : []))));
    const head = ["class", "requests", "TTFT p50", "p99", "TPOT p50", "p99", "E2E p50", "p99", "speed", ...(judged ? ["met objectives"] : [])].map((h) => el("th", h));
    grid.append(el("div.card.full", scrolls("Classes", el("table", el("thead", el("tr", ...head)), el("tbody", ...rows)))));
    for (const id of ["ttft", "tpot", "e2e"]) {
      const panels = classed.map((r) => ({ name: r.name, color: nth(runs.indexOf(r)), lines: r.classes.map((c) => ({ name: c.name, curve: c.curves[id] })) }));
      percentiles(grid, `${names[id]} of each class`, panels, held(id, true));
    }
  };

  const time = () => {
    if (!runs.some((r) => r.time)) return;
    const grid = cards(section("Over time"), true);
    const count = (v) => v >= 1e4 ? short(v) : few(v), perSecond = (v) => count(v) + "/s", rate = [count, "/s"];
    overTime(grid, "Arrivals", perSecond, (t) => t.arrived, false, rate, (r) => 1000 * r.num_requests / r.duration_ms);
    overTime(grid, "Requests in flight", count, (t) => t.in_flight);
    overTime(grid, "Requests waiting", count, (t) => t.queue);
    overTime(grid, "Output tokens", perSecond, (t) => t.throughput, false, rate, (r) => r.output_throughput_tok_s);
    overTime(grid, "Requests finished", perSecond, (t) => t.finished, false, rate, (r) => r.request_throughput_rps);
    overTime(grid, "Decode batch size, mean over workers", count, (t) => t.batch, true);
  };

  // perWorker draws a line per worker, or the range over all workers if there are many.
  const perWorker = (grid, title, key) => {
    const panels = runs.map((r, i) => {
      const workers = r.time ? r.time.workers.filter((w) => w[key].length) : [];
      const x = workers.length ? workers[0][key].map((_, k) => k * r.time.worker_bin_s) : [];
      const over = (f) => x.map((_, k) => f(workers.map((w) => w[key][k])));
      const line = (name, n, y) => ({ name, color: nth(n), dash: n % 3, y, says: "most " + percent(most(y)) });
      const lines = workers.length <= 8 ? workers.map((w, n) => line("worker " + w.name, n, w[key]))
        : [line("highest worker", 1, over((v) => Math.max(...v))), line("mean of workers", 0, over(mean)), line("lowest worker", 2, over((v) => Math.min(...v)))];
      return { name: r.name, color: nth(i), limits: faults(r), x, lines };
    });
    if (panels.some((p) => p.x.length)) addChart(grid, { title, panels, value: percent, ticks: percents, xAxis: timeAxis });
  };

  // fold puts a table into an element that folds if there are several runs. It is open for two runs.
  const fold = (title, table) => {
    const d = el("details.card.full", { open: runs.length < 3 }, el("summary", title), table);
    return several ? d : el("div.card.full", ...(title ? [el("h3", title)] : []), table);
  };

  const workers = () => {
    const timed = runs.filter((r) => r.time);
    if (!timed.length) return;
    const grid = cards(section("Workers"));
    perWorker(grid, "KV blocks held by requests, by worker", "kv");
    perWorker(grid, "Prefix-cache hit rate so far, by worker", "reuse");
    timed.forEach((r) => {
      const longest = Math.max(...r.time.workers.map((w) => w.tokens), 1);
      const body = el("tbody");
      for (const w of r.time.workers) {
        const share = el("div.bar");
        const fill = swatch(nth(runs.indexOf(r)));
        fill.style.width = `${(100 * w.tokens) / longest}%`;
        share.append(fill);
        body.append(el("tr", el("td", w.name), el("td", number(w.requests)), el("td", number(w.passes)), el("td", number(w.tokens)), el("td.thin", share),
          el("td", percent(w.busy)), el("td", percent(w.prefill)), el("td", percent(w.reused))));
      }
      const head = el("tr");
      for (const h of ["worker", "requests", "passes", "tokens", "of the most", "busy", "prefill", "hit rate"]) head.append(el("th", h));
      grid.append(fold(several ? `Balance: ${r.name}` : "Balance", scrolls(`Balance of ${r.name}`, el("table", el("thead", head), body), ".tall")));
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
      const longest = Math.max(...r.slowest.map((q) => q.e2e));
      for (const q of r.slowest) {
        const held = (q.holds || []).map((h) => `${h.title}: ${ms(h.ms)}`).join(", ");
        body.append(el("tr", el("td", q.title), el("td", q.where), el("td", number(q.input)), el("td", number(q.reused)), el("td", number(q.output)),
          el("td", ms(q.ttft)), el("td", ms(q.e2e)), el("td.wide", q.parts ? bar(q.parts, longest) : "not recorded"), el("td.left.holds", held)));
      }
      const card = fold(several ? r.name : "", scrolls(`Slowest requests of ${r.name}`, el("table", el("thead", head), body)));
      card.classList.add("below");
      s.append(card);
    });
  };

  if (data.made) document.getElementById("made").textContent = data.made;
  if (several) runs.forEach((r, i) => document.getElementById("legend").append(el("span.key", swatch(nth(i)), r.name)));
  summary();
  latencies();
  byClass();
  time();
  drawScaling(runs, section, addChart, timeAxis, several);
  workers();
  drawTasks(runs, section, several);
  slowest();
  rest();
  follow(charts, draw);
  report(charts.filter((one) => one.plot).length, charts.length);
})();
