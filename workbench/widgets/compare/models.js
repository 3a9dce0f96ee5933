/* The models: their table, the matrix of their differences, and two of them on the listed items. */

const DETECTABLE = "the least true difference, in points, that this test, not corrected, finds with a power of 80 % (minimum detectable effect); of a difference that is not significant";

/** The letter of a model on its colour; those after the eighth are ringed, after the sixteenth striped. */
function chip(model) {
  const node = h("span", { class: `wc-chip wc-lap${model.palette_round % 3}`, title: model.label, "aria-hidden": "true" }, model.key);
  node.style.setProperty("--wc-colour", model.colour);
  return node;
}

/** A model's name, which may hold anything. */
const named = (model) => h("bdi", { class: "wc-name", title: model.label }, model.name);

/** A bar of a model's colour with its interval: lengths are parts of the axis, `sides` the properties for start and length. */
function coloured(model, [value, low, high], [start, length]) {
  const bar = h("i", { class: `wc-fill wc-lap${model.palette_round % 3}` });
  bar.style.setProperty("--wc-colour", model.colour);
  bar.style[length] = `${100 * value}%`;
  const whisker = h("i", { class: "wc-whisker" });
  whisker.style[start] = `${100 * low}%`;
  whisker.style[length] = `${100 * (high - low)}%`;
  return [bar, whisker];
}

/** The table of the models: one row each, with measures and intervals, and whether it is shown below. */
function modelTable(c) {
  const { s } = c;
  const body = h("tbody");
  const head = h("tr");
  const node = h("div", { class: "wc-models", role: "region", "aria-label": "Models", tabindex: 0 }, h("table", { "aria-label": "Models" }, h("thead", {}, head), body));
  let boxes = [];
  let accuracyCells = []; // accuracies on the listed items, with a heading, where these are not all
  let accuracyHead = null;

  function build() {
    const [first, ...further] = s.measures;
    const heading = ([text, tooltip], props = {}) => h("th", { scope: "col", title: tooltip, ...props }, text);
    accuracyHead = heading(["Selected, %", "Share of right answers among the listed items, with its Wilson interval"]);
    head.replaceChildren(heading(["Model", "Ticked models are shown below"]), heading(first, { colspan: 2 }), // bars, and the numbers beside them
      accuracyHead, ...further.map((measure) => heading(measure)));
    accuracyCells = s.models.map(() => h("td", { class: "wc-measure" }));
    boxes = s.models.map((m) => h("input", {
      type: "checkbox", "aria-label": `Show ${m.key}, ${m.label}, below`, onchange: () => {
        const hidden = boxes.flatMap((box, i) => (box.checked ? [] : [s.models[i].label]));
        c.change({ hidden: hidden.length === boxes.length ? [] : hidden });
      },
    }));
    const cell = ([value, interval, about], spread) => h("td", { class: "wc-measure", title: [about, spread].filter(Boolean).join("; ") },
      h("span", { class: "wc-number" }, value), h("small", {}, interval),
      spread && h("span", { class: "wc-spread" }, spread.split(" between ")[0], h("small", {}, spread.split(" between ")[1])));
    body.replaceChildren(...s.models.map((m, i) => h("tr", {},
      h("th", { scope: "row" }, h("label", {}, boxes[i], chip(m), named(m))),
      h("td", { class: "wc-barcell", "aria-hidden": "true" }, h("span", { class: "wc-track" }, ...coloured(m, m.bar, ["left", "width"]))),
      cell(m.measures[0], m.spread), accuracyCells[i], ...m.measures.slice(1).map((measure) => cell(measure)))));
    for (const column of [2, ...further.map((_, i) => i + 4)]) { // numbers of a column end at one place, before their intervals
      const numbers = [...body.rows].map((row) => row.cells[column].firstChild);
      const width = Math.max(...numbers.map((text) => text.textContent.length));
      for (const text of numbers) text.style.minWidth = `${width}ch`;
    }
  }
  function draw() {
    boxes.forEach((box, i) => { box.checked = !s.state.hidden.includes(s.models[i].label); });
    accuracyHead.hidden = s.selected.whole;
    accuracyCells.forEach((cell, i) => {
      const [value, interval] = s.selected.accuracy[i] ?? [DASH, ""];
      cell.hidden = s.selected.whole;
      fill(cell, h("span", { class: "wc-number" }, value.replace(" %", "")));
      cell.title = [`of the ${number(s.selected.n)} items listed below`, interval].filter(Boolean).join("; ");
    });
  }
  return { node, build, draw };
}

/** The matrix of differences, row minus column; a cell chooses the items that the row has right and the column wrong. */
function matrix(c) {
  const { s } = c;
  const table = h("table", { role: "grid", "aria-label": "Differences in accuracy, row minus column", onkeydown: (e) => onKey(e) });
  const details = h("div", { class: "wc-about" });
  const scroll = h("div", { class: "wc-scroll" }, table);
  const select = h("select", { "aria-label": "Baseline", onchange: () => c.change({ baseline: select.value }) });
  const against = differences(c);
  const node = h("div", { class: "wc-matrix" }, h("label", { class: "wc-baseline" }, "Baseline ", select), scroll, against.node, details);
  let cells = [];
  let focus = [0, 1];
  let over = null;
  let roving = null; // the cell that Tab reaches
  let chosen = null; // the cell that is

  const describe = (a, b, name) => `${name(s.models[a])} right, ${name(s.models[b])} wrong${s.pairs[a][b].about}`;
  const full = (model) => `${model.key} (${model.label})`;
  function build() {
    select.replaceChildren(h("option", { value: "" }, "none: every pair of models"), ...s.models.map((m) => h("option", { value: m.label }, stripBidi(`${m.key} ${m.label}`))));
    select.parentElement.hidden = s.models.length < 2;
    scroll.hidden = s.models.length < 2 || !s.pairs;
    if (!s.pairs) return;
    cells = s.models.map(() => []);
    chosen = roving = null;
    const head = h("tr", { role: "row" }, h("td"), ...s.models.map((m) => h("th", { scope: "col", role: "columnheader" }, chip(m), h("span", { class: "wc-unseen" }, m.label))));
    const rows = s.models.map((m, a) => h("tr", { role: "row" },
      h("th", { scope: "row", role: "rowheader" }, h("span", {}, chip(m), named(m))),
      ...s.models.map((_, b) => {
        const d = s.pairs[a][b];
        if (!d) return h("td", { role: "gridcell", class: "wc-self", "aria-label": "the same model" });
        const cell = h("td", {
          role: "gridcell", tabindex: -1, "aria-selected": "false", class: `wc-cell${d.sure ? " wc-sure" : ""}${d.less ? " wc-less" : ""}`,
          "aria-label": describe(a, b, full), title: describe(a, b, full), "data-pair": `${s.models[a].key}${s.models[b].key}`,
          onclick: () => { focus = [a, b]; rove(); toggle(); }, onmouseenter: () => { over = [a, b]; drawDetails(); }, onmouseleave: () => { over = null; drawDetails(); },
          onfocus: () => { over = [a, b]; drawDetails(); }, onblur: () => { over = null; drawDetails(); },
        }, d.text);
        cell.style.setProperty("--wc-much", `${Math.round(6 + 40 * d.size)}%`);
        cells[a][b] = cell;
        return cell;
      })));
    table.replaceChildren(h("thead", {}, head), h("tbody", {}, ...rows));
    node.classList.toggle("wc-many", s.models.length > 8);
    rove();
  }
  function drawDetails() {
    const two = over ?? s.cell;
    const base = s.baseline && s.models[s.baseline.k].key;
    details.textContent = base ? `Accuracy of the model minus that of ${base}, in points (bold: p < .05, Holm). Improvements: only the model is right; regressions: only ${base} is.` : !s.pairs ? "Computing the differences …" : two ? describe(two[0], two[1], (model) => model.key) : "Accuracy of the row minus that of the column, in points (bold: p < .05, Holm). Click: items only the row got right.";
  }
  function rove() {
    if (roving) roving.tabIndex = -1;
    roving = cells[focus[0]]?.[focus[1]];
    if (roving) roving.tabIndex = 0;
  }
  function toggle() {
    const same = String(s.cell) === String([...focus, "only first"]);
    c.chooseOutcome(same ? null : focus, [true, false]);
  }
  function onKey(e) {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[e.key];
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    if (step) {
      e.preventDefault();
      let [a, b] = [focus[0] + step[0], focus[1] + step[1]];
      if (a === b) [a, b] = [a + step[0], b + step[1]]; // over the diagonal
      if (!cells[a]?.[b]) return;
      focus = [a, b];
      rove();
      cells[a][b].focus({ preventScroll: true });
      cells[a][b].scrollIntoView({ block: "nearest", inline: "nearest" });
    } else if (e.key === "Enter" || e.key === " ") {
      e.preventDefault();
      toggle();
    }
  }
  function draw() {
    const two = s.cell;
    select.value = s.state.baseline;
    scroll.hidden = s.models.length < 2 || !s.pairs || Boolean(s.baseline);
    against.draw();
    const shownCell = two ? cells[two[0]]?.[two[1]] : null;
    for (const [cell, on] of [[chosen, false], [shownCell, true]]) {
      cell?.classList.toggle("wc-on", on);
      cell?.setAttribute("aria-selected", String(on));
    }
    chosen = shownCell;
    if (two && !table.contains(document.activeElement)) { focus = two.slice(0, 2); rove(); }
    drawDetails();
  }
  return { node, build, draw };
}

/** The models as their differences from the baseline; a button lists the items that only one of the two has right. */
function differences(c) {
  const { s } = c;
  const HEADS = [
    ["Model"], ["Difference", "accuracy of the model minus that of the baseline, in percentage points, with its interval"],
    ["Regressions", "items that the baseline has right and the model wrong"], ["Improvements", "items that the model has right and the baseline wrong"],
    ["p (Holm)", "corrected for the number of models"],
  ];
  const body = h("tbody");
  const detectable = h("th", { scope: "col", title: DETECTABLE }, "Smallest detectable difference");
  const table = h("table", {}, h("thead", {}, h("tr", {}, ...HEADS.map(([text, title]) => h("th", { scope: "col", title }, text)), detectable)), body);
  const node = h("div", { class: "wc-scroll wc-differences", hidden: true }, table);

  function row({ k, difference, p, mde, sure, less, about, ...counts }) {
    const m = s.models[k];
    const button = (word, right, wrong) => {
      const on = String(s.cell) === String([right, wrong, "only first"]);
      return h("td", {}, h("button", {
        type: "button", class: "wc-cell-button", "aria-pressed": String(on), "data-flips": `${m.key} ${word}`,
        "aria-label": `${number(counts[word])} ${word} of ${m.key}, ${m.label}`, title: `${s.models[right].label} right, ${s.models[wrong].label} wrong`,
        onclick: () => c.chooseOutcome(on ? null : [right, wrong], [true, false]),
      }, number(counts[word])));
    };
    return h("tr", {}, h("th", { scope: "row" }, h("span", {}, chip(m), named(m))),
      h("td", { class: `${sure ? "wc-sure" : ""}${less ? " wc-less" : ""}`, title: about }, difference),
      button("regressions", s.baseline.k, k), button("improvements", k, s.baseline.k), h("td", { title: about }, p), h("td", { class: "wc-detectable", title: mde[1], hidden: detectable.hidden }, mde[0] || DASH));
  }
  function draw() {
    node.hidden = !s.baseline;
    if (!s.baseline) return;
    const base = s.models[s.baseline.k];
    const focus = node.contains(document.activeElement) ? document.activeElement.dataset.flips : null;
    detectable.hidden = !s.baseline.rows.some(({ mde }) => mde[0]);
    table.setAttribute("aria-label", stripBidi(`Differences in accuracy from ${base.key}, ${base.label}`));
    body.replaceChildren(...s.baseline.rows.map(row));
    if (focus) node.querySelector(`[data-flips="${focus}"]`)?.focus({ preventScroll: true });
  }
  return { node, draw };
}

/** Two models on all items and on those that are listed: numbers, and the four cells of right and wrong. */
function selection(c) {
  const { s } = c;
  const CELLS = [["any", null], ["only first", [true, false]], ["only second", [false, true]], ["both right", [true, true]], ["both wrong", [false, false]]];
  const REMARKS = {
    exploratory: "The items were chosen after a look at the results: p values are exploratory.",
    "by outcome": "The items were chosen by the outcome of these models: there is nothing to test.",
  };
  const body = h("tbody");
  const heads = h("tr");
  const cells = h("div", { class: "wc-cells", role: "group", "aria-label": "Outcomes of two models" });
  const node = h("section", { class: "wc-selected-part", "aria-label": "Numbers of the listed items" },
    h("div", { class: "wc-numbers", role: "region", tabindex: 0, "aria-label": "Numbers of two models" }, h("table", { "aria-label": "Numbers of two models" }, h("thead", {}, heads), body)), cells);

  function draw() {
    const { two, rows, cells: counts } = s.selected;
    const [a, b] = (two ?? [0]).map((k) => s.models[k]);
    const detectable = rows.some(({ difference }) => difference?.[3][0]);
    const head = (title, ...content) => h("th", { scope: "col", title }, ...content);
    heads.replaceChildren(h("td"), head(null, "items"), ...(two ? [a, b] : [a]).map((model) => head(model.label, chip(model), h("span", { class: "wc-unseen" }, model.label))),
      ...(two ? [head("difference of the accuracies in percentage points, with its interval", `${a.key} ${MINUS} ${b.key}, points`),
        head("not corrected for the number of pairs", "p"), detectable && head(DETECTABLE, "smallest detectable difference"), head(null, h("span", { class: "wc-unseen" }, "remark"))].filter(isNode) : []));
    fill(body, ...rows.map(({ name, n, shares, difference, remark }) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, number(n)),
      ...shares.map(([share, interval]) => h("td", { title: interval }, share)),
      ...(difference ? [h("td", {}, difference[0]), h("td", { title: difference[2] }, difference[1]), detectable && h("td", { title: difference[3][1] }, difference[3][0] || DASH),
        h("td", { class: "wc-mark-exploratory" }, remark && h("em", { title: REMARKS[remark] }, remark))].filter(isNode) : []))));
    cells.hidden = !two;
    if (!two) return;
    cells.setAttribute("aria-label", `Outcomes of ${a.label} and ${b.label}`);
    const focus = cells.contains(document.activeElement) ? document.activeElement.dataset.outcome : null;
    const chosen = s.cell ? s.cell[2] : s.state.pair ? "any" : "";
    cells.replaceChildren(...CELLS.map(([outcome, rights]) => {
      const on = outcome === chosen;
      const [first, second] = (rights ?? []).map((right) => (right ? "right" : "wrong"));
      const text = outcome === "any" ? "all outcomes" : outcome.startsWith("both") ? outcome : `${a.key} ${first}, ${b.key} ${second}`;
      const title = outcome === "any" ? `${a.label} and ${b.label}, all outcomes` : `${a.label} ${first}, ${b.label} ${second}`;
      return h("button", {
        type: "button", class: "wc-cell-button", "data-outcome": outcome, "aria-pressed": String(on), title: `${title}: ${number(counts[outcome])} items`,
        onclick: () => c.chooseOutcome(on || !rights ? null : two, rights, outcome === "any" ? { pair: on ? null : [a.label, b.label] } : {}),
      }, text, h("small", {}, number(counts[outcome])));
    }));
    if (focus) cells.querySelector(`[data-outcome="${focus}"]`)?.focus({ preventScroll: true });
  }
  return { node, draw };
}
