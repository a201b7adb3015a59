"use strict";
// The page on which settings are turned. What is on the screen follows from state alone,
// which is the fragment of the address: the settings, those that are pinned, what is zoomed
// into, and no more. knobs.js has the fields, screen.js what is drawn.
(() => {
  const view = Math.random().toString(36).slice(2);
  const pageText = document.createElement("style");
  pageText.textContent = `.explorer { display: grid; gap: 14px; grid-template-columns: minmax(0, 290px) minmax(0, 1fr); align-items: start; }
    @media (max-width: 800px) { .explorer { grid-template-columns: minmax(0, 1fr); } }
    .knobs label { display: block; margin: 8px 0 0; font-size: 13px; } .knobs label[hidden] { display: none; } .knobs .value { float: right; font-weight: 600; }
    .knobs input, .knobs select { width: 100%; max-width: none; } input[type=text], input[type=number] { font: inherit; color: var(--ink); background: var(--paper); border: 1px solid var(--soft); border-radius: 4px; padding: 2px 6px; }
    .knobs fieldset { border: 0; border-top: 1px solid var(--line); margin: 12px 0 0; padding: 4px 0; } .knobs legend { font-weight: 600; padding-right: 8px; }
    .wrong { outline: 2px solid var(--c4); } .said { white-space: pre-wrap; overflow-wrap: anywhere; font: 12px/1.5 ui-monospace, monospace; margin: 0; }
    button { font: inherit; color: var(--ink); background: var(--card); border: 1px solid var(--soft); border-radius: 4px; padding: 2px 10px; cursor: pointer; }
    .dropping { outline: 3px dashed var(--c0); } .error { color: var(--c4); } .row { display: flex; flex-wrap: wrap; gap: 6px; align-items: center; margin: 6px 0; }
    .digest { overflow-wrap: anywhere; } .explorer .chart { min-height: 230px; } .explorer .panels .chart { min-height: 160px; } tbody th { font-weight: 400; color: inherit; }
    .unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
    .smallest label { display: block; margin: 8px 0 0; font-size: 13px; } .smallest fieldset { border: 0; margin: 8px 0 0; padding: 0; } .smallest fieldset label { margin: 2px 0 0; }
    .smallest input[type=text] { width: 100%; max-width: 460px; display: block; } .smallest progress { width: 100%; }
    :focus-visible { outline: 2px solid var(--c0); outline-offset: 1px; }`;
  document.head.append(pageText);
  const ask = backend.ask;

  // first is what is on the screen of a page that nobody has turned anything on: the run
  // that it was made of, if it was, pinned so that others lie over it.
  const first = () => data.run ? { settings: { ...data.run.settings }, pins: [{ ...data.run.settings }] } : { settings: {}, pins: [] };
  let traces = data.traces, state = first();
  const read = () => {
    try {
      const was = JSON.parse(decodeURIComponent(location.hash.slice(1)));
      const plain = (o) => Object.fromEntries(Object.entries(o || {}).filter(([, v]) => typeof v === "string"));
      const zoom = plain(was.zoom);
      state = { settings: plain(was.settings), pins: (was.pins || []).slice(0, 5).map((p) => plain(p)), ...(zoom.request || zoom.worker ? { zoom } : {}) };
    } catch { state = first(); }
    if (!state.settings.trace && traces.length) state.settings.trace = traces[0];
  };
  const fragment = () => "#" + encodeURIComponent(JSON.stringify(state));
  const link = () => location.href.replace(/#.*$/, "") + fragment();
  // keep writes the state into the address; browsers refuse to do so at the speed of a knob.
  let keeping = 0;
  const keep = () => { keeping ||= setTimeout(() => { keeping = 0; history.replaceState(null, "", fragment()); }, 400); };

  const set = (flag, value) => {
    if (value === "") delete state.settings[flag];
    else state.settings[flag] = value;
    knobs.fit(state.settings, flag);
    keep();
    knobs.show();
    refresh();
  };
  const pinAll = (pins) => { state.pins = pins; keep(); refresh(); };
  const reset = () => { state.settings = data.run ? first().settings : { trace: state.settings.trace }; keep(); knobs.show(); refresh(); };
  const problem = el("p.error", { id: "problem", role: "alert" }), says = el("p.small"), announced = el("div.unseen", { id: "announced", role: "status" });
  const upload = async (file) => {
    says.textContent = `reading ${file.name}`;
    problem.textContent = "";
    try {
      if (file.size > data.most) throw { error: `${file.name}: ${number(file.size / 1048576, 0)} MiB, want at most ${data.most / 1048576}` };
      traces = await backend.upload(file);
      knobs.build(traces);
      set("trace", file.name);
    } catch (e) { says.textContent = ""; problem.textContent = e.error || String(e); }
  };
  const knobs = makeKnobs({ of: () => state.settings, turn: set, upload,
    acts: [["Pin this run", () => pinAll([...state.pins, { ...state.settings }].slice(-5))], ["Unpin all", () => pinAll([])], ["Reset", reset], ["Find the smallest cluster", () => { smallest.panel.scrollIntoView(); smallest.panel.querySelector("input")?.focus({ preventScroll: true }); }]] });
  const applyAll = (settings) => { state.settings = { trace: state.settings.trace, ...settings }; keep(); knobs.show(); refresh(); scrollTo({ top: 0 }); };
  const smallest = makeSmallest({ view, of: () => state.settings, apply: applyAll });
  const screen = makeScreen({ ask, link, zoom: (z) => zoomInto(z, true) });
  document.addEventListener("dragover", (e) => { e.preventDefault(); knobs.panel.classList.add("dropping"); });
  document.addEventListener("dragleave", () => knobs.panel.classList.remove("dropping"));
  document.addEventListener("drop", (e) => { e.preventDefault(); knobs.panel.classList.remove("dropping"); if (e.dataTransfer.files[0]) upload(e.dataTransfer.files[0]); });

  // Runs: the newest settings win. One that takes long is ended for them, unless nothing has
  // been drawn for a while. The next run goes on while one is drawn.
  const kept = new Map(); // answers of pinned runs, by their settings
  let current = null, wanted = false, running = null, lastDrawn = 0, redraws = 0;
  const refresh = () => {
    wanted = true;
    smallest.show();
    const now = performance.now();
    if (running && now - running.since > 300 && now - lastDrawn < 1500) running.stop.abort();
    if (!running) turn();
  };
  const begin = () => {
    wanted = false;
    if (!state.settings.trace) { says.textContent = "Choose a trace, or drop one on this page."; document.body.dataset.redraws = "0"; return null; }
    const run = { stop: new AbortController(), since: performance.now(), settings: { ...state.settings }, pins: state.pins.map((p) => ({ ...p })) };
    const answer = async () => {
      for (const p of run.pins) {
        const key = JSON.stringify(p);
        if (!kept.has(key)) kept.set(key, await ask("run", { view, settings: p }, run.stop.signal));
      }
      return ask("run", { view, settings: run.settings }, run.stop.signal);
    };
    run.answer = answer().then((a) => ({ a }), (e) => ({ e }));
    return run;
  };
  const turn = async () => {
    for (running = begin(); running;) {
      const run = running, { a, e } = await run.answer;
      running = wanted ? begin() : null;
      if (a) drawRun(run, a);
      else refuse(e);
      if (!running && wanted) running = begin();
    }
  };
  const refuse = (e) => {
    if (e.name === "AbortError" || wanted || running) return;
    problem.textContent = e.error || String(e);
    says.textContent = current ? "what is drawn is the run before" : "";
    document.body.dataset.refused = problem.textContent;
    knobs.mark(e.flag, "problem");
  };
  const drawRun = ({ settings, pins, since }, a) => {
    current = a;
    if (problem.textContent) problem.textContent = "";
    knobs.mark();
    const runs = [...pins.map((p, i) => ({ name: `pinned ${i + 1}`, a: kept.get(JSON.stringify(p)), settings: p })), { name: "now", a, settings }];
    runs.forEach((r, i) => { r.color = nth(runs.length - 1 - i); r.dash = i === runs.length - 1 ? 0 : 1; });
    document.body.dataset.drawn = "";
    screen.draw(runs, () => { announce(a); if (state.zoom && JSON.stringify(state.zoom) + a.digest !== zoomed) zoomInto(state.zoom, false); });
    if (backend.answered) backend.answered(settings, a);
    lastDrawn = performance.now();
    says.textContent = `replayed and drawn in ${number(lastDrawn - since, 0)} ms`;
    document.body.dataset.redraws = String(++redraws);
    document.body.dataset.took = String(Math.round(lastDrawn - since));
  };
  // announce says what came of the last turn, once no other follows for a while.
  let speaking = 0;
  const announce = (a) => {
    clearTimeout(speaking);
    speaking = setTimeout(() => {
      const r = a.run.report, held = a.run.held || [], missed = held.filter((h) => !h.met).length;
      announced.textContent = [`p99 TTFT ${ms(r.p99_ttft_ms)}`, `${few(r.output_throughput_tok_s || 0)} answer tokens per second`, ...(held.length ? [missed ? `${missed} of ${held.length} objectives missed` : "all objectives met"] : [])].join(", ");
    }, 700);
  };

  // Zoom: one request, or one worker's passes; it is in the link.
  const close = el("div.card"), closeText = el("pre.said", { tabIndex: 0, role: "region", ariaLabel: "Ledger or passes" });
  let zoomed = "";
  const zooms = {
    request: async (name) => (await ask("request", { settings: state.settings, request: name })).text,
    worker: async (text) => {
      const m = text.match(/^(d?)(\d+)(?:@([\d.]+))?$/);
      if (!m) return "want a worker, as 0, d1 or 0@90";
      const all = await ask("worker", { settings: state.settings, worker: { stage: m[1] ? 1 : 0, worker: Number(m[2]), from_ms: 1000 * Number(m[3] || 0) } });
      const line = (...c) => c.map((v, i) => String(v).padStart(i < 2 ? 12 : 9)).join("");
      return [line("start ms", "end ms", "passes", "prompt", "tokens", "running", "waiting", "held"), ...(all || []).map((p) =>
        line(number(p.Start, 2), number(p.End, 2), p.Count, p.Prompt, p.Tokens, p.Running, p.Waiting, p.Held))].join("\n");
    },
  };
  const zoomInto = async (z, byHand) => {
    const kind = z.request ? "request" : "worker";
    state.zoom = { [kind]: z[kind] };
    keep();
    zoomed = JSON.stringify(state.zoom) + (current ? current.digest : "");
    for (const k of ["request", "worker"]) fields[k].value = z[k] || "";
    try { closeText.textContent = await zooms[kind](z[kind]); } catch (e) { closeText.textContent = e.error || String(e); }
    if (byHand) { close.scrollIntoView(); closeText.focus({ preventScroll: true }); }
  };
  const fields = {};
  const field = (kind, label) => {
    const e = el("input", { type: "text", size: 12, name: "zoom-" + kind });
    const b = el("button", { type: "button", ariaLabel: "Show the " + kind }, "Show");
    const go = () => { if (e.value.trim()) zoomInto({ [kind]: e.value.trim() }, false); else { delete state.zoom; closeText.textContent = ""; keep(); } };
    b.addEventListener("click", go);
    e.addEventListener("keydown", (k) => { if (k.key === "Enter") go(); });
    fields[kind] = e;
    return el("div.row", el("label", label + " ", e), b);
  };
  close.append(el("h2", "Zoom"), field("request", "One request: its id, :LINE or SESSION#TURN"), field("worker", "One worker's passes: worker, or worker@SECONDS; d before it for decode workers"), el("div.scroll", closeText));

  const box = el("div.explorer"), side = el("div.stack");
  side.append(el("h2.unseen", "Results"), el("div", problem, says, announced), screen.drawing, smallest.panel, close);
  box.append(knobs.panel, side);
  main.append(box);
  let width = 0;
  new ResizeObserver(() => { if (current && screen.drawing.clientWidth !== width) { width = screen.drawing.clientWidth; refresh(); } }).observe(main);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", refresh);
  addEventListener("hashchange", () => { if (location.hash === fragment()) return; clearTimeout(keeping); keeping = 0; read(); knobs.show(); refresh(); });
  read();
  knobs.build(traces);
  knobs.show();
  refresh();
})();
