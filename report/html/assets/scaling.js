"use strict";
// The autoscalers of runs: the number of workers over time, and the cost of each action.
const drawScaling = (runs, section, addChart, timeAxis, several) => {
  const scaled = runs.filter((r) => r.scaling);
  if (!scaled.length) return;
  const s = section("Autoscaler", "Workers over time, with the acts of the autoscaler as numbered lines. An act answers for the requests that came while the workers it asked for were starting or, where it let workers go, until the next act.");
  const grid = s.appendChild(el("div.cards"));
  const kinds = [["ready", "ready"], ["starting", "starting"], ["leaving", "leaving"]];
  const panels = scaled.flatMap((r) => r.scaling.pools.map((p) => ({
    name: [several ? r.name : "", p.name].filter((t) => t).join(", ") || "workers", color: nth(runs.indexOf(r)), x: p.at,
    limits: r.scaling.acts.map((a, i) => ({ side: "x", at: a.at, text: String(i + 1), pool: a.pool })).filter((l) => l.pool === p.name).slice(0, 40),
    lines: kinds.map(([key, name], n) => ({ name, color: nth(n), dash: n, y: p[key], step: true, fill: n === 0, says: `most ${number(p[key].reduce((a, b) => Math.max(a, b), 0))}` })),
  })));
  addChart(grid, { title: "Workers over time", panels, value: (v) => number(v), xAxis: timeAxis });
  grid.lastChild.classList.add("full");
  const signed = (v) => (v < 0 ? "−" : "+") + ms(Math.abs(v));
  for (const r of scaled) {
    const x = r.scaling, [all, missed, growing, shrinking, other] = x.missed, judged = x.goal !== "";
    const head = el("tr", ...["act", "at", "workers", "lasted", ...(judged ? ["requests", "missed", "extra TTFT", "extra E2E"] : [])].map((h) => el("th", h)), el("th.left.wide", "why"));
    const body = el("tbody", ...x.acts.map((a, i) => el("tr", el("td", String(i + 1)), el("td", seconds(a.at)), el("td", `${a.pool} ${a.from} → ${a.to}`.trim()),
      el("td", ms(a.took) + (a.to > a.from ? a.ready ? " until ready" : ", not ready" : "")),
      ...(judged ? [el("td", number(a.requests)), el("td", number(a.missed)), el("td", signed(a.ttft)), el("td", signed(a.e2e))] : []), el("td.left.wide", a.why))));
    const card = el("div.card.full", el("h3", several ? `What each act cost: ${r.name}` : "What each act cost"));
    if (judged) card.append(el("p", `${number(missed)} of ${number(all)} requests missed the goal: ${number(growing)} while workers were starting, ${number(shrinking)} after workers were let go, ${number(other)} at other times. Goal: ${x.goal}.`));
    if (x.acts.length) card.append(scrolls("Acts of the autoscaler", el("table", el("thead", head), body), ".tall"));
    else card.append(el("p", "It changed nothing."));
    grid.append(card);
  }
};
