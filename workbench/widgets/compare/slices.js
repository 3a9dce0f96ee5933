/** Accuracy by the bins of a column: one group of bars a bin, one bar a model; a click chooses the bin. */
function slices(c) {
  const select = h("select", { class: "wc-column", "aria-label": "Slice by", onchange: () => c.choose({}, select.value) });
  const about = h("span", { class: "wc-hint" });
  const axis = h("div", { class: "wc-axis", "aria-hidden": "true" });
  const plot = h("div", { class: "wc-groups" });
  const cloud = scatter(c);
  const swap = h("button", { class: "wc-button wc-swap", type: "button", "aria-pressed": "false", title: "ln p of the answers by two models, a point an item", onclick: () => exchange() }, "Scatter of ln p");
  const by = h("label", {}, "Accuracy by ", select);
  const bars = h("div", { class: "wc-plot" }, axis, plot);
  const node = h("section", { class: "wc-slices", "aria-label": "Slices" },
    h("div", { class: "wc-bar-head" }, by, about, swap), bars, cloud.node);

  let drawn = "";

  function exchange() {
    for (const part of [bars, by, about]) part.hidden = !part.hidden;
    swap.setAttribute("aria-pressed", String(bars.hidden));
    node.classList.toggle("wc-scattered", bars.hidden);
    cloud.show(bars.hidden);
  }

  function top(found) {
    const most = Math.max(0, ...found.flatMap((bin) => bin.values.map(([value, , high]) => (value === null ? 0 : high ?? value))));
    return [0.02, 0.05, 0.1, 0.2, 0.25, 0.4, 0.5, 0.6, 0.8].find((step) => step >= most) ?? 1;
  }
  function draw() {
    const { column, columns, slices: found, chosen, shown, models } = c;
    if (select.dataset.names !== JSON.stringify(columns)) {
      select.dataset.names = JSON.stringify(columns);
      select.replaceChildren(...columns.map(([name, title]) => h("option", { value: name }, title)));
    }
    cloud.draw();
    select.value = column;
    select.disabled = !columns.length;
    about.textContent = found.length && c.sliced ? `${number(c.sliced)} items${chosen.pair ? " (ignores the matrix selection)" : ""}; Wilson intervals. Click a group to filter; Ctrl-click adds one.` : "";
    const now = JSON.stringify([column, found, chosen.bins, shown, c.note, models.length, c.sliced]);
    if (now === drawn) return; // a cell is chosen, the list sorted: the bars stay
    drawn = now;
    if (!found.length || !c.sliced) {
      axis.replaceChildren();
      plot.replaceChildren(h("div", { class: "wc-empty" }, found.length ? NO_ITEMS : c.note ? "Annotating: columns to slice by will appear here." : "No column distinguishes these items; pass annotations=wb.annotate(items)."));
      return;
    }
    const high = top(found);
    const y = (value) => `${(100 * value) / high}%`;
    axis.replaceChildren(...[0, 0.5, 1].map((part) => {
      const tick = h("span", {}, `${Number((100 * part * high).toFixed(1))} %`);
      tick.style.bottom = `${100 * part}%`;
      return tick;
    }));
    const on = chosen.bins[column] ?? [];
    const wide = shown.length > 8 ? 7 : 13;
    const focus = plot.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    const groups = found.map((bin) => {
      const bars = bin.values.map(([value, low, up], i) => {
        const m = models[shown[i]];
        if (value === null) return h("span", { class: "wc-slot" });
        const fill = h("i", { class: `wc-fill wc-lap${m.lap % 3}` });
        fill.style.setProperty("--wc-colour", m.colour);
        fill.style.height = y(value);
        const whisker = h("i", { class: "wc-whisker" });
        whisker.style.bottom = y(low);
        whisker.style.height = y(up - low);
        return h("span", { class: "wc-slot", title: `${m.key} ${m.label}\n${bin.label}: ${points(value)} % [${points(low)}, ${points(up)}], n = ${number(bin.n)}` }, fill, whisker);
      });
      const pressed = on.includes(bin.key);
      const told = bin.values.map(([value], i) => `${models[shown[i]].key} ${value === null ? "not known" : `${points(value)} %`}`).join(", ");
      const group = h("button", {
        class: `wc-group${on.length && !pressed ? " wc-off" : ""}`, type: "button", "data-key": bin.key, "aria-pressed": String(pressed),
        "aria-label": `${bin.label}, ${number(bin.n)} items: ${told}`, onclick: (e) => pick(bin.key, e.ctrlKey || e.metaKey || e.shiftKey),
      }, h("span", { class: "wc-bars" }, ...bars), h("span", { class: "wc-group-name", title: bin.label }, bin.label), h("span", { class: "wc-group-n" }, number(bin.n)));
      group.style.setProperty("--wc-least", `${Math.max(52, shown.length * (shown.length > 8 ? 5 : 7) + 12)}px`);
      group.style.setProperty("--wc-most", `${shown.length * wide + 14}px`);
      return group;
    });
    const scroll = plot.scrollLeft;
    plot.replaceChildren(...groups);
    plot.scrollLeft = scroll;
    if (focus !== null) groups.find((group) => group.dataset.key === focus)?.focus({ preventScroll: true });
  }
  function pick(key, add) {
    const bins = { ...c.chosen.bins };
    const now = bins[c.column] ?? [];
    const next = add ? (now.includes(key) ? now.filter((k) => k !== key) : [...now, key]) : now.length === 1 && now[0] === key ? [] : [key];
    if (next.length) bins[c.column] = next;
    else delete bins[c.column];
    c.choose({ bins });
  }
  function clear() {
    const bins = { ...c.chosen.bins };
    if (!(c.column in bins)) return false;
    delete bins[c.column];
    c.choose({ bins });
    return true;
  }
  return { node, draw, clear, scatter: cloud };
}
