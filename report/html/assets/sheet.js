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

  // dots draws the rows of a series, each as a disc.
  const radius = 4.5;
  const dots = (u, i) => {
    uPlot.orient(u, i, (series, x, y, scaleX, scaleY, toX, toY, left, top, width, height, moveTo, lineTo, rect, arc) => {
      const r = radius * devicePixelRatio, path = new Path2D(), [xs, ys] = u.data[i];
      xs.forEach((v, n) => {
        const at = [toX(v, scaleX, width, left), toY(ys[n], scaleY, height, top)];
        path.moveTo(at[0] + r, at[1]);
        arc(path, ...at, r, 0, 2 * Math.PI);
      });
      u.ctx.fillStyle = series.fill();
      u.ctx.fill(path);
    });
    return null;
  };

  // about shows, beside the pointer, the row whose disc is nearest to it.
  const about = (tip, text) => (u) => {
    u.over.append(tip);
    u.over.addEventListener("mouseleave", () => { tip.hidden = true; });
    u.over.addEventListener("mousemove", (e) => {
      let near = null, least = 3 * radius;
      u.series.forEach((s, i) => {
        if (i === 0 || !s.show) return;
        u.data[i][0].forEach((v, n) => {
          const left = u.valToPos(v, "x"), top = u.valToPos(u.data[i][1][n], "y"), far = Math.hypot(left - e.offsetX, top - e.offsetY);
          if (far < least) [least, near] = [far, { left, top, row: u.data[i][2][n] }];
        });
      });
      tip.hidden = !near;
      if (!near) return;
      tip.textContent = text(near.row);
      tip.style.left = Math.min(near.left + 10, Math.max(0, u.over.clientWidth - tip.offsetWidth)) + "px";
      tip.style.top = near.top + 10 + "px";
    });
  };

  // range leaves room around the values of a column, and none below 0.
  const range = (rows, column) => {
    const all = rows.map((r) => r[column]);
    const least = all.reduce((a, b) => Math.min(a, b)), most = all.reduce((a, b) => Math.max(a, b));
    const room = (most - least || Math.abs(most) || 1) * 0.05;
    return [least >= 0 ? Math.max(0, least - room) : least - room, most + room];
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
    const text = (r) => [...settings(r), `${one.x.value} ${shown(r[i])}`, `${one.y.value} ${shown(r[j])}`].join("\n");
    one.plot = new uPlot({
      mode: 2, width: box.clientWidth, height: 380,
      legend: { show: k >= 0, live: false },
      cursor: { points: { show: false }, drag: { x: true, y: true } },
      hooks: { ready: [about(el("div.tip", { hidden: true }), text)] },
      scales: { x: { time: false, range: range(rows, i) }, y: { range: range(rows, j) } },
      axes: [
        axis({ label: one.x.value, labelFont: "11px system-ui", labelSize: 18, size: 32, values: (u, v) => v.map(shown) }),
        axis({ label: one.y.value, labelFont: "11px system-ui", labelSize: 18, size: 62, values: (u, v) => v.map(shown) }),
      ],
      series: [{}, ...groups.map((g, n) => ({
        label: g || "none", stroke: color(nth(n)), fill: color(nth(n)), paths: dots,
        facets: [{ scale: "x", auto: true }, { scale: "y", auto: true }],
      }))],
    }, [null, ...parts.map((p) => [p.map((r) => r[i]), p.map((r) => r[j]), p])], box);
  };

  const chart = (parent, table) => {
    const numbers = table.columns.filter((c) => c.number).map((c) => c.name);
    if (numbers.length < 2 || !table.rows.length) return;
    const tools = el("div.tools"), box = el("div.chart");
    parent.append(el("div.card", tools, box));
    const one = { box, table }, again = () => scatter(one);
    one.x = choose(tools, "across", numbers, table.x, again);
    one.y = choose(tools, "up", numbers, table.y, again);
    one.by = choose(tools, "colour", ["", ...table.columns.filter((c) => c.setting).map((c) => c.name)], table.by, again);
    charts.push(one);
  };

  const rowsOf = (parent, table) => {
    const all = table.columns.map((c, i) => i);
    const few = all.filter((i) => table.columns[i].setting || table.few.includes(table.columns[i].name));
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
      for (const r of sorted < 0 ? table.rows : [...table.rows].sort(compare)) {
        body.append(el("tr", ...columns.map((i) => el(table.columns[i].number ? "td" : "td.left", shown(r[i])))));
      }
      scroll.replaceChildren(el("table", el("thead", head), body));
    };
    every.onchange = draw;
    draw();
  };

  main.classList.add("sheet");
  if (data.text) main.append(el("div.card.scroll", el("pre", data.text)));
  for (const table of data.tables) {
    const grid = el("div.tables");
    main.append(el("h2", table.title), grid);
    chart(grid, table);
    rowsOf(grid, table);
  }
  follow(charts, scatter);
  report(charts.filter((one) => one.plot).length, charts.length);
})();
