"use strict";
// Runs the settings on the screen with several values of one setting, and draws latencies and cost by this setting.
const makeSweep = ({ ask, view, of }) => {
  const panel = el("div.card.smallest", { id: "sweep" }), knobs = data.knobs.filter((k) => k.steps);
  const which = el("select", ...knobs.map((k) => el("option", { value: k.flag }, k.label))), list = el("input", { type: "text", autocomplete: "off", spellcheck: false });
  const go = el("button", { type: "button" }, "Sweep"), stop = el("button", { type: "button", disabled: true }, "Cancel sweep");
  const bar = el("progress", { hidden: true, max: 1, value: 0, ariaLabel: "Runs of the sweep" }), says = el("p.small", { role: "status" }), result = el("div.cards");
  let charts = [], draw = () => {}, running = null;
  // usual fills the list with steps around the value on the screen.
  const usual = () => {
    const k = knobs.find((o) => o.flag === which.value), at = Math.max(0, k.steps.findIndex((v) => Number(v) >= Number(of()[k.flag] || k.preset) || 0));
    list.value = k.steps.slice(Math.max(0, at - 3), at + 5).join(", ");
  };
  const show = (name, done, limits) => {
    const x = done.map((d) => d.x), kit = makeCharts();
    const chart = (title, value, lines, more) => kit.addChart(result, { title, value, xValue: (v) => number(v), xAxis: { values: (u, v) => v.map((w) => w === null ? "" : number(w)), splits: () => x, space: 34 }, ...more,
      panels: [{ name: "", color: "--c0", x, lines: lines.map(([n, f], i) => ({ name: n, color: nth(i), y: done.map(f), says: "", points: true })) }] });
    result.replaceChildren();
    const far = (id) => (all) => { const v = done.flatMap((d) => [d.a.run.report[`p99_${id}_ms`]]).concat(all).filter((w) => w > 0); return v.length ? 3.3 * Math.max(...v) / Math.min(...v) : 1; };
    for (const id of ["ttft", "itl"]) chart(`${id.toUpperCase()}, p99, by ${name}`, ms, [["p99", (d) => d.a.run.report[`p99_${id}_ms`]]], { time: true, spread: far(id), limits: limits.filter((h) => h.curve === id && !h.class).map((h) => ({ side: "y", at: h.limit, text: `${h.title} ≤ ${ms(h.limit)}` })) });
    if (done.some((d) => d.a.cost_per_million_tokens)) chart(`Cost per 1M output tokens by ${name}`, money, [["cost", (d) => d.a.cost_per_million_tokens]]);
    charts = kit.charts;
    draw = kit.draw;
    charts.forEach(draw);
  };
  const run = async () => {
    const flag = which.value, values = [...new Set(list.value.split(/[\s,]+/).filter((v) => v))];
    running = new AbortController();
    go.disabled = bar.hidden = false;
    go.disabled = true;
    stop.disabled = false;
    bar.max = values.length;
    bar.value = 0;
    panel.dataset.state = "sweeping";
    const base = { ...of() }, done = [], refused = [];
    for (const f of { workers: ["prefill-workers", "decode-workers", "prefill-tp", "decode-tp", "pd-threshold"], "prefill-workers": ["workers"], "decode-workers": ["workers"], speedup: ["max-in-flight"] }[flag] || []) delete base[f];
    try {
      for (const v of values) {
        says.textContent = `${flag} ${v}: run ${bar.value + 1} of ${values.length}`;
        try { done.push({ x: Number(v), a: await ask("run", { view, settings: { ...base, [flag]: v } }, running.signal) }); } catch (e) { if (e.name === "AbortError") throw e; refused.push(`${v}: ${e.error || e}`); }
        bar.value++;
        done.sort((a, b) => a.x - b.x);
        if (done.length) show(knobs.find((k) => k.flag === flag).label, done, done[0].a.run.held || []);
      }
      says.textContent = refused.join("; ");
      panel.dataset.state = "done";
    } catch (e) { says.textContent = "The sweep was cancelled."; panel.dataset.state = "cancelled"; }
    go.disabled = false;
    bar.hidden = stop.disabled = true;
  };
  which.addEventListener("input", usual);
  go.addEventListener("click", run);
  stop.addEventListener("click", () => running.abort());
  which.name = "sweep-setting";
  list.name = "sweep-values";
  which.value = "workers";
  usual();
  panel.append(el("h2", "Sweep a setting"), el("p", "Runs the settings on the screen once for each value."), el("label", "Setting ", which), el("label", "Values ", list), el("div.row", go, stop), bar, says, result);
  new ResizeObserver(() => charts.forEach((one) => { if (one.box.clientWidth && one.box.clientWidth !== one.width) draw(one); })).observe(panel);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach(draw));
  return { panel };
};
