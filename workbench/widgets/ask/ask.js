/* Asking models about a passage. The kernel reads it and the models answer; the page draws words and numbers.
   Text from the data reaches the page through textContent alone, never as HTML. */

const QUIET = 250; // ms without a key before the models are asked
const SLOW = 400; // ms that a model may think before the page says so
const VERSIONS = ["passage", "sentence"];
const CAPTION = 120; // characters of the text that an old answer belongs to
const STEPS = [1, 1.5, 2, 3, 4, 5, 6, 8, 10];
const OPEN = 2; // models whose details are open at first

/** A question in one line: the passage, its beginning and end where it is long, and the word. */
function caption(state) {
  const short = (t) => (t.length > CAPTION ? `${t.slice(0, CAPTION / 3)} … ${t.slice((-2 * CAPTION) / 3)}` : t);
  const texts = [state.text, ...(state.pairs ? [state.other] : [])].map((t) => `“${short(t.trim())}”`).join(" and ");
  return `Answer to ${texts}${state.word ? `, word “${state.word}”` : ""}${state.candidates ? `, candidates ${short(state.candidates)}` : ""}${state.alpha ? `, boosting α ${state.alpha}, k ${state.k}` : ""}`;
}

/** The end of a scale: the next round number. */
function ceiling(value) {
  if (!(value > 0)) return 1;
  const unit = 10 ** Math.floor(Math.log10(value));
  return Math.min(1, unit * (STEPS.find((step) => step >= value / unit - 1e-9) ?? 10));
}
const percent = (p) => `${Number((100 * p).toPrecision(2))} %`;
const seconds = (s) => (s < 0.0095 ? "under 0.01 s" : s < 9.95 ? `${s.toFixed(2)} s` : `${Math.round(s)} s`);

function render({ model, el }) {
  const uid = `wa${Math.random().toString(36).slice(2, 9)}`;
  let missing = []; // which models have not answered the current question
  let computing = []; // which of them will answer it, or answer again
  const s = { number: -1, opened: false, cards: [], views: [], top: 1, history: [], state: null, since: 0, example: "", elsewhere: "" };
  Object.assign(s, { alpha: model.get("alpha"), k: model.get("k") });
  const topK = model.get("top_k");

  // ---- talking to the kernel: one question under way at a time, the newest waits
  let soon = null; // the pause in typing that is waited for
  const send = (message) => kernel.send({ from: uid, ...message });
  const request = (message) => {
    kernel.ask("ask", { from: uid, ...message, settled: message.settled || kernel.waiting("ask")?.settled });
    drawState();
  };
  const answered = () => {
    kernel.answered("ask");
    drawState();
  };
  const edited = () => soon !== null || kernel.busy("ask"); // the boxes are the reader's
  const boxes = () => ({
    text: text.value, other: other.value, word: word.value, candidates: choices.value, pairs: pairs.getAttribute("aria-pressed") === "true",
    alpha: s.alpha, k: s.k,
  });
  function go(settled = false) {
    clearTimeout(soon);
    soon = null;
    request({ type: "ask", state: boxes(), settled });
  }
  function typed() {
    clearTimeout(soon);
    soon = setTimeout(go, QUIET);
    drawState();
  }
  /* Where the question stands: "typing" until the kernel has read what is in the boxes, then "thinking" until all
     models have answered, then "answered"; "empty" where there is nothing to ask. */
  function drawState() {
    root.dataset.state = edited() ? "typing" : computing.includes(true) ? "thinking" : missing.length ? "answered" : "empty";
    root.dataset.question = s.number;
    if (edited()) status.textContent = ""; // it is about another question
    for (const card of s.cards) drawAge(card);
  }
  /* An answer belongs to the question it was given to. Where that is another one than in the boxes, it is pale
     and says so. */
  function drawAge(card) {
    const outdated = Boolean(card.view) && (edited() || missing[s.cards.indexOf(card)] !== false);
    card.node.classList.toggle("wa-old", outdated);
    card.from.textContent = outdated ? caption(card.state) : "";
    card.from.title = outdated ? stripBidi(card.from.textContent) : "";
  }

  // ---- the frame of the widget
  const area = (label, hint) => h("textarea", {
    class: "wa-text", "aria-label": label, placeholder: hint, spellcheck: "false", dir: "auto", rows: 4, oninput: typed, onchange: () => go(true),
  });
  const line = (label, hint) => h("input", {
    type: "text", class: "wa-line", "aria-label": label, placeholder: hint, spellcheck: "false", oninput: typed, onchange: () => go(true),
  });
  const text = area("Passage", "Type or paste a passage. Its last word is the target, hidden from the models; or mark a blank with ___ anywhere.");
  const other = area("Second passage", "The second version of the passage: change a word or two.");
  const word = line("Word", "the last word");
  const choices = line("Candidates", "any; or a|b|c");
  const pairs = h("button", { class: "wa-button", type: "button", "aria-pressed": "false", title: "Compare two versions of the passage", onclick: () => {
    const on = pairs.getAttribute("aria-pressed") !== "true";
    if (on && (!other.value.trim() || s.paired !== text.value)) other.value = text.value; // not the second version of another passage
    press(on);
    go();
    (on ? other : text).focus({ preventScroll: true });
  } }, "Minimal pair");
  const scoreWithRest = h("button", { class: "wa-button", type: "button", hidden: true, title: "Make the best words candidates: models that read from left to right score each of them together with the text after the blank", onclick: () => {
    const words = s.views.flatMap((view) => view?.sides?.[0]?.passage.bars ?? []).map((bar) => bar[0]);
    choices.value = [...new Set(words)].filter((choice) => /[\p{L}\p{N}]/u.test(choice) && !choice.includes("|")).join("|");
    go(true);
  } }, "Score the best words with the rest");
  const shade = () => {
    s.back = true; // the question is asked anew by the kernel, and not by another view
    drawAgainst();
    send({ type: "shade", influence: unit.value === "surprisal" ? "" : unit.value, against: against.value, surprisal: unit.value === "surprisal" });
  };
  const unit = h("select", { class: "wa-parts", "aria-label": "Shade the passage by", title: "Influence: each part is left out in turn. Surprisal: bits of each word after the words before it.", onchange: shade },
    ...[["", "nothing"], ["sentence", "influence of sentences"], ["word", "influence of words"], ["mention", "influence of mentions"], ["surprisal", "surprisal of words"]].map(([value, label]) => h("option", { value }, label)));
  const against = h("input", { type: "text", class: "wa-line wa-against", "aria-label": "Against the word", placeholder: "no other word", spellcheck: "false", title: "Influence on the contrast of two words: why this word and not that one. \"prediction\" is the model's best other word.", onchange: shade });
  const drawAgainst = () => { against.parentNode.hidden = ["", "surprisal"].includes(unit.value); };
  function readShades() {
    unit.value = model.get("surprisal") ? "surprisal" : model.get("influence");
    against.value = model.get("against");
    drawAgainst();
  }
  const alpha = h("input", { type: "range", class: "wa-alpha", min: 0, max: 2, step: 0.25, "aria-label": "Boosting α", oninput: () => boost({ alpha: Number(alpha.value) }) });
  const alphaShown = h("output", { class: "wa-alpha-shown" });
  const k = h("input", { type: "number", class: "wa-k", min: 1, max: 100000, step: 1, "aria-label": "k, the last words that count less", oninput: () => { if (k.value && k.checkValidity()) boost({ k: Number(k.value) }); }, onchange: () => drawBoosting() });
  function boost(change) {
    Object.assign(s, change);
    alphaShown.textContent = s.alpha;
    typed();
  }
  function drawBoosting(able = !alpha.disabled) {
    alpha.value = s.alpha; // the nearest step; the words say the value
    alphaShown.textContent = s.alpha;
    k.value = s.k;
    alpha.disabled = k.disabled = !able;
    if (s.alpha) fold(false); // what is set is in sight
    alpha.parentNode.title = able ? "Counts the last k words less (coherence boosting, Malkin et al. 2022)" : "No model here can be boosted: none has probabilities";
  }
  const boosting = h("div", { class: "wa-boosting", hidden: true }, "boosting α", alpha, alphaShown, "k", k, "words");
  const more = h("button", { class: "wa-button", type: "button", "aria-expanded": "false", title: "Boosting: count the last words less", onclick: () => fold(!boosting.hidden) }, "More");
  function fold(hidden) {
    boosting.hidden = hidden;
    more.setAttribute("aria-expanded", String(!hidden));
  }
  const status = h("span", { class: "wa-status", role: "status", "aria-live": "polite" });
  const changed = h("span", { class: "wa-changed", role: "status", "aria-live": "polite" });
  const read = h("div", { class: "wa-read", role: "group", "aria-label": "What the models get" });
  const { node: alarm, complain } = errorBanner();
  const legend = h("div", { class: "wa-legend" });
  const table = h("div", { class: "wa-summary" });
  const cards = h("div", { class: "wa-cards" });
  const empty = h("div", { class: "wa-empty" }, h("p", {}, "What does a model predict for my passage, and how much of that comes from the target sentence alone?"),
    h("button", { class: "wa-button", type: "button", onclick: () => {
      text.value = s.example;
      word.value = choices.value = "";
      go(true);
      text.focus({ preventScroll: true });
    } }, "Try an example"), h("p", { class: "wb-hint" }, "The models are asked when you pause typing; Ctrl+Enter asks at once."));
  const results = h("div", { class: "wa-results", tabindex: 0, role: "region", "aria-label": "Answers" }, table, legend, cards, empty);
  const list = h("ol", { class: "wa-list" });
  const aside = h("div", { class: "wa-history", role: "region", "aria-label": "History" }, h("div", { class: "wa-title" }, "History"), list);
  const root = h("div", { class: "wb-root wa-ask", role: "region", "aria-label": "Questions to models", onkeydown: onKey },
    h("div", { class: "wa-top" }, h("div", { class: "wa-texts" }, text, other), read,
      h("div", { class: "wa-bar" }, h("label", {}, "word", word), h("label", {}, "candidates", choices), scoreWithRest, pairs, h("label", {}, "shade by", unit), h("label", { hidden: true }, "against", against), more, boosting, changed, status)),
    alarm, h("div", { class: "wa-main" }, results, aside));
  const height = model.get("height"); // none: as high as the answers
  if (height) root.style.setProperty("--wa-height", `${height}px`);
  root.style.setProperty("--wa-rows", topK);
  el.append(root);
  const noted = pieceNotes(root, results);
  const kernel = requestQueue(model, root, complain);

  function press(on) {
    if (pairs.getAttribute("aria-pressed") === "true") s.paired = text.value; // what the second version belongs to
    pairs.setAttribute("aria-pressed", String(on));
    other.hidden = !on;
    root.classList.toggle("wa-pairs", on);
  }
  function onKey(e) {
    plainKey(e);
    if (e.key !== "Enter") return;
    if (e.ctrlKey || e.metaKey || e.target.matches("input")) { // Ctrl+Enter outside runs the cell
      if (e.target.matches("button")) return void e.stopPropagation();
      e.preventDefault();
      e.stopPropagation();
      go(true);
    }
  }

  // ---- the passage as it was read
  function drawRead(sides, problems) {
    const pair = sides.length > 1;
    read.replaceChildren(...sides.map((side) => {
      const words = (spans) => spans.map(([name, letters]) => {
        if (letters.includes("b")) return h("span", { class: `wa-target${letters.includes("d") ? " wa-differs" : ""}`, title: "the target, hidden from the models" }, name || "▁▁▁");
        const classes = [letters.includes("d") && "wa-differs", letters.includes("l") && "wa-later"].filter(Boolean).join(" ");
        return classes ? h("span", { class: classes }, name) : name;
      });
      const node = h("div", { class: "wa-side", dir: "auto", tabindex: 0, role: "region", "aria-label": pair ? `Passage ${side.side} as the models get it` : "The passage as the models get it" }, pair && h("b", { class: "wa-letter" }, side.side), h("span", { class: "wa-context" }, ...words(side.context)), side.context.length ? " " : "", h("span", { class: "wa-query" }, ...words(side.query)));
      return node;
    }), ...Object.entries(problems).map(([side, why]) => h("div", { class: "wa-problem", role: "alert", tabindex: 0 }, s.state.pairs ? `${side}: ${why}` : why)));
    for (const node of read.children) {
      node.scrollTop = node.scrollHeight; // the target sentence is at the end
      const differs = node.querySelector(".wa-differs");
      if (differs && differs.offsetTop < node.offsetTop + node.scrollTop) node.scrollTop = differs.offsetTop - node.offsetTop - 22;
    }
    if (!read.children.length) read.append(h("div", { class: "wb-hint" }, "The passage as the models see it: the target sentence in bold, the target marked."));
  }

  // ---- one card a model: its frame is made once
  function makeCard(label) {
    const card = { label, mark: h("span", { class: "wa-mark" }), body: h("div", { class: "wa-body" }), from: h("div", { class: "wa-from" }) };
    card.toggle = h("button", { class: "wa-name", type: "button", title: label, onclick: () => openCard(card, card.node.classList.contains("wa-folded")) }, label);
    card.input = h("button", { class: "wa-button wa-input", type: "button", "aria-pressed": "false", title: "Show the exact text that the model read", onclick: () => {
      card.input.setAttribute("aria-pressed", String(card.input.getAttribute("aria-pressed") !== "true"));
      drawCard(card, card.view);
      noted();
    } }, "Text as read");
    card.node = h("section", { class: "wa-card", "aria-label": label }, h("div", { class: "wa-head" }, card.toggle, card.mark, card.input), h("div", { class: "wa-working", "aria-hidden": "true" }), card.from, card.body);
    openCard(card, true);
    return card;
  }
  function openCard(card, open) {
    card.node.classList.toggle("wa-folded", !open);
    card.toggle.setAttribute("aria-expanded", String(open));
  }
  function lines(cell) {
    if (cell.error) return [h("div", { class: "wa-error", title: cell.error }, cell.error)];
    return [cell.p && h("div", {}, h("span", { class: "wa-p" }, cell.p), h("span", { class: "wb-hint" }, cell.unit)),
      h("div", { class: "wa-told" }, cell.rank), cell.ln && h("div", { class: "wb-hint", title: "natural logarithm of the probability of the word" }, cell.ln)];
  }
  const ratio = (gain) => h("span", { class: "wa-gain" }, gain.text);
  const letter = (side) => h("b", { class: "wa-letter" }, side);
  function bars(cell) {
    const full = cell.kind === "p" ? s.top : 1;
    return h("div", { class: "wa-bars", role: "list" }, ...(cell.bars ?? []).map(([bestWord, value, label, inPassage, isTarget]) => {
      const bar = h("span", { class: "wa-fill" });
      bar.style.width = value > 0 ? `max(1px, ${(100 * value) / full}%)` : "0";
      return h("div", { role: "listitem", class: `wa-row${inPassage ? " wa-here" : ""}${isTarget ? " wa-own" : ""}`, title: `${bestWord}: ${label}${inPassage ? ", a word of the passage" : ""}${isTarget ? ", the target" : ""}` },
        h("span", { class: "wa-word" }, isTarget && h("span", { class: "wa-arrow", "aria-hidden": "true" }, "▸"), bestWord), h("span", { class: "wa-track" }, bar), h("span", { class: "wa-value" }, label));
    }));
  }
  function drawCard(card, view) {
    if (card.view !== view) card.state = s.state;
    card.view = view;
    if (!view) {
      card.body.replaceChildren();
      return;
    }
    if (view.error) {
      card.body.replaceChildren(h("div", { class: "wa-error wa-all" }, view.error));
      return;
    }
    const pair = view.sides.length > 1;
    const sides = view.sides.map((side) => ({ ...side, cells: [side.passage, side.sentence] }));
    const between = view.differences;
    const isRead = card.input.getAttribute("aria-pressed") === "true";
    card.body.replaceChildren(h("div", { class: "wa-two wa-heads" }, ...VERSIONS.map((version) => h("div", { title: view.heads[version] }, view.heads[version]))),
      ...sides.filter((side) => side.word !== null || side.cells.some((cell) => cell.error)).flatMap((side) => [
        h("div", { class: "wa-asked" }, h("span", { title: side.word ?? "" }, pair && letter(side.side), side.word ?? ""), ratio(side.gain),
          h("span", { class: "wb-hint" }, side.single ? "(one sentence)" : "")),
        h("div", { class: "wa-two wa-numbers" }, ...side.cells.map((cell) => h("div", {}, ...lines(cell))))]),
      ...(between ? [h("div", { class: "wa-two wa-between" }, ...VERSIONS.map((version) => h("div", {}, ratio(between[version]))))] : []),
      ...sides.flatMap((side) => [
        pair && h("div", { class: "wa-asked" }, h("span", {}, letter(side.side), "expects")),
        h("div", { class: "wa-note" }, side.cells.find((cell) => cell.note)?.note ?? ""),
        h("div", { class: "wa-two wa-reads" }, ...side.cells.map((cell) => h("div", { title: cell.reads ?? "" }, cell.reads ?? ""))),
        isRead && h("div", { class: "wa-two wa-inputs" }, ...side.cells.map((cell) => h("pre", { tabindex: 0, dir: "auto", "aria-label": "Text as the model read it" }, cell.input ?? "The model does not say what it reads."))),
        h("div", { class: "wa-two" }, ...side.cells.map(bars)),
      ]).filter(Boolean),
      ...Object.entries(view.shaded).flatMap(([side, p]) => influenced(p, pair && side, view.sides.find((each) => each.side === side).word)));
  }
  /** A passage shaded by the influence of its parts, or why it is not. */
  function influenced(p, side, word) {
    if (typeof p === "string") return [h("div", { class: "wa-error" }, p)];
    if (!p.shades) return [h("div", { class: "wb-hint" }, "no such part stands before the word")];
    const words = (index) => passagePieces(index ? p.query : p.context, shadesOf(p, index, true), true, () => h("span", { class: "wa-target" }, word ?? "▁▁▁"));
    return [h("div", { class: "wa-influence", dir: "auto", role: "group", "aria-label": "Shaded passage" }, side && letter(side), ...words(0), " ", ...words(1)), shadesLegend(p.shades)];
  }
  /* One row per model and passage, so that models are compared on one screen. */
  function drawSummary() {
    const views = s.views.map((view, i) => [s.cards[i]?.label, view]).filter(([, view]) => view?.sides);
    table.hidden = s.cards.length < 2 || !views.length;
    if (table.hidden) return;
    const pair = views.some(([, view]) => view.sides.length > 1);
    const heads = ["Model", ...(pair ? ["Passage"] : []), "Whole passage", "Best word", "Sentence alone", ...(pair ? [] : ["Best word"]), "Context, nats", ...(pair ? ["A over B, nats"] : [])];
    const value = (cell) => (cell.error ? "error" : cell.brief);
    const best = (cell) => cell.bars?.[0]?.[0] ?? "";
    const nats = (gain) => gain.nats.replace(" nats", "");
    const rows = views.flatMap(([label, view]) => view.sides.map((side, i) => h("tr", {}, !i && h("th", { scope: "row", rowspan: view.sides.length, title: label }, label), pair && h("td", {}, letter(side.side)),
      ...[value(side.passage), best(side.passage), value(side.sentence), ...(pair ? [] : [best(side.sentence)]), nats(side.gain), ...(pair ? [i ? "" : nats(view.differences.passage)] : [])].map((text) => h("td", {}, text)))));
    table.replaceChildren(h("table", {}, h("thead", {}, h("tr", {}, ...heads.map((head) => h("th", { scope: "col" }, head)))), h("tbody", {}, ...rows)));
  }
  function drawAll() {
    const values = s.views.flatMap((view) => (view?.sides ?? []).flatMap((side) => [side.passage, side.sentence]))
      .filter((cell) => cell.kind === "p").flatMap((cell) => cell.bars.map((bar) => bar[1]));
    const shares = s.views.some((view) => view?.sides?.some((side) => side.passage.kind === "share"));
    s.top = ceiling(Math.max(0, ...values));
    legend.replaceChildren(h("span", {}, values.length ? `bars: probability, scale 0–${percent(s.top)}` : shares ? "bars: share of the candidates, scale 0–100 %" : "bars: score, scale of each list"), h("span", {}, h("i", { class: "wa-key wa-here" }), h("span", { class: "wa-of-passage" }, "word of the passage")), h("span", {}, h("i", { class: "wa-key" }), "other word"),
      h("span", {}, "▸ target"));
    s.cards.forEach((card, i) => drawCard(card, s.views[i]));
    drawSummary();
    scoreWithRest.hidden = !s.rest || !values.length;
    noted();
  }
  function drawMarks() {
    const asked = s.state && s.number >= 0 && missing.length > 0;
    const waited = (performance.now() - s.since) / 1000;
    const slow = waited * 1000 > SLOW;
    if (slow && missing.some((isMissing, i) => isMissing && s.views[i])) { // the answer to another question makes room
      s.views = s.views.map((view, i) => (missing[i] ? null : view));
      drawAll();
    }
    s.cards.forEach((card, i) => {
      const thinks = asked && computing[i];
      card.node.classList.toggle("wa-stale", Boolean(asked && missing[i]));
      card.node.classList.toggle("wa-thinks", Boolean(thinks && slow));
      const work = missing[i] ? "thinking" : unit.value ? "shades: computing" : "exact rank: computing";
      card.mark.textContent = thinks && slow ? `${work}, ${waited.toFixed(waited < 10 ? 1 : 0)} s` : card.view && !missing[i] ? seconds(card.view.seconds) : card.mark.textContent;
      if (!asked && !card.view) card.mark.textContent = "";
    });
    const n = computing.filter((busy) => !busy).length;
    if (asked && n === missing.length) { // fewer candidates need less room
      const lengths = s.views.flatMap((view) => (view?.sides ?? []).flatMap((side) => [side.passage, side.sentence].map((cell) => cell.bars?.length ?? 0)));
      root.style.setProperty("--wa-rows", Math.max(...lengths) || topK);
    }
    changed.textContent = s.elsewhere;
    const summary = asked ? (n === missing.length ? (n === 1 ? "answered" : `${n} of ${n} models answered`) : `${n} of ${missing.length} ${missing.length === 1 ? "model" : "models"} answered`) : "";
    if (!edited() && status.textContent !== summary) status.textContent = summary;
    drawState();
  }
  const tick = setInterval(() => { if (computing.includes(true)) drawMarks(); }, 100);

  // ---- the history
  function drawHistory() {
    const focused = list.contains(document.activeElement) ? document.activeElement.dataset.number : null;
    const atTop = list.scrollTop < 5;
    const goes = (type, row) => () => {
      clearTimeout(soon);
      soon = null;
      kernel.drop("ask");
      s.back = true;
      send({ type, number: row.number });
    };
    list.replaceChildren(...s.history.map((row) => h("li", {}, h("button", {
      class: "wa-past", type: "button", "data-number": row.number, title: "Back to this passage", onclick: goes("back", row),
    }, h("span", { class: "wa-past-head" }, h("b", {}, row.word || "no word"), h("span", {}, row.pairs ? "pair " : "", row.candidates ? `${row.candidates} candidates ` : "", row.alpha ? `α ${row.alpha}, k ${row.k} ` : "", row.time)), h("span", { class: "wa-past-text" }, row.text)),
    h("button", { class: "wa-again", type: "button", title: "Ask the models again, whatever they have answered", "aria-label": `Ask question ${row.number} again`, onclick: goes("again", row) }, "↻"))).reverse());
    if (!s.history.length) list.replaceChildren(h("li", { class: "wb-hint" }, "A passage is kept here once all models have answered and you pause."));
    if (atTop) list.scrollTop = 0;
    if (focused) list.querySelector(`[data-number="${focused}"]`)?.focus({ preventScroll: true });
  }

  // ---- what the kernel says
  const handlers = {
    asked(m) {
      if (m.from === uid) answered();
      if (m.number < s.number) return;
      if (m.from !== uid && s.opened && !s.back && m.number > s.number) s.elsewhere = `Changed by another cell or view at ${m.time}`;
      else if (m.number > s.number) s.elsewhere = "";
      if (m.from !== uid) s.back = false;
      s.number = m.number;
      s.state = m.state;
      s.example = m.example;
      s.since = performance.now() - 1000 * m.since;
      if (!s.cards.length) {
        s.cards = m.labels.map(makeCard);
        s.cards.slice(OPEN).forEach((card) => openCard(card, false));
        cards.replaceChildren(...s.cards.map((card) => card.node));
      }
      if (!s.opened || (m.from !== uid && !edited())) {
        for (const [box, value] of [[text, m.state.text], [other, m.state.other], [word, m.state.word], [choices, m.state.candidates]]) {
          if (box.value !== value) box.value = value;
        }
        press(m.state.pairs);
        Object.assign(s, { alpha: m.state.alpha, k: m.state.k });
        drawBoosting(m.boosts);
      }
      s.opened = true;
      word.placeholder = m.read.length && m.read[0].word === null ? "none" : "the last word";
      drawRead(m.read, m.problems);
      const nothing = !m.state.text.trim() && !(m.state.pairs && m.state.other.trim());
      const asks = m.read.length > 0;
      empty.hidden = !nothing;
      legend.hidden = cards.hidden = nothing;
      if (nothing) table.hidden = true;
      read.classList.toggle("wa-nothing", nothing);
      missing = asks ? m.answers.map((view) => !view) : [];
      computing = asks ? m.answers.map((view) => !view?.final) : [];
      s.rest = m.rest;
      if (nothing) s.views = [];
      m.answers.forEach((view, i) => { if (view) s.views[i] = view; });
      drawAll();
      drawMarks();
    },
    answer(m) {
      if (m.number !== s.number) return; // of an older question
      s.views[m.place] = m.view;
      missing[m.place] = false;
      computing[m.place] = !m.view.final;
      drawAll();
      drawMarks();
    },
    history(m) {
      s.history = m.rows;
      drawHistory();
    },
    done() {},
    error(m) {
      if (m.from === uid) answered();
      complain(m.message);
    },
  };
  const listen = (message) => {
    if (message.type !== "answer" && message.type !== "history") { // those come from threads, whatever the kernel does
      kernel.onAnyAnswer();
      complain("");
    }
    handlers[message.type]?.(message);
  };
  model.on("msg:custom", listen);
  for (const name of ["influence", "against", "surprisal"]) model.on(`change:${name}`, readShades);
  readShades();
  press(model.get("pairs"));
  drawBoosting();
  drawHistory();
  send({ type: "open" });
  return () => {
    kernel.end();
    clearTimeout(soon);
    clearInterval(tick);
    for (const name of ["influence", "against", "surprisal"]) model.off(`change:${name}`, readShades);
    model.off("msg:custom", listen);
  };
}

export default { render };
