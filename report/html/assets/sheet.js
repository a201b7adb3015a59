"use strict";
// Draws what a sweep or a plan came to: for each table a chart of two columns,
// coloured by a third, and the rows, sorted by the column that is clicked.
const data = JSON.parse(document.getElementById("data").textContent);
const main = document.getElementById("main");
const SVG = "http://www.w3.org/2000/svg";

function make(tag, parent, text, attributes) {
  const e = tag.startsWith("svg:") ? document.createElementNS(SVG, tag.slice(4)) : document.createElement(tag);
  if (text !== undefined && text !== null) e.textContent = text;
  for (const [k, v] of Object.entries(attributes || {})) e.setAttribute(k, v);
  if (parent) parent.append(e);
  return e;
}

function shown(v) {
  if (v === null || v === undefined) return "";
  if (typeof v !== "number") return v;
  return Number.isInteger(v) ? v.toLocaleString("en") : v.toLocaleString("en", { maximumSignificantDigits: 5 });
}

function pick(parent, label, names, chosen, changed) {
  const s = make("select", make("label", parent, label + " "));
  for (const n of names) make("option", s, n, { value: n });
  s.value = chosen;
  s.onchange = changed;
  return s;
}

function ticks(least, most) {
  const span = most - least || Math.abs(most) || 1;
  let step = 10 ** Math.floor(Math.log10(span / 4));
  for (const m of [1, 2, 5, 10]) if (span / (step * m) <= 6) { step *= m; break; }
  const all = [];
  for (let v = Math.ceil(least / step) * step; v <= most + step * 1e-9; v += step) all.push(+v.toPrecision(12));
  return all;
}

function chart(card, t) {
  const column = name => t.columns.findIndex(c => c.name === name);
  const numbers = t.columns.filter(c => c.number).map(c => c.name);
  if (numbers.length < 2 || t.rows.length === 0) return;
  const tools = make("div", card, null, { class: "tools" });
  const x = pick(tools, "across", numbers, t.x, draw);
  const y = pick(tools, "up", numbers, t.y, draw);
  const by = pick(tools, "colour", ["", ...t.columns.filter(c => c.setting).map(c => c.name)], t.by, draw);
  const legend = make("div", card, null, { class: "tools" });
  const svg = make("svg:svg", card, null, { viewBox: "0 0 900 380", role: "img" });
  function draw() {
    svg.replaceChildren();
    legend.replaceChildren();
    const i = column(x.value), j = column(y.value), k = column(by.value);
    const rows = t.rows.filter(r => typeof r[i] === "number" && typeof r[j] === "number");
    if (rows.length === 0) { make("svg:text", svg, "no rows have both", { x: 20, y: 30 }); return; }
    const range = c => {
      const all = rows.map(r => r[c]);
      const least = all.reduce((a, b) => Math.min(a, b)), most = all.reduce((a, b) => Math.max(a, b));
      const room = (most - least || Math.abs(most) || 1) * 0.05;
      return [least >= 0 ? Math.max(0, least - room) : least - room, most + room];
    };
    const [x0, x1] = range(i), [y0, y1] = range(j);
    const px = v => 70 + (v - x0) / (x1 - x0) * 815, py = v => 335 - (v - y0) / (y1 - y0) * 320;
    for (const v of ticks(x0, x1)) {
      make("svg:line", svg, null, { x1: px(v), x2: px(v), y1: 15, y2: 335 });
      make("svg:text", svg, shown(v), { x: px(v), y: 352, "text-anchor": "middle" });
    }
    for (const v of ticks(y0, y1)) {
      make("svg:line", svg, null, { x1: 70, x2: 885, y1: py(v), y2: py(v) });
      make("svg:text", svg, shown(v), { x: 62, y: py(v) + 4, "text-anchor": "end" });
    }
    make("svg:text", svg, x.value, { x: 885, y: 372, "text-anchor": "end" });
    make("svg:text", svg, y.value, { x: 70, y: 10 });
    const groups = k < 0 ? [] : [...new Set(rows.map(r => String(r[k] ?? "")))].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    const colour = r => `var(--c${k < 0 ? 0 : groups.indexOf(String(r[k] ?? "")) % 8})`;
    groups.forEach((g, n) => {
      const key = make("span", legend, null, { class: "key" });
      make("i", key, null, { style: `background:var(--c${n % 8})` });
      make("span", key, g || "none");
    });
    for (const r of rows) {
      const dot = make("svg:circle", svg, null, { cx: px(r[i]), cy: py(r[j]), r: 5, style: "fill:" + colour(r) });
      const about = t.columns.map((c, n) => c.setting && r[n] !== null ? `${c.name} ${shown(r[n])}` : "").filter(s => s);
      make("svg:title", dot, [...about, `${x.value} ${shown(r[i])}`, `${y.value} ${shown(r[j])}`].join("\n"));
    }
  }
  draw();
}

function rowsOf(card, t) {
  const few = t.columns.map((c, i) => i).filter(i => t.columns[i].setting || t.few.includes(t.columns[i].name));
  const all = t.columns.map((c, i) => i);
  const tools = make("div", card, null, { class: "tools" });
  const every = make("input", make("label", tools, "all columns "), null, { type: "checkbox" });
  const scroll = make("div", card, null, { class: "scroll tall" });
  let sorted = -1, down = false;
  function draw() {
    scroll.replaceChildren();
    const columns = every.checked ? all : few;
    const table = make("table", scroll), head = make("tr", make("thead", table));
    for (const i of columns) {
      make("th", head, t.columns[i].name + (i === sorted ? (down ? " ↓" : " ↑") : "")).onclick = () => {
        down = i === sorted && !down;
        sorted = i;
        draw();
      };
    }
    const rows = [...t.rows];
    if (sorted >= 0) rows.sort((a, b) => {
      const [u, v] = down ? [b[sorted], a[sorted]] : [a[sorted], b[sorted]];
      if (u === null || v === null) return (a[sorted] === null) - (b[sorted] === null);
      return typeof u === "number" && typeof v === "number" ? u - v : String(u).localeCompare(String(v), "en", { numeric: true });
    });
    const body = make("tbody", table);
    for (const r of rows) {
      const tr = make("tr", body);
      for (const i of columns) make("td", tr, shown(r[i]), t.columns[i].number ? {} : { class: "left" });
    }
  }
  every.onchange = draw;
  draw();
}

if (data.text) make("pre", make("div", main, null, { class: "card scroll" }), data.text);
let charts = 0;
for (const t of data.tables) {
  make("h2", main, t.title);
  const cards = make("div", main, null, { style: "display:grid;gap:14px" });
  const first = make("div", cards, null, { class: "card" });
  chart(first, t);
  if (first.hasChildNodes()) charts++;
  else first.remove();
  rowsOf(make("div", cards, null, { class: "card" }), t);
}
// What a test may want to know.
document.body.dataset.ms = String(Math.round(performance.now()));
document.body.dataset.over = String(Math.max(0, document.documentElement.scrollWidth - document.documentElement.clientWidth));
document.body.dataset.ink = getComputedStyle(document.documentElement).getPropertyValue("--ink").trim();
document.body.dataset.drawn = `${charts} of ${charts}`;
