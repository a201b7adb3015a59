"use strict";
// Draws what a sweep or a plan came to: for each table a chart of two columns,
// coloured by a third, and the rows, sorted by the column that is clicked.
(() => {
  const charts = [];
  const shown = (v) => v === null || v === undefined ? "" : typeof v !== "number" ? v : Number.isInteger(v) ? number(v, 0) : v.toLocaleString("en-US", { maximumSignificantDigits: 5 });
  const inOrder = (a, b) => String(a).localeCompare(String(b), "en", { numeric: true });

  // choose makes a list of names to choose from.
  const choose = (parent, label, names, chosen, changed) => {
    const s = el("select", ...names.map((n) => el("option", { value: n }, n)));
    s.value = chosen;
    s.onchange = changed;
    parent.append(el("label", label + " ", s));
    return s;
  };

  // marks returns whether a row is one of those that table marks.
  const marks = (table) => {
    const i = table.columns.findIndex((c) => c.name === table.mark);
    return (r) => i >= 0 && table.marked.includes(r[i]);
  };

  // dots draws the rows of a series, each as a disc, or as a ring when it is marked.
  const radius = 4.5;
  const dots = (marked) => (u, i) => {
    uPlot.orient(u, i, (series, x, y, scaleX, scaleY, toX, toY, left, top, width, height, moveTo, lineTo, rect, arc) => {
      const r = radius * devicePixelRatio, path = new Path2D(), rings = new Path2D(), [xs, ys, rows] = u.data[i];
      xs.forEach((v, n) => {
        const at = [toX(v, scaleX, width, left), toY(ys[n], scaleY, height, top)];
        const to = marked(rows[n]) ? rings : path;
        to.moveTo(at[0] + r, at[1]);
        arc(to, ...at, r, 0, 2 * Math.PI);
      });
      u.ctx.fillStyle = u.ctx.strokeStyle = series.fill();
      u.ctx.lineWidth = 1.5 * devicePixelRatio;
      u.ctx.fill(path);
      u.ctx.stroke(rings);
    });
    return null;
  };

  const scatter = (one) => {
    const { box, table } = one;
    const [i, j, k] = [one.x, one.y, one.by].map((s) => table.columns.findIndex((c) => c.name === s.value));
    const rows = table.rows.filter((r) => typeof r[i] === "number" && typeof r[j] === "number");
    if (one.plot) one.plot.destroy();
    box.replaceChildren();
    one.width = box.clientWidth;
    if (!rows.length) return void box.append(el("p", "no rows have both"));
    const groups = k < 0 ? [""] : [...new Set(rows.map((r) => String(r[k] ?? "")))].sort(inOrder);
    const parts = groups.map((g) => k < 0 ? rows : rows.filter((r) => String(r[k] ?? "") === g));
    const settings = (r) => table.columns.map((c, n) => c.setting && r[n] !== null ? `${c.name} ${shown(r[n])}` : "").filter((s) => s);
    const scales = [i, j].map((n) => scaleOf(rows.map((r) => r[n])));
    const place = (r) => [i, j].map((n, s) => scales[s].to(r[n]));
    const places = (u) => u.series.flatMap((s, n) => n === 0 || !s.show ? [] : u.data[n][2].map((row) => {
      const [x, y] = place(row);
      return { left: u.valToPos(x, "x"), top: u.valToPos(y, "y"), row };
    }));
    const look = (scale, label, more) => axis({
      label: label + (scale.log ? " (log)" : ""), labelFont: "11px system-ui", labelSize: 18, splits: scale.splits, values: (u, v) => v.map((w) => shown(scale.from(w))), ...more,
    });
    const marked = marks(table), mark = table.columns.findIndex((c) => c.name === table.mark);
    const text = (r) => [...settings(r), `${one.x.value} ${shown(r[i])}`, `${one.y.value} ${shown(r[j])}`, ...(marked(r) ? [r[mark]] : [])].join("\n");
    one.plot = new uPlot({
      mode: 2, width: box.clientWidth, height: 380,
      legend: { show: k >= 0, live: false },
      cursor: { points: { show: false }, drag: { x: true, y: true } },
      hooks: { ready: [hover(places, text)] },
      scales: { x: { time: false, range: scales[0].range }, y: { range: scales[1].range } },
      axes: [look(scales[0], one.x.value, { size: 32 }), look(scales[1], one.y.value, { size: 62 })],
      series: [{}, ...groups.map((g, n) => ({
        label: g || "none", stroke: color(nth(n)), fill: color(nth(n)), paths: dots(marked),
        facets: [{ scale: "x", auto: true }, { scale: "y", auto: true }],
      }))],
    }, [null, ...parts.map((p) => [p.map((r) => place(r)[0]), p.map((r) => place(r)[1]), p])], box);
    if (rows.some(marked)) box.append(el("p.note", `Rings: ${table.marked.filter((m) => rows.some((r) => r[mark] === m)).join(" or ")}; on a longer workload their latencies differ.`));
  };

  const chart = (parent, table) => {
    const numbers = table.columns.filter((c) => c.number).map((c) => c.name);
    if (numbers.length < 2 || !table.rows.length) return;
    const tools = el("div.tools"), box = el("div.chart");
    parent.append(el("div.card", tools, box));
    const one = { box, table, draw: scatter }, again = () => scatter(one);
    one.x = choose(tools, "across", numbers, table.x, again);
    one.y = choose(tools, "up", numbers, table.y, again);
    one.by = choose(tools, "colour", ["", ...table.columns.filter((c) => c.setting).map((c) => c.name)], table.by, again);
    charts.push(one);
  };

  const rowsOf = (parent, table) => {
    const all = table.columns.map((c, i) => i);
    const says = (i) => table.rows.length === 1 || table.rows.some((r) => r[i] !== table.rows[0][i]);
    const few = all.filter((i) => table.columns[i].setting ? says(i) : table.few.includes(table.columns[i].name) && table.rows.some((r) => r[i] !== null));
    const every = el("input", { type: "checkbox" }), scroll = el("div.scroll.tall");
    parent.append(el("div.card", el("div.tools", el("label", "all columns ", every)), scroll));
    let sorted = -1, down = false;
    const compare = (a, b) => {
      const [u, v] = down ? [b[sorted], a[sorted]] : [a[sorted], b[sorted]];
      if (u === null || v === null) return (a[sorted] === null) - (b[sorted] === null);
      return typeof u === "number" && typeof v === "number" ? u - v : inOrder(u, v);
    };
    const draw = () => {
      const columns = every.checked ? all : few, head = el("tr"), body = el("tbody");
      for (const i of columns) {
        const onclick = () => { down = i === sorted && !down; sorted = i; draw(); };
        head.append(el(table.columns[i].number ? "th" : "th.left", table.columns[i].name + (i === sorted ? (down ? " ↓" : " ↑") : ""), { onclick }));
      }
      const marked = marks(table);
      for (const r of sorted < 0 ? table.rows : [...table.rows].sort(compare)) {
        body.append(el("tr", ...columns.map((i) => el((table.columns[i].number ? "td" : "td.left") + (table.columns[i].name === table.mark && marked(r) ? ".missed" : ""), shown(r[i])))));
      }
      scroll.replaceChildren(el("table", el("thead", head), body));
    };
    every.onchange = draw;
    draw();
  };

  main.classList.add("sheet");
  if (data.text) main.append(el("div.card.scroll", el("pre", data.text)));
  if (data.answer) drawAnswer(data.answer, charts);
  for (const table of data.tables || []) {
    const grid = el("div.tables");
    main.append(el("h2", table.title), grid);
    chart(grid, table);
    rowsOf(grid, table);
  }
  follow(charts, (one) => one.draw(one));
  report(charts.filter((one) => one.plot).length, charts.length);
})();
