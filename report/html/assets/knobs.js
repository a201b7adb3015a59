"use strict";
// The knobs of the explorer: a form with a labelled field for each setting. of() returns the settings, and turn(flag,
// value) changes a setting. The value "" unsets it.
const makeKnobs = ({ of, turn, upload, acts }) => {
  const panel = el("form.knobs.card", { ariaLabel: "Settings" });
  const inputs = new Map(); // {e, k, special, range, why} by flag
  panel.addEventListener("submit", (e) => e.preventDefault());

  const selection = (flag, choices, first) => {
    const e = el("select", ...(first === null ? [] : [el("option", { value: "" }, first)]), ...choices.map((c) => el("option", { value: c }, c)));
    e.addEventListener("input", () => turn(flag, e.value));
    return e;
  };
  const typed = (k) => {
    const e = el("input", { type: "text", placeholder: k.preset, autocomplete: "off", spellcheck: false });
    e.addEventListener("change", () => turn(k.flag, e.value.trim()));
    return e;
  };
  // paired returns a slider over round values, and a number field that accepts any value.
  const paired = (k) => {
    const range = el("input", { type: "range", min: 0, max: k.steps.length, step: 1, ariaLabel: k.label + ", slider" }), e = el("input", { type: "text", inputMode: "decimal", autocomplete: "off", spellcheck: false });
    const put = () => turn(k.flag, e.value.trim());
    range.addEventListener("input", () => turn(k.flag, range.value === "0" ? "" : k.steps[range.value - 1]));
    e.addEventListener("input", () => { if (e.value === "" || /^\d+(\.\d+)?$/.test(e.value)) put(); });
    e.addEventListener("change", put);
    return { e, range, row: el("span.pair", range, e) };
  };
  const twoPools = (s) => Boolean(s["prefill-workers"] || s["decode-workers"]);
  // preset returns the value of a knob that is not set. The sizes of pools depend on each other.
  const preset = (k, s) => k.flag === "workers" && twoPools(s) ? "two pools" : /^(prefill|decode)-workers$/.test(k.flag) && twoPools(s) ? "1" : k.preset;
  // blocked returns the reason why a setting has no effect or is not supported with the current settings; "": it can be
  // changed.
  const blocked = (k, s) => {
    const engine = (k.label.match(/TensorRT-LLM|SGLang/) || [""])[0], own = s.engine || "vllm";
    if (engine && own !== { "TensorRT-LLM": "trtllm", SGLang: "sglang" }[engine]) return `requires the engine ${engine}`;
    if (/^(model|tp|ep|dp)$/.test(k.flag) && !s.gpu) return "requires a GPU";
    if (/^(prefill-tp|decode-tp|pd-threshold)$/.test(k.flag) && !twoPools(s)) return "requires prefill and decode workers";
    if (k.flag === "slo-attainment" && !s.slo) return "requires objectives";
    if (k.label.includes("KV router)")) return s.router === "kv" ? "" : "requires the router kv";
    return "";
  };

  // The fields of a fault make a list of one line. faultOf parses that line, and returns null for any other list.
  const unit = { ms: 0.001, s: 1, m: 60, h: 3600 };
  const inSeconds = (text) => { const m = (text || "").match(/^([\d.]+)(ms|s|m|h)$/); return m ? String(Number(m[1]) * unit[m[2]]) : ""; };
  const faultOf = (text) => {
    const m = (text || "").match(/^(?:\{on_loss: (retry|migrate), faults: )?\[\{([^{}\[\]]*)\}\]\}?$/);
    if (!m) return null;
    const f = Object.fromEntries(m[2].split(", ").map((p) => p.split(": ")));
    if (Object.keys(f).some((key) => !["at", "pool", "worker", "what", "back", "for", "factor"].includes(key))) return null;
    return f.what && ["dies", "slow", "hangs"].includes(f.what) && /^\d+$/.test(f.worker || "") && inSeconds(f.at)
      ? { what: f.what, pool: f.pool || "", worker: f.worker, at: inSeconds(f.at), end: inSeconds(f.back || f.for), factor: f.factor || "3", loss: m[1] || "lose" } : null;
  };
  const faultText = (f, s) => {
    const parts = [`at: ${f.at}s`, ...(twoPools(s) ? [`pool: ${f.pool || "prefill"}`] : []), `worker: ${f.worker}`, `what: ${f.what}`];
    if (f.what === "slow") parts.push(`factor: ${f.factor}`);
    if (f.end || f.what === "hangs") parts.push(`${f.what === "dies" ? "back" : "for"}: ${f.end || "30"}s`);
    const list = `[{${parts.join(", ")}}]`;
    return f.what === "dies" && f.loss !== "lose" ? `{on_loss: ${f.loss}, faults: ${list}}` : list;
  };
  const someFault = { what: "dies", pool: "", worker: "0", at: "60", end: "30", factor: "3", loss: "lose" };

  // faults returns the fields of faults: a file, one fault, or a list in one line.
  const faults = (k) => {
    const parts = {}, e = el("select", ...[["", k.preset], ["+", "a fault of one worker"], ["*", "a list in a line"], ...(k.choices || []).map((c) => [c, c])].map(([value, text]) => el("option", { value }, text)));
    let last = someFault, mode = "";
    const put = () => { last = { ...last, ...Object.fromEntries(Object.entries(parts).map(([n, { e }]) => [n, e.value === "" ? (n === "end" ? "" : last[n]) : e.value])) }; turn(k.flag, faultText(last, of())); };
    const part = (name, label, input) => {
      input.addEventListener("input", put);
      input.dataset.fault = name;
      parts[name] = { e: input, row: el("label", label, " ", input) };
    };
    const options = (all) => el("select", ...all.map(([v, t]) => el("option", { value: v }, t)));
    part("what", "What happens", options([["dies", "it dies"], ["slow", "it is slow"], ["hangs", "it hangs"]]));
    part("pool", "Pool", options([["prefill", "prefill"], ["decode", "decode"]]));
    part("worker", "Worker", el("input", { type: "number", min: 0, step: 1 }));
    part("at", "At (s)", el("input", { type: "number", min: 0, step: 10 }));
    part("end", "Recovers after (s); empty: never", el("input", { type: "number", min: 0, step: 10 }));
    part("factor", "Pass time factor", el("input", { type: "number", min: 0.1, step: 0.5 }));
    part("loss", "Its requests", options([["lose", "are lost"], ["retry", "begin again"], ["migrate", "continue on another worker"]]));
    const line = el("input", { type: "text", autocomplete: "off", spellcheck: false, placeholder: "[{at: 60s, worker: all, what: slow, factor: 2}]" });
    line.addEventListener("change", () => turn(k.flag, line.value.trim()));
    const lineRow = el("label", "Faults, as docs/classes.md has them ", line);
    e.addEventListener("input", () => {
      mode = e.value;
      if (mode === "*") show();
      else turn(k.flag, mode === "+" ? faultText(last, of()) : mode);
    });
    const show = () => {
      const s = of(), value = s[k.flag] || "", own = faultOf(value), isList = /^[\[{]/.test(value);
      if (!isList && value) mode = value;
      else if (isList && !(mode === "*")) mode = own ? "+" : "*";
      else if (!value && mode !== "*") mode = "";
      e.value = mode;
      if (own) last = own;
      for (const [name, { e, row }] of Object.entries(parts)) {
        row.hidden = mode !== "+" || name === "pool" && !twoPools(s) || name === "factor" && last.what !== "slow" || name === "loss" && last.what !== "dies";
        const v = name === "pool" ? last.pool || "prefill" : last[name];
        if (mode === "+" && e.value !== v) e.value = v;
      }
      lineRow.hidden = mode !== "*";
      if (mode === "*" && isList) line.value = value;
    };
    return { e, show, rows: [...Object.values(parts).map((p) => p.row), lineRow] };
  };

  // scalers returns the fields of an autoscaler: none, a built-in autoscaler with its numbers, or a file.
  const scalerForm = /^\{scaler: hpa, min: (\d+), max: (\d+), metrics: \[\{metric: (\w+), target: ([\d.]+)\}\], startup: \{weights: ([\d.]+)s\}\}$/;
  const scalers = (k) => {
    const parts = {}, e = el("select", ...[["", k.preset], ["+", "HPA with these numbers"], ...(k.choices || []).map((c) => [c, c])].map(([value, text]) => el("option", { value }, text)));
    const put = () => { const v = (n) => parts[n].e.value || parts[n].usual; turn(k.flag, `{scaler: hpa, min: ${v("min")}, max: ${v("max")}, metrics: [{metric: ${v("metric")}, target: ${v("target")}}], startup: {weights: ${v("startup")}s}}`); };
    const part = (name, label, usual, input) => {
      input.value = usual;
      input.dataset.scaler = name;
      input.addEventListener("input", put);
      parts[name] = { e: input, usual, row: el("label", label, " ", input) };
    };
    const count = (more) => el("input", { type: "number", min: 0, step: 1, ...more });
    part("min", "Least workers", "1", count());
    part("max", "Most workers", "8", count());
    part("metric", "Metric", "in_flight", el("select", ...[["in_flight", "requests in flight per worker"], ["kv_usage", "KV cache usage, 0 to 1"]].map(([value, text]) => el("option", { value }, text))));
    part("target", "Target of the metric", "8", count({ step: "any" }));
    part("startup", "A new worker starts in (s)", "30", count());
    e.addEventListener("input", () => { if (e.value === "+") put(); else turn(k.flag, e.value); });
    const show = () => {
      const value = of()[k.flag] || "", m = value.match(scalerForm), own = Boolean(m) || value.startsWith("{");
      e.value = own ? "+" : value;
      Object.values(parts).forEach((p, i) => { p.row.hidden = !own; if (m && p.e.value !== m[i + 1]) p.e.value = m[i + 1]; });
    };
    return { e, show, rows: Object.values(parts).map((p) => p.row) };
  };

  // columns returns the form that maps the columns of a trace of unknown format. put(value) sets the mapping.
  const columns = (keys, guess, put) => {
    const quoted = (name) => /[,"]/.test(name) ? `"${name.replaceAll('"', '""')}"` : name, fields = {};
    const form = el("form.card", { ariaLabel: "Columns of the trace" }, el("h3", "Which column is which?"), ...[["arrival", "Arrival"], ["input", "Prompt tokens"], ["output", "Answer tokens"], ["session", "Session (optional)"]].map(([role, label]) => {
      const e = fields[role] = el("select", { name: "column-" + role }, el("option", { value: "" }, "none"), ...keys.map((key) => el("option", { value: quoted(key) }, key)));
      e.value = (guess || "").split(",").map((p) => p.split("=")).find(([r]) => r === role)?.[1] || "";
      return el("label", label + " ", e);
    }), el("button", { type: "submit" }, "Use these columns"));
    form.addEventListener("submit", (e) => { e.preventDefault(); put(Object.entries(fields).filter(([, f]) => f.value).map(([role, f]) => `${role}=${f.value}`).join(",")); });
    return form;
  };

  const button = (text, act) => { const b = el("button", { type: "button" }, text); b.addEventListener("click", act); return b; };
  const folded = new Set(), groups = [], mapped = new Map(); // columns, by trace
  let wanted = "";
  // find shows the settings that contain the words of the search.
  const find = () => {
    const words = wanted.toLowerCase().split(/\s+/);
    for (const { box, rows } of groups) {
      let any = false;
      for (const { k, row, text } of rows) {
        row.hidden = !words.every((w) => text.includes(w)) || Boolean(k.more && !wanted && !(k.flag in of()));
        any ||= !row.hidden;
      }
      box.hidden = !any;
      box.open = Boolean(wanted) || !folded.has(box.dataset.group);
    }
  };
  const build = (traces) => {
    inputs.clear();
    groups.length = 0;
    const handle = button("Settings", () => { handle.setAttribute("aria-expanded", String(panel.classList.toggle("open"))); });
    handle.className = "handle";
    handle.setAttribute("aria-expanded", String(panel.classList.contains("open")));
    const trace = selection("trace", traces, null), file = el("input", { type: "file" }), search = el("input", { type: "search", value: wanted, placeholder: "name or --flag" });
    trace.name = "trace";
    file.addEventListener("change", () => file.files[0] && upload(file.files[0]));
    search.addEventListener("input", () => { wanted = search.value.trim(); find(); });
    inputs.set("trace", { e: trace });
    panel.replaceChildren(handle, el("label", "Trace ", trace), el("label", "Other trace: choose or drop a file ", file), el("label", "Find a setting ", search));
    for (const group of [...new Set(["Hardware", "Cluster", "Load", "Objectives", ...data.knobs.map((k) => k.group)])]) {
      const box = el("details", el("summary", group)), rows = [];
      box.dataset.group = group;
      box.addEventListener("toggle", () => { if (wanted) return; if (box.open) folded.delete(group); else folded.add(group); });
      for (const k of data.knobs.filter((k) => k.group === group)) {
        const special = k.flag === "faults" ? faults(k) : k.flag === "autoscale" ? scalers(k) : null, pair = k.steps ? paired(k) : null;
        const e = special ? special.e : pair ? pair.e : k.choices ? selection(k.flag, k.choices, k.preset) : typed(k);
        const why = el("span.why");
        e.name = k.flag;
        e.title = "--" + k.flag;
        const label = el("label", (k.more ? k.flag + ": " : "") + k.label + " ", pair ? null : e, why), row = pair ? el("div", label, pair.row) : label;
        if (pair) label.htmlFor = e.id = "knob-" + k.flag;
        inputs.set(k.flag, { e, k, special, range: pair?.range, why });
        rows.push({ k, row, text: `${k.label} ${k.flag} ${k.group}`.toLowerCase() });
        box.append(row, ...(special ? special.rows : []));
      }
      groups.push({ box, rows });
      panel.append(box);
    }
    panel.append(el("div.row", ...acts.map(([text, act]) => button(text, act))));
    find();
  };
  const show = () => {
    const s = of();
    for (const [flag, { e, k, special, range, why }] of inputs) {
      const v = s[flag] ?? "";
      if (k) {
        const reason = v === "" ? blocked(k, s) : "";
        for (const x of [e, range]) if (x && x.disabled !== Boolean(reason)) x.disabled = Boolean(reason);
        if (why.textContent !== reason) why.textContent = reason;
      }
      if (special) { special.show(); continue; }
      if (e.value !== v && !(document.activeElement === e && e.value.trim() === v)) e.value = v;
      if (!range) continue;
      let at = k.steps.indexOf(v);
      if (v !== "" && at < 0) at = Math.max(0, k.steps.findLastIndex((step) => Number(step) <= Number(v)));
      range.value = String(at + 1);
      range.setAttribute("aria-valuetext", v || preset(k, s));
      e.placeholder = preset(k, s);
    }
    find();
  };
  // fit adjusts other settings that are not supported with the setting that was just changed.
  const fit = (s, flag) => {
    const drop = (...all) => all.forEach((f) => delete s[f]);
    const on = flag in s;
    if (flag === "columns") mapped.set(s.trace, s.columns);
    if (flag === "trace") { if (mapped.get(s.trace)) s.columns = mapped.get(s.trace); else drop("columns"); }
    if (flag === "autoscale" && on) drop("faults");
    if (flag === "gpu" && !on) drop("model", "tp", "ep", "dp", "prefill-tp", "decode-tp");
    if (flag === "gpu" && on) s.model ||= (data.start || {}).model || "llama-3.1-8b";
    if (/^(prefill|decode)-workers$/.test(flag) && !twoPools(s)) drop("prefill-tp", "decode-tp", "pd-threshold");
    if (flag === "workers" && on) drop("prefill-workers", "decode-workers", "prefill-tp", "decode-tp", "pd-threshold");
    if (/^(prefill|decode)-workers$/.test(flag) && on) drop("workers");
    if (flag === "max-in-flight" && on) drop("speedup");
    if (flag === "speedup" && on) drop("max-in-flight");
    if (flag === "router" && on) drop("router-policy");
    if (flag === "router-policy" && on) drop("router");
    const own = faultOf(s.faults);
    if (own) s.faults = faultText(own, s);
  };
  // mark frames the knob with an error; undefined: no knob.
  const mark = (flag, by) => {
    for (const [name, { e }] of inputs) {
      const wrong = name === flag;
      e.classList.toggle("wrong", wrong);
      if (wrong) { e.setAttribute("aria-invalid", "true"); e.setAttribute("aria-describedby", by); } else { e.removeAttribute("aria-invalid"); e.removeAttribute("aria-describedby"); }
    }
  };
  // say returns the value of a setting as text.
  const say = (flag, s) => { const k = data.knobs.find((o) => o.flag === flag); return `${flag} ${flag === "trace" ? (s.trace || "").split("/").pop() : s[flag] || (k ? preset(k, s) : "unset")}`; };
  return { panel, build, show, fit, mark, say, columns };
};
