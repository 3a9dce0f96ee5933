/* Models side by side. All data stays in the kernel: the models' measures, the rows in view and one passage travel.
   Text from the data reaches the page through textContent alone, never as HTML. */

const ROW = 44; // height of a list row in px, as in the style sheet
const HINT = "Click a cell of the matrix or a group of bars to filter; Esc removes the filter.";
const SORTS = [
  ["", "original order"], ["disagreement", "most disagreement first"], ["difference", "difference in ln p"],
  ["all wrong", "all wrong first"], ["only one right", "only one right first"], ["all right", "all right first"],
];
const KEYS = [
  ["j, ↓ / k, ↑", "next / previous item"], ["Page Down / Page Up", "ten items on / back"], ["Home / End", "first / last item"],
  ["/", "search"], ["f", "filter by a condition in SQL"], ["t", "the chart as a table"], ["← ↑ → ↓ in the matrix", "another pair of models"], ["Enter, space", "choose the cell, group or outcome"],
  ["Esc", "close what is open; then remove the last filter"], ["?", "this help"],
];

/** The button with a question mark, and the keys that it shows below itself. */
function keysHelp() {
  const button = h("button", { class: "wb-button wc-ask-keys", type: "button", "aria-label": "Keys", "aria-expanded": "false", title: "Keys (?)", onclick: () => open(panel.hidden) }, "?");
  const panel = h("div", { class: "wc-keys", role: "dialog", "aria-label": "Keys", hidden: true },
    h("b", {}, "Keys"), h("dl", {}, ...KEYS.map(([key, action]) => h("div", {}, h("dt", {}, h("kbd", {}, key)), h("dd", {}, action)))));
  let before = null;
  function open(on) {
    if (on) before = document.activeElement;
    panel.hidden = !on;
    button.setAttribute("aria-expanded", String(on));
    if (on) button.focus({ preventScroll: true });
    else before?.focus?.({ preventScroll: true });
  }
  return { node: h("span", { class: "wc-keys-anchor" }, button, panel), panel, open };
}

/** Number of listed items, and a chip to remove each choice. */
function chosenWords(c, inside) {
  const { s } = c;
  const count = listedCount(c);
  const chips = h("span", { class: "wc-chosen" });
  const hint = h("span", { class: "wb-hint" });
  const node = h("div", { class: "wb-chosen-words", tabindex: 0 }, count.node, chips, hint);
  function draw() {
    const focused = chips.contains(document.activeElement);
    const { words } = s;
    count.draw();
    fill(chips, ...words.map(([text, change], i) => h("button", {
      class: "wb-choice", type: "button", title: `${text} (click to remove it)`, "aria-label": `Remove: ${text}`, onclick: () => c.change(change),
    }, h("bdi", {}, ...[inside(text, i)].flat()), h("span", { "aria-hidden": "true" }, "\u2715"))));
    hint.textContent = !s.total ? "There are no items." : !s.n ? NO_ITEMS : words.length ? "" : HINT;
    if (focused) (chips.querySelector("button") ?? c.list).focus({ preventScroll: true });
  }
  return { node, draw };
}

/** The list with its order, its search, and one mark per model in each row. */
function markedList(c) {
  const { s } = c;
  const sort = h("select", { class: "wb-sort", "aria-label": "Sort by", onchange: () => c.change({ sort: sort.value }) });
  const two = ["of", "minus that of"].map((label, side) => h("select", { class: "wc-against", "aria-label": `ln p ${label}`, onchange: () => subtract(side) }));
  const minus = h("span", { class: "wc-minus", hidden: true }, two[0], MINUS, two[1]);
  const heads = h("div", { class: "wc-heads" });
  let wide = 34; // of a model's column, in px
  const { list } = itemList(c, {
    height: () => ROW, row, classes: (i) => ({ selected: i === s.index }),
    click(i) {
      c.select(i);
      list.focus({ preventScroll: true });
    },
  });
  const node = h("div", { class: "wc-items" }, h("div", { class: "wc-bar-head" }, h("label", {}, "Sort ", sort), minus, c.filters.search), heads, list);

  function subtract(side) {
    const pair = two.map((select) => select.value);
    const before = s.subtracted ?? [0, 1];
    if (pair[0] === pair[1]) pair[1 - side] = s.models[before[side]].label; // the other one gives way
    c.change({ pair });
  }
  function build() {
    for (const select of two) select.replaceChildren(...s.models.map((m) => h("option", { value: m.label }, stripBidi(`${m.key} ${m.label}`))));
  }
  function draw() {
    sort.replaceChildren(...SORTS.filter(([value]) => value !== "difference" || s.models.length > 1)
      .map(([value, label]) => h("option", { value }, value in s.counts ? `${label} (${number(s.counts[value])})` : label)));
    sort.value = s.state.sort;
    minus.hidden = s.state.sort !== "difference";
    s.subtracted?.forEach((k, i) => { two[i].value = s.models[k].label; });
    const dense = s.shown.length > 12;
    wide = s.shown.length <= 6 ? 34 : dense ? 18 : 26;
    node.style.setProperty("--wc-mark", `${wide}px`);
    node.parentElement.style.setProperty("--wc-marks", `${s.shown.length * wide}px`);
    node.classList.toggle("wc-dense", dense);
    heads.replaceChildren(h("span", { class: "wc-marks" }, ...s.shown.map((k) => chip(s.models[k]))),
      h("span", { class: "wb-hint", title: "■ the model is right (case is ignored); number: its rank of the answer, with = where words tie; ○: a rank from 100 in narrow columns, or none known" }, `■ right; number = rank of the answer (= means tied${dense ? ", ○ from 100" : ""})`));
    list.dataset.sorted = [s.state.sort, s.state.sort === "difference" && s.subtracted?.map((k) => s.models[k].key).join("")].filter(Boolean).join(" ");
    c.showList();
  }
  function fitting(before, after) { // so much of the text before that two lines show what stands out
    const room = Math.max(24, Math.floor((list.clientWidth - s.shown.length * wide - 30) / 7.2) * 2 - Math.min(after.length, 40));
    if (before.length <= room) return before;
    const tail = before.slice(-room);
    return `…${tail.slice(tail.indexOf(" ") + 1)}`;
  }
  function row({ id, text: [before, inside, after], hit, marks }) {
    const models = s.shown.map((k) => s.models[k]);
    const right = models.filter((_, j) => marks[j][0]).map((m) => m.key).join(", ") || "none";
    return {
      label: `${id}: right ${right}. ${before}${inside}${after}`,
      content: [
        h("span", { class: "wc-marks" }, ...marks.map(([correct, text, about], j) => {
          const m = models[j];
          const mark = h("span", { class: correct ? `wc-mark wc-right wc-lap${m.palette_round % 3}` : "wc-mark", title: `${m.key} ${m.label}: ${correct ? "right" : correct === null ? "not predicted" : "wrong"}${about && `, ${about}`}` }, text);
          if (correct) mark.style.setProperty("--wc-colour", m.colour);
          return mark;
        })),
        h("span", { class: "wb-snippet", dir: "auto" }, fitting(before, inside + after), h(hit ? "mark" : "b", {}, inside), after),
      ],
    };
  }
  return { node, build, draw };
}

/** The passage, and what each model expected in its blank. */
function answersPane(c) {
  const { s } = c;
  const node = h("div", { class: "wb-passage", role: "region", tabindex: 0, "aria-label": "Passage" });

  function card({ k, words, scores, correct, prediction, text }) {
    const m = s.models[k];
    const bars = words.map(([word, length, inside, answer, value]) => {
      const bar = h("i", {});
      bar.style.width = `${Math.max(0.5, 100 * length)}%`;
      return h("li", { class: `${inside ? "wc-inside" : "wc-outside"}${answer ? " wc-answer" : ""}`, title: `${word}: ${scores ? "score " : ""}${value}; ${inside ? "in the passage" : "not in the passage"}` },
        h("bdi", {}, word), h("span", {}, bar), h("em", {}, value));
    });
    return h("section", { class: `wc-card${correct ? " wc-hit" : ""}`, "aria-label": `${m.key}, ${m.label}: ${correct ? "right" : "wrong"}` },
      h("header", {}, chip(m), named(m), h("span", { class: "wc-verdict", title: "compared with the answer; case is ignored" }, correct ? "right" : "wrong")),
      h("div", { class: "wc-rank" }, text), !words.length && h("p", {}, "Prediction: ", h("b", {}, h("bdi", {}, prediction ?? DASH))), h("ol", {}, ...bars),
      scores && h("small", {}, "scores, not probabilities"));
  }
  function draw() {
    const p = s.passage;
    if (!p) {
      node.replaceChildren(h("div", { class: "wb-empty" }, "No item selected."));
      return;
    }
    const pieces = (side) => passagePieces(side ? p.query : p.context, shadesOf(p, side, true), true, (text) => h("b", { class: "wc-target", title: "the target" }, text || (p.answer ?? "?")));
    const letter = (name) => `${s.models.find((m) => m.label === name).key} ${name}`;
    const focused = document.activeElement?.matches(".wb-look") && node.contains(document.activeElement);
    const scroll = node.dataset.id === p.id ? node.scrollTop : 0;
    node.dataset.id = p.id;
    fill(node,
      h("div", { class: "wb-meta" }, h("b", {}, p.id), ...p.kind.map((text) => h("bdi", {}, text)), h("span", {}, `${p.models.filter((m) => m.correct).length} of ${p.models.length} right`),
        (p.attention.length > 0 || p.shadings.length > 0) && h("label", {}, "shade by ", shadesChoice(c, p, letter)), askAbout(c, p)),
      h("p", { class: "wc-text", dir: "auto" }, ...pieces(0), p.context.length > 0 && " ", h("span", { class: "wc-query" }, ...pieces(1))),
      p.shades && shadesLegend(p.shades),
      p.candidates && h("div", { class: "wc-facts" }, "Candidates: ", h("bdi", {}, p.candidates.join(", "))),
      p.models.some((m) => m.words.length) && h("div", { class: "wc-legend" }, h("i", { class: "wc-inside" }), "in the passage", h("i", { class: "wc-outside" }), "not in it", h("i", { class: "wc-answer" }), "the answer", p.scale && h("span", {}, `scale of probabilities: ${p.scale}`)),
      h("div", { class: "wc-cards" }, ...p.models.map(card)),
      p.facts.length > 0 && h("dl", { class: "wc-facts" }, ...p.facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value || DASH)))));
    c.noted();
    node.scrollTop = scroll;
    if (focused) node.querySelector(".wb-look")?.focus({ preventScroll: true });
  }
  return { node, draw };
}

function render({ model, el }) {
  const s = {
    state: { facets: {}, where: "", search: "", hidden: [] }, fields: [], models: [], measures: [], pairs: null, warnings: [], total: 0, baseline: null, note: "", words: [], cell: null, selected: null, shown: [], counts: {},
    version: -1, n: 0, index: -1, rows: new Map(), asked: null, passage: null, asks: false, code: "", origin: "", example: "",
  };
  const c = { s, uid: `wc${Math.random().toString(36).slice(2, 9)}` };

  // ---- the frame of the widget
  c.filters = filterBoxes(c, () => ({ search: c.filters.search.value }));
  const { line, search, completions } = c.filters;
  c.valuesOf = (name) => (name === s.state.column ? s.slices.groups.flatMap(({ facet }) => (facet?.length === 1 ? facet : [])) : []);
  /** Choose the items that two models have right or wrong; null removes the choice. */
  c.chooseOutcome = (pair, rights, changes = {}) => {
    const none = Object.fromEntries(s.models.map(({ label }) => [`${label}: correct`, null]));
    const cell = Object.fromEntries((pair ?? []).map((k, i) => [`${s.models[k].label}: correct`, [rights[i]]]));
    c.choose({ ...cell, ...none, ...cell }, changes); // the first model of the pair first
  };
  const summary = chosenWords(c, (text) => {
    if (text !== s.cell_text) return text;
    const [a, b] = s.cell.map((k) => s.models[k]);
    const words = { "only first": ["right,", "wrong"], "both right": ["and", "both right"], "both wrong": ["and", "both wrong"] }[s.cell[2]];
    return [chip(a), ` ${words[0]} `, chip(b), ` ${words[1]}`];
  });
  const note = h("span", { class: "wc-note", role: "status", hidden: true });
  const clear = h("button", { class: "wb-button wc-clear", type: "button", disabled: true, onclick: () => { search.value = ""; c.change({ search: "", where: "", facets: {}, pair: null }); } }, "Clear");
  const keys = keysHelp();
  const copying = copier(el, "Copy this view", () => s.code, "Copy the line of Python that shows this view again");
  const strip = h("button", { class: "wc-strip", type: "button", hidden: true, "aria-expanded": "false", onclick: () => open(warned.hidden) });
  const warned = h("ul", { class: "wc-warned", tabindex: 0, hidden: true, "aria-label": "Warnings" });
  const { node: alarm, complain } = errorBanner();
  const sections = { summary, table: modelTable(c), matrix: matrix(c), selected: selection(c), slices: slices(c), items: markedList(c), passage: answersPane(c) };
  const root = h("div", { class: "wb-root wc-compare", role: "region", "aria-label": "Comparison of models", tabindex: -1, onkeydown: (e) => onKey(e) },
    h("div", { class: "wc-body" }, h("div", { class: "wc-head" }, summary.node, note, clear, keys.node), h("div", { class: "wb-typed" }, h("label", {}, "Filter ", line), copying, completions), strip, warned, alarm,
      h("div", { class: "wc-top" }, sections.table.node, sections.matrix.node), sections.selected.node, sections.slices.node,
      h("div", { class: "wc-main" }, sections.items.node, sections.passage.node)));
  root.style.setProperty("--wc-height", `${model.get("height")}px`);
  el.append(root);
  Object.assign(c, { noted: pieceNotes(sections.passage.node.closest(".wc-body"), sections.passage.node) });
  Object.assign(c, { root, complain, view: sections.passage.node, drawPassage: sections.passage.draw, redraw: draw });

  function open(on) {
    warned.hidden = !on;
    strip.setAttribute("aria-expanded", String(on));
  }
  function drawWarnings() {
    const [first, ...further] = s.warnings;
    strip.hidden = !first;
    strip.replaceChildren(h("b", { "aria-hidden": "true" }, "⚠"), h("span", {}, stripBidi(first ?? "")), h("u", {}, further.length ? `${further.length} more` : "show"));
    warned.replaceChildren(...s.warnings.map((text) => h("li", {}, stripBidi(text))));
  }
  function setNote(text) {
    s.note = text;
    note.textContent = text;
    note.hidden = !text;
  }
  function draw() {
    if (s.version < 0) return;
    clear.disabled = !s.words.length;
    root.firstChild.classList.toggle("wc-with-baseline", Boolean(s.baseline));
    for (const section of Object.values(sections)) section.draw();
  }

  // ---- keys
  function back(target) { // one step: what is open, the search, the bars, the cell
    const first = s.words.at(-1);
    if (!keys.panel.hidden) keys.open(false);
    else if (!warned.hidden) open(false);
    else if (target === line && line.value) {
      line.value = "";
      c.change({ where: "" });
    } else if (target === search && search.value) c.change({ search: "" });
    else if (sections.slices.node.contains(target) && sections.slices.clear()) return;
    else if (s.cell) c.chooseOutcome(null);
    else if (first) c.change(first[1]);
  }
  const goes = (e) => e.target === c.list || "/f?".includes(e.key) || (e.key === "t" && e.target.tagName !== "SELECT") || (["j", "k"].includes(e.key) && !e.target.closest("table, select"));
  const onKey = keysOf(c, { "?": () => keys.open(keys.panel.hidden), t: () => sections.slices.tabulate() }, back, goes);

  // ---- what the kernel says
  let opening = true;
  c.follow = () => {
    draw();
    if (opening) { // intervals and pairs take the kernel a while: they come when the rest is seen
      opening = false;
      requestAnimationFrame(() => setTimeout(() => c.send({ type: "measure" })));
    }
  };
  return shareState(c, model, root, complain, {
    whole(m) {
      Object.assign(s, m);
      sections.table.build();
      sections.matrix.build();
      sections.items.build();
      root.style.setProperty("--wc-models", s.models.length);
      root.firstChild.classList.toggle("wc-single", s.models.length < 2);
      drawWarnings();
      setNote(m.note);
      draw();
    },
    note(m) {
      setNote(m.text);
      if (s.version >= 0) sections.slices.draw();
    },
    scatter(m) {
      if (c.answered("scatter")) sections.slices.scatter.take(m);
    },
    picked() {
      c.answered("pick");
    },
    asked(m) {
      c.answered("ask");
      complain("");
      saySent(c, m.id);
    },
  });
}

export default { render };
