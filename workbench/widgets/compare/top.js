/** The table of the models: one row each, with measures and intervals, and whether it is shown below. */
function modelTable(c) {
  const body = h("tbody");
  const head = h("tr");
  const node = h("div", { class: "wc-models", role: "region", "aria-label": "Models", tabindex: 0 }, h("table", { "aria-label": "Models" }, h("thead", {}, head), body));
  const writers = { share: points, perplexity, rank: midRank };
  let boxes = [];
  let parts = []; // cells with the accuracies on the listed items

  function build() {
    const [first, ...others] = c.measures;
    head.replaceChildren(
      h("th", { scope: "col", title: "Ticked models are shown below" }, "Model"),
      h("th", { scope: "col", title: first.tooltip, colspan: 2 }, first.heading), // bars, and the numbers beside them
      h("th", { scope: "col", title: "Share of right answers among the listed items, with its Wilson interval" }, "Selected, %"),
      ...others.map((measure) => h("th", { scope: "col", title: measure.tooltip }, measure.heading)));
    parts = c.models.map(() => h("td", { class: "wc-measure" }));
    const most = Math.max(0.01, ...c.models.map((m) => m.accuracy?.[2] ?? m.accuracy?.[0] ?? 0));
    boxes = c.models.map((m) => h("input", {
      type: "checkbox", "aria-label": `Show ${m.key}, ${m.label}, below`, onchange: () => {
        const hidden = boxes.flatMap((box, i) => (box.checked ? [] : [c.models[i].label]));
        c.choose({ hidden: hidden.length === boxes.length ? [] : hidden });
      },
    }));
    const cell = (m, { name, kind }, more) => {
      const [write, measure] = [writers[kind], m[name]];
      return h("td", { class: "wc-measure", title: `${m.coverage[name]}${measure && measure[1] !== null ? `; interval ${range(measure[1], measure[2], write)}` : ""}${more ? `; ${more}` : ""}` },
        h("span", { class: "wc-number" }, m.infinite.includes(name) ? "∞" : measure ? write(measure[0]) : c.pairs ? DASH : "…"),
        measure && h("small", {}, range(measure[1], measure[2], write)),
        more && h("span", { class: "wc-spread" }, more.split(" between ")[0], h("small", {}, more.split(" between ")[1])));
    };
    body.replaceChildren(...c.models.map((m, i) => {
      const low = m.accuracy?.[1] ?? m.accuracy?.[0] ?? 0;
      const high = m.accuracy?.[2] ?? m.accuracy?.[0] ?? 0;
      const bar = h("i", { class: `wc-fill wc-lap${m.lap % 3}` });
      bar.style.setProperty("--wc-colour", m.colour);
      bar.style.width = `${(100 * (m.accuracy?.[0] ?? 0)) / most}%`;
      const whisker = h("i", { class: "wc-whisker" });
      whisker.style.left = `${(100 * low) / most}%`;
      whisker.style.width = `${(100 * (high - low)) / most}%`;
      return h("tr", {},
        h("th", { scope: "row" }, h("label", {}, boxes[i], chip(m), named(m))),
        h("td", { class: "wc-barcell", "aria-hidden": "true" }, h("span", { class: "wc-track" }, bar, whisker)),
        cell(m, first, m.spread), parts[i], ...others.map((measure) => cell(m, measure)));
    }));
    for (const column of [2, ...others.map((_, i) => i + 4)]) { // numbers of a column end at one place, before their intervals
      const numbers = [...body.rows].map((row) => row.cells[column].firstChild);
      const width = Math.max(...numbers.map((node) => node.textContent.length));
      for (const node of numbers) node.style.minWidth = `${width}ch`;
    }
  }
  function draw() {
    boxes.forEach((box, i) => { box.checked = !c.chosen.hidden.includes(c.models[i].label); });
    parts.forEach((cell, i) => {
      const [value, low, high] = c.selected.accuracy[i];
      const some = !c.selected.whole && value !== null;
      fill(cell, h("span", { class: "wc-number" }, some ? points(value) : DASH));
      cell.title = c.selected.whole ? "all items are listed" : `of the ${number(c.selected.n)} items listed below${some ? `; Wilson interval ${range(low, high, points)}` : ""}`;
    });
  }
  return { node, build, draw };
}

/** The matrix of differences, row minus column; a cell chooses the items that the row has right and the column wrong. */
function matrix(c) {
  const table = h("table", { role: "grid", "aria-label": "Differences in accuracy, row minus column", onkeydown: (e) => onKey(e) });
  const told = h("div", { class: "wc-told" });
  const scroll = h("div", { class: "wc-scroll" }, table);
  const node = h("div", { class: "wc-matrix" }, scroll, told);
  let cells = [];
  let at = [0, 1];
  let over = null;
  let roving = null; // the cell that Tab reaches
  let chosen = null; // the cell that is

  function pair(a, b) {
    const [low, high] = a < b ? [a, b] : [b, a];
    const found = c.pairs.get(`${low}:${high}`);
    if (!found) return null;
    const turn = a > b;
    const flip = (x) => (x === null ? null : -x);
    return {
      difference: turn ? flip(found.difference) : found.difference,
      low: turn ? flip(found.difference_high) : found.difference_low, high: turn ? flip(found.difference_low) : found.difference_high,
      test: found.test, p: found.p, holm: found.p_holm,
      only: turn ? found.n_only_b : found.n_only_a, other: turn ? found.n_only_a : found.n_only_b,
    };
  }
  function say(a, b, full) {
    const d = pair(a, b);
    const name = (k) => (full ? `${c.models[k].key} (${c.models[k].label})` : c.models[k].key);
    const interval = d.low === null ? "" : ` [${points(d.low)}, ${points(d.high)}]`;
    return `${name(a)} right, ${name(b)} wrong: ${number(d.only)} items; the other way: ${number(d.other)}. Difference ${signed(d.difference)} points${interval}; ${d.test} p ${pValue(d.p)}, Holm ${pValue(d.holm)}`;
  }
  function build() {
    scroll.hidden = c.models.length < 2 || !c.pairs;
    if (!c.pairs) return;
    const strong = (d) => d.holm !== null && d.holm < 0.05;
    const most = Math.max(0.02, ...[...c.pairs.values()].map((d) => Math.abs(d.difference)));
    cells = c.models.map(() => []);
    chosen = roving = null;
    const head = h("tr", { role: "row" }, h("td"), ...c.models.map((m) => h("th", { scope: "col", role: "columnheader" }, chip(m), h("span", { class: "wc-unseen" }, m.label))));
    const rows = c.models.map((m, a) => h("tr", { role: "row" },
      h("th", { scope: "row", role: "rowheader" }, h("span", {}, chip(m), named(m))),
      ...c.models.map((_, b) => {
        const d = a === b ? null : pair(a, b);
        if (!d) return h("td", { role: "gridcell", class: "wc-self", "aria-label": "the same model" });
        const cell = h("td", {
          role: "gridcell", tabindex: -1, "aria-selected": "false", class: `wc-cell${strong(d) ? " wc-sure" : ""}${d.difference < 0 ? " wc-less" : ""}`,
          "aria-label": say(a, b, true), title: say(a, b, true), "data-pair": `${c.models[a].key}${c.models[b].key}`,
          onclick: () => { at = [a, b]; rove(); toggle(); }, onmouseenter: () => { over = [a, b]; tell(); }, onmouseleave: () => { over = null; tell(); },
          onfocus: () => { over = [a, b]; tell(); }, onblur: () => { over = null; tell(); },
        }, signed(d.difference));
        cell.style.setProperty("--wc-much", `${Math.round(6 + 40 * Math.min(1, Math.abs(d.difference) / most))}%`);
        cells[a][b] = cell;
        return cell;
      })));
    table.replaceChildren(h("thead", {}, head), h("tbody", {}, ...rows));
    node.classList.toggle("wc-many", c.models.length > 8);
    rove();
  }
  function tell() {
    const two = over ?? c.pair;
    told.textContent = !c.pairs ? "Computing the differences …" : two ? say(two[0], two[1]) : c.models.length < 2 ? "One model: there is nothing to compare it with." : "Row minus column, points; bold: p < .05 (Holm). A click on a cell lists: row right, column wrong.";
  }
  function rove() {
    if (roving) roving.tabIndex = -1;
    roving = cells[at[0]]?.[at[1]];
    if (roving) roving.tabIndex = 0;
  }
  function toggle() {
    const same = c.pair && c.pair[0] === at[0] && c.pair[1] === at[1] && c.chosen.outcome === "only first";
    c.choose({ pair: same ? null : at.map((k) => c.models[k].label), outcome: "only first" });
  }
  function onKey(e) {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[e.key];
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    if (step) {
      e.preventDefault();
      let [a, b] = [at[0] + step[0], at[1] + step[1]];
      if (a === b) [a, b] = [a + step[0], b + step[1]]; // over the diagonal
      if (!cells[a]?.[b]) return;
      at = [a, b];
      rove();
      cells[a][b].focus({ preventScroll: true });
      cells[a][b].scrollIntoView({ block: "nearest", inline: "nearest" });
    } else if (e.key === "Enter" || e.key === " ") {
      e.preventDefault();
      toggle();
    }
  }
  function draw() {
    const two = c.pair;
    const now = two ? cells[two[0]]?.[two[1]] : null;
    for (const [cell, on] of [[chosen, false], [now, true]]) {
      cell?.classList.toggle("wc-on", on);
      cell?.setAttribute("aria-selected", String(on));
    }
    chosen = now;
    if (two && !table.contains(document.activeElement)) { at = two; rove(); }
    tell();
  }
  return { node, build, draw };
}
