"use strict";
// The page of the explorer. state decides what the page shows: the settings, the pinned settings, and the zoom. It is
// also the fragment of the URL. knobs.js has the fields, and screen.js draws the results.
(() => {
  const view = Math.random().toString(36).slice(2);
  document.body.classList.add("exploring");
  const ask = backend.ask;

  // first returns the state of a page without changes. If the page was made from a run, that run is pinned.
  const pinOf = (p, color, name) => ({ settings: { ...p }, color, ...(name ? { name } : {}) });
  const first = () => data.run ? { settings: { ...data.run.settings }, pins: [pinOf(data.run.settings, 1)] } : { settings: { ...(data.start || {}) }, pins: [] };
  const mostPins = 6;
  let traces = data.traces, state = first(), unshown = 0; // unshown: pins of the link above the limit
  const read = () => {
    try {
      const was = JSON.parse(decodeURIComponent(location.hash.slice(1)));
      const plain = (o) => Object.fromEntries(Object.entries(o || {}).filter(([, v]) => typeof v === "string"));
      const zoom = plain(was.zoom), free = (i, c) => Number.isInteger(c) && c > 0 && c <= mostPins ? c : i + 1;
      const pins = (was.pins || []).slice(0, mostPins).map((p, i) => p.settings ? pinOf(plain(p.settings), free(i, p.color), plain(p).name) : pinOf(plain(p), i + 1));
      state = { settings: plain(was.settings), pins, ...(zoom.request || zoom.worker ? { zoom } : {}) };
      unshown = Math.max(0, (was.pins || []).length - mostPins);
    } catch { state = first(); }
    if (!state.settings.trace && traces.length) state.settings.trace = traces[0];
  };
  const fragment = () => "#" + encodeURIComponent(JSON.stringify(state));
  const link = () => location.href.replace(/#.*$/, "") + fragment();
  // keep writes the state to the URL 400 ms after the last change, so that the back and forward buttons step through
  // settings.
  let keeping = 0;
  const keep = () => {
    clearTimeout(keeping);
    keeping = setTimeout(() => {
      keeping = 0;
      if (location.hash === fragment()) return;
      if (location.hash) history.pushState(null, "", fragment());
      else history.replaceState(null, "", fragment());
    }, 400);
  };

  const set = (flag, value) => {
    if (value === "") delete state.settings[flag];
    else state.settings[flag] = value;
    knobs.fit(state.settings, flag);
    keep();
    knobs.show();
    refresh();
  };
  const pinAll = (pins) => { state.pins = pins; unshown = 0; keep(); refresh(); };
  const pin = () => {
    const color = [1, 2, 3, 4, 5, 6].find((c) => !state.pins.some((p) => p.color === c));
    if (color) pinAll([...state.pins, pinOf(state.settings, color)]);
    else problem.textContent = `${mostPins} runs are pinned, which is the limit: remove one`;
  };
  const reset = () => { state.settings = { ...first().settings, trace: state.settings.trace }; keep(); knobs.show(); refresh(); };
  const problem = el("p.error", { id: "problem", role: "alert" }), says = el("p", { id: "state" }), announced = el("div.unseen", { id: "announced", role: "status" }), mapping = el("div");
  // nameOf returns the label of a pin: its name, or the settings in which it differs from the current settings.
  const nameOf = (p) => {
    if (p.name) return p.name;
    const apart = [...new Set([...Object.keys(p.settings), ...Object.keys(state.settings)])].filter((k) => p.settings[k] !== state.settings[k]).map((k) => knobs.say(k, p.settings));
    return apart.length ? apart.slice(0, 3).join(", ") + (apart.length > 3 ? `, ${apart.length - 3} more` : "") : "same settings";
  };
  const upload = async (file) => {
    says.textContent = `reading ${file.name}`;
    problem.textContent = "";
    try {
      if (file.size > data.most) throw { error: `${file.name}: ${number(file.size / 1048576, 0)} MiB, must be at most ${data.most / 1048576}` };
      traces = await backend.upload(file);
      knobs.build(traces);
      set("trace", file.name);
    } catch (e) { says.textContent = ""; problem.textContent = e.error || String(e); }
  };
  const knobs = makeKnobs({ of: () => state.settings, turn: set, upload,
    acts: [["Reset", reset], ["Find the smallest cluster", () => { smallest.panel.scrollIntoView(); smallest.panel.querySelector("input")?.focus({ preventScroll: true }); }]] });
  const button = (text, act, more) => { const b = el("button", { type: "button", ...more }, text); b.addEventListener("click", act); return b; };
  // pinBar lists the drawn runs, each in its colour.
  const pinBar = el("div.row", { role: "group", ariaLabel: "Runs" });
  const showPins = () => {
    if (pinBar.contains(document.activeElement) && document.activeElement.tagName === "INPUT") return;
    pinBar.replaceChildren(el("span.pin", swatch("--c0"), "now"), ...state.pins.map((p) => {
      const auto = nameOf({ settings: p.settings }), e = el("input", { type: "text", value: p.name || "", placeholder: auto, title: auto, ariaLabel: `Name of the pin ${auto}` });
      e.addEventListener("change", () => { if (e.value.trim()) p.name = e.value.trim(); else delete p.name; keep(); refresh(); });
      return el("span.pin", swatch(nth(p.color)), e, button("Use", () => applyAll(p.settings), { title: "change the settings to those of this pin" }),
        button("×", () => pinAll(state.pins.filter((o) => o !== p)), { ariaLabel: `Remove the pin ${nameOf(p)}` }));
    }), ...(unshown ? [el("span", `The link has ${number(unshown)} more, which are not shown: at most ${mostPins} runs can be pinned.`)] : []));
    pinBar.hidden = !state.pins.length;
  };
  const applyAll = (settings) => { state.settings = { trace: state.settings.trace, ...settings }; keep(); knobs.show(); refresh(); scrollTo({ top: 0 }); };
  const smallest = makeSmallest({ view, of: () => state.settings, apply: applyAll });
  const sweep = makeSweep({ ask, view: view + "s", of: () => state.settings });
  const screen = makeScreen({ ask, link, zoom: (z) => zoomInto(z, true) });
  const header = document.querySelector("header"), exports = screen.exports();
  header.append(el("div.row", button("Pin this run", pin), exports));
  document.addEventListener("dragover", (e) => { e.preventDefault(); knobs.panel.classList.add("dropping"); });
  document.addEventListener("dragleave", () => knobs.panel.classList.remove("dropping"));
  document.addEventListener("drop", (e) => { e.preventDefault(); knobs.panel.classList.remove("dropping"); if (e.dataTransfer.files[0]) upload(e.dataTransfer.files[0]); });

  // Runs: a new setting cancels a running replay, unless nothing has been drawn for a while. A replay can run while the
  // previous results are drawn.
  const kept = new Map(); // answers of pinned runs by their settings
  let current = null, drawn = {}, wanted = false, running = null, lastDrawn = 0, redraws = 0; // drawn: the settings of current
  const refresh = () => {
    wanted = true;
    smallest.show();
    const now = performance.now();
    if (running && now - running.since > 300 && now - lastDrawn < 1500) running.stop.abort();
    if (!running) turn();
  };
  // busy marks the results as outdated when a run takes long. rest removes the mark.
  let marking = 0;
  const busy = () => { marking ||= setTimeout(() => { side.classList.add("busy"); side.setAttribute("aria-busy", "true"); says.textContent = "running; the results are those of the settings before"; }, 200); };
  const rest = (stale) => {
    clearTimeout(marking);
    marking = 0;
    side.classList.remove("busy");
    side.removeAttribute("aria-busy");
    side.classList.toggle("stale", Boolean(stale && current));
    says.classList.remove("loud");
  };
  // lost shows that the server has stopped, and reloads the page when the server answers again.
  let asking = 0;
  const lost = () => {
    says.textContent = `replay ui has stopped. Start it again with: ${data.restart || "replay ui"}`;
    says.classList.add("loud");
    asking ||= setInterval(async () => { try { await ask("traces", {}); location.reload(); } catch (e) { if (!e.gone) location.reload(); } }, 1500);
  };
  const begin = () => {
    wanted = false;
    if (!state.settings.trace) { says.textContent = "Choose a trace, or drop one on this page."; document.body.dataset.redraws = "0"; return null; }
    const run = { stop: new AbortController(), since: performance.now(), settings: { ...state.settings }, pins: state.pins.map((p) => ({ ...p, of: nameOf(p) })) };
    busy();
    const answer = async () => {
      for (const { settings } of run.pins) {
        const key = JSON.stringify(settings);
        if (!kept.has(key)) kept.set(key, await ask("run", { view, settings }, run.stop.signal));
      }
      return ask("run", { view, settings: run.settings }, run.stop.signal);
    };
    run.answer = answer().then((a) => ({ a }), (e) => ({ e }));
    return run;
  };
  // A run is drawn only when no pointer is down on the results, so that a click or a drag ends on the chart where it
  // began.
  let pressed = null, release = () => {};
  screen.drawing.addEventListener("pointerdown", (e) => { if (e.button === 0) pressed ||= new Promise((ok) => { release = ok; }); });
  for (const type of ["pointerup", "pointercancel", "blur"]) addEventListener(type, () => setTimeout(() => { pressed = null; release(); })); // after the click
  const turn = async () => {
    for (running = begin(); running;) {
      const run = running, { a, e } = await run.answer;
      await pressed;
      running = wanted ? begin() : null;
      if (a) drawRun(run, a);
      else refuse(e);
      if (!running && wanted) running = begin();
    }
  };
  const refuse = (e) => {
    if (e.name === "AbortError" || wanted || running) return;
    rest(true);
    problem.textContent = e.error || String(e);
    says.textContent = current ? "stale: the results are those of the settings before" : "";
    if (e.gone) lost();
    document.body.dataset.refused = problem.textContent;
    mapping.replaceChildren(...(e.keys ? [knobs.columns(e.keys, e.columns, (value) => { set("columns", value); knobs.panel.querySelector("[name=columns]").focus(); })] : []));
    knobs.mark(e.flag, "problem");
  };
  const drawRun = ({ settings, pins, since }, a) => {
    current = a;
    drawn = settings;
    if (problem.textContent) problem.textContent = "";
    mapping.replaceChildren();
    knobs.mark();
    rest(false);
    if (running) busy();
    const runs = [...pins.map((p) => ({ name: p.of, a: kept.get(JSON.stringify(p.settings)), settings: p.settings, color: nth(p.color), dash: 1 })), { name: "now", a, settings, color: "--c0", dash: 0 }];
    showPins();
    screen.head(settings, a);
    document.body.dataset.drawn = "";
    screen.draw(runs, () => { announce(a); if (state.zoom && JSON.stringify(state.zoom) + a.digest !== zoomed) zoomInto(state.zoom, false); });
    if (backend.answered) backend.answered(settings, a);
    width = screen.drawing.clientWidth;
    lastDrawn = performance.now();
    says.textContent = `Replayed and drawn in ${number(lastDrawn - since, 0)} ms`;
    document.body.dataset.redraws = String(++redraws);
    document.body.dataset.took = String(Math.round(lastDrawn - since));
  };
  // announce announces the result of the last change to screen readers, if no other change follows for a while.
  let speaking = 0;
  const announce = (a) => {
    clearTimeout(speaking);
    speaking = setTimeout(() => {
      const r = a.run.report, held = a.run.held || [], missed = held.filter((h) => !h.met).length;
      announced.textContent = [`p99 TTFT ${ms(r.p99_ttft_ms)}`, `${few(r.output_throughput_tok_s || 0)} output tokens per second`, ...(held.length ? [missed ? `${missed} of ${held.length} objectives missed` : "all objectives met"] : [])].join(", ");
    }, 700);
  };

  // Zoom: one request, or the passes of one worker. The link includes it.
  const close = el("div.card"), closeText = el("pre.said", { tabIndex: 0, role: "region", ariaLabel: "Ledger or passes" });
  let zoomed = "", zoomsBegun = 0;
  const zooms = {
    request: async (name) => (await ask("request", { settings: drawn, request: name })).text,
    worker: async (text) => {
      const m = text.match(/^(d?)(\d+)(?:@([\d.]+))?$/);
      if (!m) return "a worker is 0, d1 or 0@90";
      const all = await ask("worker", { settings: drawn, worker: { stage: m[1] ? 1 : 0, worker: Number(m[2]), from_ms: 1000 * Number(m[3] || 0) } });
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
    const place = ++zoomsBegun;
    let shown;
    try { shown = await zooms[kind](z[kind]); } catch (e) { shown = e.error || String(e); }
    if (place !== zoomsBegun) return; // a later zoom is shown
    closeText.textContent = shown;
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
  close.append(el("h2", "Inspect"), field("request", "One request: its id, :LINE or SESSION#TURN"), field("worker", "One worker's passes: worker, or worker@SECONDS; d before it for decode workers"), el("div.scroll", closeText));

  const box = el("div.explorer"), side = el("div.stack");
  side.append(el("h2.unseen", "Results"), problem, mapping, pinBar, screen.drawing, says, announced, smallest.panel, sweep.panel, close);
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
