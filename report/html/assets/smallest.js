"use strict";
// The explorer's search for the smallest cluster. of() returns the settings on the screen. apply(settings) replaces them.
// A page without a server cannot search, so it shows the command.
const makeSmallest = ({ view, of, apply }) => {
  const title = el("h2", "Find the smallest cluster"), panel = el("div.card.smallest", { id: "smallest" }, title);
  const command = (flags) => ["replay plan", flags.trace || "TRACE", ...Object.entries(flags).filter(([k]) => k !== "trace").map(([k, v]) => `--${k}=${quote(v)}`)].join(" ");
  const quote = (v) => /^[\w./:=,+@%-]+$/.test(v) ? v : "'" + v.replaceAll("'", "'\\''") + "'";
  const sizes = ["workers", "prefill-workers", "decode-workers", "pd-threshold"];
  const input = (name, label, placeholder) => {
    const e = el("input", { type: "text", name: "smallest-" + name, placeholder, autocomplete: "off", spellcheck: false });
    return { e, row: el("label", label + " ", e) };
  };
  const goal = input("slo", "Objectives", "p99:ttft=2s,p99:itl=50ms"), gpus = input("gpus", "GPU types", "h100,h200: that of the settings"), seconds = input("seconds", "Choose settings for at most (s)", "60");
  const varied = (data.plan || []).map((v) => ({ ...v, e: el("input", { type: "checkbox", name: "smallest-" + v.name, checked: true }) }));

  // flags returns the flags of replay plan: the settings on the screen, without the size of the cluster and the settings that
  // the search varies.
  const flags = () => {
    const s = { ...of() };
    for (const f of sizes) delete s[f];
    for (const v of varied) if (v.e.checked) for (const f of v.flags) delete s[f];
    if (goal.e.value.trim()) s.slo = goal.e.value.trim();
    if (gpus.e.value.trim()) s.gpu = gpus.e.value.trim().split(/[\s,]+/).join(",");
    s.front = "false"; // the page does not draw the front
    const fixed = varied.filter((v) => !v.e.checked).map((v) => v.name);
    if (s.gpu && s.model) {
      if (fixed.length) s.fix = fixed.join(",");
      if (seconds.e.value.trim()) s["time-budget"] = seconds.e.value.trim() + "s";
    }
    return s;
  };
  if (!backend.plan) {
    const line = el("pre.said");
    panel.append(el("p", "This page has no server that searches. The command does, and so does the page of replay ui:"), line);
    return { panel, show: () => { line.replaceChildren(...words(command({ slo: "p99:ttft=2s,p99:itl=50ms", ...flags() }))); } };
  }

  const go = el("button", { type: "button" }, "Search"), stop = el("button", { type: "button", disabled: true }, "Cancel search");
  const bar = el("progress", { hidden: true, max: 1, value: 0, ariaLabel: "Replays" }), says = el("p.small", { id: "smallest-says", role: "status" }), result = el("div.stack");
  const line = el("pre.said", { tabIndex: 0, role: "region", ariaLabel: "Command of the search" });
  const form = el("form", { ariaLabel: "Search for the smallest cluster" }, goal.row, gpus.row, seconds.row,
    el("fieldset", el("legend", "The search chooses"), ...varied.map((v) => el("label", v.e, " " + v.label))), el("div.row", go, stop), bar, says);
  panel.append(el("p", "Runs replay plan with the settings on the screen: any number of workers, and the choices below."), form, line, result);

  let charts = [], running = null;
  const show = () => { if (!running) line.replaceChildren(...words(command(flags()))); goal.e.placeholder = of().slo || "p99:ttft=2s,p99:itl=50ms"; };
  const draw = (one) => one.draw(one);
  const progress = (at) => {
    bar.max = Math.max(at.expected || 1, 1);
    bar.value = Math.min(at.done || 0, bar.max);
    const s = at.stage;
    says.textContent = `${at.done || 0} replays` + (s ? `; round ${s.round} of ${s.rounds}: ${s.done} of ${s.all} choices` + (s.round === s.rounds && s.done === s.all ? ", now resamples" : "") + (s.best ? `, best so far ${s.gpus} GPU${s.gpus === 1 ? "" : "s"} (${s.best})` : "") : "");
  };
  const folded = (summary, inside) => {
    const e = el("details", el("summary", summary), ...inside);
    e.addEventListener("toggle", () => charts.filter((one) => e.contains(one.box) && one.box.clientWidth !== one.width).forEach(draw));
    return e;
  };
  const finish = (found) => {
    charts = [];
    const { top, more, measured, facts } = answerParts(found.answer, charts);
    result.replaceChildren(top);
    if (found.settings) {
      const b = el("button", { type: "button" }, "Apply");
      b.addEventListener("click", () => apply(found.settings));
      result.append(el("div.row", b, el("span.small", "sets the knobs to the recommended cluster")),
        el("pre.said", { tabIndex: 0, role: "region", ariaLabel: "Recommended cluster" }, ...words(command({ trace: of().trace, ...found.settings }).replace("replay plan", "max-in-flight" in found.settings ? "replay concurrency" : "replay trace"))));
    }
    result.append(folded("Alternatives, limits, sensitivity", more), folded("Simulated clusters, assumptions, command", [...measured, el("div.cards.below", ...facts)]));
    line.replaceChildren(...words(found.command));
    charts.filter((one) => one.box.clientWidth).forEach(draw);
  };
  const search = async () => {
    if (running) return;
    running = new AbortController();
    go.disabled = true;
    stop.disabled = false;
    bar.hidden = false;
    bar.value = 0;
    panel.dataset.state = "searching";
    result.replaceChildren();
    says.textContent = "reading the trace";
    line.replaceChildren(...words(command(flags())));
    try {
      finish(await backend.plan({ view, settings: flags() }, progress, running.signal));
      says.textContent = "";
      panel.dataset.state = "found";
    } catch (e) {
      says.textContent = e.name === "AbortError" ? "The search was cancelled." : e.error || String(e);
      panel.dataset.state = e.name === "AbortError" ? "cancelled" : "refused";
    }
    running = null;
    bar.hidden = stop.disabled = true;
    go.disabled = false;
  };
  go.addEventListener("click", search);
  stop.addEventListener("click", () => running && running.abort());
  form.addEventListener("submit", (e) => { e.preventDefault(); search(); });
  form.addEventListener("input", show);
  new ResizeObserver(() => charts.forEach((one) => { if (one.box.clientWidth && one.box.clientWidth !== one.width) draw(one); })).observe(panel);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.filter((one) => one.box.clientWidth).forEach(draw));
  return { panel, show };
};
