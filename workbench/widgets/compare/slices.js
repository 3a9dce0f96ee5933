/** Accuracy by the bins of a column: one group of bars per bin, one bar per model; a click chooses the bin. */
function slices(c) {
  const { s } = c;
  const select = h("select", { class: "wc-column", "aria-label": "Slice by", onchange: () => c.change({ column: select.value }) });
  const about = h("span", { class: "wb-hint" });
  const axis = h("div", { class: "wc-axis", "aria-hidden": "true" });
  const plot = h("div", { class: "wc-groups" });
  const scatterPlot = scatter(c);
  const swap = h("button", { class: "wb-button wc-swap", type: "button", "aria-pressed": "false", title: "ln p of the answers by two models, one point per item", onclick: () => toggleScatter() }, "Scatter of ln p");
  const tables = h("button", { class: "wb-button wc-table-swap", type: "button", "aria-pressed": "false", title: "Show the chart as a table (t)", onclick: () => tabulate() }, "Table");
  const table = chartTable("Accuracy", "wc-table");
  const by = h("label", {}, "Accuracy by ", select);
  const bars = h("div", { class: "wc-plot" }, axis, plot);
  const node = h("section", { class: "wc-slices", "aria-label": "Slices" },
    h("div", { class: "wc-bar-head" }, by, about, tables, swap), bars, table.node, scatterPlot.node);

  let drawn = "";

  let showsScatter = false;
  let showsTable = false;

  function layOut() {
    const lost = plot.contains(document.activeElement) && showsTable;
    about.hidden = showsScatter;
    by.hidden = showsScatter || select.disabled;
    bars.hidden = showsScatter || showsTable;
    table.node.hidden = showsScatter || !showsTable;
    swap.setAttribute("aria-pressed", String(showsScatter));
    tables.setAttribute("aria-pressed", String(showsTable));
    node.classList.toggle("wc-scattered", showsScatter);
    if (lost) tables.focus({ preventScroll: true });
  }
  function toggleScatter() {
    showsScatter = !showsScatter;
    layOut();
    scatterPlot.show(showsScatter);
  }
  function tabulate() {
    showsTable = !showsTable;
    layOut();
    scatterPlot.tabulate(showsTable);
  }

  function draw() {
    const { columns, slices: { groups: barGroups, ticks, n }, shown: visible, models, state: { column } } = s;
    if (select.dataset.names !== JSON.stringify(columns)) {
      select.dataset.names = JSON.stringify(columns);
      select.replaceChildren(...columns.map(([name, title]) => h("option", { value: name }, title)));
    }
    scatterPlot.draw();
    select.value = column;
    select.disabled = !columns.length;
    by.hidden = showsScatter || select.disabled;
    node.classList.toggle("wc-no-columns", !columns.length && !s.note);
    about.textContent = barGroups.length && n ? `${number(n)} items${s.cell ? " (ignores the matrix selection)" : ""}; Wilson intervals. Click a group to filter; Ctrl-click adds one.` : "";
    const facet = c.facet(column);
    const signature = JSON.stringify([s.slices, column, facet, visible, s.note, models.length]);
    if (signature === drawn) return; // a cell is chosen, the list sorted: the bars stay
    drawn = signature;
    if (!barGroups.length || !n) {
      axis.replaceChildren();
      table.draw([], []);
      plot.replaceChildren(h("div", { class: "wb-empty" }, barGroups.length ? NO_ITEMS : s.note ? "Annotating: columns to slice by will appear here." : "No column distinguishes these items; pass annotations=, such as wb.annotate(items)."));
      return;
    }
    axis.replaceChildren(...ticks.map((text, i) => {
      const tick = h("span", {}, text);
      tick.style.bottom = `${50 * i}%`;
      return tick;
    }));
    table.call(`Accuracy by ${columns.find(([name]) => name === column)[1]}`);
    table.draw(["value", "items", ...visible.map((k) => models[k].label)], barGroups.map((bin) => [bin.label, number(bin.n), ...bin.bars.map((bar) => (bar ? `${bar[3]} ${bar[4]}` : DASH))]));
    const wide = visible.length > 8 ? 7 : 13;
    const focus = plot.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    const groups = barGroups.map((bin) => {
      const bars = bin.bars.map((bar, i) => {
        if (!bar) return h("span", { class: "wc-slot" });
        const [value, low, high, text, interval] = bar;
        const m = models[visible[i]];
        return h("span", { class: "wc-slot", title: `${m.key} ${m.label}\n${bin.label}: ${text} ${interval}, n = ${number(bin.n)}` }, ...coloured(m, [value, low, high], ["bottom", "height"]));
      });
      const pressed = listsBin(facet, bin.facet, hasRanges());
      const values = bin.bars.map((bar, i) => `${models[visible[i]].key} ${bar ? bar[3] : "not known"}`).join(", ");
      const group = h("button", {
        class: `wc-group${facet && !pressed ? " wc-off" : ""}`, type: "button", "data-key": String(bin.facet ?? bin.label), "aria-pressed": String(pressed), disabled: !bin.facet || null, title: bin.facet ? null : "Rarer values together; filter them by a condition",
        "aria-label": `${bin.label}, ${number(bin.n)} items: ${values}`, onclick: (e) => pick(bin.facet, e.ctrlKey || e.metaKey || e.shiftKey),
      }, h("span", { class: "wc-bars" }, ...bars), h("span", { class: "wc-group-name", title: bin.label }, bin.name[0] && h("span", { class: "wc-common" }, bin.name[0]), h("span", { class: "wc-rest" }, bin.name[1])), h("span", { class: "wc-group-n" }, number(bin.n)));
      group.style.setProperty("--wc-least", `${Math.max(52, visible.length * (visible.length > 8 ? 5 : 7) + 12)}px`);
      group.style.setProperty("--wc-most", `${visible.length * wide + 14}px`);
      return group;
    });
    const scroll = plot.scrollLeft;
    plot.replaceChildren(...groups);
    plot.scrollLeft = scroll;
    if (focus !== null) groups.find((group) => group.dataset.key === focus)?.focus({ preventScroll: true });
  }
  const hasRanges = () => s.slices.groups.some((bin) => bin.facet?.length === 2);
  function pick(bin, add) {
    const { column } = s.state;
    const facet = c.facet(column);
    if (!hasRanges()) c.choose({ [column]: toggled(facet, bin[0], add) });
    else if (JSON.stringify(facet) === JSON.stringify(bin)) c.choose({ [column]: null });
    else if (!add || facet?.length !== 2 || bin.length !== 2) c.choose({ [column]: bin });
    else { // a range that reaches from the one to the other
      const end = (k, best) => [facet[k], bin[k]].includes(null) ? null : best(facet[k], bin[k]);
      c.choose({ [column]: [end(0, Math.min), end(1, Math.max)] });
    }
  }
  function clear() {
    const any = c.facet(s.state.column) !== null;
    if (any) c.choose({ [s.state.column]: null });
    return any;
  }
  return { node, draw, clear, tabulate, scatter: scatterPlot };
}
