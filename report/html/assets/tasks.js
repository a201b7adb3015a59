"use strict";
// The slowest tasks of runs, with the parts of their critical paths.
const drawTasks = (runs, section, several) => {
  const tasked = runs.filter((r) => r.tasks);
  if (!tasked.length) return;
  const parts = [["waits", "--p0"], ["tools", "--p5"], ["queue", "--p1"], ["prefill", "--p2"], ["decode", "--p6"]];
  const s = section("Slowest tasks", "What the time of their critical paths went to, and the requests on them that took longest, each with the tool before it; replay explain --task says more.");
  s.append(el("div.keys", ...parts.map(([name, colour]) => el("span.key", swatch(colour), name))));
  for (const r of tasked) {
    const x = r.tasks, longest = Math.max(...x.slowest.map((t) => t.latency), 0) || 1;
    const head = el("tr", ...["task", "requests", "at once", "begins", "latency"].map((h) => el("th", h)), el("th.left.wide", "critical path"), el("th", "hops"), el("th.left", "longest hops"));
    const body = el("tbody", ...x.slowest.map((t) => {
      const bar = el("div.bar");
      t.parts.forEach((v, p) => {
        if (!(v > 0)) return;
        const i = swatch(parts[p][1]);
        i.style.width = `${(100 * v) / longest}%`;
        i.title = `${parts[p][0]}: ${ms(v)}`;
        bar.append(i);
      });
      return el("tr", el("td", t.name), el("td", number(t.requests)), el("td", number(t.parallel, 2)), el("td", seconds(t.start / 1000)), el("td", ms(t.latency)),
        el("td.wide", bar), el("td", number(t.hops)), el("td.left.holds", (t.longest || []).map((h) => `${h.title}: ${ms(h.ms)}`).join(", ")));
    }));
    const card = el("div.card.full.below", ...(several ? [el("h3", r.name)] : []));
    card.append(el("p", `${number(x.completed)} of ${number(x.tasks)} tasks completed.`));
    if (x.slowest.length) card.append(scrolls("Slowest tasks", el("table", el("thead", head), body)));
    s.append(card);
  }
};
