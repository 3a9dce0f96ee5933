/* The charts above the list: bars of choices, histograms of numbers. The kernel counts; a click chooses. */

const HINT = "Click a bar or drag over a range. Ctrl+click adds a bar; a second click or Esc clears the chart.";

const USUAL = 5; // charts, of which the first two share a column

const share = (n, of) => (of ? `${((100 * n) / of).toFixed(n && (100 * n) / of < 1 ? 2 : 1)} %` : "");

function chartsOf(c) {
  const { s } = c;
  const said = chosenWords(c, HINT);
  const clear = h("button", { class: "wb-button", type: "button", onclick: () => c.clearAll() }, "Clear");
  const tables = h("button", { class: "wb-button", type: "button", "aria-pressed": "false", title: "Show the charts as tables (t)", onclick: () => tabulate() }, "Tables");
  const legend = h("span", { class: "we-legend", "aria-hidden": "true" }, h("i", { class: "we-left" }), "chosen", h("i", { class: "we-all" }), "all");
  const grid = h("div", { class: "we-grid" });
  const more = h("div", { class: "we-more", hidden: true }); // charts of further columns
  const node = h("div", { class: "wb-root we-charts", role: "region", "aria-label": "Charts", onkeydown: onKey }, h("div", { class: "we-head" }, said.node, legend, tables, clear), grid, more);
  let tabled = false;

  function choose(name, keys) {
    c.choose(name, keys?.length ? { keys } : null);
    draw();
  }
  function onKey(e) {
    plainKey(e);
    const name = e.target.closest("[data-chart]")?.dataset.chart;
    if (e.key === "t" && !e.ctrlKey && !e.metaKey && !e.altKey) {
      e.preventDefault();
      tabulate();
    } else if (e.key === "Escape" && name) {
      e.preventDefault();
      choose(name, null);
    }
  }
  function tabulate() {
    tabled = !tabled;
    tables.setAttribute("aria-pressed", String(tabled));
    const lost = tabled && node.contains(document.activeElement) && document.activeElement.closest("[data-chart]");
    draw();
    if (lost) tables.focus({ preventScroll: true }); // what had the focus is hidden
  }
  /** The bins of a choice that have a bar; items without a value come last. */
  const binsOf = (chart) => [...chart.bins.slice(0, chart.limit), ...(chart.null ? [chart.null] : [])];
  const facetOf = (chart) => ({ ...chart, ...(chart.why ? { kind: "nothing" } : s.facets[chart.name]) });

  // ---- one drawer a chart: made once, then only widths, heights and words change
  let drawers = [];
  let made = null; // which charts they draw: others come with the annotations
  function make() {
    const charts = s.charts.map(facetOf);
    const now = JSON.stringify(charts.map(({ name, kind, bins = [] }) => [name, kind, bins.map(([key]) => key)]));
    if (now === made) return;
    made = now;
    grid.replaceChildren();
    more.replaceChildren();
    drawers = charts.map((chart, i) => {
      const title = h("div", { class: "we-title", title: [chart.title, chart.tooltip].filter(Boolean).join("\n") }, chart.title);
      const kind = { choice: "bars", numbers: "bins", nothing: "nothing" }[chart.kind];
      const body = h("div", { class: `we-body we-${kind}` });
      (i < USUAL ? grid : more).append(h("section", {
        class: "we-chart", "data-chart": chart.name, role: "group", "aria-label": chart.title,
        ondblclick: () => { if (kind !== "nothing") choose(chart.name, null); },
      }, title, body));
      const drawChart = { bars, bins, nothing }[kind](chart, body);
      if (kind === "nothing") return drawChart;
      const table = chartTable(chart.title, "we-table");
      body.after(table.node);
      return (facet) => {
        body.hidden = tabled;
        table.node.hidden = !tabled;
        if (!tabled) drawChart(facet);
        else table.draw(["value", "chosen", "all"], [...facet.bins, ...(facet.null ? [facet.null] : [])].map(([, label, total, left]) => [label, number(left), number(total)]));
      };
    });
    more.hidden = !more.children.length;
  }

  function nothing(_made, body) {
    return (chart) => { body.textContent = chart.why; };
  }

  function bars(made, body) {
    const rows = binsOf(made).map(([key, label]) => {
      const row = { key, all: h("span", { class: "we-all" }), left: h("span", { class: "we-left" }), n: h("span", { class: "we-n" }) };
      row.node = h("button", { class: "we-row", type: "button", "data-value": valueOf(key), onclick: (e) => pick(key, e.ctrlKey || e.metaKey || e.shiftKey) },
        h("span", { class: "we-label" }, label), h("span", { class: "we-track" }, row.all, row.left), row.n);
      return row;
    });
    body.append(...rows.map((row) => row.node));
    const digits = `${Math.max(...binsOf(made).map(([, , total]) => number(total).length))}ch`;
    for (const row of rows) row.n.style.minWidth = digits; // counts change, the bars' scale stays
    const rest = made.bins.length + made.more - made.limit;
    if (rest > 0) body.append(h("div", { class: "wb-hint" }, `${number(rest)} rarer values are not drawn`));
    let now = [];
    function pick(key, add) {
      if (add) choose(made.name, now.includes(key) ? now.filter((other) => other !== key) : [...now, key]);
      else choose(made.name, now.length === 1 && now[0] === key ? null : [key]);
    }
    return (chart) => {
      const { keys, excluded } = c.chosen(made.name);
      now = excluded ? [] : keys;
      const drawn = binsOf(chart);
      const most = Math.max(1, ...drawn.map(([, , total]) => total));
      drawn.forEach(([key, label, total, left], i) => {
        const { node, all, left: part, n } = rows[i];
        all.style.width = `${(100 * total) / most}%`;
        part.style.width = left ? `max(2px, ${(100 * left) / most}%)` : "0";
        n.textContent = number(left);
        node.setAttribute("aria-pressed", String(now.includes(key)));
        node.classList.toggle("we-off", keys.length > 0 && keys.includes(key) === excluded);
        node.title = `${label}: ${number(left)} of ${number(total)} (${share(left, total)})`;
        node.setAttribute("aria-label", `${label}: ${number(left)} of ${number(total)}`);
      });
    };
  }

  function bins(made, body) {
    const { starts, ends } = made;
    const n = starts.length;
    const short = (value) => String(Number(value.toPrecision(6)));
    const open = ends[n - 1] === null;
    const columns = starts.map(() => {
      const column = { all: h("span", { class: "we-all" }), left: h("span", { class: "we-left" }) };
      column.node = h("span", { class: "we-bin" }, column.all, column.left);
      return column;
    });
    if (open) columns[n - 1].node.classList.add("we-open");
    const handles = ["least", "greatest"].map((which, side) => h("span", {
      class: "we-handle", role: "slider", tabindex: 0, "aria-label": `${made.title}, ${which}`, "aria-orientation": "horizontal",
      "aria-valuemin": starts[0], "aria-valuemax": ends[n - 1] ?? starts[n - 1], onkeydown: (e) => step(e, side),
    }));
    const peak = h("span", { class: "we-peak" });
    const plot = h("div", { class: "we-plot" }, ...columns.map((column) => column.node), peak, ...handles);
    const axis = h("div", { class: "we-axis", "aria-hidden": "true" });
    const rest = { all: h("span", { class: "we-all" }), left: h("span", { class: "we-left" }), n: h("span", { class: "we-n" }) };
    rest.node = h("button", { class: "we-row we-rest", type: "button", onclick: () => choose(made.name, none() ? null : ["null"]) },
      h("span", { class: "we-label" }, made.null?.[1] ?? ""), h("span", { class: "we-track" }, rest.all, rest.left), rest.n);
    rest.node.hidden = !made.null;
    body.append(plot, axis, rest.node);
    const every = Math.max(1, Math.ceil(n / 5));
    const single = Number.isInteger(starts[0]) && starts[0] === ends[0];
    for (let i = 0; i < n; i += every) {
      if (i && n - i < (open ? every : every / 2)) break; // no room for its number
      const tick = h("span", {}, short(starts[i]));
      tick.style.left = `${(100 * (i + (single ? 0.5 : 0))) / n}%`;
      axis.append(tick);
    }
    if (open) axis.append(h("span", { class: "we-beyond" }, `≥ ${short(starts[n - 1])}`));

    let now = []; // the keys that are chosen
    const none = () => now.length === 1 && now[0] === "null";
    const at = () => made.bins.flatMap(([key], i) => (now.includes(key) ? [i] : []));
    const first = () => at()[0] ?? 0;
    const last = () => at().at(-1) ?? n - 1;
    const take = (a, b) => {
      const [from, to] = a < b ? [a, b] : [b, a];
      choose(made.name, from === 0 && to === n - 1 ? null : made.bins.slice(from, to + 1).map(([key]) => key));
    };
    function step(e, side) {
      const here = side ? last() : first();
      const far = { ArrowLeft: here - 1, ArrowDown: here - 1, ArrowRight: here + 1, ArrowUp: here + 1, PageDown: here - 5, PageUp: here + 5, Home: 0, End: n - 1 }[e.key];
      if (far === undefined) return;
      e.preventDefault();
      if (side) take(first(), Math.max(first(), Math.min(n - 1, far)));
      else take(Math.min(last(), Math.max(0, far)), last());
    }

    let held = null; // the bin where a drag began (or its fixed end), and whether it has moved
    const under = (e) => binUnder(plot, n, e);
    plot.addEventListener("pointerdown", (e) => {
      if (e.button !== 0) return;
      const side = handles.indexOf(e.target);
      const place = under(e);
      held = { from: side < 0 ? place : side ? first() : last(), at: place, moved: false, handle: side >= 0 };
      plot.setPointerCapture(e.pointerId);
      e.preventDefault(); // no text is selected
      if (side >= 0) e.target.focus({ preventScroll: true });
    });
    plot.addEventListener("pointermove", (e) => {
      if (!held || under(e) === held.at) return;
      held.moved = true;
      held.at = under(e);
      take(held.from, held.at);
    });
    plot.addEventListener("pointerup", () => {
      const narrow = held?.handle && first() === last(); // the handles lie over all of the one bin
      if (held && !held.moved && (!held.handle || narrow)) {
        const [key] = made.bins[held.at];
        choose(made.name, narrow || (now.length === 1 && now[0] === key) ? null : [key]);
      }
      held = null;
    });
    plot.addEventListener("pointercancel", () => { held = null; });

    return (chart) => {
      const { keys, excluded } = c.chosen(made.name);
      now = excluded ? [] : keys;
      const most = Math.max(1, ...chart.bins.map(([, , total]) => total));
      peak.textContent = number(most);
      chart.bins.forEach(([key, label, total, count], i) => {
        const { node, all, left } = columns[i];
        all.style.height = total ? `max(1px, ${(100 * total) / most}%)` : "0";
        left.style.height = count ? `max(2px, ${(100 * count) / most}%)` : "0";
        node.classList.toggle("we-off", keys.length > 0 && keys.includes(key) === excluded);
        node.title = `${label}: ${number(count)} of ${number(total)}`;
      });
      const ranged = at().length > 0;
      const edges = [ranged ? first() : 0, ranged ? last() + 1 : n];
      handles.forEach((handle, side) => {
        handle.style.left = `${(100 * edges[side]) / n}%`;
        handle.classList.toggle("we-held", ranged);
        const i = side ? last() : first();
        handle.setAttribute("aria-valuenow", String(side ? ends[i] ?? starts[i] : starts[i]));
        handle.setAttribute("aria-valuetext", ranged ? chart.bins[i][1] : "all");
      });
      if (!chart.null) return;
      const [, what, total, left] = chart.null;
      rest.all.style.width = `${(100 * total) / Math.max(1, s.total)}%`;
      rest.left.style.width = left ? `max(2px, ${(100 * left) / s.total}%)` : "0";
      rest.n.textContent = number(left);
      rest.node.setAttribute("aria-pressed", String(none()));
      rest.node.classList.toggle("we-off", keys.length > 0 && keys.includes("null") === excluded);
      rest.node.title = `${what}: ${number(left)} of ${number(total)}`;
      rest.node.setAttribute("aria-label", rest.node.title);
    };
  }

  // ---- the words, and all of it
  function draw() {
    make();
    s.charts.forEach((chart, i) => drawers[i](facetOf(chart)));
    said.draw();
    clear.disabled = legend.hidden = !s.words.length;
  }
  return { node, draw };
}
