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
