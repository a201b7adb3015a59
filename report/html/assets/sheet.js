"use strict";
// The results of a sweep or a plan: for each table, a chart of two columns that is coloured by a third column, and the
// rows. A click on the head of a column sorts the rows.
(() => {
  const charts = [];
  // perSecond returns the number of units of a column per second; 0: the column is not a time.
  const perSecond = (name) => /_ms$/.test(name) ? 1000 : /^(time|arrival)_s$/.test(name) ? 1 : 0;
  const titled = (name) => named(perSecond(name) ? name.replace(/_m?s$/, "") : name).replace(/\b[ab]\b/, (w) => w.toUpperCase()).replace(/ percent$/, " (%)");
  // shown formats a value of a column.
  const shown = (v, name = "") => v === null || v === undefined ? "" : typeof v !== "number" ? v : perSecond(name) ? ms(1000 * v / perSecond(name)) : /_off$/.test(name) ? change(v) : /_ratio$/.test(name) ? percent(v) : /_percent$/.test(name) ? number(v, 1).replace("-", "−")
    : Number.isInteger(v) ? number(v, 0) : v.toLocaleString("en-US", { maximumSignificantDigits: 5 });
  const inOrder = (a, b) => String(a).localeCompare(String(b), "en", { numeric: true });

  // choose returns a selection list of columns.
  const choose = (parent, label, names, chosen, changed) => {
    const s = el("select", ...names.map((n) => el("option", { value: n }, titled(n))));
    s.value = chosen;
    s.onchange = changed;
    parent.append(el("label", label + " ", s));
    return s;
  };

  // shapes returns the shape of each row: a disc, or the shape of its mark.
  const shapes = (table) => {
    const i = table.columns.findIndex((c) => c.name === table.mark), forms = ["cross", "ring"];
    return (r) => i < 0 ? "disc" : forms[(table.marked || []).findIndex((m) => m.value === r[i])] || "disc";
  };

  // dots draws the rows of a series with their shapes.
  const radius = 4.5;
  const dots = (shape) => (u, i) => {
    uPlot.orient(u, i, (series, x, y, scaleX, scaleY, toX, toY, left, top, width, height) => {
      const [xs, ys, rows] = u.data[i];
      u.ctx.save();
      u.ctx.fillStyle = u.ctx.strokeStyle = series.fill();
      xs.forEach((v, n) => drawShape(u.ctx, shape(rows[n]), toX(v, scaleX, width, left), toY(ys[n], scaleY, height, top), radius * devicePixelRatio));
      u.ctx.restore();
    });
    return null;
  };

  // keys returns the legend of the shapes of rows and of the limit lines.
  const keys = (table, rows, chosen) => {
    const shape = shapes(table), has = (form) => rows.some((r) => shape(r) === form);
    const all = el("p.keys");
    (table.marked || []).forEach((m, i) => has(["cross", "ring"][i]) && all.append(key(["cross", "ring"][i], "--soft", m.means)));
    if (table.mark && table.rest && has("disc")) all.append(key("disc", "--soft", table.rest));
    chosen.forEach((n) => limitOf(table, n) !== undefined && all.append(key("limit", "--c4", `limit of ${titled(n)}: ${shown(limitOf(table, n), n)}`)));
    return all;
  };
  const limitOf = (table, name) => (table.limits || {})[name];

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
    const tint = (n) => groups.length > 8 ? shade(n, groups.length) : color(nth(n));
    const settings = (r) => table.columns.map((c, n) => c.setting && r[n] !== null ? `${titled(c.name)} ${shown(r[n], c.name)}` : "").filter((s) => s);
    const limits = [one.x, one.y].map((s) => limitOf(table, s.value));
    const scales = [i, j].map((n, s) => scaleOf([...rows.map((r) => r[n]), ...(limits[s] === undefined ? [] : [limits[s]])], perSecond(table.columns[n].name) === 1000, perSecond(table.columns[n].name) === 1));
    const place = (r) => [i, j].map((n, s) => scales[s].to(r[n]));
    const places = (u) => u.series.flatMap((s, n) => n === 0 || !s.show ? [] : u.data[n][2].map((row) => {
      const [x, y] = place(row);
      return { left: u.valToPos(x, "x"), top: u.valToPos(y, "y"), row };
    }));
    const whole = (name) => { const at = table.columns.findIndex((c) => c.name === name); return rows.every((r) => Number.isInteger(r[at])); };
    const look = (scale, name, more) => axis({
      label: titled(name) + (scale.log ? ", log scale" : ""), labelFont: "11px system-ui", labelSize: 18, splits: scale.splits,
      values: (u, v) => perSecond(name) && !scale.log ? timeLabels(v, perSecond(name)) : v.map((w) => w === null ? "" : shown(scale.from(w), name)), ...(scale.log ? {} : perSecond(name) ? { incrs: timeSteps.map((v) => perSecond(name) * v) } : whole(name) ? { incrs: wholeSteps } : {}), ...more,
    });
    const shape = shapes(table), mark = table.columns.findIndex((c) => c.name === table.mark);
    const text = (r) => [...settings(r), `${titled(one.x.value)} ${shown(r[i], one.x.value)}`, `${titled(one.y.value)} ${shown(r[j], one.y.value)}`, ...(shape(r) !== "disc" ? [`${named(table.mark)}: ${r[mark]}`] : [])].join("\n");
    const lines = (u) => drawLimits(u, ["x", "y"].flatMap((side, s) => limits[s] === undefined ? [] : [{ side, at: scales[s].to(limits[s]), text: `limit ${shown(limits[s], one[side].value)}` }]));
    sees(box, `${titled(one.y.value)} by ${titled(one.x.value)}`, ...(rows.length > 40 ? [`${rows.length} rows, which the table below has`] : rows.map((r) => text(r).replaceAll("\n", ", "))));
    box.append(keys(table, rows, [one.x.value, one.y.value]));
    one.plot = new uPlot({
      mode: 2, width: box.clientWidth, height: 380,
      legend: { show: k >= 0, live: false },
      cursor: { points: { show: false }, drag: { x: true, y: true } },
      hooks: { ready: [hover(places, text)], draw: [lines] },
      scales: { x: { time: false, range: scales[0].range }, y: { range: scales[1].range } },
      axes: [look(scales[0], one.x.value, { size: 32 }), look(scales[1], one.y.value)],
      series: [{}, ...groups.map((g, n) => ({
        label: `${named(one.by.value)} ${g || "none"}`, stroke: tint(n), fill: tint(n), paths: dots(shape),
        facets: [{ scale: "x", auto: true }, { scale: "y", auto: true }],
      }))],
    }, [null, ...parts.map((p) => [p.map((r) => place(r)[0]), p.map((r) => place(r)[1]), p])], box);
  };

  const chart = (parent, table) => {
    const numbers = table.columns.filter((c) => c.number).map((c) => c.name);
    if (numbers.length < 2 || !table.rows.length || table.keyed) return;
    const tools = el("div.tools"), box = el("div.chart");
    parent.append(el("div.card", tools, box));
    const one = { box, table, draw: scatter }, again = () => scatter(one);
    one.x = choose(tools, "across", numbers, table.x, again);
    one.y = choose(tools, "up", numbers, table.y, again);
    one.by = choose(tools, "colour", ["", ...table.columns.filter((c) => c.setting).map((c) => c.name)], table.by, again);
    charts.push(one);
  };

  // firstColumns returns the columns that are visible at first: the settings that differ, the marks, the reasons of
  // missing results, and the main columns of the table.
  const firstColumns = (table) => {
    const at = (name) => table.columns.findIndex((c) => c.name === name);
    const settings = table.columns.map((c, i) => i).filter((i) => table.columns[i].setting && (table.rows.length === 1 || table.rows.some((r) => r[i] !== table.rows[0][i])));
    const rest = [table.mark, "reason", ...table.few.filter((n) => n !== "cell")].map(at).filter((i) => i >= 0 && table.rows.some((r) => r[i] !== null));
    return [...new Set([at("cell"), ...settings, ...rest])].filter((i) => i >= 0);
  };

  // cell formats a value of a table, or its difference from the value of the first row.
  const symbols = { disc: "●", cross: "✕", ring: "○" }, looks = { disc: "met", cross: "missed", ring: "warned" };
  const empty = (table) => { const i = table.columns.findIndex((c) => c.name === "reason"); return (r) => i >= 0 && r[i] !== null; };
  const cell = (table, r, i, form, base) => {
    const c = table.columns[i], v = r[i];
    const td = el(c.number ? "td" : "td.left");
    if (c.name === table.mark && v === null && empty(table)(r)) {
      td.classList.add("missed");
      td.append("✗ no report");
    } else if (c.name === table.mark && v !== null) {
      td.classList.add(looks[form]);
      td.append(`${symbols[form]} ${v}`);
    } else if (v === "win" || v === "lose") {
      td.classList.add(v === "win" ? "better" : "worse");
      td.append(v === "win" ? "✓ win" : "✗ lose");
    } else if (base && base !== r && goodness(c.name) && typeof v === "number" && base[i]) {
      td.append(...changed(v / base[i] - 1, c.name));
    } else {
      td.append(typeof v === "string" && c.name === "missed" ? prose(v) : table.keyed && i === 0 ? titled(v) : shown(v, table.keyed && /^(a|b|change)$/.test(c.name) ? r[0] : c.name));
      if (typeof v === "string" && v.length > 40) td.classList.add("long");
    }
    return td;
  };

  const rowsOf = (parent, table) => {
    const all = table.columns.map((c, i) => i), few = firstColumns(table);
    const every = el("input", { type: "checkbox" }), against = el("input", { type: "checkbox" }), scroll = scrolls(table.title || "Rows", null, ".tall");
    const tools = el("div.tools", el("label", every, " all columns"));
    if (table.rows.length > 1 && table.columns[0].name === "cell") tools.append(el("label", against, " changes from the first cell"));
    parent.append(el("div.card", tools, scroll));
    let sorted = -1, down = false;
    const compare = (a, b) => {
      const [u, v] = down ? [b[sorted], a[sorted]] : [a[sorted], b[sorted]];
      if (u === null || v === null) return (a[sorted] === null) - (b[sorted] === null);
      return typeof u === "number" && typeof v === "number" ? u - v : inOrder(u, v);
    };
    const draw = () => {
      const columns = every.checked ? all : few, head = el("tr"), body = el("tbody"), shape = shapes(table);
      for (const i of columns) {
        const onclick = () => { down = i === sorted && !down; sorted = i; draw(); };
        const name = titled(table.columns[i].name), sort = el("button.sort", name + (i === sorted ? (down ? " ↓" : " ↑") : ""), { type: "button", onclick, title: table.columns[i].name });
        head.append(el(table.columns[i].number ? "th" : "th.left", sort, { style: name.length > 24 ? "min-width: 7em" : "", ...(i === sorted ? { ariaSort: down ? "descending" : "ascending" } : {}) }));
      }
      for (const r of sorted < 0 ? table.rows : [...table.rows].sort(compare)) {
        body.append(el("tr", ...columns.map((i) => cell(table, r, i, shape(r), against.checked && table.rows[0]))));
      }
      const at = [...scroll.querySelectorAll(".sort")].indexOf(document.activeElement);
      scroll.replaceChildren(el("table", el("thead", head), body));
      if (at >= 0) scroll.querySelectorAll(".sort")[at].focus();
    };
    every.onchange = against.onchange = draw;
    draw();
  };

  main.classList.add("sheet");
  const rest = (data.facts || []).map((f) => el("div.card", el("h3", f.title), facts(f.rows)));
  const details = [];
  if (data.answer) {
    const { top, more, measured, facts } = answerParts(data.answer, charts);
    main.append(top);
    if (measured.length) main.append(...more, ...measured);
    else details.push(...more);
    rest.push(...facts);
  }
  // Charts precede the details of an answer, and rows follow them.
  const tables = (data.tables || []).map((table) => {
    const top = el("div.tables"), below = el("div.tables.rows"), left = table.rows.filter(empty(table)).length;
    if (left) top.append(el("p.missed", `✗ ${left} of ${table.rows.length} are not complete: the table says why.`));
    chart(top, table);
    rowsOf(below, table);
    return { title: table.title, top, below };
  });
  const heading = (text) => el("h2", text);
  if (details.length) {
    for (const t of tables) if (t.top.hasChildNodes()) main.append(heading(t.title), t.top);
    main.append(...details);
    for (const t of tables) main.append(el("h2.title", t.top.hasChildNodes() ? `${t.title}: rows` : t.title), t.below);
  } else for (const t of tables) main.append(heading(t.title), t.top, t.below);
  if (rest.length) main.append(el("h2", "Assumptions and command"), el("div.cards", ...rest));
  follow(charts, (one) => one.draw(one)); // the tables of all replays are not printed
  report(charts.filter((one) => one.plot).length, charts.length);
})();
