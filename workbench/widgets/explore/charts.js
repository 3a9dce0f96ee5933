/* The charts above the list: bars of choices, histograms of numbers. The kernel counts; a click chooses. */

const HINT = "Click a bar or drag over a range. Ctrl+click adds a bar; a second click or Esc clears the chart.";

const USUAL = 5; // charts, of which the first two share a column

const share = (n, total) => (total ? `${((100 * n) / total).toFixed(n && (100 * n) / total < 1 ? 2 : 1)} %` : "");

function chartsOf(c) {
  const { s } = c;
  const hint = h("span", { class: "wb-hint" });
  const clear = h("button", { class: "wb-button", type: "button", title: "Remove search and filters", onclick: () => c.clearAll() }, "Clear");
  const tables = h("button", { class: "wb-button", type: "button", "aria-pressed": "false", title: "Show the charts as tables (t)", onclick: () => tabulate() }, "Tables");
  const legend = h("span", { class: "we-legend", "aria-hidden": "true" }, h("i", { class: "we-left" }), "chosen", h("i", { class: "we-all" }), "all");
  const grid = h("div", { class: "we-grid" });
  const furtherCharts = h("div", { class: "we-more", hidden: true }); // charts of further columns
  const node = h("div", { class: "wb-root we-charts", role: "region", "aria-label": "Charts", onkeydown: onKey }, h("div", { class: "we-head" }, c.status.node, hint, legend, tables, clear), grid, furtherCharts);
  let showsTables = false;

  function choose(name, facet) {
    c.choose({ [name]: facet });
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
    showsTables = !showsTables;
    tables.setAttribute("aria-pressed", String(showsTables));
    const lost = showsTables && node.contains(document.activeElement) && document.activeElement.closest("[data-chart]");
    draw();
    if (lost) tables.focus({ preventScroll: true }); // what had the focus is hidden
  }
  /** The bins of a choice that have a bar; items without a value come last. */
  const binsOf = (chart) => [...chart.bins.slice(0, chart.limit), ...(chart.null ? [chart.null] : [])];
  const facetOf = (chart) => ({ ...chart, ...(chart.why ? { kind: "nothing" } : s.facets[chart.name]) });

  // ---- one drawer per chart: made once, then only widths, heights and words change
  let drawers = [];
  let signature = null; // which charts they draw: others come with the annotations
  function make() {
    const charts = s.charts.map(facetOf);
    const newest = JSON.stringify(charts.map(({ name, kind: type, bins = [] }) => [name, type, bins.map(([facet]) => facet)]));
    if (newest === signature) return;
    signature = newest;
    grid.replaceChildren();
    furtherCharts.replaceChildren();
    drawers = charts.map((chart, i) => {
      const title = h("div", { class: "we-title", title: [chart.title, chart.tooltip].filter(Boolean).join("\n") }, chart.title);
      const type = { choice: "bars", numbers: "bins", nothing: "nothing" }[chart.kind];
      const body = h("div", { class: `we-body we-${type}` });
      (i < USUAL ? grid : furtherCharts).append(h("section", {
        class: "we-chart", "data-chart": chart.name, role: "group", "aria-label": chart.title,
        ondblclick: () => { if (type !== "nothing") choose(chart.name, null); },
      }, title, body));
      const drawChart = { bars, bins, nothing }[type](chart, body);
      if (type === "nothing") return drawChart;
      const table = chartTable(chart.title, "we-table");
      body.after(table.node);
      return (facet) => {
        body.hidden = showsTables;
        table.node.hidden = !showsTables;
        if (!showsTables) drawChart(facet);
        else table.draw(["value", "chosen", "all"], [...facet.bins, ...(facet.null ? [facet.null] : [])].map(([, label, total, passing]) => [label, number(passing), number(total)]));
      };
    });
    furtherCharts.hidden = !furtherCharts.children.length;
  }

  function nothing(_made, body) {
    return (chart) => { body.textContent = chart.why; };
  }

  function bars(facet, body) {
    const rows = binsOf(facet).map(([[value], label]) => {
      const row = { all: h("span", { class: "we-all" }), left: h("span", { class: "we-left" }), n: h("span", { class: "we-n" }) };
      row.node = h("button", { class: "we-row", type: "button", "data-value": String(value), onclick: (e) => choose(facet.name, toggled(c.facet(facet.name), value, e.ctrlKey || e.metaKey || e.shiftKey)) },
        h("span", { class: "we-label" }, label), h("span", { class: "we-track" }, row.all, row.left), row.n);
      return row;
    });
    body.append(...rows.map((row) => row.node));
    const digits = `${Math.max(...binsOf(facet).map(([, , total]) => number(total).length))}ch`;
    for (const row of rows) row.n.style.minWidth = digits; // counts change, the bars' scale stays
    const nHidden = facet.bins.length + facet.more - facet.limit;
    if (nHidden > 0) body.append(h("div", { class: "wb-hint" }, `${number(nHidden)} rarer values are not drawn`));
    return (chart) => {
      const chosen = c.facet(facet.name);
      const drawn = binsOf(chart);
      const largest = Math.max(1, ...drawn.map(([, , total]) => total));
      drawn.forEach(([[value], label, total, passing], i) => {
        const { node, all, left: bar, n } = rows[i];
        all.style.width = `${(100 * total) / largest}%`;
        bar.style.width = passing ? `max(2px, ${(100 * passing) / largest}%)` : "0";
        n.textContent = number(passing);
        const on = chosen?.includes(value) ?? false;
        node.setAttribute("aria-pressed", String(on));
        node.classList.toggle("we-off", Boolean(chosen) && !on);
        node.title = `${label}: ${number(passing)} of ${number(total)} (${share(passing, total)})`;
        node.setAttribute("aria-label", `${label}: ${number(passing)} of ${number(total)}`);
      });
    };
  }

  function bins(facet, body) {
    const ranges = facet.bins.map(([range]) => range);
    const [starts, ends] = [0, 1].map((end) => ranges.map((range) => range[end]));
    const n = ranges.length;
    const short = (value) => String(Number(value.toPrecision(6)));
    const open = ends[n - 1] === null;
    const columns = starts.map(() => {
      const column = { all: h("span", { class: "we-all" }), left: h("span", { class: "we-left" }) };
      column.node = h("span", { class: "we-bin" }, column.all, column.left);
      return column;
    });
    if (open) columns[n - 1].node.classList.add("we-open");
    const handles = ["least", "greatest"].map((which, side) => h("span", {
      class: "we-handle", role: "slider", tabindex: 0, "aria-label": `${facet.title}, ${which}`, "aria-orientation": "horizontal",
      "aria-valuemin": starts[0], "aria-valuemax": ends[n - 1] ?? starts[n - 1], onkeydown: (e) => step(e, side),
    }));
    const peak = h("span", { class: "we-peak" });
    const plot = h("div", { class: "we-plot" }, ...columns.map((column) => column.node), peak, ...handles);
    const axis = h("div", { class: "we-axis", "aria-hidden": "true" });
    const nullRow = { all: h("span", { class: "we-all" }), left: h("span", { class: "we-left" }), n: h("span", { class: "we-n" }) };
    nullRow.node = h("button", { class: "we-row we-rest", type: "button", onclick: () => choose(facet.name, none() ? null : [null]) },
      h("span", { class: "we-label" }, facet.null?.[1] ?? ""), h("span", { class: "we-track" }, nullRow.all, nullRow.left), nullRow.n);
    nullRow.node.hidden = !facet.null;
    body.append(plot, axis, nullRow.node);
    const every = Math.max(1, Math.ceil(n / 5));
    const single = Number.isInteger(starts[0]) && starts[0] === ends[0];
    for (let i = 0; i < n; i += every) {
      if (i && n - i < (open ? every : every / 2)) break; // no room for its number
      const tick = h("span", {}, short(starts[i]));
      tick.style.left = `${(100 * (i + (single ? 0.5 : 0))) / n}%`;
      if (!single && i === 0) tick.style.transform = "none"; // centred, its left half would be cut
      axis.append(tick);
    }
    if (open) axis.append(h("span", { class: "we-beyond" }, `≥ ${short(starts[n - 1])}`));

    const none = () => c.facet(facet.name)?.length === 1; // the rows without a number are chosen
    const isOn = (range) => listsBin(c.facet(facet.name), range, true);
    const selectedBins = () => ranges.flatMap((range, i) => (isOn(range) ? [i] : []));
    const first = () => selectedBins()[0] ?? 0;
    const last = () => selectedBins().at(-1) ?? n - 1;
    const take = (a, b) => {
      const [from, to] = a < b ? [a, b] : [b, a];
      choose(facet.name, from === 0 && to === n - 1 ? null : [starts[from], ends[to]]);
    };
    function step(e, side) {
      const from = side ? last() : first();
      const far = { ArrowLeft: from - 1, ArrowDown: from - 1, ArrowRight: from + 1, ArrowUp: from + 1, PageDown: from - 5, PageUp: from + 5, Home: 0, End: n - 1 }[e.key];
      if (far === undefined) return;
      e.preventDefault();
      if (side) take(first(), Math.max(first(), Math.min(n - 1, far)));
      else take(Math.min(last(), Math.max(0, far)), last());
    }

    let drag = null; // the bin where a drag began (or its fixed end), and whether it has moved
    const under = (e) => binUnder(plot, n, e);
    plot.addEventListener("pointerdown", (e) => {
      if (e.button !== 0) return;
      const side = handles.indexOf(e.target);
      const bin = under(e);
      drag = { from: side < 0 ? bin : side ? first() : last(), at: bin, moved: false, handle: side >= 0 };
      plot.setPointerCapture(e.pointerId);
      e.preventDefault(); // no text is selected
      if (side >= 0) e.target.focus({ preventScroll: true });
    });
    plot.addEventListener("pointermove", (e) => {
      if (!drag || under(e) === drag.at) return;
      drag.moved = true;
      drag.at = under(e);
      take(drag.from, drag.at);
    });
    plot.addEventListener("pointerup", () => {
      const narrow = drag?.handle && first() === last(); // the handles lie over all of the one bin
      if (drag && !drag.moved && (!drag.handle || narrow)) {
        const alone = selectedBins().length === 1 && isOn(ranges[drag.at]);
        choose(facet.name, narrow || alone ? null : ranges[drag.at]);
      }
      drag = null;
    });
    plot.addEventListener("pointercancel", () => { drag = null; });

    return (chart) => {
      const chosen = Boolean(c.facet(facet.name));
      const largest = Math.max(1, ...chart.bins.map(([, , total]) => total));
      peak.textContent = number(largest);
      chart.bins.forEach(([range, label, total, count], i) => {
        const { node, all, left: passing } = columns[i];
        all.style.height = total ? `max(1px, ${(100 * total) / largest}%)` : "0";
        passing.style.height = count ? `max(2px, ${(100 * count) / largest}%)` : "0";
        node.classList.toggle("we-off", chosen && !isOn(range));
        node.title = `${label}: ${number(count)} of ${number(total)}`;
      });
      const ranged = selectedBins().length > 0;
      const edges = [ranged ? first() : 0, ranged ? last() + 1 : n];
      handles.forEach((handle, side) => {
        handle.style.left = `${(100 * edges[side]) / n}%`;
        handle.classList.toggle("we-held", ranged);
        const i = side ? last() : first();
        handle.setAttribute("aria-valuenow", String(side ? ends[i] ?? starts[i] : starts[i]));
        handle.setAttribute("aria-valuetext", ranged ? chart.bins[i][1] : "all");
      });
      if (!chart.null) return;
      const [, name, total, passing] = chart.null;
      nullRow.all.style.width = `${(100 * total) / Math.max(1, s.total)}%`;
      nullRow.left.style.width = passing ? `max(2px, ${(100 * passing) / s.total}%)` : "0";
      nullRow.n.textContent = number(passing);
      nullRow.node.setAttribute("aria-pressed", String(none()));
      nullRow.node.classList.toggle("we-off", chosen && !none());
      nullRow.node.title = `${name}: ${number(passing)} of ${number(total)}`;
      nullRow.node.setAttribute("aria-label", nullRow.node.title);
    };
  }

  // ---- the words, and all of it
  function draw() {
    make();
    s.charts.forEach((chart, i) => drawers[i](facetOf(chart)));
    hint.textContent = !s.total ? "There are no items." : s.n ? (s.words.length ? "" : HINT) : NO_ITEMS;
    clear.disabled = legend.hidden = !s.words.length;
  }
  return { node, draw };
}
