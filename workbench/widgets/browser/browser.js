/* The passage browser. All data stays in the kernel; only the rows in view and one passage travel.
   Text from the data reaches the page through textContent alone, never as HTML. */

const ROW = 64; // height of a list row in px, as in the style sheet
const PAGE = 60; // rows asked for at a time

const KEYS = [
  ["j, ↓ / k, ↑", "next / previous passage"],
  ["Page Down / Page Up", "ten passages on / back"],
  ["Home / End", "first / last passage"],
  ["space", "show or hide the target"],
  ["/", "search"],
  ["t", "tags of this passage"],
  ["n", "note on this passage"],
  ["Esc", "close what is open, back to the list"],
  ["?", "this help"],
];

const plain = (x) => (Number.isInteger(x) ? String(x) : String(Number(x.toPrecision(4))));

function render({ model, el }) {
  const uid = `wb${Math.random().toString(36).slice(2, 9)}`;
  const s = {
    filters: null, facets: {}, n: 0, total: 0, version: -1, index: -1, passage: null,
    rows: new Map(), asked: null, shown: model.get("reveal"), waiting: false, open: null, labels: [],
  };

  // ---- the frame of the widget
  const search = h("input", {
    type: "search", class: "wb-search", placeholder: "Search passages", "aria-label": "Search passages",
    spellcheck: "false", oninput: () => refilter(),
  });
  const field = h("select", { class: "wb-field", "aria-label": "Search in", onchange: () => refilter() },
    ...["passage", "sentence", "answer"].map((name) => h("option", { value: name }, `in ${name}`)));
  const regex = toggle(".*", "Regular expression", () => refilter());
  const count = h("span", { class: "wb-count", role: "status", "aria-live": "polite" }, "…");
  const reset = h("button", { class: "wb-button", type: "button", onclick: () => apply({}) }, "Reset");
  const reveal = toggle("Show targets", "Show every target from the start", () => {
    model.set("reveal", on(reveal));
    model.save_changes();
    s.shown = on(reveal);
    drawPassage();
  });
  const help = h("button", { class: "wb-button", type: "button", "aria-label": "Keyboard help", onclick: () => openHelp() }, "?");
  const bar = h("div", { class: "wb-facets", role: "group", "aria-label": "Filters" });
  const panel = h("div", { class: "wb-panel", hidden: true });
  const { node: alarm, complain } = alarmOf("wb-alarm");
  const spacer = h("div", { class: "wb-spacer", role: "presentation" });
  const list = h("div", {
    class: "wb-list", role: "listbox", tabindex: 0, "aria-label": "Passages", onscroll: () => drawSoon(),
  }, spacer);
  const view = h("div", { class: "wb-passage", role: "region", tabindex: 0, "aria-label": "Passage" });
  const root = h("div", { class: "wb-browser", "data-lm-suppress-shortcuts": "true", onkeydown: (e) => onKey(e) },
    h("div", { class: "wb-top" }, search, field, regex, count, reset, reveal, help),
    bar, alarm, h("div", { class: "wb-main" }, list, view), panel);
  root.style.setProperty("--wb-height", `${model.get("height")}px`);
  el.append(root);
  const { ask, answered, heard: rest } = lineTo(model, root, complain);

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
  // ---- filters
  function current() {
    return { query: search.value, field: field.value, regex: on(regex), facets: { ...(s.filters?.facets ?? {}) } };
  }
  function refilter(facets) {
    const filters = current();
    if (facets) filters.facets = facets;
    s.filters = filters;
    ask("filter", { type: "filter", filters });
  }
  function apply(filters) { // from outside the controls: they follow the kernel's answer
    closePanel();
    search.value = "";
    ask("filter", { type: "filter", filters });
  }
  function choose(name, values) {
    const facets = { ...(s.filters?.facets ?? {}) };
    if (values && values.length) facets[name] = values;
    else delete facets[name];
    refilter(facets);
    drawBar();
  }
  function drawBar() {
    const chosen = s.filters?.facets ?? {};
    const focused = bar.contains(document.activeElement) ? document.activeElement.dataset.name : null;
    bar.replaceChildren(...Object.keys(s.facets).map((name) => {
      const values = chosen[name];
      const { label, tooltip } = s.facets[name];
      const text = !values ? label : s.facets[name].kind === "number"
        ? `${label}: ${values[0] === null ? "" : plain(values[0])}–${values[1] === null ? "" : plain(values[1])}`
        : `${label}: ${values.join(", ")}`;
      return h("button", {
        class: `wb-facet${values ? " wb-on" : ""}`, type: "button", title: [text, tooltip].filter(Boolean).join("\n"), "data-name": name, "aria-haspopup": "dialog",
        "aria-expanded": String(s.open === name), onclick: () => (s.open === name ? closePanel() : openFacet(name)),
      }, h("span", { class: "wb-facet-name" }, text), h("span", { "aria-hidden": "true" }, "▾"));
    }));
    bar.hidden = !Object.keys(s.facets).length;
    if (focused) bar.querySelector(`[data-name="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }

  // ---- the panel that a facet, the tags, the note or the help opens
  function openPanel(what, label, ...content) {
    s.open = what;
    panel.replaceChildren(...content);
    panel.setAttribute("role", "dialog");
    panel.setAttribute("aria-label", label);
    panel.hidden = false;
    drawBar();
    panel.style.top = `${view.parentElement.offsetTop + 4}px`;
  }
  function closePanel() {
    if (s.open === null) return;
    s.open = null;
    panel.hidden = true;
    panel.replaceChildren();
    drawBar();
  }
  function openFacet(name) {
    openPanel(name, `Filter by ${s.facets[name].label}`);
    drawFacet();
    panel.querySelector("button, input")?.focus({ preventScroll: true });
  }
  function drawFacet() {
    const name = s.open;
    const facet = s.facets[name];
    if (!facet) return;
    const chosen = s.filters?.facets?.[name] ?? [];
    const head = h("div", { class: "wb-panel-head" }, h("b", { title: facet.tooltip }, facet.unit ? `${facet.label} (${facet.unit})` : facet.label),
      h("button", { class: "wb-button", type: "button", onclick: () => { choose(name, null); drawFacet(); } }, "Clear"),
      h("button", { class: "wb-button", type: "button", onclick: () => closeTo(bar.querySelector(`[data-name="${CSS.escape(name)}"]`)) }, "Close"));
    if (facet.kind === "number") {
      if (panel.dataset.facet === name && panel.querySelector("input")) {
        panel.querySelector(".wb-bars").replaceChildren(...bars(facet, chosen));
        return; // the boxes keep what is being typed
      }
      const ends = [0, 1].map((end) => h("input", {
        type: "number", step: "any", value: chosen[end] ?? "", placeholder: facet.low === null ? "" : plain(end ? facet.high : facet.low),
        "aria-label": end ? `${facet.label}, at most` : `${facet.label}, at least`, oninput: () => {
          const values = ends.map((box) => (box.value === "" ? null : Number(box.value)));
          choose(name, values.every((value) => value === null) ? null : values);
        },
      }));
      panel.replaceChildren(head, h("div", { class: "wb-bars", "aria-hidden": "true" }, ...bars(facet, chosen)),
        h("div", { class: "wb-range" }, ends[0], h("span", {}, "to"), ends[1]));
    } else {
      const typed = panel.dataset.facet === name ? panel.querySelector(".wb-find")?.value ?? "" : "";
      const focus = panel.contains(document.activeElement) ? document.activeElement.dataset.value : null;
      const chips = h("div", { class: "wb-chips" });
      const draw = (text) => chips.replaceChildren(...facet.choices
        .filter(([value]) => value.toLowerCase().includes(text.toLowerCase()))
        .map(([value, n]) => h("button", {
          class: "wb-chip", type: "button", "data-value": value, "aria-pressed": String(chosen.includes(value)),
          onclick: () => choose(name, chosen.includes(value) ? chosen.filter((v) => v !== value) : [...chosen, value]),
        }, value, h("span", { class: "wb-n" }, number(n)))));
      draw(typed);
      const find = facet.choices.length > 12
        && h("input", { class: "wb-find", type: "search", value: typed, placeholder: `Find among ${facet.choices.length}`, "aria-label": `Find in ${facet.label}`, oninput: (e) => draw(e.target.value) });
      const scroll = panel.scrollTop;
      panel.replaceChildren(head, ...(find ? [find] : []), chips,
        ...(facet.more ? [h("div", { class: "wb-hint" }, `${number(facet.more)} rarer values are not listed`)] : []));
      panel.scrollTop = scroll;
      if (focus) panel.querySelector(`[data-value="${CSS.escape(focus)}"]`)?.focus({ preventScroll: true });
    }
    panel.dataset.facet = name;
  }
  function bars(facet, chosen) {
    const most = Math.max(1, ...facet.bars);
    const width = (facet.high - facet.low || 1) / facet.bars.length;
    return facet.bars.map((n, i) => {
      const low = facet.low + i * width;
      const inside = (chosen[0] ?? -Infinity) <= low + width && (chosen[1] ?? Infinity) >= low;
      const bar = h("span", { class: inside ? "wb-bar wb-in" : "wb-bar", title: `${plain(low)}–${plain(low + width)}: ${number(n)}` });
      bar.style.height = `${n ? Math.max(6, (100 * n) / most) : 0}%`;
      return bar;
    });
  }
  function openHelp() {
    openPanel("?", "Keyboard help", h("div", { class: "wb-panel-head" }, h("b", {}, "Keys"),
      h("button", { class: "wb-button", type: "button", onclick: () => closeTo(list) }, "Close")),
    h("dl", { class: "wb-keys" }, ...KEYS.flatMap(([key, what]) => [h("dt", {}, key), h("dd", {}, what)])),
    h("p", { class: "wb-hint" }, "Direct speech is tinted. Click the blank, or press space, to show the target; its earlier mentions are then underlined."));
    panel.querySelector("button").focus({ preventScroll: true });
  }
  function openTags() {
    if (!s.passage) return;
    const box = h("input", { type: "text", value: s.passage.tags.join(", "), "aria-label": "Tags, separated by commas", list: `${uid}tags`, placeholder: "tags, separated by commas" });
    const save = () => {
      ask("mark", { type: "tags", id: s.passage.id, tags: box.value.split(",") });
      closeTo(list);
    };
    editor("t", "Tags", box, save, h("datalist", { id: `${uid}tags` }, ...s.labels.map((label) => h("option", { value: label }))));
  }
  function openNote() {
    if (!s.passage) return;
    const box = h("textarea", { rows: 4, value: s.passage.note, "aria-label": "Note" });
    editor("n", "Note", box, () => {
      ask("mark", { type: "note", id: s.passage.id, note: box.value });
      closeTo(list);
    });
  }
  function editor(what, title, box, save, ...more) {
    box.addEventListener("keydown", (e) => {
      if (e.key === "Enter" && (box.tagName === "INPUT" || e.ctrlKey || e.metaKey)) {
        e.preventDefault();
        e.stopPropagation(); // Ctrl+Enter outside runs the cell
        save();
      }
    });
    openPanel(what, title, h("div", { class: "wb-panel-head" }, h("b", {}, `${title} on ${s.passage.id}`),
      h("button", { class: "wb-button", type: "button", onclick: save }, box.tagName === "INPUT" ? "Save (Enter)" : "Save (Ctrl+Enter)"),
      h("button", { class: "wb-button", type: "button", onclick: () => closeTo(list) }, "Cancel")), box, ...more);
    box.focus({ preventScroll: true });
    if (box.select) box.select();
  }
  function closeTo(node) {
    closePanel();
    (node ?? list).focus({ preventScroll: true });
  }

  // ---- the list: only the rows in view are in the page
  let drawing = false;
  function drawSoon() {
    if (drawing) return;
    drawing = true;
    requestAnimationFrame(() => { drawing = false; drawList(); });
  }
  function drawList() {
    if (!list.clientHeight) return; // not laid out (hidden, or the theme is changing): drawn once it is
    const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 4);
    const last = Math.min(s.n, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + 4);
    const nodes = [];
    let missing = null;
    for (let i = first; i < last; i += 1) {
      const row = s.rows.get(i);
      if (!row && missing === null) missing = i;
      const node = h("div", {
        class: `wb-row${i === s.index ? " wb-selected" : ""}`, role: "option", id: `${uid}-${i}`,
        "aria-selected": String(i === s.index), "aria-setsize": s.n, "aria-posinset": i + 1,
        onclick: () => { select(i); list.focus({ preventScroll: true }); },
      }, ...(row ? [
        h("div", { class: "wb-row-head" }, h("span", { class: "wb-id" }, row.id),
          ...row.tags.map((tag) => h("span", { class: "wb-tag" }, tag)), row.note && h("span", { class: "wb-tag", title: "has a note" }, "✎")),
        h("div", { class: "wb-snippet" }, row.text[0], row.text[1] && h("mark", {}, row.text[1]), row.text[2]),
      ] : [h("div", { class: "wb-snippet wb-hint" }, "…")]));
      node.style.top = `${i * ROW}px`;
      nodes.push(node);
    }
    spacer.style.height = `${s.n * ROW}px`;
    if (!s.n && s.version >= 0) {
      nodes.push(h("div", { class: "wb-empty" }, s.total ? "No passage matches." : "There are no passages here."));
    }
    spacer.replaceChildren(...nodes);
    list.setAttribute("aria-activedescendant", s.index >= 0 ? `${uid}-${s.index}` : "");
    if (missing !== null) {
      const start = Math.max(0, missing - 10);
      const want = `${s.version}:${start}`;
      if (s.asked !== want) {
        s.asked = want;
        ask("rows", { type: "rows", version: s.version, start, end: start + PAGE });
      }
    }
  }
  function reach(index) { // scroll no more than is needed
    const top = index * ROW;
    if (top < list.scrollTop) list.scrollTop = top;
    else if (top + ROW > list.scrollTop + list.clientHeight) list.scrollTop = top + ROW - list.clientHeight;
  }
  function select(index) {
    if (!s.n) return;
    s.index = Math.min(Math.max(index, 0), s.n - 1);
    s.shown = model.get("reveal");
    s.waiting = true;
    reach(s.index);
    drawList();
    ask("show", { type: "show", version: s.version, index: s.index });
  }

  // ---- the passage
  function drawPassage() {
    const p = s.passage;
    if (!p) {
      view.replaceChildren(h("div", { class: "wb-empty" }, s.total ? "Nothing to show: loosen the filters (Reset)." : "There are no passages here."));
      return;
    }
    const blank = () => h("button", {
      class: "wb-blank", type: "button", "aria-label": s.shown ? `Target: ${p.answer ?? "unknown"}` : "Hidden target; press space to show it",
      title: "space shows or hides the target", onclick: () => flip(),
    }, s.shown ? p.answer ?? "?" : "\u00a0");
    const words = (segments) => segments.map(([text, kinds]) => {
      if (kinds.includes("b")) {
        const node = blank();
        if (kinds.includes("s")) node.classList.add("wb-s");
        return node;
      }
      // underlined mentions would give a hidden target away
      const marks = [...kinds].filter((kind) => kind !== "m" || s.shown);
      return marks.length ? h("span", { class: marks.map((kind) => `wb-${kind}`).join(" ") }, text) : text;
    });
    const copy = (text, label) => h("button", {
      class: "wb-copy", type: "button", title: `Copy ${label}`, "aria-label": `Copy ${label} ${text}`,
      onclick: async (e) => {
        const button = e.currentTarget;
        const done = await copied(text);
        button.dataset.done = done ? "copied" : "press Ctrl+C";
        setTimeout(() => delete button.dataset.done, 1200);
      },
    }, text);
    const right = s.shown ? p.answer : null;
    view.replaceChildren(
      h("div", { class: "wb-meta" }, copy(p.id, "id"), ...(p.source ? [copy(p.source, "source")] : []),
        ...p.kind.map((kind) => h("span", { class: "wb-kind" }, kind))),
      ...(p.context.length ? [h("div", { class: "wb-context", dir: "auto" }, ...words(p.context))] : []),
      h("div", { class: "wb-target" }, h("div", { class: "wb-query", dir: "auto" }, ...words(p.query)),
        p.candidates && h("ul", { class: "wb-candidates", "aria-label": "Candidates" },
          ...p.candidates.map((word) => h("li", { class: word === right ? "wb-right" : "" }, word)))),
      h("div", { class: "wb-marks" },
        h("button", { class: "wb-button", type: "button", onclick: () => openTags() }, "Tags (t)"), ...p.tags.map((tag) => h("span", { class: "wb-tag" }, tag)),
        h("button", { class: "wb-button", type: "button", onclick: () => openNote() }, "Note (n)"), p.note && h("span", { class: "wb-note", dir: "auto" }, p.note)),
      ...extras(p));
  }
  function extras(p) {
    if (!p.columns.length && !p.predictions.length) return [];
    if (!s.shown) return [h("div", { class: "wb-hint" }, "Show the target (space) to see what is known about it.")];
    const cells = (row, tag) => h("tr", {}, ...row.map((cell) => h(tag, {}, cell)));
    return [
      ...(p.predictions.length ? [h("table", { class: "wb-table", "aria-label": "Predictions" },
        cells(["model", "prediction", "", "rank", "log prob"], "th"), ...p.predictions.map((row) => cells(row, "td")))] : []),
      ...(p.columns.length ? [h("dl", { class: "wb-columns" }, ...p.columns.flatMap(([name, value]) => [h("dt", {}, name), h("dd", { dir: "auto" }, value)]))] : []),
    ];
  }
  function flip() {
    const focused = view.contains(document.activeElement);
    s.shown = !s.shown;
    if (s.waiting) return; // the passage that this is meant for is on its way
    drawPassage();
    if (focused) view.querySelector(".wb-blank")?.focus({ preventScroll: true });
  }
  async function copied(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch { // no permission, or a page without https
      const box = h("textarea", { value: text, class: "wb-offscreen" });
      root.append(box);
      box.select();
      const done = document.execCommand("copy");
      box.remove();
      return done;
    }
  }

  // ---- keys
  function onKey(e) {
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName);
    // a plain key is for the widget alone: outside, "d d" deletes the cell
    if (!e.ctrlKey && !e.metaKey && !e.altKey) e.stopPropagation();
    if (e.key === "Escape") {
      e.preventDefault();
      closeTo(list);
      return;
    }
    if (e.target === search && (e.key === "ArrowDown" || e.key === "Enter")) {
      e.preventDefault();
      list.focus({ preventScroll: true });
      return;
    }
    if (typing || e.ctrlKey || e.metaKey || e.altKey) return;
    const onButton = e.target.tagName === "BUTTON" && (e.key === " " || e.key === "Enter");
    const reading = e.target === view && !["j", "k", " ", "/", "t", "n", "?"].includes(e.key);
    if (onButton || reading) return; // buttons are pressed, the passage scrolls
    const acts = {
      j: () => select(s.index + 1), ArrowDown: () => select(s.index + 1), k: () => select(s.index - 1), ArrowUp: () => select(s.index - 1),
      PageDown: () => select(s.index + 10), PageUp: () => select(s.index - 10), Home: () => select(0), End: () => select(s.n - 1),
      " ": () => flip(), "/": () => { search.focus({ preventScroll: true }); search.select(); }, t: () => openTags(), n: () => openNote(), "?": () => openHelp(),
    };
    if (acts[e.key]) {
      e.preventDefault();
      acts[e.key]();
    }
  }

  // ---- what the kernel says
  const heard = {
    view(m) {
      const newest = answered("filter");
      Object.assign(s, { facets: m.facets, n: m.n, total: m.total, version: m.version, index: m.index, passage: m.passage, labels: m.labels, asked: null });
      s.rows = new Map(m.rows.map((row, i) => [m.start + i, row]));
      s.shown = model.get("reveal");
      s.waiting = false;
      if (newest) { // else the reader has typed on: the boxes are theirs
        s.filters = m.filters;
        if (search.value.trim() !== m.filters.query.trim()) search.value = m.filters.query;
        field.value = m.filters.field;
        press(regex, m.filters.regex);
      }
      press(reveal, model.get("reveal"));
      count.textContent = `${number(m.n)} of ${number(m.total)}`;
      complain("");
      spacer.style.height = `${s.n * ROW}px`;
      if (s.index >= 0) reach(s.index);
      drawBar();
      drawFacet();
      drawList();
      drawPassage();
    },
    rows(m) {
      answered("rows");
      s.asked = null;
      if (m.version !== s.version) return;
      m.rows.forEach((row, i) => s.rows.set(m.start + i, row));
      drawList();
    },
    passage(m) {
      if (!answered("show")) return;
      if (m.version !== s.version) return;
      s.index = m.index;
      s.passage = m.passage;
      s.waiting = false;
      view.scrollTop = 0;
      reach(s.index);
      drawList();
      drawPassage();
    },
    marked(m) {
      answered("mark");
      Object.assign(s, { facets: m.facets, labels: m.labels });
      if (s.passage?.id === m.id) Object.assign(s.passage, { tags: m.tags, note: m.note });
      for (const row of s.rows.values()) if (row.id === m.id) Object.assign(row, { tags: m.tags, note: Boolean(m.note) });
      drawBar();
      drawList();
      drawPassage();
    },
    error(m) {
      if (m.lane) answered(m.lane);
      complain(m.message);
    },
  };
  const listen = (message) => {
    rest();
    if (alarm.textContent === SILENCE) complain("");
    heard[message.type]?.(message);
  };
  const sized = new ResizeObserver(() => drawSoon());
  model.on("msg:custom", listen);
  sized.observe(list);
  ask("filter", { type: "open" });
  return () => {
    rest();
    sized.disconnect();
    model.off("msg:custom", listen);
  };
}

export default { render };
