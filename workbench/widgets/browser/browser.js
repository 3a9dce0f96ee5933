/* The passage browser. All data stays in the kernel; only the rows in view and one passage travel.
   Text from the data reaches the page through textContent alone, never as HTML. */

function render({ model, el }) {
  const uid = `wb${Math.random().toString(36).slice(2, 9)}`;
  const s = {
    state: { reveal: false, table: false }, facets: {}, names: {}, titles: {}, columns: [], n: 0, total: 0, version: -1, index: -1, passage: null, rows: new Map(), asked: null,
    shown: false, waiting: false, open: null, labels: [], words: [], code: "", asks: false, annotating: null, picked: new Set(), columnsBefore: true,
  };
  const c = { s, uid, change, choose, chosen, drawBar, inTable: () => s.state.table !== false, pickedRanges: () => items.ranges(), openTags: () => panels.tags() };

  // ---- the frame of the widget
  const search = h("input", {
    type: "search", class: "wb-search", placeholder: "Search (ignores case)", "aria-label": "Search items", spellcheck: "false",
    title: "Search the items; matching ignores case", oninput: () => refilter(),
  });
  const field = h("select", { class: "wb-field", "aria-label": "Search in", onchange: () => refilter() },
    ...["passage", "sentence", "answer"].map((name) => h("option", { value: name }, `in ${name}`)));
  const regex = toggle(".*", "Regular expression (RE2 syntax)", () => refilter());
  const count = h("span", { class: "wb-count", role: "status", "aria-live": "polite" }, "…");
  const reset = h("button", { class: "wb-button", type: "button", title: "Remove search and filters", onclick: () => c.clear() }, "Clear");
  const sort = h("select", { class: "wb-sort", "aria-label": "Sort by", title: "Sort by", onchange: () => change({ sort: sort.value }) });
  const way = h("button", { class: "wb-button", type: "button", onclick: () => change({ sort: descends() ? sort.value : `-${sort.value}` }) });
  const reveal = toggle("Show targets", "Show every target from the start", () => {
    change({ reveal: on(reveal) });
  });
  const table = toggle("Table", "Show the list as a table", () => {
    change({ table: on(table) && s.columnsBefore });
  });
  c.download = h("button", { class: "wb-button", type: "button", "aria-haspopup": "dialog", title: "Download the listed items", onclick: () => panels.files() }, "Download");
  const copyView = copier("Copy this view", () => s.code, "Copy the line of Python that builds this view again");
  c.helper = h("button", { class: "wb-button", type: "button", "aria-label": "Keyboard help", title: "Keyboard help", onclick: () => panels.help() }, "?");
  c.columnsButton = h("button", { class: "wb-button", type: "button", "aria-haspopup": "dialog", title: "Choose the columns of the table (c)", onclick: () => panels.columns() }, "Columns");
  const bar = h("div", { class: "wb-facets", role: "group", "aria-label": "Filters" });
  const line = h("input", {
    class: "wb-line", type: "text", spellcheck: "false", autocomplete: "off", "aria-label": "Filter by a condition",
    role: "combobox", "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": `${uid}-choices`,
    oninput: suggest, onkeydown: onLineKey, onblur: () => drawChoices(null), onchange: () => submit(),
  });
  const choices = h("ul", { class: "wb-choices", role: "listbox", id: `${uid}-choices`, "aria-label": "Completions", hidden: true });
  const { node: alarm, complain } = alarmOf("wb-alarm");
  const progress = h("div", { class: "wb-progress", role: "status", hidden: true });
  const items = listingOf(c);
  const { list } = items;
  const view = h("div", { class: "wb-passage", role: "region", tabindex: 0, "aria-label": "Passage" });
  Object.assign(c, { bar, list, view, picking: items.picking });
  const charts = typeof chartsOf === "undefined" ? null : chartsOf(c);
  const panels = panelsOf(c);
  const root = h("div", { class: "wb-browser", onkeydown: (e) => onKey(e) },
    h("div", { class: "wb-top" }, search, field, regex, h("span", { class: "wb-sorting" }, sort, way), count, reset, reveal, table, c.helper),
    bar, h("div", { class: "wb-typed" }, line, copyView, c.download, choices), alarm, progress, h("div", { class: "wb-main" }, items.node, view), panels.node);
  root.style.setProperty("--wb-height", `${model.get("height")}px`);
  const outer = charts ? h("div", { class: "we-explore" }, charts.node, root) : root;
  el.append(outer);
  const { ask, answered, drop, busy, heard: rest, end } = lineTo(model, outer, complain);
  Object.assign(c, { root, ask });

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
  /** A button that copies what `text()` returns, and says so. */
  function copier(label, text, title, kind = "wb-button wb-copier") {
    return h("button", {
      class: kind, type: "button", title,
      onclick: async (e) => {
        const button = e.currentTarget;
        const done = await copyText(text(), root);
        button.dataset.done = done ? "copied" : "press Ctrl+C";
        setTimeout(() => delete button.dataset.done, 1200);
      },
    }, label);
  }

  // ---- the state: what was changed here and is not yet answered is sent again with each change
  let want = { state: {}, choose: {} };
  function query() { ask("query", { type: "query", state: { ...want.state }, choose: { ...want.choose } }); }
  function change(parts) {
    Object.assign(want.state, parts);
    query();
  }
  /** Choose bins or a range of a column; null removes its choice. */
  function choose(name, choice) {
    want.choose[name] = choice;
    query();
  }
  function chosen(name) {
    const { keys, excluded, range = null, bins, starts, ends } = s.facets[name];
    if (!(name in want.choose)) return { keys, excluded, range };
    const wanted = { keys: [], range: null, ...want.choose[name] };
    const at = starts && bins.flatMap(([key], i) => (wanted.keys.includes(key) ? [i] : []));
    if (at?.length) wanted.range = [starts[at[0]], ends[at.at(-1)]];
    return { ...wanted, excluded: Boolean(wanted.exclude) };
  }
  function forget() { want = { state: {}, choose: {} }; }
  c.clear = () => {
    panels.close();
    forget();
    search.value = "";
    change({ query: "", where: "" });
  };
  function refilter() { change({ query: search.value, field: field.value, regex: on(regex) }); }
  function descends() { return (s.state.sort ?? "").startsWith("-"); }
  function drawSort() {
    const by = (s.state.sort ?? "").replace(/^-/, "");
    sort.replaceChildren(h("option", { value: "" }, "original order"), ...Object.entries(s.names).map(([name, label]) => h("option", { value: name }, `by ${label}`)));
    sort.value = by;
    way.hidden = !by;
    way.textContent = descends() ? "▼" : "▲";
    way.title = descends() ? "Descending: the greatest value first" : "Ascending: the least value first";
    way.setAttribute("aria-label", way.title);
  }
  function drawBar() {
    const focused = bar.contains(document.activeElement) ? document.activeElement.dataset.name : null;
    const analyse = s.annotating?.state === "idle" && s.total > 0 && h("button", {
      class: "wb-button wb-analyse", type: "button", title: "Find class, mentions and direct speech of the targets in the background; they become filters",
      onclick: () => ask("annotate", { type: "annotate" }),
    }, "Analyse targets");
    fill(bar, ...Object.keys(s.facets).map((name) => {
      const facet = s.facets[name];
      const text = facet.text ?? facet.label;
      return h("button", {
        class: `wb-facet${facet.text ? " wb-on" : ""}`, type: "button", title: [text, facet.tooltip].filter(Boolean).join("\n"), "data-name": name, "aria-haspopup": "dialog",
        "aria-expanded": String(s.open === name), onclick: () => (s.open === name ? panels.close() : panels.facet(name)),
      }, h("span", { class: "wb-facet-name" }, text), h("span", { "aria-hidden": "true" }, "▾"));
    }), analyse);
    bar.hidden = !bar.children.length;
    if (focused) bar.querySelector(`[data-name="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }
  function drawProgress() {
    const { state = "idle", done = 0, total = 0, problem = "" } = s.annotating ?? {};
    progress.hidden = state !== "running" && state !== "failed";
    progress.classList.toggle("wb-failed", state === "failed");
    if (state === "running") {
      const meter = h("progress", { max: total, "aria-label": "Items analysed" });
      if (done) meter.value = done;
      fill(progress, h("span", {}, "Analysing targets"), meter, h("span", {}, `${number(done)} of ${number(total)} items`));
    } else if (state === "failed") {
      fill(progress, h("span", {}, calm(problem)), h("button", { class: "wb-button", type: "button", onclick: () => ask("annotate", { type: "annotate" }) }, "Try again"));
    }
  }

  // ---- the condition that is typed
  let completed = null; // {start, cursor, choices, at}
  function suggest() { ask("suggest", { type: "suggest", text: line.value, cursor: line.selectionStart }); }
  function submit() {
    drawChoices(null);
    if (line.value.trim() !== s.state.where) change({ where: line.value });
    else if (line.getAttribute("aria-invalid") === "true") { // back to the valid one
      complain("");
      line.setAttribute("aria-invalid", "false");
    }
  }
  function drawChoices(found) {
    const before = completed?.choices[completed.at]; // chosen by an arrow while the answer was under way
    completed = found?.choices.length ? { at: -1, ...found } : null;
    choices.hidden = !completed;
    line.setAttribute("aria-expanded", String(Boolean(completed)));
    line.setAttribute("aria-activedescendant", "");
    fill(choices, ...(completed?.choices ?? []).map((text, i) => h("li", {
      role: "option", id: `${uid}-choice-${i}`, "aria-selected": "false", onmousedown: (e) => { e.preventDefault(); complete(i); },
    }, text)));
    if (before && completed?.choices.includes(before)) move(completed.choices.indexOf(before) + 1);
  }
  function move(step) {
    const n = completed.choices.length;
    completed.at = (completed.at + step + (completed.at < 0 && step < 0 ? 1 : 0) + n) % n;
    [...choices.children].forEach((node, i) => node.setAttribute("aria-selected", String(i === completed.at)));
    choices.children[completed.at].scrollIntoView({ block: "nearest" });
    line.setAttribute("aria-activedescendant", `${uid}-choice-${completed.at}`);
  }
  function complete(i) {
    const { start, choices: words } = completed;
    drawChoices(null);
    line.setRangeText(`${words[i]} `, start, line.selectionStart, "end"); // also what was typed since it was asked
    suggest();
  }
  function onLineKey(e) {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    if (completed && (e.key === "ArrowDown" || e.key === "ArrowUp")) move(e.key === "ArrowDown" ? 1 : -1);
    else if (completed && (e.key === "Tab" || e.key === "Enter") && completed.at >= 0) complete(completed.at);
    else if (e.key === "Enter") submit();
    else if (e.key === "Escape" && completed) drawChoices(null);
    else return;
    e.preventDefault();
    e.stopPropagation();
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
    const most = s.shown && p.weights ? Math.max(1e-12, ...p.weights.flat()) : 0; // attention is shown with the target
    const words = (segments, weights) => segments.map(([text, kinds], i) => {
      const weight = most > 0 ? weights[i] : null;
      if (kinds.includes("b")) {
        const node = blank();
        if (kinds.includes("s")) node.classList.add("wb-s");
        return node;
      }
      // underlined mentions would give a hidden target away; speech is not tinted beside attention
      const marks = [...kinds].filter((kind) => (kind !== "m" || s.shown) && (kind !== "s" || !most));
      if (!marks.length && weight === null) return text;
      const node = h("span", { class: marks.map((kind) => `wb-${kind}`).join(" ") }, text);
      if (weight !== null) {
        node.classList.add("wb-weighed");
        node.title = `attention ${Number(weight.toPrecision(2))}`;
        node.style.setProperty("--wb-weight", `${Math.round((60 * weight) / most)}%`);
      }
      return node;
    });
    const readable = () => [p.context, p.query].filter((part) => part.length)
      .map((part) => part.map(([text, kinds]) => (kinds.includes("b") ? (s.shown ? p.answer ?? "_____" : "_____") : text)).join("")).join(p.context.at(-1)?.[0].endsWith("\n") ? "" : " ");
    const copy = (text, label) => copier(text, () => text, `Copy ${label}`, "wb-copy");
    const asking = s.asks
      ? h("button", { class: "wb-button", type: "button", title: "Put the item into the widget of wb.ask", onclick: () => ask("ask", { type: "ask", id: p.id }) }, "Ask about this")
      : copier("Ask about this", () => `wb.ask(models, items[${JSON.stringify(p.id)}])`, "Copy a line of Python that asks models about this item");
    const right = s.shown ? p.answer : null;
    const first = s.labels.slice(0, 9);
    const tags = [...first.map((tag, i) => h("button", {
      class: "wb-tag", type: "button", "data-key": i + 1, "data-tag": tag, "aria-pressed": String(p.tags.includes(tag)), title: `${tag}: key ${i + 1} adds or removes it`, onclick: () => tagAs(i),
    }, tag)), ...p.tags.filter((tag) => !first.includes(tag)).map((tag) => h("span", { class: "wb-tag" }, tag))];
    fill(view,
      h("div", { class: "wb-meta" }, h("span", { class: "wb-place" }, `${number(s.index + 1)} of ${number(s.n)}`), copy(p.id, "id"), p.source && copy(p.source, "source"),
        ...p.kind.map((kind) => h("span", { class: "wb-kind" }, kind)),
        h("span", { class: "wb-acts" }, copier("Copy text", readable, "Copy the readable text; a hidden target stays a blank"), asking)),
      p.context.length > 0 && h("div", { class: "wb-context", dir: "auto" }, ...words(p.context, p.weights?.[0])),
      h("div", { class: "wb-target" }, h("div", { class: "wb-query", dir: "auto" }, ...words(p.query, p.weights?.[1])),
        p.candidates && h("div", { class: "wb-candidates" }, h("span", { class: "wb-hint", id: `${uid}-cand` }, "Candidates"), h("ul", { "aria-labelledby": `${uid}-cand` },
          ...p.candidates.map((word) => h("li", { class: word === right ? "wb-right" : "" }, word))))),
      h("div", { class: "wb-marks" },
        h("button", { class: "wb-button", type: "button", "data-opens": "t", onclick: () => panels.tags() }, "Tags (t)"), ...tags,
        h("button", { class: "wb-button", type: "button", "data-opens": "n", onclick: () => panels.note() }, "Note (n)"), p.note && h("span", { class: "wb-note", dir: "auto" }, p.note)),
      ...extras(p));
  }
  function extras(p) {
    if (!p.columns.length && !p.predictions.length) return [];
    if (!s.shown) return [h("div", { class: "wb-hint" }, "Show the target (space) to see what is known about it.")];
    const look = h("select", { class: "wb-look", "aria-label": "Attention of", onchange: () => change({ attention: look.value }) },
      h("option", { value: "" }, "no model"), ...p.attention.map((name) => h("option", { value: name }, name)));
    look.value = p.attention.includes(s.state.attention) ? s.state.attention : "";
    const cells = (row, tag) => h("tr", {}, ...row.map((cell) => h(tag, { scope: tag === "th" ? "col" : null }, cell)));
    return [
      ...(p.predictions.length ? [h("table", { class: "wb-table", "aria-label": "Predictions" },
        cells(["model", "prediction", "outcome", "rank", "ln p"], "th"), ...p.predictions.map((row) => cells(row, "td")))] : []),
      ...(p.attention.length ? [h("label", { class: "wb-hint" }, "Attention of ", look)] : []),
      ...(p.columns.length ? [h("dl", { class: "wb-columns" }, ...p.columns.flatMap(([name, value]) => [h("dt", { title: name }, s.names[name] ?? name), h("dd", { dir: "auto" }, value)]))] : []),
    ];
  }
  function flip() {
    const focused = view.contains(document.activeElement);
    s.shown = !s.shown;
    if (s.waiting) return; // the passage that this is meant for is on its way
    drawPassage();
    if (focused) view.querySelector(".wb-blank")?.focus({ preventScroll: true });
  }
  function tagAs(i) { // the item, or all that are selected
    if (!s.labels[i] || s.index < 0 || s.waiting) return;
    const ranges = items.ranges();
    ask("mark", { type: "tag", version: s.version, ranges: ranges.length ? ranges : [[s.index, s.index + 1]], tags: [s.labels[i]] });
  }

  // ---- keys
  function onKey(e) {
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName);
    if (e.key === "a" && (e.ctrlKey || e.metaKey) && e.target === list) {
      e.preventDefault();
      e.stopPropagation();
      items.all();
      return;
    }
    // a plain key is for the widget alone: outside, "d d" deletes the cell
    if (!e.ctrlKey && !e.metaKey && !e.altKey) e.stopPropagation();
    if (e.key === "Escape") {
      e.preventDefault();
      if (s.open === null) items.none();
      panels.closeTo(list);
      return;
    }
    if (e.target === search && (e.key === "ArrowDown" || e.key === "Enter")) {
      e.preventDefault();
      list.focus({ preventScroll: true });
      return;
    }
    if (typing || e.ctrlKey || e.metaKey || e.altKey) return;
    const onButton = e.target.tagName === "BUTTON" && (e.key === " " || e.key === "Enter");
    const reading = e.target === view && !/^[jk /fctnx?1-9]$/.test(e.key);
    if (onButton || reading) return; // buttons are pressed, the passage scrolls
    const to = (node) => () => { node.focus({ preventScroll: true }); node.select(); };
    const acts = {
      j: () => items.select(s.index + 1), ArrowDown: () => items.select(s.index + 1), k: () => items.select(s.index - 1), ArrowUp: () => items.select(s.index - 1),
      PageDown: () => items.select(s.index + 10), PageUp: () => items.select(s.index - 10), Home: () => items.select(0), End: () => items.select(s.n - 1),
      " ": () => flip(), "/": to(search), f: to(line), x: () => items.toggle(), t: () => panels.tags(), c: () => panels.columns(), n: () => panels.note(), "?": () => panels.help(),
    };
    const act = /^[1-9]$/.test(e.key) ? () => tagAs(Number(e.key) - 1) : acts[e.key];
    if (act) {
      e.preventDefault();
      act();
    }
  }

  // ---- what the kernel says
  const heard = {
    view(m) {
      const newest = m.lane ? answered(m.lane) : !busy("query");
      if (m.version !== s.version) s.picked.clear();
      if (m.passage?.id !== s.passage?.id || m.state.reveal !== s.state.reveal) s.shown = m.state.reveal;
      Object.assign(s, m, { asked: null, rows: new Map(m.rows.map((row, i) => [m.start + i, row])), waiting: false });
      if (m.state.table !== false) s.columnsBefore = m.state.table;
      if (newest) { // else the reader has typed on: the boxes are theirs
        forget();
        if (search.value.trim() !== m.state.query.trim()) search.value = m.state.query;
        if (line.value !== m.state.where && (document.activeElement !== line || m.lane === "query")) line.value = m.state.where;
        field.value = m.state.field;
        press(regex, m.state.regex);
        press(reveal, m.state.reveal);
        press(table, c.inTable());
      }
      root.dataset.layout = c.inTable() ? "table" : "list";
      line.placeholder = "n_tokens" in s.names && "direct_speech" in s.names ? "Filter, such as: n_tokens > 60 and not direct_speech" : "Filter by a condition on columns";
      count.textContent = `${number(m.n)} of ${number(m.total)}`;
      complain("");
      line.setAttribute("aria-invalid", "false");
      items.drawHead();
      items.drawPicking();
      drawSort();
      drawBar();
      drawProgress();
      panels.drawFacet();
      charts?.draw();
      items.draw(); // sets the height
      if (s.index >= 0) items.reach(s.index);
      items.draw();
      drawPassage();
    },
    rows(m) {
      answered("rows");
      s.asked = null;
      if (m.version !== s.version) return;
      m.rows.forEach((row, i) => s.rows.set(m.start + i, row));
      items.draw();
    },
    passage(m) {
      if (!answered("show")) return;
      if (m.version !== s.version) return;
      if (m.index !== s.index) s.shown = s.state.reveal; // not chosen in the list
      s.index = m.index;
      s.passage = m.passage;
      s.waiting = false;
      view.scrollTop = 0;
      items.reach(s.index);
      items.draw();
      drawPassage();
    },
    marked(m) {
      answered("mark");
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
      items.draw();
      drawPassage();
    },
    suggestions(m) {
      const newest = answered("suggest");
      if (newest && document.activeElement === line && m.text === line.value) drawChoices(m);
    },
    annotating(m) {
      answered("annotate");
      s.annotating = m;
      if (m.charts && s.charts) {
        s.charts = m.charts;
        charts.draw();
      }
      drawBar();
      drawProgress();
    },
    asked(m) {
      answered("ask");
      complain("");
      const button = view.querySelector(".wb-acts > :last-child");
      if (s.passage?.id !== m.id || !button) return;
      button.dataset.done = "sent";
      setTimeout(() => delete button.dataset.done, 1200);
    },
    file(m, buffers) {
      answered("export");
      const link = h("a", { href: URL.createObjectURL(new Blob([buffers[0]])), download: m.name });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    },
    error(m) {
      if (m.lane === "query") { // what is refused is not drawn
        drop(m.lane);
        forget();
        line.setAttribute("aria-invalid", String(line.value.trim() !== s.state.where));
      }
      if (m.lane) answered(m.lane);
      if (m.lane !== "suggest") complain(m.lane === "query" ? refusal(m.message) : m.message);
      charts?.draw();
    },
  };
  const listen = (message, buffers) => {
    rest();
    if (alarm.textContent === SILENCE) complain("");
    heard[message.type]?.(message, buffers);
  };
  const sized = new ResizeObserver(() => items.drawSoon());
  model.on("msg:custom", listen);
  sized.observe(list);
  ask("query", { type: "open" });
  return () => {
    end();
    sized.disconnect();
    model.off("msg:custom", listen);
  };
}

export default { render };
