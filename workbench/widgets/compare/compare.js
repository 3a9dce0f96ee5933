/* All data stays in the kernel: the models' measures, the rows in view and one passage travel. */

function render({ model, el }) {
  const c = {
    models: [], measures: [], pairs: null, warnings: [], total: 0, note: "", chosen: model.get("chosen"), column: "", columns: [], labels: {},
    slices: [], sliced: 0, shown: [], against: null, selected: null, outcome: "", typed: "", counts: {}, pair: null, version: -1, n: 0, index: -1, rows: new Map(), asked: null, passage: null, asks: false, code: "",
    choose, ask: (...request) => ask(...request),
  };

  // ---- talking to the kernel
  let opening = true;
  let kept = { chosen: c.chosen, column: "" }; // the state as the kernel last told it
  let want = {}; // parts of the state that were chosen here and are not yet answered
  function choose(parts, column) {
    want = { ...want, ...parts };
    c.chosen = { ...c.chosen, ...parts };
    if (column !== undefined) c.column = column;
    ask("choose", { type: "choose", chosen: { ...want }, ...(c.column ? { column: c.column } : {}) });
  }

  // ---- the frame of the widget
  const said = h("div", { class: "wc-said", tabindex: 0, role: "status", "aria-live": "polite" }, "…");
  const note = h("span", { class: "wc-note", role: "status", hidden: true });
  const clear = h("button", { class: "wc-button wc-clear", type: "button", disabled: true, onclick: () => choose({ pair: null, outcome: "only first", bins: {}, query: "", where: "" }) }, "Clear");
  const keys = keysHelp();
  const copying = copyButton("Copy this view", "Copy the line of Python that shows this view again", () => c.code, () => root);
  const strip = h("button", { class: "wc-strip", type: "button", hidden: true, "aria-expanded": "false", onclick: () => open(warned.hidden) });
  const warned = h("ul", { class: "wc-warned", tabindex: 0, hidden: true, "aria-label": "Warnings" });
  const { node: alarm, complain } = alarmOf("wc-alarm");
  const parts = { filter: filterLine(c, copying), table: modelTable(c), matrix: matrix(c), selected: selection(c), slices: slices(c), items: itemList(c), passage: passageView(c) };
  const root = h("div", { class: "wc-compare", tabindex: -1, onkeydown: (e) => onKey(e) },
    h("div", { class: "wc-body" }, h("div", { class: "wc-head" }, said, note, clear, keys.node), parts.filter.node, strip, warned, alarm,
      h("div", { class: "wc-top" }, parts.table.node, parts.matrix.node), parts.selected.node, parts.slices.node,
      h("div", { class: "wc-main" }, parts.items.node, parts.passage.node)));
  root.style.setProperty("--wc-height", `${model.get("height")}px`);
  el.append(root);
  const { send, ask, answered, heard: rest, end } = lineTo(model, root, complain);

  function open(on) {
    warned.hidden = !on;
    strip.setAttribute("aria-expanded", String(on));
  }
  function drawWarnings() {
    const [first, ...more] = c.warnings;
    strip.hidden = !first;
    strip.replaceChildren(h("b", { "aria-hidden": "true" }, "⚠"), h("span", {}, calm(first ?? "")), h("u", {}, more.length ? `${more.length} more` : "show"));
    warned.replaceChildren(...c.warnings.map((text) => h("li", {}, calm(text))));
  }
  function drawSaid() {
    const { chosen } = c;
    const chips = [];
    const off = (label, title, act) => chips.push(h("button", { class: "wc-choice", type: "button", title, "aria-label": `${title}; remove this filter`, onclick: act }, h("span", {}, ...label), h("span", { "aria-hidden": "true" }, "✕")));
    if (c.pair) {
      const [a, b] = c.pair.map((k) => c.models[k]);
      const words = { "only first": ["right,", "wrong"], "only second": ["wrong,", "right"], "both right": ["and", "both right"], "both wrong": ["and", "both wrong"], any: ["and", "all outcomes"] }[chosen.outcome];
      off([chip(a), ` ${words[0]} `, chip(b), ` ${words[1]}`], c.outcome, () => choose({ pair: null, outcome: "only first" }));
    }
    for (const [column, keys] of Object.entries(chosen.bins)) {
      const title = c.columns.find(([name]) => name === column)?.[1] ?? column;
      const text = `${title}: ${keys.map((key) => c.labels[column]?.[key] ?? key).join(" or ")}`;
      off([text], text, () => {
        const bins = { ...c.chosen.bins };
        delete bins[column];
        choose({ bins });
      });
    }
    if (chosen.where.trim()) off([chosen.where.trim()], chosen.where.trim(), () => choose({ where: "" }));
    if (chosen.query.trim()) off([`“${chosen.query.trim()}”`], `passage contains “${chosen.query.trim()}”`, () => choose({ query: "" }));
    clear.disabled = !chips.length;
    said.replaceChildren(h("b", { class: "wc-count" }, `${number(c.n)} of ${number(c.total)}`), "items",
      ...(chips.length ? chips : [h("span", { class: "wc-hint" }, "Click a cell of the matrix or a group of bars to filter; Esc removes the filter.")]));
  }
  function drawNote() {
    note.textContent = c.note;
    note.hidden = !c.note;
  }

  function drawAll() {
    if (c.version < 0) return;
    drawSaid();
    parts.filter.draw();
    parts.table.draw();
    parts.matrix.draw();
    parts.selected.draw();
    parts.slices.draw();
    parts.items.view();
    parts.passage.draw();
  }

  // ---- keys
  function onKey(e) {
    const typing = /^(TEXTAREA|SELECT)$/.test(e.target.tagName) || (e.target.tagName === "INPUT" && e.target.type !== "checkbox");
    // a plain key is for the widget alone: outside, "d d" deletes the cell
    if (!e.ctrlKey && !e.metaKey && !e.altKey) e.stopPropagation();
    if (e.key === "Escape") {
      e.preventDefault();
      back(e.target);
      return;
    }
    const { items, filter } = parts;
    const writing = typing && e.target.tagName !== "SELECT";
    if (e.key === "?" && !writing && !e.ctrlKey && !e.metaKey && !e.altKey) {
      e.preventDefault();
      keys.open(keys.panel.hidden);
      return;
    }
    if (e.target === filter.input && e.key === "Enter") {
      e.preventDefault();
      filter.apply();
      return;
    }
    if (e.target === items.search && (e.key === "ArrowDown" || e.key === "Enter")) {
      e.preventDefault();
      items.list.focus({ preventScroll: true });
      return;
    }
    if (typing || e.ctrlKey || e.metaKey || e.altKey) return;
    if (e.key === "/") {
      e.preventDefault();
      items.search.focus({ preventScroll: true });
      items.search.select();
      return;
    }
    if (e.key === "f") {
      e.preventDefault();
      filter.input.focus({ preventScroll: true });
      filter.input.select();
      return;
    }
    if (e.target !== items.list && !(["j", "k"].includes(e.key) && !e.target.closest("table"))) return;
    const acts = {
      j: () => items.select(c.index + 1), ArrowDown: () => items.select(c.index + 1), k: () => items.select(c.index - 1), ArrowUp: () => items.select(c.index - 1),
      PageDown: () => items.select(c.index + 8), PageUp: () => items.select(c.index - 8), Home: () => items.select(0), End: () => items.select(c.n - 1),
    };
    if (acts[e.key]) {
      e.preventDefault();
      acts[e.key]();
    }
  }
  function back(target) { // one step: what is open, the search, the bars, the cell
    if (!keys.panel.hidden) keys.open(false);
    else if (!warned.hidden) open(false);
    else if (target === parts.filter.input && parts.filter.input.value) { parts.filter.input.value = ""; parts.filter.apply(); }
    else if (target === parts.items.search && parts.items.search.value) choose({ query: "" });
    else if (parts.slices.node.contains(target) && parts.slices.clear()) return;
    else if (c.chosen.pair) choose({ pair: null, outcome: "only first" });
    else if (Object.keys(c.chosen.bins).length) choose({ bins: {} });
    else if (c.chosen.query) choose({ query: "" });
    else if (c.chosen.where) choose({ where: "" });
  }

  // ---- what the kernel says
  const heard = {
    whole(m) {
      Object.assign(c, { models: m.models, measures: m.measures, warnings: m.warnings, total: m.total, note: m.note, asks: m.asks });
      c.pairs = m.pairs && new Map(m.pairs.map((pair) => [`${pair.a}:${pair.b}`, pair]));
      parts.table.build();
      parts.matrix.build();
      parts.items.build();
      drawWarnings();
      drawNote();
      drawAll();
    },
    view(m) {
      const newest = answered("choose");
      if (newest) want = {};
      kept = { chosen: m.chosen, column: m.column };
      const chosen = newest ? m.chosen : { ...m.chosen, ...want }; // the reader has gone on: the boxes are theirs
      Object.assign(c, {
        chosen, column: newest ? m.column : c.column, columns: m.columns, labels: m.labels, slices: m.slices, sliced: m.sliced, shown: m.shown,
        against: m.against, selected: m.selected, outcome: m.outcome, typed: m.typed, counts: m.counts, version: m.version, n: m.n, index: m.index, passage: m.passage, asked: null, code: m.code,
      });
      const place = (label) => c.models.findIndex((one) => one.label === label);
      c.pair = m.chosen.pair ? m.chosen.pair.map(place) : null;
      c.rows = new Map(m.rows.map((row, i) => [m.start + i, row]));
      const { search } = parts.items;
      if (newest && search.value.trim() !== chosen.query.trim()) search.value = chosen.query;
      complain("");
      drawAll();
      if (opening) { // intervals and pairs take the kernel a while: they come when the rest is seen
        opening = false;
        requestAnimationFrame(() => setTimeout(() => send({ type: "measure" })));
      }
    },
    rows(m) {
      answered("rows");
      c.asked = null;
      if (m.version !== c.version) return;
      m.rows.forEach((row, i) => c.rows.set(m.start + i, row));
      parts.items.draw();
    },
    passage(m) {
      if (!answered("show")) return;
      if (m.version !== c.version) return;
      c.index = m.index;
      c.passage = m.passage;
      parts.items.reach(c.index);
      parts.items.mark();
      parts.passage.draw();
    },
    note(m) {
      c.note = m.text;
      drawNote();
      if (c.version >= 0) parts.slices.draw();
    },
    suggestions(m) {
      answered("suggest");
      parts.filter.suggest(m.texts);
    },
    scatter(m) {
      if (answered("scatter")) parts.slices.scatter.take(m);
    },
    picked() {
      answered("pick");
    },
    asked() {
      answered("ask");
      c.note = "The item is in the ask widget.";
      drawNote();
    },
    error(m) {
      const typed = m.lane === "choose" && "where" in want;
      if (m.lane && answered(m.lane) && m.lane === "choose") { // refused, so not drawn
        want = {};
        Object.assign(c, kept);
        if (typed) parts.filter.refuse(refusal(m.message));
        drawAll();
      }
      if (m.lane !== "suggest" && !typed) complain(m.message);
    },
  };
  const listen = (message) => {
    rest();
    if (alarm.textContent === SILENCE) complain("");
    heard[message.type]?.(message);
  };
  const sized = new ResizeObserver(() => parts.items.drawSoon());
  model.on("msg:custom", listen);
  sized.observe(parts.items.list);
  ask("choose", { type: "open" });
  return () => {
    end();
    sized.disconnect();
    model.off("msg:custom", listen);
  };
}

export default { render };
