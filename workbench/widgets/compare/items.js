const ROW = 44; // height of a list row in px, as in the style sheet
const PAGE = 60; // rows asked for at a time
const SORTS = [
  ["order", "original order"], ["disagreement", "most disagreement first"], ["difference", "difference in ln p"],
  ["all wrong", "all wrong first"], ["only one right", "only one right first"], ["all right", "all right first"],
];

/** The list of items: only the rows in view are in the page. */
function itemList(c) {
  const sort = h("select", { class: "wc-sort", "aria-label": "Sort by", onchange: () => c.choose({ sort: sort.value }) });
  const two = ["of", "minus that of"].map((label, place) => h("select", { class: "wc-against", "aria-label": `ln p ${label}`, onchange: () => against(place) }));
  const minus = h("span", { class: "wc-minus", hidden: true }, two[0], MINUS, two[1]);
  const search = h("input", { type: "search", class: "wc-search", placeholder: "Search (ignores case)", "aria-label": "Search items", spellcheck: "false", oninput: () => c.choose({ query: search.value }) });
  const heads = h("div", { class: "wc-heads" });
  const spacer = h("div", { class: "wc-spacer", role: "presentation" });
  const list = h("div", { class: "wc-list", role: "listbox", tabindex: 0, "aria-label": "Items", onscroll: () => drawSoon() }, spacer);
  const node = h("div", { class: "wc-items" }, h("div", { class: "wc-bar-head" }, h("label", {}, "Sort ", sort), minus, search), heads, list);
  const uid = `wc${Math.random().toString(36).slice(2, 9)}`;
  let drawing = false;
  let made = new Map(); // nodes of rows that are drawn, by place
  let wide = 34; // of a model's column, in px

  function against(place) {
    const chosen = two.map((select) => select.value);
    if (chosen[0] === chosen[1]) { // the other one gives way
      const other = c.models.find((m) => m.label !== chosen[place]);
      chosen[1 - place] = c.against ? c.models[c.against[place]].label : other.label;
      if (chosen[0] === chosen[1]) chosen[1 - place] = other.label;
    }
    c.choose({ against: chosen });
  }
  function build() {
    for (const select of two) select.replaceChildren(...c.models.map((m) => h("option", { value: m.label }, calm(`${m.key} ${m.label}`))));
  }
  function drawSoon() {
    if (drawing) return;
    drawing = true;
    requestAnimationFrame(() => { drawing = false; draw(); });
  }
  function drawHead() {
    const told = { "all wrong": c.counts["all wrong"], "only one right": c.counts["only one right"], "all right": c.counts["all right"] };
    sort.replaceChildren(...SORTS.filter(([value]) => value !== "difference" || c.models.length > 1)
      .map(([value, label]) => h("option", { value }, value in told ? `${label} (${number(told[value])})` : label)));
    sort.value = c.chosen.sort;
    minus.hidden = c.chosen.sort !== "difference";
    if (c.against) two.forEach((select, i) => { select.value = c.models[c.against[i]].label; });
    const dense = c.shown.length > 12;
    wide = c.shown.length <= 6 ? 34 : dense ? 18 : 26;
    node.style.setProperty("--wc-mark", `${wide}px`);
    node.parentElement.style.setProperty("--wc-marks", `${c.shown.length * wide}px`);
    node.classList.toggle("wc-dense", dense);
    heads.replaceChildren(h("span", { class: "wc-marks" }, ...c.shown.map((k) => chip(c.models[k]))),
      h("span", { class: "wc-hint", title: "filled: the model is right; number: its rank of the answer, with = where words tie; ○: a rank from 100 in narrow columns, or none known; case is ignored" }, `filled: right (case ignored); number: rank, = tied${dense ? " (○ from 100)" : ""}`));
  }
  function fitting(before, rest) { // so much of the text before that two lines show what stands out
    const room = Math.max(24, Math.floor((list.clientWidth - c.shown.length * wide - 30) / 7.2) * 2 - Math.min(rest.length, 40));
    if (before.length <= room) return before;
    const part = before.slice(-room);
    return `…${part.slice(part.indexOf(" ") + 1)}`;
  }
  function row(i) {
    const found = c.rows.get(i);
    const node_ = h("div", {
      class: "wc-row", role: "option", id: `${uid}-${i}`,
      "aria-setsize": c.n, "aria-posinset": i + 1, onclick: () => { select(i); list.focus({ preventScroll: true }); },
      "aria-label": found ? `${found.id}: right ${c.shown.filter((_, j) => found.marks[j][0]).map((k) => c.models[k].key).join(", ") || "none"}. ${found.text.join("")}` : null,
    });
    node_.style.top = `${i * ROW}px`;
    if (!found) {
      node_.append(h("span", { class: "wc-snippet wc-hint" }, "…"));
      return node_;
    }
    node_.append(
      h("span", { class: "wc-marks" }, ...found.marks.map(([right, rank, text], j) => {
        const m = c.models[c.shown[j]];
        const mark = h("span", {
          class: right ? `wc-mark wc-right wc-lap${m.lap % 3}` : "wc-mark",
          title: `${m.key} ${m.label}: ${right ? "right" : "wrong"}${text && `, ${text}`}`,
        }, right ? "" : rank === null || (rank >= 100 && c.shown.length > 12) ? "○" : `${text.startsWith("tied") ? "=" : ""}${tiny(rank)}`);
        if (right) mark.style.setProperty("--wc-colour", m.colour);
        return mark;
      })),
      h("span", { class: "wc-snippet", dir: "auto" }, fitting(found.text[0], found.text[1] + found.text[2]), h(found.hit ? "mark" : "b", {}, found.text[1]), found.text[2]));
    return node_;
  }
  function draw() {
    if (!list.clientHeight) return; // not laid out (hidden, or the theme is changing): drawn once it is
    const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 4);
    const last = Math.min(c.n, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + 4);
    const nodes = [];
    const kept = new Map();
    let missing = null;
    for (let i = first; i < last; i += 1) {
      if (!c.rows.has(i) && missing === null) missing = i;
      const node_ = made.get(i) ?? row(i);
      nodes.push(node_);
      if (c.rows.has(i)) kept.set(i, node_);
    }
    made = kept;
    mark();
    spacer.style.height = `${c.n * ROW}px`;
    if (!c.n && c.version >= 0) nodes.push(h("div", { class: "wc-empty" }, NO_ITEMS));
    spacer.replaceChildren(...nodes);
    if (missing !== null) {
      const start = Math.max(0, missing - 10);
      if (c.asked !== `${c.version}:${start}`) {
        c.asked = `${c.version}:${start}`;
        c.ask("rows", { type: "rows", version: c.version, start, end: start + PAGE });
      }
    }
  }
  function mark() { // which row is chosen
    for (const [i, node_] of made) {
      node_.classList.toggle("wc-selected", i === c.index);
      node_.setAttribute("aria-selected", String(i === c.index));
    }
    list.setAttribute("aria-activedescendant", c.index >= 0 ? `${uid}-${c.index}` : "");
  }
  function reach(index) { // scroll no more than is needed
    const place = index * ROW;
    if (place < list.scrollTop) list.scrollTop = place;
    else if (place + ROW > list.scrollTop + list.clientHeight) list.scrollTop = place + ROW - list.clientHeight;
  }
  function select(index) {
    if (!c.n) return;
    c.index = Math.min(Math.max(index, 0), c.n - 1);
    reach(c.index); // the rows that this brings into view are drawn as it scrolls
    mark();
    c.ask("show", { type: "show", version: c.version, index: c.index });
  }
  function view() { // a new view: its rows are there
    made.clear();
    spacer.style.height = `${c.n * ROW}px`;
    drawHead();
    list.dataset.sorted = c.chosen.sort === "difference" ? `difference ${c.against.map((k) => c.models[k].key).join("")}` : c.chosen.sort;
    if (c.index >= 0) reach(c.index);
    draw();
  }
  return { node, list, search, build, view, draw, drawSoon, mark, reach, select };
}

/** The passage, and what each model expected in its blank. */
function passageView(c) {
  const node = h("div", { class: "wc-passage", role: "region", tabindex: 0, "aria-label": "Passage" });
  let attention = ""; // label of the model whose attention tints the passage

  function words(parts, p, weights, most) {
    return parts.map(([text, kinds, token]) => {
      const weight = weights && token !== null ? weights[token] : null;
      if (!kinds && weight === null) return text;
      const piece = kinds.includes("b")
        ? h("b", { class: "wc-target", title: "the target" }, text || (p.answer ?? "?"))
        : h("span", { class: [...kinds].map((kind) => `wc-${kind}`).join(" ") }, text);
      if (weight !== null) {
        piece.classList.add("wc-weighed");
        piece.title = `attention ${Number(weight.toPrecision(2))}`;
        piece.style.setProperty("--wc-weight", `${Math.round((60 * weight) / most)}%`);
      }
      return piece;
    });
  }
  function answerOf(m) {
    const parts = [];
    if (m.rank) parts.push(m.rank);
    if (m.log_prob !== null) parts.push(`ln p ${fixed(m.log_prob, 2)} (${percent(Math.exp(m.log_prob))})`);
    else if (m.impossible) parts.push("probability 0");
    return parts.join(" · ") || "rank and probability not known";
  }
  function card(k, p, top) {
    const m = c.models[k];
    const told = p.models[k];
    const bars = told.words.map(([word, length, inside, answer, score]) => {
      const bar = h("i", {});
      const value = told.probable ? percent(length) : score;
      bar.style.width = `${Math.max(0.5, (100 * length) / (told.probable ? top || 1 : 1))}%`;
      return h("li", { class: `${inside ? "wc-inside" : "wc-outside"}${answer ? " wc-answer" : ""}`, title: `${word}: ${told.probable ? "" : "score "}${value}; ${inside ? "in the passage" : "not in the passage"}` },
        h("bdi", {}, word), h("span", {}, bar), h("em", {}, value));
    });
    const guessed = told.words.length ? null : h("p", {}, "Prediction: ", h("b", {}, h("bdi", {}, told.prediction ?? DASH)));
    return h("section", { class: `wc-card${told.correct ? " wc-hit" : ""}`, "aria-label": `${m.key}, ${m.label}: ${told.correct ? "right" : "wrong"}` },
      h("header", {}, chip(m), named(m), h("span", { class: "wc-verdict", title: "compared with the answer; case is ignored" }, told.correct ? "right" : "wrong")),
      h("div", { class: "wc-rank" }, answerOf(told)), guessed, h("ol", {}, ...bars),
      !told.probable && told.words.length > 0 && h("small", {}, "scores, not probabilities"));
  }
  function draw() {
    const p = c.passage;
    if (!p) {
      node.replaceChildren(h("div", { class: "wc-empty" }, c.version < 0 ? "" : "No item selected."));
      return;
    }
    const first = c.pair ? c.pair.filter((k) => c.shown.includes(k)) : [];
    const order = [...first, ...c.shown.filter((k) => !first.includes(k))];
    const probable = order.filter((k) => p.models[k].probable);
    const top = Math.max(0, ...probable.flatMap((k) => p.models[k].words.map(([, part]) => part)));
    const listed = order.some((k) => p.models[k].words.length);
    const attentive = order.filter((k) => p.models[k].attention);
    const from = attentive.find((k) => c.models[k].label === attention);
    const weights = from === undefined ? null : p.models[from].attention;
    const most = weights ? Math.max(1e-12, ...weights) : 1;
    const tint = attentive.length > 0 && h("select", { class: "wc-attention", "aria-label": "Attention of", onchange: (e) => { attention = e.target.value; draw(); node.querySelector(".wc-attention")?.focus({ preventScroll: true }); } },
      h("option", { value: "" }, "no model"), ...attentive.map((k) => h("option", { value: c.models[k].label }, calm(`${c.models[k].key} ${c.models[k].label}`))));
    if (tint) tint.value = from === undefined ? "" : attention;
    const right = c.shown.filter((k) => p.models[k].correct).length;
    const line = `wb.ask(models, items[${JSON.stringify(p.id)}])`;
    const asking = c.asks ? h("button", { type: "button", class: "wc-button wc-ask-about", title: "Put this item into the ask widget", onclick: () => c.ask("ask", { type: "ask" }) }, "Ask about this")
      : copyButton("Ask about this", `Copy ${line}`, () => line, () => node);
    const scroll = node.dataset.id === p.id ? node.scrollTop : 0;
    node.dataset.id = p.id;
    fill(node,
      h("div", { class: "wc-meta" }, h("b", {}, p.id), ...p.kind.map((kind) => h("bdi", {}, kind)), h("span", {}, `${right} of ${c.shown.length} right`), tint && h("label", {}, "attention of ", tint), asking),
      h("p", { class: "wc-text", dir: "auto" }, ...words(p.context, p, weights, most), p.context.length > 0 && " ", h("span", { class: "wc-query" }, ...words(p.query, p, weights, most))),
      p.candidates && h("div", { class: "wc-facts" }, "Candidates: ", h("bdi", {}, p.candidates.join(", "))),
      listed && h("div", { class: "wc-legend" }, h("i", { class: "wc-inside" }), "in the passage", h("i", { class: "wc-outside" }), "not in it", h("i", { class: "wc-answer" }), "the answer", top > 0 && h("span", {}, `scale of probabilities: 0${DASH}${percent(top)}`)),
      h("div", { class: "wc-cards" }, ...order.map((k) => card(k, p, top))),
      ...(p.facts.length ? [h("dl", { class: "wc-facts" }, ...p.facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value || DASH))))] : []));
    node.scrollTop = scroll;
  }
  return { node, draw };
}
