/* The passage browser. All data stays in the kernel; only the rows in view and one passage travel.
   Text from the data reaches the page through textContent alone, never as HTML. */

const CHIPS = 5; // filters that are in sight beside the chosen ones

function render({ model, el }) {
  const uid = `wb${Math.random().toString(36).slice(2, 9)}`;
  const s = {
    state: { facets: {}, where: "", reveal: false, table: false }, fields: [], facets: {}, names: {}, titles: {}, sorts: [], columns: [], n: 0, total: 0, version: -1, index: -1, passage: null, rows: new Map(), asked: null,
    shown: false, waiting: false, open: null, labels: [], words: [], code: "", origin: "", example: "", asks: false, annotating: null, picked: new Set(), columnsBefore: true,
  };
  const c = { s, uid, drawBar, drawPassage, redraw: () => charts?.draw(), inTable: () => s.state.table !== false, openTags: () => panels.tags() };

  // ---- the frame of the widget
  const field = h("select", { class: "wb-field", "aria-label": "Search in", onchange: () => refilter() },
    ...["passage", "sentence", "answer"].map((name) => h("option", { value: name }, `in ${name}`)));
  const regex = toggle(".*", "Regular expression (RE2 syntax)", () => refilter());
  c.filters = filterBoxes(c, () => ({ search: c.filters.search.value, field: field.value, regex: on(regex) }));
  const { search, line, completions } = c.filters;
  // Values that would give hidden targets away are not offered
  c.valuesOf = (name) => (s.facets[name]?.kind === "choice" && (s.state.reveal || !s.facets[name].telling) ? s.facets[name].bins.map(([facet]) => facet[0]) : []);
  c.status = listedCount(c);
  const reset = h("button", { class: "wb-button", type: "button", title: "Remove search and filters", onclick: () => c.clearAll() }, "Clear");
  const sort = h("select", { class: "wb-sort", "aria-label": "Sort by", title: "Sort by", onchange: () => c.change({ sort: sort.value }) });
  const way = h("button", { class: "wb-button", type: "button", onclick: () => c.change({ sort: descends() ? sort.value : `-${sort.value}` }) });
  const reveal = toggle("Show targets", "Show every target from the start", () => c.change({ reveal: on(reveal) }));
  const table = toggle("Table", "Show the list as a table", () => c.change({ table: on(table) && s.columnsBefore }));
  c.exports = h("button", { class: "wb-button", type: "button", "aria-haspopup": "dialog", title: "Copy this view as a line of Python, or download the listed items", onclick: () => panels.exports() }, "Export");
  c.copyView = copier(el, "Copy this view", () => s.code, "Copy the line of Python that builds this view again");
  c.helper = h("button", { class: "wb-button", type: "button", "aria-label": "Keyboard help", title: "Keyboard help", onclick: () => panels.help() }, "?");
  c.columnsButton = h("button", { class: "wb-button", type: "button", "aria-haspopup": "dialog", title: "Choose the columns of the table (c)", onclick: () => panels.columns() }, "Columns");
  const bar = h("div", { class: "wb-facets", role: "group", "aria-label": "Filters" });
  const { node: alarm, complain } = errorBanner();
  const progress = h("div", { class: "wb-progress", role: "status", hidden: true });
  const items = listingOf(c);
  const { list } = c;
  const view = h("div", { class: "wb-passage", role: "region", tabindex: 0, "aria-label": "Passage" });
  Object.assign(c, { bar, view, complain, picking: items.picking, left: () => { s.shown = s.state.reveal; } });
  const charts = typeof chartsOf === "undefined" ? null : chartsOf(c);
  const panels = panelsOf(c);
  const root = h("div", { class: "wb-root wb-browser", role: "region", "aria-label": "Passage browser", onkeydown: (e) => onKey(e) },
    h("div", { class: "wb-top" }, ...[search, field, regex, h("span", { class: "wb-sorting" }, sort, way), !charts && reset, reveal, table, c.exports, c.helper].filter(isNode)),
    bar, h("div", { class: "wb-typed" }, line, completions), alarm, progress, h("div", { class: "wb-main" }, items.node, view), panels.node);
  root.style.setProperty("--wb-height", `${model.get("height")}px`);
  const noted = pieceNotes(root, view);
  const outer = charts ? h("div", { class: "we-explore" }, charts.node, root) : root;
  el.append(outer);
  Object.assign(c, {
    root, ranges: items.ranges, clearAll() {
      panels.close();
      search.value = "";
      c.clear();
    },
  });

  function toggle(label, title, act) {
    const button = h("button", { class: "wb-button", type: "button", title, "aria-label": title, "aria-pressed": "false" }, label);
    button.addEventListener("click", () => {
      press(button, !on(button));
      act();
    });
    return button;
  }
  function press(button, value) { button.setAttribute("aria-pressed", String(value)); }
  function on(button) { return button.getAttribute("aria-pressed") === "true"; }
  function refilter() { c.change({ search: search.value, field: field.value, regex: on(regex) }); }
  function descends() { return (s.state.sort ?? "").startsWith("-"); }
  function drawSort() {
    const by = (s.state.sort ?? "").replace(/^-/, "");
    const columns = s.sorts.includes(by) || !by ? s.sorts : [by, ...s.sorts];
    sort.replaceChildren(h("option", { value: "" }, "original order"), ...columns.map((name) => h("option", { value: name }, `by ${s.names[name]}`)));
    sort.value = by;
    way.hidden = !by;
    way.textContent = descends() ? "▼" : "▲";
    way.title = descends() ? "Descending: the greatest value first" : "Ascending: the least value first";
    way.setAttribute("aria-label", way.title);
  }
  /** The filters that are chosen, then five others; a button has the rest. */
  function drawBar() {
    const focused = bar.contains(document.activeElement) ? document.activeElement.dataset : null;
    const names = Object.keys(s.facets);
    const chosen = names.filter((name) => s.facets[name].text);
    const others = names.filter((name) => !s.facets[name].text);
    const analyse = s.annotating?.state === "idle" && s.total > 0 && h("button", {
      class: "wb-button wb-analyse", type: "button", title: "Find class, mentions and direct speech of the targets in the background; they become filters",
      onclick: () => c.ask("annotate", { type: "annotate" }),
    }, "Analyse targets");
    const room = charts ? 0 : CHIPS; // charts are filters
    const further = others.length > room && h("button", {
      class: "wb-facet wb-more", type: "button", "aria-haspopup": "dialog", "aria-expanded": String(s.open === "(filters)"), onclick: () => (s.open === "(filters)" ? panels.close() : panels.filters(others.slice(room))),
    }, h("span", {}, `${number(others.length - room)} more filters`), h("span", { "aria-hidden": "true" }, "▾"));
    fill(bar, ...chosen.map((name) => h("span", { class: "wb-chosen" }, c.facetChip(name), h("button", {
      class: "wb-remove", type: "button", "data-removes": name, title: "Remove this filter", "aria-label": `Remove: ${s.facets[name].text}`, onclick: () => c.choose({ [name]: null }),
    }, "\u2715"))), ...others.slice(0, room).map(c.facetChip), further, analyse);
    bar.hidden = !bar.children.length;
    if (focused?.name) bar.querySelector(`[data-name="${CSS.escape(focused.name)}"]`)?.focus({ preventScroll: true });
    else if (focused?.removes) (bar.querySelector(`[data-removes="${CSS.escape(focused.removes)}"]`) ?? bar.querySelector(".wb-remove") ?? list).focus({ preventScroll: true });
  }
  c.facetChip = (name) => {
    const facet = s.facets[name];
    const text = facet.text ?? facet.label;
    return h("button", {
      class: `wb-facet${facet.text ? " wb-on" : ""}`, type: "button", title: [text, facet.tooltip].filter(Boolean).join("\n"), "data-name": name, "aria-haspopup": "dialog",
      "aria-expanded": String(s.open === name), onclick: () => (s.open === name ? panels.close() : panels.facet(name)),
    }, h("span", { class: "wb-facet-name" }, text), h("span", { "aria-hidden": "true" }, "▾"));
  };
  function drawProgress() {
    const { state = "idle", done = 0, total = 0, problem = "" } = s.annotating ?? {};
    progress.hidden = state !== "running" && state !== "failed";
    progress.classList.toggle("wb-failed", state === "failed");
    if (state === "running") {
      const meter = h("progress", { max: total, "aria-label": "Items analysed" });
      if (done) meter.value = done;
      fill(progress, h("span", {}, "Analysing targets"), meter, h("span", {}, `${number(done)} of ${number(total)} items`));
    } else if (state === "failed") {
      fill(progress, h("span", {}, stripBidi(problem)), h("button", { class: "wb-button", type: "button", onclick: () => c.ask("annotate", { type: "annotate" }) }, "Try again"));
    }
  }

  // ---- the passage
  function drawPassage() {
    const p = s.passage;
    if (!p) {
      view.replaceChildren(h("div", { class: "wb-empty" }, s.total ? "No item to show." : "There are no items here."));
      return;
    }
    const blank = () => h("button", {
      class: "wb-blank", type: "button", "aria-label": s.shown ? `Target: ${p.answer ?? "unknown"}` : "Hidden target; press space to show it",
      title: "space shows or hides the target", onclick: () => flip(),
    }, s.shown ? p.answer ?? "?" : "\u00a0");
    // Shades are shown with the target
    const words = (pieces, side) => passagePieces(pieces, shadesOf(p, side, s.shown), s.shown, (_text, letters) => {
      const node = blank();
      if (letters.includes("s")) node.classList.add("wb-s");
      return node;
    });
    const readable = () => [p.context, p.query].filter((pieces) => pieces.length)
      .map((pieces) => pieces.map(([text, letters]) => (letters.includes("b") ? (s.shown ? p.answer ?? "_____" : "_____") : text)).join("")).join(p.context.at(-1)?.[0].endsWith("\n") ? "" : " ");
    const copy = (text, label) => copier(root, text, () => text, `Copy ${label}`, "wb-copy");
    const right = s.shown ? p.answer : null;
    const first = s.labels.slice(0, 9);
    const tags = [...first.map((tag, i) => h("button", {
      class: "wb-tag", type: "button", "data-key": i + 1, "data-tag": tag, "aria-pressed": String(p.tags.includes(tag)), title: `${tag}: key ${i + 1} adds or removes it`, onclick: () => tagAs(i),
    }, tag)), ...p.tags.filter((tag) => !first.includes(tag)).map((tag) => h("span", { class: "wb-tag" }, tag))];
    fill(view,
      h("div", { class: "wb-meta" }, h("span", { class: "wb-place" }, `${number(s.index + 1)} of ${number(s.n)}`), copy(p.id, "id"), p.source && copy(p.source, "source"),
        ...p.kind.map((text) => h("span", { class: "wb-kind" }, text)),
        h("span", { class: "wb-acts" }, copier(root, "Copy text", readable, "Copy the readable text; a hidden target stays a blank"), askAbout(c, p))),
      p.context.length > 0 && h("div", { class: "wb-context", dir: "auto" }, ...words(p.context, 0)),
      h("div", { class: "wb-target" }, h("div", { class: "wb-query", dir: "auto" }, ...words(p.query, 1)),
        p.candidates && h("div", { class: "wb-candidates" }, h("span", { class: "wb-hint", id: `${uid}-cand` }, "Candidates"), h("ul", { "aria-labelledby": `${uid}-cand` },
          ...p.candidates.map((word) => h("li", { class: word === right ? "wb-right" : "" }, word))))),
      s.shown && p.shades && shadesLegend(p.shades),
      h("div", { class: "wb-marks" },
        h("button", { class: "wb-button", type: "button", "data-opens": "t", onclick: () => panels.tags() }, "Tags (t)"), ...tags,
        h("button", { class: "wb-button", type: "button", "data-opens": "n", onclick: () => panels.note() }, "Note (n)"), p.note && h("span", { class: "wb-note", dir: "auto" }, p.note)),
      ...extras(p));
    noted();
  }
  function extras(p) {
    if (!p.columns.length && !p.predictions.length && !p.shadings.length) return [];
    if (!s.shown) return [h("div", { class: "wb-hint" }, "Show the target (space) to see what is known about it.")];
    const cells = (row, tag) => h("tr", {}, ...row.map((cell) => h(tag, { scope: tag === "th" ? "col" : null }, cell)));
    return [
      ...(p.predictions.length ? [h("table", { class: "wb-table", "aria-label": "Predictions" },
        cells(["model", "prediction", "outcome", "rank", "ln p"], "th"), ...p.predictions.map((row) => cells(row, "td")))] : []),
      ...(p.attention.length || p.shadings.length ? [h("label", { class: "wb-hint" }, "Shade by ", shadesChoice(c, p))] : []),
      ...(p.columns.length ? [h("dl", { class: "wb-columns" }, ...p.columns.flatMap(([name, value]) => [h("dt", { title: name }, s.names[name] ?? name), h("dd", { dir: "auto" }, value)]))] : []),
    ];
  }
  function flip() {
    const focused = view.contains(document.activeElement);
    s.shown = !s.shown;
    // The passage that this is meant for is on its way
    if (s.waiting) return;
    drawPassage();
    if (focused) view.querySelector(".wb-blank")?.focus({ preventScroll: true });
  }
  // The item, or all that are selected
  function tagAs(i) {
    if (!s.labels[i] || s.index < 0 || s.waiting) return;
    const ranges = items.ranges();
    c.ask("mark", { type: "tag", version: s.version, ranges: ranges.length ? ranges : [[s.index, s.index + 1]], tags: [s.labels[i]] });
  }

  // ---- keys
  const digits = Object.fromEntries(Array.from({ length: 9 }, (_, i) => [i + 1, () => tagAs(i)]));
  const acts = {
    " ": () => flip(), c: () => panels.columns(), "?": () => panels.help(),
    x: () => items.toggle(), t: () => panels.tags(), n: () => panels.note(), ...digits,
  };
  const escape = () => {
    if (s.open === null) items.none();
    panels.closeTo(list);
  };
  // The passage scrolls by other keys
  const reads = /^[jk /fctnx?1-9]$/;
  const onListKey = keysOf(c, acts, escape, (e) => !e.target.matches("select, input") && (e.target !== view || reads.test(e.key)));
  function onKey(e) {
    if (e.key === "a" && (e.ctrlKey || e.metaKey) && e.target === list) {
      e.preventDefault();
      e.stopPropagation();
      items.all();
    } else onListKey(e);
  }

  // ---- what the kernel says
  c.before = (m) => {
    if (m.version !== s.version) s.picked.clear();
    if (m.passage?.id !== s.passage?.id || m.state.reveal !== s.state.reveal) s.shown = m.state.reveal;
  };
  c.follow = (m, newest) => {
    if (m.state.table !== false) s.columnsBefore = m.state.table;
    if (newest) {
      field.value = m.state.field;
      press(regex, m.state.regex);
      press(reveal, m.state.reveal);
      press(table, c.inTable());
    }
    root.dataset.layout = c.inTable() ? "table" : "list";
    c.status.draw();
    reset.disabled = !m.words.length;
    items.drawHead();
    items.drawPicking();
    drawSort();
    drawBar();
    drawProgress();
    panels.drawFacet();
    charts?.draw();
    c.showList();
    drawPassage();
  };
  return shareState(c, model, outer, complain, {
    marked(m) {
      c.answered("mark");
      Object.assign(s, { facets: m.facets, labels: m.labels });
      if (s.passage?.id === m.id) Object.assign(s.passage, { tags: m.tags, note: m.note });
      for (const row of s.rows.values()) {
        if (row.id !== m.id) continue;
        Object.assign(row, { tags: m.tags, note: Boolean(m.note) });
        if (row.cells && s.columns.includes("tags")) row.cells[s.columns.indexOf("tags")] = m.tags.join(", ");
      }
      drawBar();
      charts?.draw();
      items.drawPicking();
      c.resetList();
      c.drawList();
      drawPassage();
    },
    annotating(m) {
      c.answered("annotate");
      s.annotating = m;
      if (m.charts && s.charts) {
        s.charts = m.charts;
        charts.draw();
      }
      drawBar();
      drawProgress();
    },
    asked(m) {
      c.answered("ask");
      complain("");
      saySent(c, m.id);
    },
    file(m, buffers) {
      c.answered("export");
      download(m.name, buffers[0]);
    },
  });
}

export default { render };
