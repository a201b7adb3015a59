"use strict";
// The knobs of the explorer: a form of fields with labels, one for each setting. of() returns
// the settings, turn(flag, value) sets one, "" unsets it.
const makeKnobs = ({ of, turn, upload, acts }) => {
  const panel = el("form.knobs.card", { ariaLabel: "Settings" });
  const inputs = new Map(); // {e, out, k, show} by flag
  panel.addEventListener("submit", (e) => e.preventDefault());

  const selection = (flag, choices, first) => {
    const e = el("select", ...(first === null ? [] : [el("option", { value: "" }, first)]), ...choices.map((c) => el("option", { value: c }, c)));
    e.addEventListener("input", () => turn(flag, e.value));
    return e;
  };
  const slider = (k) => {
    const e = el("input", { type: "range", min: 0, max: k.steps.length, step: 1 });
    e.addEventListener("input", () => turn(k.flag, e.value === "0" ? "" : k.steps[e.value - 1]));
    return e;
  };
  const typed = (k) => {
    const e = el("input", { type: "text", placeholder: k.preset, autocomplete: "off", spellcheck: false });
    e.addEventListener("change", () => turn(k.flag, e.value.trim()));
    return e;
  };
  const twoPools = (s) => Boolean(s["prefill-workers"] || s["decode-workers"]);
  // preset is what holds of a knob that is not set: pools depend on each other.
  const preset = (k, s) => k.flag === "workers" && twoPools(s) ? "two pools instead" : /^(prefill|decode)-workers$/.test(k.flag) && twoPools(s) ? "1" : k.preset;

  // The fault of fields is one that a list of one line says; faultOf reads it back, null where
  // it is another list.
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

  // faults are the fields of what goes wrong: a file, a fault, or a list in a line.
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
    part("at", "At second of the replay", el("input", { type: "number", min: 0, step: 10 }));
    part("end", "Over after so many seconds; empty: never", el("input", { type: "number", min: 0, step: 10 }));
    part("factor", "Passes take so many times as long", el("input", { type: "number", min: 0.1, step: 0.5 }));
    part("loss", "Its requests", options([["lose", "are lost"], ["retry", "begin again"], ["migrate", "go on elsewhere"]]));
    const line = el("input", { type: "text", autocomplete: "off", spellcheck: false, placeholder: "[{at: 60s, worker: all, what: slow, factor: 2}]" });
    line.addEventListener("change", () => turn(k.flag, line.value.trim()));
    const lineRow = el("label", "Faults, as docs/failures.md has them ", line);
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

  const button = (text, act) => { const b = el("button", { type: "button" }, text); b.addEventListener("click", act); return b; };
  const build = (traces) => {
    inputs.clear();
    panel.replaceChildren();
    const trace = selection("trace", traces, null), file = el("input", { type: "file" });
    trace.name = "trace";
    file.addEventListener("change", () => file.files[0] && upload(file.files[0]));
    inputs.set("trace", { e: trace });
    panel.append(el("label", "Trace ", trace), el("label", "Another trace: choose a file, or drop it here ", file));
    for (const group of [...new Set(data.knobs.map((k) => k.group))]) {
      const fields = el("fieldset", el("legend", group));
      for (const k of data.knobs.filter((k) => k.group === group)) {
        const special = k.flag === "faults" ? faults(k) : null;
        const e = special ? special.e : k.choices ? selection(k.flag, k.choices, k.preset) : k.steps ? slider(k) : typed(k);
        const out = k.steps ? el("span.value") : null; // no output, which would take the label
        e.name = k.flag;
        e.title = "--" + k.flag;
        inputs.set(k.flag, { e, out, k, special });
        fields.append(el("label", k.label, " ", out, e), ...(special ? special.rows : []));
      }
      panel.append(fields);
    }
    panel.append(el("div.row", ...acts.map(([text, act]) => button(text, act))));
  };
  const show = () => {
    const s = of();
    for (const [flag, { e, out, k, special }] of inputs) {
      const v = s[flag] ?? "";
      if (special) { special.show(); continue; }
      if (!k || !k.steps) { if (e.value !== v) e.value = v; continue; }
      let at = k.steps.indexOf(v);
      if (v !== "" && at < 0) at = Math.max(0, k.steps.findLastIndex((step) => Number(step) <= Number(v)));
      e.value = String(at + 1);
      out.textContent = v || preset(k, s);
      e.setAttribute("aria-valuetext", out.textContent);
    }
  };
  // fit lets settings go together with the one that was just turned.
  const fit = (s, flag) => {
    const drop = (...all) => all.forEach((f) => delete s[f]);
    const on = flag in s;
    if (flag === "workers" && on) drop("prefill-workers", "decode-workers", "prefill-tp", "decode-tp", "pd-threshold");
    if (/^(prefill|decode)-workers$/.test(flag) && on) drop("workers");
    if (flag === "max-in-flight" && on) drop("speedup");
    if (flag === "speedup" && on) drop("max-in-flight");
    if (flag === "router" && on) drop("router-policy");
    if (flag === "router-policy" && on) drop("router");
    const own = faultOf(s.faults);
    if (own) s.faults = faultText(own, s);
  };
  // mark frames the knob that is wrong, and none with undefined.
  const mark = (flag, by) => {
    for (const [name, { e }] of inputs) {
      const wrong = name === flag;
      e.classList.toggle("wrong", wrong);
      if (wrong) { e.setAttribute("aria-invalid", "true"); e.setAttribute("aria-describedby", by); } else { e.removeAttribute("aria-invalid"); e.removeAttribute("aria-describedby"); }
    }
  };
  return { panel, build, show, fit, mark };
};
