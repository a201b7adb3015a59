"use strict";
// What the scripts of all pages share: elements, colours, numbers, axes.
const data = JSON.parse(document.getElementById("data").textContent);
const main = document.getElementById("main");

// el makes an element: el("td.left", {title: "x"}, "text", child).
const el = (what, ...inside) => {
  const [tag, ...classes] = what.split(".");
  const e = document.createElement(tag);
  if (classes.length) e.className = classes.join(" ");
  for (const x of inside) {
    if (x && typeof x === "object" && !(x instanceof Node)) Object.assign(e, x);
    else if (x !== undefined && x !== null) e.append(x);
  }
  return e;
};
// facts lists names and what they stand for. A flag stays on one line.
const words = (text) => text.split(/( )/).map((w) => w.startsWith("--") ? el("span.flag", w) : w);
const facts = (rows) => el("dl.facts", ...rows.flatMap(([k, v]) => [el("dt", k), el("dd", ...words(v))]));
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const swatch = (name) => { const i = el("i"); i.style.background = `var(${name})`; return i; };
const nth = (i) => `--c${i % 8}`;
const number = (v, digits) => v.toLocaleString("en-US", { maximumFractionDigits: digits ?? (Math.abs(v) >= 1000 ? 0 : Math.abs(v) >= 10 ? 1 : 3) });
const short = (v) => v === null || v === undefined ? "" : Math.abs(v) >= 1e6 ? number(v / 1e6, 2) + "M" : Math.abs(v) >= 1e4 ? number(v / 1e3, 1) + "k" : number(v, Math.abs(v) >= 100 ? 0 : 3);
const ms = (v) => v === null || v === undefined ? "" : v >= 3.6e6 ? number(v / 3.6e6, 2) + " h" : v >= 1e5 ? number(v / 6e4, 2) + " min" : v >= 1000 ? number(v / 1000, 2) + " s" : number(v, v >= 100 ? 0 : v >= 1 ? 2 : 3) + " ms";
const percent = (v) => v === null || v === undefined ? "" : number(100 * v, 1) + " %";
const change = (v) => Math.abs(v) < 0.0005 ? "0 %" : (v > 0 ? "+" : "−") + number(100 * Math.abs(v), 1) + " %";
const seconds = (v) => v === null || v === undefined ? "" : ms(v * 1000);

// axis is the look of every axis; more overrides it.
const axis = (more) => ({
  stroke: color("--soft"), grid: { stroke: color("--grid"), width: 1 }, ticks: { stroke: color("--line"), width: 1 }, font: "11px system-ui", ...more,
});

// report leaves on the page what a test may want to know: how many charts were
// drawn, how long that took, and what sticks out of the page.
const report = (drawn, all) => {
  document.body.dataset.ms = String(Math.round(performance.now()));
  document.body.dataset.over = String(Math.max(0, document.documentElement.scrollWidth - document.documentElement.clientWidth));
  document.body.dataset.ink = color("--ink");
  document.body.dataset.drawn = `${drawn} of ${all}`;
};

// follow draws all charts, and again when the page gets another width or scheme.
const follow = (charts, draw) => {
  charts.forEach(draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach(draw));
  new ResizeObserver(() => charts.forEach((one) => { if (one.box.clientWidth !== one.width) draw(one); })).observe(main);
};

// hover shows, beside the pointer, what text says of the nearest of the places
// {left, top, row}.
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

// logSplits are the places of ticks between powers of ten lo and hi.
const logSplits = (lo, hi) => {
  const all = [];
  const steps = hi - lo > 3 ? [1] : hi - lo > 1.2 ? [1, 3] : [1, 2, 5];
  for (let e = Math.floor(lo); e <= hi; e++) for (const m of steps) {
    const v = e + Math.log10(m);
    if (v >= lo && v <= hi) all.push(v);
  }
  return all;
};

// scaleOf is how values are drawn: by their logarithms where they are far apart. to and
// from take a value to its place and back.
const scaleOf = (values) => {
  const lo = values.reduce((a, b) => Math.min(a, b)), hi = values.reduce((a, b) => Math.max(a, b));
  const log = lo > 0 && hi / lo > 15;
  const to = log ? Math.log10 : (v) => v, from = log ? (v) => Math.pow(10, v) : (v) => v;
  const room = (to(hi) - to(lo) || Math.abs(to(hi)) || 1) * 0.08;
  const range = [!log && lo >= 0 ? Math.max(0, lo - room) : to(lo) - room, to(hi) + room];
  return { log, to, from, range, ...(log ? { splits: (u, i, from, to) => logSplits(from, to) } : {}) };
};
