"use strict";
// The page on which settings are turned. What is on the screen follows from state alone,
// which is the fragment of the address: the settings, those that are pinned, and no more.
(() => {
  const names = { ttft: "TTFT", itl: "ITL", tpot: "TPOT", ttst: "TTST", e2e: "E2E" };
  const view = Math.random().toString(36).slice(2);
  const pageText = document.createElement("style");
  pageText.textContent = `.explorer { display: grid; gap: 14px; grid-template-columns: minmax(0, 290px) minmax(0, 1fr); align-items: start; }
    @media (max-width: 800px) { .explorer { grid-template-columns: minmax(0, 1fr); } }
    .knobs label { display: block; margin: 8px 0 0; font-size: 13px; } .knobs .value { float: right; font-weight: 600; }
    .knobs input, .knobs select { width: 100%; max-width: none; } .knobs input[type=text] { font: inherit; color: var(--ink); background: var(--paper); border: 1px solid var(--line); border-radius: 4px; padding: 2px 6px; }
    .knobs fieldset { border: 0; border-top: 1px solid var(--line); margin: 12px 0 0; padding: 4px 0; } .knobs legend { font-weight: 600; padding-right: 8px; }
    .wrong { outline: 2px solid var(--c4); } .said { white-space: pre-wrap; overflow-wrap: anywhere; font: 12px/1.5 ui-monospace, monospace; margin: 0; }
    button { font: inherit; color: var(--ink); background: var(--card); border: 1px solid var(--line); border-radius: 4px; padding: 2px 10px; cursor: pointer; }
    .dropping { outline: 3px dashed var(--c0); } .error { color: var(--c4); } .row { display: flex; flex-wrap: wrap; gap: 6px; align-items: center; margin: 6px 0; }
    :focus-visible { outline: 2px solid var(--c0); outline-offset: 1px; }`;
  document.head.append(pageText);

  // first is what is on the screen of a page that nobody has turned anything on: the run
  // that it was made of, if it was, pinned so that others lie over it.
  const first = () => data.run ? { settings: { ...data.run.settings }, pins: [{ ...data.run.settings }] } : { settings: {}, pins: [] };
  let traces = data.traces, state = first();
  const read = () => {
    try {
      const was = JSON.parse(decodeURIComponent(location.hash.slice(1)));
      const plain = (o) => Object.fromEntries(Object.entries(o || {}).filter(([, v]) => typeof v === "string"));
      state = { settings: plain(was.settings), pins: (was.pins || []).slice(0, 5).map((p) => plain(p)) };
    } catch { state = first(); }
    if (!state.settings.trace && traces.length) state.settings.trace = traces[0];
  };
  const keep = () => history.replaceState(null, "", "#" + encodeURIComponent(JSON.stringify(state)));

  const ask = backend.ask;

  // The knobs.
  const box = el("div.explorer"), panel = el("form.knobs.card", { ariaLabel: "Settings" }), side = el("div.stack");
  box.append(panel, side);
  main.append(box);
  panel.addEventListener("submit", (e) => e.preventDefault());
  const problem = el("p.error"), says = el("p.small");
  problem.setAttribute("role", "alert");
  says.setAttribute("role", "status");
  const inputs = new Map();
  const set = (flag, value) => {
    if (value === "") delete state.settings[flag];
    else state.settings[flag] = value;
    if (flag === "workers") for (const f of ["prefill-workers", "decode-workers", "pd-threshold"]) delete state.settings[f];
    if (/^(prefill|decode)-workers$/.test(flag) && value !== "") delete state.settings.workers;
    if (flag === "max-in-flight" && value !== "") delete state.settings.speedup;
    if (flag === "speedup" && value !== "") delete state.settings["max-in-flight"];
    keep();
    show();
    refresh();
  };
  const selection = (flag, choices, first) => {
    const e = el("select", ...(first === null ? [] : [el("option", { value: "" }, first)]), ...choices.map((c) => el("option", { value: c }, c)));
    e.addEventListener("input", () => set(flag, e.value));
    return e;
  };
  const slider = (k) => {
    const e = el("input", { type: "range", min: 0, max: k.steps.length, step: 1 });
    e.addEventListener("input", () => set(k.flag, e.value === "0" ? "" : k.steps[e.value - 1]));
    return e;
  };
  const typed = (k) => {
    const e = el("input", { type: "text", placeholder: k.preset, autocomplete: "off", spellcheck: false });
    e.addEventListener("change", () => set(k.flag, e.value.trim()));
    return e;
  };
  const build = () => {
    inputs.clear();
    panel.replaceChildren();
    const trace = selection("trace", traces, null);
    const file = el("input", { type: "file" });
    file.addEventListener("change", () => file.files[0] && upload(file.files[0]));
    inputs.set("trace", { e: trace });
    panel.append(el("label", "Trace", trace), el("label", "Another trace: choose a file, or drop it here", file));
    for (const group of [...new Set(data.knobs.map((k) => k.group))]) {
      const set = el("fieldset", el("legend", group));
      for (const k of data.knobs.filter((k) => k.group === group)) {
        const e = k.choices ? selection(k.flag, k.choices, `${k.preset}`) : k.steps ? slider(k) : typed(k);
        const out = k.steps ? el("span.value") : null; // no output, which would take the label
        e.name = k.flag;
        e.title = "--" + k.flag;
        inputs.set(k.flag, { e, out, k });
        set.append(el("label", k.label, " ", out, e));
      }
      panel.append(set);
    }
    const button = (text, act) => { const b = el("button", { type: "button" }, text); b.addEventListener("click", act); return b; };
    panel.append(el("div.row", button("Pin this run", pin), button("Unpin all", () => { state.pins = []; keep(); refresh(); }), button("Reset", () => { state.settings = data.run ? first().settings : { trace: state.settings.trace }; keep(); show(); refresh(); })));
  };
  const show = () => {
    for (const [flag, { e, out, k }] of inputs) {
      const v = state.settings[flag] ?? "";
      if (!k || !k.steps) { if (e.value !== v) e.value = v; continue; }
      let at = k.steps.indexOf(v);
      if (v !== "" && at < 0) at = Math.max(0, k.steps.findLastIndex((s) => Number(s) <= Number(v)));
      e.value = String(at + 1);
      out.textContent = v || k.preset;
      e.setAttribute("aria-valuetext", v || k.preset);
    }
  };
  const pin = () => { state.pins = [...state.pins, { ...state.settings }].slice(-5); keep(); refresh(); };

  const upload = async (file) => {
    says.textContent = `reading ${file.name}`;
    problem.textContent = "";
    try {
      if (file.size > data.most) throw { error: `${file.name}: ${number(file.size / 1048576, 0)} MiB, want at most ${data.most / 1048576}` };
      traces = await backend.upload(file);
      build();
      set("trace", file.name);
    } catch (e) { problem.textContent = e.error || String(e); }
  };
  document.addEventListener("dragover", (e) => { e.preventDefault(); panel.classList.add("dropping"); });
  document.addEventListener("dragleave", () => panel.classList.remove("dropping"));
  document.addEventListener("drop", (e) => { e.preventDefault(); panel.classList.remove("dropping"); if (e.dataTransfer.files[0]) upload(e.dataTransfer.files[0]); });

  // Runs: the newest settings win. One that takes long is ended for them.
  const kept = new Map(); // answers of pinned runs, by their settings
  let current = null, wanted = false, stop = null, since = 0, redraws = 0;
  const refresh = () => {
    wanted = true;
    if (stop && performance.now() - since > 300) stop.abort();
    if (!stop) turn();
  };
  const turn = async () => {
    while (wanted) {
      wanted = false;
      if (!state.settings.trace) { says.textContent = "Choose a trace, or drop one on this page."; document.body.dataset.redraws = "0"; return; }
      stop = new AbortController();
      since = performance.now();
      const settings = { ...state.settings }, pins = state.pins.map((p) => ({ ...p }));
      try {
        for (const p of pins) {
          const key = JSON.stringify(p);
          if (!kept.has(key)) kept.set(key, await ask("run", { view, settings: p }, stop.signal));
        }
        current = await ask("run", { view, settings }, stop.signal);
        problem.textContent = "";
        for (const { e } of inputs.values()) { e.classList.remove("wrong"); e.removeAttribute("aria-invalid"); }
        drawAll(settings, pins);
        if (backend.answered) backend.answered(settings, current);
        const took = performance.now() - since;
        says.textContent = `replayed and drawn in ${number(took, 0)} ms`;
        document.body.dataset.redraws = String(++redraws);
        document.body.dataset.took = String(Math.round(took));
      } catch (e) {
        if (e.name !== "AbortError" && !wanted) {
          problem.textContent = e.error || String(e);
          document.body.dataset.refused = problem.textContent;
          const bad = inputs.get(e.flag);
          if (bad) { bad.e.classList.add("wrong"); bad.e.setAttribute("aria-invalid", "true"); }
        }
      } finally { stop = null; }
    }
  };

  // What is drawn.
  const drawing = el("div.stack"), close = el("div.card");
  const closeText = el("pre.said");
  side.append(el("div", problem, says), drawing, close);
  const field = (label, act) => {
    const e = el("input", { type: "text", size: 12, ariaLabel: label });
    const b = el("button", { type: "button" }, "Show");
    const go = async () => { try { closeText.textContent = await act(e.value.trim()); } catch (x) { closeText.textContent = x.error || String(x); } };
    b.addEventListener("click", go);
    e.addEventListener("keydown", (k) => { if (k.key === "Enter") go(); });
    return { row: el("div.row", el("label", label + " ", e), b), e, go };
  };
  const request = field("One request: its id, :LINE or SESSION#TURN", async (name) => (await ask("request", { settings: state.settings, request: name })).text);
  const worker = field("One worker's passes: worker, or worker@SECONDS; d before it for decode workers", async (text) => {
    const m = text.match(/^(d?)(\d+)(?:@([\d.]+))?$/);
    if (!m) return "want a worker, as 0, d1 or 0@90";
    const all = await ask("worker", { settings: state.settings, worker: { stage: m[1] ? 1 : 0, worker: Number(m[2]), from_ms: 1000 * Number(m[3] || 0) } });
    const line = (...c) => c.map((v, i) => String(v).padStart(i < 2 ? 12 : 9)).join("");
    return [line("start ms", "end ms", "passes", "prompt", "tokens", "running", "waiting", "held"), ...(all || []).map((p) =>
      line(number(p.Start, 2), number(p.End, 2), p.Count, p.Prompt, p.Tokens, p.Running, p.Waiting, p.Held))].join("\n");
  });
  close.append(el("h3", "Zoom"), request.row, worker.row, el("div.scroll", closeText));

  let plots = [];
  const lineOf = (name, color, dash, y, says) => ({ name, color, dash, y, says });
  const drawAll = (settings, pins) => {
    plots.forEach((p) => p.plot && p.plot.destroy());
    const { charts, draw, addChart } = makeCharts();
    plots = charts;
    const runs = [...pins.map((p, i) => ({ name: `pinned ${i + 1}`, a: kept.get(JSON.stringify(p)), settings: p })), { name: "now", a: current, settings }];
    runs.forEach((r, i) => { r.color = nth(runs.length - 1 - i); r.dash = i === runs.length - 1 ? 0 : 1; });
    drawing.replaceChildren(cards(runs), el("div.cards"));
    const grid = drawing.lastChild, timeAxis = { values: (u, v) => v.map(seconds) };
    const over = (title, value, xs, ys, more) => addChart(grid, { title, value, xAxis: timeAxis, ...more, panels: runs.flatMap((r) => {
      const x = xs(r.a);
      return x && x.length ? [{ name: r.name, color: r.color, x, lines: ys(r.a).map(([n, y], k) => lineOf(n, k ? `--c${k + 1}` : r.color, k ? 0 : r.dash, y.slice(0, x.length), "")) }] : [];
    }) });
    const bins = (a) => a.run.time && a.run.time.in_flight.map((_, i) => (i + 1) * a.run.time.bin_s);
    const wide = (a) => a.run.time && (a.run.time.batch || []).map((_, i) => (i + 1) * a.run.time.worker_bin_s);
    const minus = (a, b) => a.map((v, i) => Math.max(0, v - b[i]));
    over("In flight, running and waiting", short, bins, (a) => [["in flight", a.run.time.in_flight], ["running", minus(a.run.time.in_flight, a.run.time.queue)], ["waiting", a.run.time.queue]]);
    over("TTFT by arrival", ms, (a) => a.ttft.s, (a) => [["median", a.ttft.median || []], ["p99", a.ttft.p99 || []]], { spread: () => 1 });
    over("KV blocks in use, mean of workers", percent, wide, (a) => [["held", a.run.time.batch.map((_, i) => a.run.time.workers.reduce((n, w) => n + (w.kv[i] || 0), 0) / a.run.time.workers.length)]]);
    over("Answer tokens per second", short, bins, (a) => [["tokens/s", a.run.time.throughput]]);
    for (const id of ["ttft", "itl", "e2e"]) {
      const has = runs.filter((r) => r.a.run.curves[id] && r.a.run.curves[id].n);
      const tails = [0, 0.5, 0.9, 0.99, 0.999], at = (q) => -Math.log10(Math.max(1 - q, 1e-4));
      if (has.length) addChart(grid, { title: `${names[id]} by percentile`, value: ms, xValue: (v) => percent(1 - Math.pow(10, -v)), range: [0, 4],
        limits: (current.run.held || []).filter((h) => h.curve === id && h.share >= 0).map((h) => ({ side: "y", at: h.limit, text: h.title })),
        xAxis: { splits: () => tails.map(at), values: () => tails.map(percent), space: 0 }, spread: () => 1,
        panels: [{ name: "", color: "--c0", x: has[0].a.run.curves[id].q.map((_, i) => at(share(i))), lines: has.map((r) => lineOf(r.name, r.color, r.dash, r.a.run.curves[id].q, "")) }] });
    }
    charts.forEach(draw);
    report(charts.filter((c) => c.plot || !c.p.x.length).length, charts.length);
  };
  // share is that of the i-th quantile of curves.
  const share = (i) => i < 180 ? i / 200 : i < 270 ? 0.9 + (i - 180) / 1000 : i < 360 ? 0.99 + (i - 270) / 10000 : [0.999, 0.9995, 0.9999, 1][i - 360];

  const cards = (runs) => {
    const now = runs[runs.length - 1], a = now.a, first = runs[0];
    const rows = ["completed_requests", "duration_ms", "output_throughput_tok_s", "median_ttft_ms", "p99_ttft_ms", "median_itl_ms", "p99_itl_ms", "median_e2e_latency_ms", "p99_e2e_latency_ms", "prefix_cache_reused_ratio", "goodput_rps"].filter((k) => runs.some((r) => r.a.run.report[k] !== undefined));
    const shown = (k, v) => v === undefined ? "" : k.endsWith("_ms") ? ms(v) : k.endsWith("ratio") ? percent(v) : few(v);
    const several = runs.length > 1;
    const table = el("table", el("thead", el("tr", el("th", ""), ...runs.map((r) => el("th", swatch(r.color), " " + r.name)), ...(several ? [el("th", `now against ${first.name}`)] : []))),
      el("tbody", ...rows.map((k) => el("tr", el("td", named(k.replace(/_ms$/, ""))), ...runs.map((r) => el("td", shown(k, r.a.run.report[k]))),
        ...(several ? [el("td.delta", ...(first.a.run.report[k] ? changed(a.run.report[k] / first.a.run.report[k] - 1, k) : [""]))] : []))),
      el("tr", el("td", "GPUs, cost per hour"), ...runs.map((r) => el("td", r.a.gpus ? `${r.a.gpus}${r.a.cost_per_hour ? ", $" + number(r.a.cost_per_hour, 2) : ""}` : "")), ...(several ? [el("td", "")] : [])),
      el("tr", el("td", "cost of a million answer tokens"), ...runs.map((r) => el("td", r.a.cost_per_million_tokens ? "$" + number(r.a.cost_per_million_tokens, 2) : "")), ...(several ? [el("td", "")] : []))));
    const copy = (text, what) => { const b = el("button", { type: "button" }, `Copy ${what}`); b.addEventListener("click", () => navigator.clipboard.writeText(text)); return b; };
    const held = (a.run.held || []).map((h) => el("div", el(h.met ? "b.met" : "b.missed", h.met ? "✓ met" : "✗ missed"), ` ${h.title} ≤ ${ms(h.limit)}: `, h.each ? `${percent(h.value)} meet it` : ms(h.value)));
    const card = el("div.card", el("p.load", el("b." + (a.run.load[0] || "plain"), a.run.load[0] || "closed loop"), a.run.load[1]), ...held, el("div.scroll", table));
    const said = el("div.card", el("h3", "The same as a command, and as a file for --config"), el("pre.said", a.command), el("pre.said.more", a.yaml), el("div.row", copy(a.command, "command"), copy(a.yaml, "file"), copy(location.href, "link")),
      el("div.small", a.digest), ...(a.warnings || []).map((w) => el("p.warned", w)), el("details", el("summary", "What this assumes"), facts(a.run.assumes || [])));
    said.querySelector(".small").style.overflowWrap = "anywhere";
    const slow = el("tbody", ...(a.run.slowest || []).map((s) => { const b = el("button", { type: "button" }, s.title); b.addEventListener("click", () => { request.e.value = s.title.split(" ")[0]; request.go(); close.scrollIntoView(); }); return el("tr", el("td", b), el("td", s.where), el("td", number(s.input)), el("td", number(s.output)), el("td", ms(s.ttft)), el("td", ms(s.e2e))); }));
    const slowest = el("details.card", el("summary", "The slowest requests"), el("div.scroll", el("table", el("thead", el("tr", ...["request", "worker", "prompt", "answer", "TTFT", "E2E"].map((h) => el("th", h)))), slow)));
    return el("div.stack", card, said, slowest, ...(several ? [movedCard(first, now)] : []));
  };
  const movedCard = (first, now) => {
    const card = el("details.card", el("summary", `Requests that moved against ${first.name}`));
    card.addEventListener("toggle", async () => {
      if (!card.open || card.children.length > 1) return;
      try {
        const found = await ask("moved", { other: first.settings, settings: now.settings });
        const signed = (v) => (v < 0 ? "−" : "+") + ms(Math.abs(v));
        card.append(el("p", `${number(found.moved)} fared differently; most so:`), el("div.scroll", el("table", el("thead", el("tr", ...["request", "worker", "TTFT", "E2E"].map((h) => el("th", h)))),
          el("tbody", ...found.most.map((m) => el("tr", el("td", String(m.id)), el("td", `${m.worker_a} → ${m.worker_b}`), el("td", signed(m.ttft_change)), el("td", signed(m.e2e_change))))))));
      } catch (e) { card.append(el("p.error", e.error || String(e))); }
    });
    return card;
  };

  let width = 0;
  new ResizeObserver(() => { if (current && drawing.clientWidth !== width) { width = drawing.clientWidth; refresh(); } }).observe(main);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", refresh);
  addEventListener("hashchange", () => { read(); show(); refresh(); });
  read();
  build();
  show();
  refresh();
})();
