"use strict";
// Functions of all pages: elements, colours, numbers, axes.
const data = JSON.parse(document.getElementById("data").textContent);
const main = document.getElementById("main");

// el makes an element: el("td.left", {title: "x"}, "text", child).
const el = (what, ...inside) => {
  const [tag, ...classes] = what.split(".");
  const e = document.createElement(tag);
  if (classes.length) e.className = classes.join(" ");
  for (const x of inside) {
    if (x && typeof x === "object" && !(x instanceof Node)) for (const [k, v] of Object.entries(x)) {
      if (/^(role$|aria)/.test(k)) e.setAttribute(k.replace(/^aria/, "aria-").toLowerCase(), v);
      else e[k] = v;
    }
    else if (x !== undefined && x !== null) e.append(x);
  }
  return e;
};
// scrolls returns a table that scrolls within its card, also with the keyboard.
const scrolls = (label, table, look = "") => el("div.scroll" + look, { tabIndex: 0, role: "group", ariaLabel: label }, table);
// sees sets the text alternative of a chart.
const sees = (box, ...text) => { box.setAttribute("role", "img"); box.setAttribute("aria-label", text.filter((t) => t).join("; ")); };
// facts returns a list of names and their descriptions. A flag is not broken over lines.
const words = (text) => text.split(/( )/).map((w) => w.startsWith("--") ? el("span.flag", w) : w);
const facts = (rows) => el("dl.facts", ...rows.flatMap(([k, v]) => [el("dt", k.replace(/^(itl|kv)\b/, (w) => w.toUpperCase())), el("dd", ...words(v))]));
const colors = new Map(); // colours of the colour scheme, read once
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => colors.clear());
const color = (name) => {
  if (!colors.has(name)) colors.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return colors.get(name);
};
const swatch = (name) => { const i = el("i"); i.style.background = `var(${name})`; return i; };
// shade returns colour i of n from dark to light, if there are more lines than named colours.
const shade = (i, n) => { const at = i / Math.max(1, n - 1); return `hsl(${Math.round(265 - 205 * at)} 65% ${Math.round(Number(color("--from")) + Number(color("--span")) * at)}%)`; };
const nth = (i) => `--c${[0, 1, 2, 3, 5, 6, 7][i % 7]}`; // 4 is the colour of limits
const formats = new Map(); // creating a format takes longer than using it
const written = (v, kind, digits) => {
  const name = kind + digits;
  if (!formats.has(name)) formats.set(name, new Intl.NumberFormat("en-US", { [kind]: digits }));
  return formats.get(name).format(v);
};
const few = (v) => written(v, "maximumSignificantDigits", Math.abs(v) >= 100 ? Math.ceil(Math.log10(Math.abs(v) + 1)) : 3);
const number = (v, digits) => written(v, "maximumFractionDigits", digits ?? (Math.abs(v) >= 1000 ? 0 : Math.abs(v) >= 10 ? 1 : 3));
const short = (v) => v === null || v === undefined ? "" : Math.abs(v) >= 1e6 ? number(v / 1e6, 2) + "M" : Math.abs(v) >= 1e4 ? number(v / 1e3, 1) + "k" : number(v, Math.abs(v) >= 100 ? 0 : 3);
// ms formats a duration: 950 ms, 14.4 s, 2 min 42 s or 1 h 5 min.
const ms = (v) => {
  if (v === null || v === undefined) return "";
  if (v < 0) return "−" + ms(-v);
  const two = (big, per, small) => { const all = Math.round(v / per), left = all % 60; return `${number((all - left) / 60)} ${big}` + (left ? ` ${left} ${small}` : ""); };
  return v >= 3.57e6 ? two("h", 6e4, "min") : v >= 59950 ? two("min", 1000, "s") : v >= 999.5 ? number(v / 1000, 2) + " s" : number(v, v >= 100 ? 0 : v >= 1 ? 2 : 3) + " ms";
};
// prose formats the durations of a text like ms, and writes metrics in capitals.
const prose = (text) => text.replace(/(\d+(?:\.\d+)?) ms\b/g, (all, v) => ms(Number(v))).replace(/\b(p[\d.]+|mean|median|each) (ttft|ttst|itl|tpot|e2e)\b/g, (all, of, metric) => `${of} ${metric.toUpperCase()}`);
const money = (v) => "$" + v.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const percents = [(v) => number(100 * v, 2), " %"];
const percent = (v) => v === null || v === undefined ? "" : number(100 * v, 1) + " %";
const change = (v) => Math.abs(v) < 0.0005 ? "0 %" : v >= 9 ? `× ${number(1 + v, 0)}` : (v > 0 ? "+" : "−") + number(100 * Math.abs(v), 1) + " %";
const seconds = (v) => v === null || v === undefined ? "" : ms(v * 1000);

// named returns the label of a value of a report.
const named = (key) => {
  const units = { _tok_s: " (tokens/s)", _rps: " (requests/s)", _ms: " (ms)", _per_user: " per user (tokens/s)" };
  const unit = Object.keys(units).find((u) => key.endsWith(u));
  const text = (unit ? key.slice(0, -unit.length) : key).replace(/^resampled_(.*?)(_ms|_tok_s|_rps)?_(mean|change|verdict|(?:change_)?(?:confidence|prediction)_(?:low|high))$/, "$1, $3 when resampled");
  const words = text.replace("saturation", "load").replace("e2e_latency", "E2E").replace("kv_cache", "KV cache").replaceAll("_", " ");
  return words.replace(/\b(ttft|ttst|itl|tpot|kv|gpus?|slo|e2e)\b/g, (w) => w === "gpus" ? "GPUs" : w.toUpperCase()) + (unit ? units[unit] : "");
};

// goodness returns 1 if larger values are better, -1 if smaller values are better, and 0 otherwise.
const goodness = (key) => /^(num|total_(in|out)put|completed|duration|processed|wall|std|cell|slo_(?!attainment$|met_requests$)|resampled_)/.test(key) ? 0
  : /throughput|reused_ratio|goodput|attainment$|slo_met_requests/.test(key) ? 1 : /(ttft|ttst|itl|tpot|e2e_latency)_ms$|^cost/.test(key) ? -1 : 0;

// changed returns the relative change of a value as text, coloured by whether the change is better or worse.
const changed = (v, key) => {
  const good = Math.abs(v) < 0.005 ? 0 : goodness(key) * Math.sign(v);
  return good ? [change(v) + " ", el(good > 0 ? "b.better" : "b.worse", good > 0 ? "better" : "worse")] : [change(v)];
};

// drawShape draws a disc, a ring or a cross.
const drawShape = (ctx, shape, x, y, r) => {
  ctx.lineWidth = 1.8 * devicePixelRatio;
  ctx.setLineDash([]);
  ctx.beginPath();
  if (shape === "cross") {
    ctx.moveTo(x - r, y - r);
    ctx.lineTo(x + r, y + r);
    ctx.moveTo(x - r, y + r);
    ctx.lineTo(x + r, y - r);
  } else {
    ctx.arc(x, y, r, 0, 2 * Math.PI);
  }
  if (shape === "disc") ctx.fill();
  else ctx.stroke();
};

// drawLimits draws limits {side, at, text, below} as dashed lines across a chart. Texts do not cover lines of side y or
// other texts, if there is enough space. It returns the boxes of the lines of side y and of the texts.
const drawLimits = (u, limits) => {
  const { ctx, bbox } = u, px = devicePixelRatio, right = bbox.left + bbox.width, bottom = bbox.top + bbox.height;
  const all = limits.map((l) => ({ ...l, pos: u.valToPos(l.at, l.side, true) })), taken = [];
  document.body.dataset.limits = Number(document.body.dataset.limits || 0) + all.length;
  ctx.save();
  ctx.font = `${11 * px}px system-ui`;
  ctx.textBaseline = "alphabetic";
  ctx.textAlign = "left";
  ctx.lineWidth = 1.5 * px;
  ctx.strokeStyle = color("--c4");
  ctx.setLineDash([6 * px, 4 * px]);
  for (const { side, pos } of all) {
    ctx.beginPath();
    ctx.moveTo(side === "y" ? bbox.left : pos, side === "y" ? pos : bbox.top);
    ctx.lineTo(side === "y" ? right : pos, side === "y" ? pos : bottom);
    ctx.stroke();
    if (side === "y") taken.push([bbox.left, pos - px, right, pos + px]);
  }
  const free = ([left, top, to, under]) => left >= bbox.left && to <= right && top >= bbox.top && under <= bottom && taken.every((o) => o[2] <= left || o[0] >= to || o[3] <= top || o[1] >= under);
  for (const { side, pos, text, below } of all) {
    const width = ctx.measureText(text).width, box = (x, line) => [x, line - 10 * px, x + width, line + 3 * px];
    const ends = side === "y" ? [bbox.left + 4 * px, right - width - 4 * px] : [pos + 4 * px, pos - 4 * px - width];
    const lines = side === "y" ? [pos + (below ? 13 : -5) * px, pos + (below ? -5 : 13) * px] : [0, 1, 2, 3, 4, 5, 6, 7].map((row) => bbox.top + (11 + 14 * row) * px);
    const places = side === "y" ? ends.flatMap((x) => lines.map((line) => box(x, line))) : lines.flatMap((line) => ends.map((x) => box(x, line)));
    const at = places.find(free) || places.find((b) => b[0] >= bbox.left && b[2] <= right) || places[0];
    taken.push(at);
    ctx.globalAlpha = 0.8;
    ctx.fillStyle = color("--card");
    ctx.fillRect(at[0] - px, at[1], at[2] - at[0] + 2 * px, at[3] - at[1]);
    ctx.globalAlpha = 1;
    ctx.fillStyle = color("--c4");
    ctx.fillText(text, at[0], at[3] - 3 * px);
  }
  ctx.restore();
  return taken;
};

// drawLabel draws a text next to a point and adds its box to taken. It avoids the boxes in taken if possible.
const drawLabel = (u, text, left, top, taken) => {
  const { ctx, bbox } = u, px = devicePixelRatio, right = bbox.left + bbox.width, bottom = bbox.top + bbox.height;
  ctx.font = `${11 * px}px system-ui`;
  ctx.textAlign = "left";
  const width = ctx.measureText(text).width;
  const boxes = [-16, 24, 4, 38, -30, 52, -44, 66, -58, 80, -72, 94].flatMap((down) => [Math.min(left + 13 * px, right - width), Math.max(left - 13 * px - width, bbox.left), left - width / 2].map((x) => [x, top + (down - 10) * px, x + width, top + (down + 3) * px]));
  const inside = boxes.filter((b) => b[0] >= bbox.left && b[2] <= right && b[1] >= bbox.top && b[3] <= bottom);
  const at = inside.find((b) => taken.every((o) => o[2] <= b[0] || o[0] >= b[2] || o[3] <= b[1] || o[1] >= b[3])) || inside[0] || boxes[0];
  taken.push(at);
  ctx.fillText(text, at[0], at[3] - 3 * px);
};

// key returns an entry of a legend.
const key = (look, name, text) => el("span.key", el("span", { style: `color: var(${name})` }, { disc: "●", ring: "○", cross: "✕", limit: "╌╌", chosen: "◯", range: "┃" }[look]), text);

// timeTicks returns the ticks of a logarithmic axis of ms. There are at most as many as fit.
const timeTicks = (u, axis, lo, hi) => {
  const all = timeSplits(lo, hi), apart = 55 * (hi - lo) / (u.bbox.width / devicePixelRatio);
  return all.reduce((kept, v) => kept.length && v - kept[kept.length - 1] < apart ? kept : [...kept, v], []);
};

// axis returns the options of an axis, with the overrides of more. A left axis is as wide as its labels.
const ruler = document.createElement("canvas").getContext("2d");
const widthOf = (text) => { ruler.font = "11px system-ui"; return ruler.measureText(text).width; };
const axis = (more) => ({
  stroke: color("--soft"), grid: { stroke: color("--grid"), width: 1 }, ticks: { stroke: color("--line"), width: 1 }, font: "11px system-ui",
  size: (u, values) => Math.ceil((values || []).reduce((most, v) => Math.max(most, widthOf(v || "")), 20)) + 18, ...more,
});

// timeSteps are the distances between ticks in seconds: 1, 2, 5, 10, 15 or 30 s, min or h.
const timeSteps = [];
for (let e = -7; e < 0; e++) for (const m of [1, 2, 5]) timeSteps.push(m * Math.pow(10, e));
for (const unit of [1, 60, 3600]) for (const m of [1, 2, 5, 10, 15, 30]) timeSteps.push(m * unit);
for (let e = 2; e < 7; e++) for (const m of [1, 2, 5]) timeSteps.push(m * Math.pow(10, e) * 3600);

// timeLabels returns the labels of ticks at times, given the number of units per second. Only the last label has the
// unit. The unit depends on the last tick, so that charts of the same times have the same unit.
const timeLabels = (list, second = 1) => {
  const all = list.map((v) => v === null ? null : v / second), known = all.filter((v) => v !== null), top = known.reduce((a, b) => Math.max(a, b), 0), step = known.length > 1 ? known[1] - known[0] : top;
  const suits = (unit) => top >= 2.99 * unit && step >= 0.499 * unit;
  const [unit, name] = suits(3600) ? [3600, "h"] : suits(60) ? [60, "min"] : top >= 2 ? [1, "s"] : [0.001, "ms"];
  return unitLabels(all, (v) => number(v / unit, 3), " " + name);
};
// wholeSteps are the distances between ticks of counts.
const wholeSteps = [];
for (let e = 0; e < 9; e++) for (const m of [1, 2, 5]) wholeSteps.push(m * Math.pow(10, e));

// unitLabels returns labels of which only the last has the unit.
const unitLabels = (list, show, unit) => { const last = list.reduce((at, v, i) => v === null ? at : i, -1); return list.map((v, i) => v === null ? "" : show(v) + (i === last ? unit : "")); };
const timeAxis = { values: (u, list) => timeLabels(list), space: 50, incrs: timeSteps, size: 32 };

// timeSplits returns round times between the powers of ten lo and hi, in ms.
const timeSplits = (lo, hi) => {
  const few = [0.001, 0.01, 0.1, 1, 10, 100, 1e3, 1e4, 6e4, 6e5, 3.6e6, 3.6e7, 3.6e8], more = [0.3, 3, 30, 300, 3e3, 3e4, 3e5, 1.8e6], most = [0.2, 0.5, 2, 5, 20, 50, 200, 500, 2e3, 5e3, 2e4, 3e4, 1.2e5, 3e5, 1.2e6, 1.8e6, 7.2e6, 1.8e7];
  const all = hi - lo > 3 ? few : [...few, ...(hi - lo > 1.3 ? more : most)];
  return all.sort((a, b) => a - b).map(Math.log10).filter((v) => v >= lo && v <= hi);
};

// report sets attributes of the page for tests: the number of drawn charts, the drawing time, and the elements that are
// wider than the page. drawLimits and charts.js count limits and logarithmic axes.
const report = (drawn, all) => {
  document.body.dataset.ms = String(Math.round(performance.now()));
  document.body.dataset.over = String(Math.max(0, document.documentElement.scrollWidth - document.documentElement.clientWidth));
  document.body.dataset.limits ??= "0";
  document.body.dataset.logs ??= "0";
  document.body.dataset.ink = color("--ink");
  document.body.dataset.drawn = `${drawn} of ${all}`;
};

// follow draws all charts. It draws them again when the width or the colour scheme changes, and before printing,
// because paper is narrower than the window and white.
const follow = (charts, draw) => {
  const again = () => charts.filter((one) => one.box.clientWidth).forEach(draw);
  let opened = [];
  const print = (on) => () => {
    if (on) opened = [...document.querySelectorAll("details:not([open])")];
    opened.forEach((d) => { d.open = on; });
    document.documentElement.classList.toggle("print", on);
    colors.clear();
    again();
  };
  charts.forEach(draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  new ResizeObserver(() => charts.forEach((one) => { if (one.box.clientWidth !== one.width) draw(one); })).observe(main);
  addEventListener("beforeprint", print(true));
  addEventListener("afterprint", print(false));
};

// hover shows the text of the nearest of the points {left, top, row} next to the pointer.
const hover = (places, text) => (u) => {
  const tip = el("div.tip", { hidden: true });
  u.over.append(tip);
  u.over.addEventListener("mouseleave", () => { tip.hidden = true; });
  u.over.addEventListener("mousemove", (e) => {
    let near = null, least = 14;
    for (const p of places(u)) {
      const far = Math.hypot(p.left - e.offsetX, p.top - e.offsetY);
      if (far < least) [least, near] = [far, p];
    }
    tip.hidden = !near;
    if (!near) return;
    tip.textContent = text(near.row);
    tip.style.left = Math.max(0, Math.min(near.left + 10, u.over.clientWidth - tip.offsetWidth)) + "px";
    tip.style.top = near.top + 10 + "px";
  });
};

// logSplits returns the ticks between the powers of ten lo and hi.
const logSplits = (lo, hi) => {
  const all = [];
  const steps = hi - lo > 3 ? [1] : hi - lo > 1.2 ? [1, 3] : [1, 2, 5];
  for (let e = Math.floor(lo); e <= hi; e++) for (const m of steps) {
    const v = e + Math.log10(m);
    if (v >= lo && v <= hi) all.push(v);
  }
  return all;
};

// scaleOf returns the scale of values: logarithmic if they are far apart and flat is not set. to maps a value to its
// position, and from maps it back.
const scaleOf = (values, time, flat) => {
  const lo = values.reduce((a, b) => Math.min(a, b)), hi = values.reduce((a, b) => Math.max(a, b));
  const log = !flat && lo > 0 && hi / lo > 15;
  const to = log ? Math.log10 : (v) => v, from = log ? (v) => Math.pow(10, v) : (v) => v;
  const room = (to(hi) - to(lo) || Math.abs(to(hi)) || 1) * 0.08;
  const range = [!log && lo >= 0 ? Math.max(0, lo - room) : to(lo) - room, to(hi) + room];
  return { log, to, from, range, ...(log ? { splits: (u, i, from, to) => (time ? timeSplits : logSplits)(from, to) } : {}) };
};
