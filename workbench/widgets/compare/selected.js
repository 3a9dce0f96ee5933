/** Two models on all items and on those that are listed: numbers, and the four cells of right and wrong. */
function selection(c) {
  const CELLS = [["any", "all"], ["only first", "right", "wrong"], ["only second", "wrong", "right"], ["both right", "right", "right"], ["both wrong", "wrong", "wrong"]];
  const body = h("tbody");
  const heads = h("tr");
  const cells = h("div", { class: "wc-cells", role: "group", "aria-label": "Outcomes of two models" });
  const node = h("section", { class: "wc-selected-part", "aria-label": "Numbers of the listed items" },
    h("div", { class: "wc-numbers", role: "region", tabindex: 0, "aria-label": "Numbers of two models" }, h("table", { "aria-label": "Numbers of two models" }, h("thead", {}, heads), body)), cells);

  const share = (value) => (value === null || value === undefined ? DASH : `${points(value)} %`);
  const interval = (low, high) => (low === null || low === undefined ? "" : ` [${signed(low)}, ${signed(high)}]`);

  function row(name, n, shares, d, mark) {
    const p = d && d.p;
    return h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, number(n)),
      ...shares.map(([value, low, high]) => h("td", { title: low === null ? null : `Wilson interval ${points(low)} to ${points(high)} %` }, share(value))),
      ...(d ? [h("td", {}, d.difference === null ? DASH : `${signed(d.difference)}${interval(d.difference_low, d.difference_high)}`),
        h("td", { title: d.test }, p === null ? DASH : pValue(p)),
        h("td", { class: "wc-mark-exploratory" }, mark)] : shares.length > 1 ? [h("td", {}, "…"), h("td", {}, "…"), h("td")] : []));
  }
  function draw() {
    const s = c.selected;
    if (!s) return;
    const at = s.two ?? [0];
    const [a, b] = at.map((k) => c.models[k]);
    heads.replaceChildren(h("td"), h("th", { scope: "col" }, "items"), ...at.map((k) => h("th", { scope: "col", title: c.models[k].label }, chip(c.models[k]))),
      ...(s.two ? [h("th", { scope: "col", title: "difference of the accuracies in percentage points, with the interval of the paired bootstrap" }, `${a.key} ${MINUS} ${b.key}, points`), h("th", { scope: "col", title: "not corrected for the number of pairs" }, "p"), h("th", { scope: "col" }, h("span", { class: "wc-unseen" }, "remark"))] : []));
    let whole = null;
    if (s.two && c.pairs) {
      const turn = at[0] > at[1];
      const found = c.pairs.get(turn ? `${at[1]}:${at[0]}` : `${at[0]}:${at[1]}`);
      const flip = (x) => (x === null ? null : -x);
      whole = turn ? { ...found, difference: flip(found.difference), difference_low: flip(found.difference_high), difference_high: flip(found.difference_low) } : found;
    }
    const chosenCell = c.pair && c.chosen.outcome !== "any"; // then difference and p follow from the choice
    const listed = s.two && (chosenCell ? { ...s, p: null, difference_low: null } : s);
    const why = "The items were chosen after a look at the results: p values are exploratory.";
    fill(body, row("all", c.total, at.map((k) => c.models[k].accuracy ?? [null, null, null]), whole, ""),
      row("selected", s.n, at.map((k) => s.accuracy[k]), s.whole && whole ? whole : listed,
        s.whole ? "" : chosenCell ? h("em", { title: "The items were chosen by the outcome of these models: there is nothing to test." }, "by outcome") : h("em", { title: why }, "exploratory")));
    cells.hidden = !s.two;
    if (!s.two) return;
    cells.setAttribute("aria-label", `Outcomes of ${a.label} and ${b.label}`);
    const focus = cells.contains(document.activeElement) ? document.activeElement.dataset.outcome : null;
    cells.replaceChildren(...CELLS.map(([outcome, first, second]) => {
      const on = Boolean(c.pair) && c.chosen.outcome === outcome;
      const text = outcome === "any" ? "all outcomes" : outcome.startsWith("both") ? outcome : `${a.key} ${first}, ${b.key} ${second}`;
      const full = outcome === "any" ? `${a.label} and ${b.label}, all outcomes` : `${a.label} ${first}, ${b.label} ${second}`;
      return h("button", {
        type: "button", class: "wc-cell-button", "data-outcome": outcome, "aria-pressed": String(on), title: `${full}: ${number(s.cells[outcome])} items`,
        onclick: () => c.choose(on ? { pair: null, outcome: "only first" } : { pair: [a.label, b.label], outcome }),
      }, text, h("small", {}, number(s.cells[outcome])));
    }));
    if (focus) cells.querySelector(`[data-outcome="${focus}"]`)?.focus({ preventScroll: true });
  }
  return { node, draw };
}
